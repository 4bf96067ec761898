#include "lib/ops/adamw.h"

namespace tang {

namespace {

OpSpec norm_spec() {
  using A = GlobalNorm;
  return {
      .name = "global_norm",
      .about = "norm = sqrt(sum x^2)",
      .dims = {{"P", "params", 67108864}},
      .operands = {in("x", &A::x, "P", Rule::f32), out("norm", &A::norm, "1", Rule::f32),
                   scratch("partials", &A::partials, "1024")},
      .cases = {"P=1", "P=7", "P=33", "P=127", "P=1023", "P=4097", "P=70001", "P=1300007", "P=257 x~zero",
                "P=129 x~small"},
      .reference = global_norm_reference,
      .flops = "2*P",
      .impls = {cpu("cpu", global_norm_cpu), cuda("cuda", global_norm_cuda)},
      .modes = {Dtype::f32},
  };
}

OpSpec guard_spec() {
  using A = FiniteGuard;
  return {
      .name = "finite_guard",
      .about = "halted = 1 where a value is NaN or infinite, else unchanged",
      .dims = {{"K", "values", 2}},
      .operands = {in("values", &A::values, "K", Rule::f32), inout("halted", &A::halted, "1", Rule::u32)},
      .cases = {"K=1", "K=2", "K=33", "K=257"},
      .fill = {{"halted", "zero"}},
      .reference = finite_guard_reference,
      .impls = {cpu("cpu", finite_guard_cpu), cuda("cuda", finite_guard_cuda)},
      .modes = {Dtype::f32},
  };
}

OpSpec adamw_spec() {
  using A = AdamW;
  return {
      .name = "adamw",
      .about =
          "m = b1*m + (1-b1)*g, v = b2*v + (1-b2)*g^2, master -= lr*(mh/(sqrt(vh)+eps) + wd*master), "
          "with g = grad*min(1, clip/norm)",
      .dims = {{"P", "params", 67108864}},
      .operands = {in("grad", &A::grad, "P", Rule::f32), in("norm", &A::norm, "1", Rule::f32),
                   in("control", &A::control, "3", Rule::f32), in("halted", &A::halted, "1", Rule::u32),
                   inout("master", &A::master, "P", Rule::f32), inout("m", &A::m, "P", Rule::f32),
                   inout("v", &A::v, "P", Rule::f32), out("weights", &A::weights, "P").optional()},
      .scalars = {scalar("decayed", &A::decayed, {0}), scalar("beta1", &A::beta1, {0.9, 0}),
                  scalar("beta2", &A::beta2, {0.95, 0.999}), scalar("eps", &A::eps, {1e-8, 1e-3}),
                  scalar("weight_decay", &A::weight_decay, {0.1, 0}),
                  scalar("clip_norm", &A::clip_norm, {1, 0})},
      .cases = {"P=1", "P=7 decayed=7", "P=31 -weights", "P=33 decayed=5", "P=127 decayed=126",
                "P=257 decayed=130", "P=1023 v~zero m~zero", "P=70001 decayed=40000"},
      .where = {"decayed >= 0", "decayed <= P"},
      .fill = {{"norm", "positive"}, {"control", "positive"}, {"halted", "zero"}, {"v", "positive"}},
      .reference = adamw_reference,
      .flops = "16*P",
      .impls = {cpu("cpu", adamw_cpu), cuda("cuda", adamw_cuda)},
  };
}

}  // namespace

const Op<GlobalNorm> global_norm{norm_spec()};
const Op<FiniteGuard> finite_guard{guard_spec()};
const Op<AdamW> adamw{adamw_spec()};

}  // namespace tang
