#include "lib/base/spans.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

using namespace tang;

namespace {

const SpanSum& found(const std::vector<SpanSum>& rows, const std::string& name, bool background = false) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const SpanSum& candidate) {
    return candidate.name == name && candidate.background == background;
  });
  REQUIRE(row != rows.end());
  return *row;
}

}  // namespace

TEST_CASE("base: spans of one name add up, inside what is around them and apart from other threads'") {
  using namespace std::chrono_literals;
  {
    const Span outer("test outer");
    for (int i = 0; i < 3; ++i) {
      const Span inner("test inner");
      std::this_thread::sleep_for(2ms);
    }
    std::thread([] { const Span other("test inner"); }).join();
  }
  const std::vector<SpanSum> rows = spans();
  const SpanSum &outer = found(rows, "test outer"), &inner = found(rows, "test inner");
  CHECK(inner.count == 3);
  CHECK(inner.depth == outer.depth + 1);
  CHECK(inner.seconds >= 0.006);
  CHECK(outer.seconds >= inner.seconds);
  CHECK(inner.begin >= outer.begin);
  CHECK(&outer < &inner);  // what is inside comes after
  const SpanSum& other = found(rows, "test inner", true);
  CHECK(other.count == 1);
  CHECK(other.depth == 0);
  const std::string table = describe_spans({outer, inner, other}, 1.5);
  CHECK(table.find("\n  test inner ") != std::string::npos);
  CHECK(table.find("test inner (other threads)") != std::string::npos);
  CHECK(table.find("end of the first step") != std::string::npos);
}

TEST_CASE("base: a process's start is read past any name, and not from what is no stat") {
  const std::string rest = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4200 20 21";
  const std::optional<double> start = start_of_process("17 (tang)" + rest);
  REQUIRE(start);
  CHECK(*start > 0);
  CHECK(start_of_process("17 (a ) 1 (b) c)" + rest) == start);
  for (const char* wrong : {"", "17", "17 (tang)", "17 (tang) S 1 2",
                            "17 (tang) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x 20"})
    CHECK_FALSE(start_of_process(wrong));
}

TEST_CASE("base: the process's clock runs") {
  const double before = seconds_of_process();
  CHECK(before >= 0);
  CHECK(seconds_of_process() >= before);
}
