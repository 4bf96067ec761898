#include "lib/base/json.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "lib/base/error.h"
#include "lib/base/rng.h"

using namespace tang;

namespace {

std::string refusal(std::string_view text) {
  try {
    Json::parse(text, "file");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    return error.what();
  }
  return "accepted";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("base: JSON doubles read back bit for bit") {
  const Rng rng(3);
  std::vector<double> values = {0.0,
                                -0.0,
                                1.0,
                                0.1,
                                -1e300,
                                1e21,
                                123456789012345680.0,
                                5e-324,
                                std::numeric_limits<double>::max(),
                                2.0 / 3.0};
  for (uint64_t i = 0; i < 2000; ++i) {
    const double value = std::bit_cast<double>(rng.bits(i));
    if (std::isfinite(value)) values.push_back(value);
  }
  const Json back = Json::parse(Json::list(values).dump(), "values");
  for (size_t i = 0; i < values.size(); ++i) {
    CHECK(std::bit_cast<uint64_t>(back.items()[i].as_double()) == std::bit_cast<uint64_t>(values[i]));
  }
}

TEST_CASE("base: JSON has no NaN or infinity: they are written as null and null reads as NaN") {
  const Json row = Json::object({{"loss", std::nan("")}, {"norm", INFINITY}, {"lr", -INFINITY}});
  CHECK(row.dump() == R"({"loss": null, "norm": null, "lr": null})");
  CHECK(std::isnan(Json::parse(row.dump(), "row").at("loss").as_double()));
}

TEST_CASE("base: JSON integers keep 64 bits and strings keep every character") {
  const Json value = Json::object({{"min", std::numeric_limits<int64_t>::min()},
                                   {"max", std::numeric_limits<uint64_t>::max()},
                                   {"text", "tab\t \"quote\" \\ line\nbreak \x01 caf\xC3\xA9"},
                                   {"flag", true},
                                   {"list", Json::array({1, "two", nullptr})}});
  for (const int indent : {-1, 2}) {
    const Json back = Json::parse(value.dump(indent), "value");
    CHECK(back.at("min").as_int() == std::numeric_limits<int64_t>::min());
    CHECK(back.at("max").as_uint() == std::numeric_limits<uint64_t>::max());
    CHECK(back.at("text").as_string() == value.at("text").as_string());
    CHECK(back.at("flag").as_bool());
    CHECK(back.dump() == value.dump());
  }
  CHECK(Json::object({{"a", 1}, {"b", Json::array()}}).dump(2) == "{\n  \"a\": 1,\n  \"b\": []\n}");
  CHECK(Json("bad \xFF byte").dump() == "\"bad \xEF\xBF\xBD byte\"");
}

TEST_CASE("base: JSON members keep their order and can be added") {
  Json value;
  value["z"] = 1;
  value["a"]["b"] = 2;
  value["z"] = 3;
  value["list"].push_back(4);
  CHECK(value.dump() == R"({"z": 3, "a": {"b": 2}, "list": [4]})");
  CHECK(value.find("nope") == nullptr);
  CHECK_THROWS_WITH_AS(value.at("nope"), doctest::Contains("expected a member 'nope'"), Error);
  CHECK_THROWS_WITH_AS(value.at("z").as_string(), doctest::Contains("expected a string, found 3"), Error);
  CHECK_THROWS_WITH_AS(Json(1.5).as_int(), doctest::Contains("whole number"), Error);
  CHECK_THROWS_WITH_AS(Json(-1).as_uint(), doctest::Contains("found -1"), Error);
}

TEST_CASE("base: texts that are not exactly one JSON value are refused by name") {
  CHECK(has(refusal(R"({"a": 1, "b": {"c": 1, "c": 2}})"), "file: the name 'c' appears twice"));
  CHECK(refusal(R"([{"a": 1}, {"a": 2}])") == "accepted");
  for (const char* text : {"", "{", "[1,]", "{} {}", "nul", "{'a': 1}", "1e999", "\"\xFF\"", "[1] // note"}) {
    CHECK(has(refusal(text), "file: not valid JSON"));
  }
  CHECK(has(refusal(std::string_view("{}\0garbage", 10)), "NUL at byte 2"));
  CHECK(has(refusal(std::string(200, '[') + std::string(200, ']')), "nested more than 100"));
}
