#include "lib/train/console.h"

#include <doctest/doctest.h>

namespace tang {
namespace {

TEST_CASE("console: a live line fits the terminal it is drawn on") {
  const std::string line =
      "step  7/300  loss 8.8521  norm 7.286  lr 2.10e-05  205.9k tok/s  mfu 44.9%  mem 30.4 GiB  eta 2s";
  CHECK(live_line(line, 200) ==
        "7/300 loss 8.8521 norm 7.286 lr 2.10e-05 205.9k tok/s mfu 44.9% mem 30.4 GiB eta 2s");
  CHECK(live_line(line, 80).size() == 79);
  CHECK(live_line(line, 80).starts_with("7/300 loss 8.8521"));
  CHECK(live_line(line, 1).size() == 1);
  CHECK(live_line("done", 80) == "done");
}

}  // namespace
}  // namespace tang
