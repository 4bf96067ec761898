#include "lib/train/metrics.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "lib/train/checksum.h"
#include "tests/temporary_folder.h"

using namespace tang;

TEST_CASE("train: metrics past the resumed step and an unfinished line are cut") {
  const TemporaryFolder folder;
  const fs::path path = folder / "metrics.jsonl";
  {
    MetricsLog log(path, 0);
    for (int64_t step = 1; step <= 5; ++step) log.add({.kind = "train", .step = step, .loss = 1.0 / 3});
    log.add({.kind = "val", .step = 5});
    log.flush();
    log.add({.kind = "train", .step = 6});  // never flushed: not in the file
  }
  std::ofstream(path, std::ios::app) << "{\"kind\":\"train\",\"st";
  { MetricsLog log(path, 3); }
  const std::string text = read_file(path);
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);
  const Json row = Json::parse(text.substr(0, text.find('\n')), "row");
  CHECK(row.at("loss").as_double() == 1.0 / 3);
  CHECK(row.at("grad_norm").is_null());
  CHECK(row.at("kind").as_string() == "train");
}

TEST_CASE("train: checksums are XXH64's") {
  CHECK(checksum("") == "ef46db3751d8e999");
  CHECK(checksum("abc") == "44bc2cf5ad770999");
  CHECK(checksum(std::string(100, 'a')) != checksum(std::string(101, 'a')));
}
