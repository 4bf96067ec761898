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

TEST_CASE("base: the process's clock runs") {
  const double before = seconds_of_process();
  CHECK(before >= 0);
  CHECK(seconds_of_process() >= before);
}
