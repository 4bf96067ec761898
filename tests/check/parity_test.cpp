#include "lib/check/parity.h"

#include <doctest/doctest.h>

using namespace tang;

TEST_CASE("check: --small leaves out the large registered cases, and only those") {
  ParityOptions options{.ops = {"global_norm"}, .device = "cpu", .quiet = true};
  const Counts all = check_parity(options);
  options.small = true;
  const Counts small = check_parity(options);
  CHECK(small.failed == 0);
  CHECK(small.passed > 0);
  CHECK(small.passed < all.passed);
}
