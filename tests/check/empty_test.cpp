#include <doctest/doctest.h>

#include "lib/check/exam.h"
#include "tests/empty_cases.h"

namespace tang {

TEST_CASE("check: with any dimension at zero an op is refused or right") {
  CpuDevice device(1);
  for (const Case& plan : empty_cases()) {
    INFO(plan.op().name() << " " << plan.text());
    Exam exam(Case(plan.op(), plan.text(), plan.mode()));
    exam.compute();
    CHECK(examine(exam, device, plan.op().choose(device, plan.make_args(nullptr).get())).failure == "");
  }
}

}  // namespace tang
