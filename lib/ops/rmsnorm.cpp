// The registration of RMSNorm. This family is the worked example of docs/ADDING_AN_OP.md.
#include "lib/ops/rmsnorm.h"

namespace tang {

namespace {

OpSpec forward_spec() {
  using A = RmsNormForward;
  return {
      .name = "rmsnorm_forward",
      .about = "y = x / sqrt(mean(x^2) + eps) * w, after x += residual where one is given",
      .dims = {{"N", "rows", 32768}, {"C", "dim", 1024}},
      .operands = {in("x", &A::x, "N C"), in("w", &A::w, "C"), in("residual", &A::residual, "N C").optional(),
                   out("sum", &A::sum, "N C").optional(), out("y", &A::y, "N C"),
                   out("rstd", &A::rstd, "N", Rule::f32)},
      .scalars = {scalar("eps", &A::eps, {1e-5, 1e-6})},
      .cases = {"N=1 C=1 -residual -sum", "N=1 C=8 -residual -sum", "N=7 C=33", "N=16 C=1024",
                "N=5 C=1024 @strided", "N=65 C=257 -residual -sum", "N=33 C=4096", "N=3 C=20000",
                "N=9 C=96 x~large_mean", "N=4 C=64 x~zero -residual -sum"},
      .large = {"N=524289 C=4096"},
      .strided = {"x", "residual", "sum", "y"},
      .reference = rmsnorm_forward_reference,
      .flops = "4*N*C",
      .impls = {cpu("cpu", rmsnorm_forward_cpu), cuda("cuda", rmsnorm_forward_cuda)},
  };
}

OpSpec backward_spec() {
  using A = RmsNormBackward;
  return {
      .name = "rmsnorm_backward",
      .about =
          "dx = rstd * (w*dy - xh * mean(w*dy*xh)) + d_sum, dw = sum over rows of dy*xh, with xh = x*rstd",
      .dims = {{"N", "rows", 32768}, {"C", "dim", 1024}},
      .operands = {in("dy", &A::dy, "N C"), in("x", &A::x, "N C"), in("w", &A::w, "C"),
                   in("rstd", &A::rstd, "N", Rule::f32), in("d_sum", &A::d_sum, "N C").optional(),
                   out("dx", &A::dx, "N C"), accumulate("dw", &A::dw, "C"),
                   scratch("partials", &A::partials, "384 C")},
      .scalars = {scalar("accumulate", &A::accumulate, {0, 1})},
      .cases = {"N=1 C=1 -d_sum", "N=1 C=8 -d_sum", "N=7 C=33", "N=16 C=1024", "N=5 C=1024 @strided",
                "N=1023 C=65 -d_sum", "N=33 C=4096", "N=3 C=20000", "N=9 C=96 x~large_mean"},
      .large = {"N=524289 C=4096"},
      .strided = {"dy", "x", "d_sum", "dx"},
      .fill = {{"rstd", "positive"}},
      .in_place = {{"d_sum", "dx"}},
      .reference = rmsnorm_backward_reference,
      .flops = "8*N*C",
      .gradient_of = &rmsnorm_forward,
      .impls = {cpu("cpu", rmsnorm_backward_cpu), cuda("cuda", rmsnorm_backward_cuda)},
  };
}

}  // namespace

const Op<RmsNormForward> rmsnorm_forward{forward_spec()};
const Op<RmsNormBackward> rmsnorm_backward{backward_spec()};

}  // namespace tang
