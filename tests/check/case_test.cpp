#include <doctest/doctest.h>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/check/devices.h"
#include "lib/check/list.h"
#include "lib/ops/catalog.h"
#include "lib/ops/embedding.h"
#include "lib/ops/instance.h"
#include "lib/ops/matmul.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/rope.h"

namespace tang {

TEST_CASE("case: words set dims, scalars, dtypes, fills and absence") {
  const Case plan(matmul, "M=3 N=5 K=7 transpose_a=1 c:f32 b~ramp", Dtype::bf16);
  CHECK(plan.find("a")->dims == std::vector<int64_t>{7, 3});
  CHECK(plan.find("b")->dims == std::vector<int64_t>{7, 5});
  CHECK(plan.find("c")->dtype == Dtype::f32);
  CHECK(plan.find("a")->dtype == Dtype::bf16);
  CHECK(plan.find("b")->fill == "ramp");
  CHECK(plan.values().number("accumulate") == 0);
  CHECK(plan.flops() == 2 * 3 * 5 * 7);
  CHECK(plan.bytes() == 2 * (21 + 35) + 4 * 15);
  CHECK(Case(rmsnorm_forward, "N=2 C=3 -residual -sum", Dtype::f32).find("residual") == nullptr);
}

TEST_CASE(
    "case: a rare operand is left out unless a case takes it in; `last` is the largest id below the limit") {
  CHECK(Case(rope_forward, "B=2 T=1 H=1 D=4 R2=2 P=9", Dtype::f32).find("start") == nullptr);
  const Case plan(rope_forward, "B=2 T=3 H=1 D=4 R2=2 P=9 +start start~last", Dtype::f32);
  REQUIRE(plan.find("start") != nullptr);
  CHECK(plan.draw(3, 2) == std::vector<double>{6, 6});
}

TEST_CASE("case: words that the op does not know are refused with the nearest") {
  const auto refuse = [](const CaseText& text, const char* says) {
    CHECK_THROWS_WITH_AS(Case(rmsnorm_forward, text, Dtype::f32), doctest::Contains(says), Error);
  };
  refuse("N=2 C=3 epz=1", "did you mean 'eps'");
  refuse("N=2 C=3 -sun", "did you mean 'sum'");
  refuse("N=2 C=3 x~rampp", "did you mean 'ramp'");
  refuse("N=2 C=x", "needs a number");
  refuse("N=2", "no value for C");
  refuse("N=2.5 C=3", "whole number");
  refuse("N=2 C=3 strided", "is none of");
  for (const char* number : {"2.5", "-1", "nan", "inf", "1e30"}) {
    refuse(std::string("N=2 C=") + number, "must be a whole number");
    refuse(std::string("N=2 C=3 x@") + number, "must be a whole number");
  }
  refuse("N=2 C=3 x@", "needs a number");
  CHECK_THROWS_WITH_AS(Case(embedding_forward, "N=2", Dtype::f32),
                       "embedding_forward: the case 'N=2' gives no value for V", Error);
}

TEST_CASE("case: draws repeat, are rounded to the dtype, and differ between operands") {
  const Case plan(rmsnorm_backward, "N=4 C=16", Dtype::bf16);
  const CaseInputs a = plan.draw_inputs(), b = plan.draw_inputs();
  CHECK(a == b);
  CHECK(a[0] != a[1]);
  for (const double value : a[0]) CHECK(value == rounded(value, Dtype::bf16));
}

TEST_CASE("case: an in-place instance shares memory and padded rows lie apart") {
  CpuDevice device;
  const Case plan(rmsnorm_backward, "N=4 C=16", Dtype::f32);
  const Instance shared(device, plan, {.in_place = true});
  const auto& args = *static_cast<const RmsNormBackward*>(shared.args());
  CHECK(args.dx.data == args.d_sum.data);
  const Instance padded(device, plan, {.row_padding = 5});
  const auto& strided = *static_cast<const RmsNormBackward*>(padded.args());
  CHECK(strided.x.stride(0) == 21);
  CHECK(strided.dx.data != strided.d_sum.data);
}

TEST_CASE("check: ops are chosen by op or family, and an unknown one is refused with the nearest") {
  CHECK(select_ops({"rmsnorm"}).size() == 2);
  CHECK(select_ops({"rmsnorm_backward", "rmsnorm"}).size() == 2);
  CHECK(select_ops({}).size() == catalog().size());
  CHECK_THROWS_WITH_AS(select_ops({"rmsnorn"}), doctest::Contains("did you mean 'rmsnorm'"), Error);
  CHECK_THROWS_WITH_AS(require_impl(select_ops({"rmsnorm"}), "cudda"),
                       doctest::Contains("did you mean 'cuda'"), Error);
  CHECK_THROWS_AS(open_devices("gpu"), Error);
  CHECK_THROWS_AS(parse_modes("f16"), Error);
}

TEST_CASE("check: every registered op says enough to be checked") {
  for (const OpBase* op : catalog()) {
    INFO(op->name());
    CHECK(op->spec().reference);
    CHECK(!op->spec().cases.empty());
    CHECK(!op->spec().about.empty());
    for (const Dtype mode : modes_of(*op, {Dtype::f32, Dtype::bf16})) {
      for (const CaseText& text : op->spec().cases) CHECK_NOTHROW(Case(*op, text, mode));
    }
    for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda}) {
      CHECK(std::any_of(op->spec().impls.begin(), op->spec().impls.end(),
                        [kind](const Impl& impl) { return impl.kind == kind; }));
    }
  }
}

TEST_CASE("check: docs/OPS.md is what the registrations say") {
  const bool fresh = read_file(fs::path(TANG_SOURCE_DIR) / "docs/OPS.md") == ops_markdown();
  CHECK_MESSAGE(fresh, "run: build/tang-check list --markdown > docs/OPS.md");
}

}  // namespace tang
