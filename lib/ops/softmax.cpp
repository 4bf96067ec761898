// The registration of softmax.
#include "lib/ops/softmax.h"

namespace tang {

namespace {

const std::vector<Dim> rows_and_columns = {{"N", "rows", 32768}, {"C", "columns", 1024}};

OpSpec forward_spec() {
  using A = SoftmaxForward;
  return {
      .name = "softmax_forward",
      .about = "y = exp(x - max(x)) / sum(exp(x - max(x))) over each row; causal: row n sees columns 0 ... n",
      .dims = rows_and_columns,
      .operands = {in("x", &A::x, "N C"), out("y", &A::y, "N C")},
      .scalars = {scalar("causal", &A::causal, {0, 1})},
      .cases = {"N=1 C=1", "N=3 C=4", "N=3 C=4 causal=1", "N=7 C=33", "N=63 C=65 causal=1", "N=5 C=127",
                "N=16 C=1024", "N=16 C=1024 @strided", "N=129 C=257 causal=1 @strided", "N=9 C=1023",
                "N=65 C=64 causal=1", "N=300 C=256 causal=1", "N=5 C=4096", "N=2 C=8200", "N=2 C=20000",
                "N=3 C=20001 causal=1", "N=9 C=96 x~large_mean", "N=9 C=129 x~very_negative",
                "N=4 C=64 x~zero"},
      .large = {"N=524289 C=4096"},
      .strided = {"x", "y"},
      .in_place = {{"x", "y"}},
      .reference = softmax_forward_reference,
      .flops = "5*N*C",
      .impls = {cpu("cpu", softmax_forward_cpu), cuda("cuda", softmax_forward_cuda)},
  };
}

OpSpec backward_spec() {
  using A = SoftmaxBackward;
  return {
      .name = "softmax_backward",
      .about = "dx = y * (dy - sum(y * dy)) over each row",
      .dims = rows_and_columns,
      .operands = {in("dy", &A::dy, "N C"), in("y", &A::y, "N C"), out("dx", &A::dx, "N C")},
      .cases = {"N=1 C=1", "N=3 C=4", "N=7 C=33", "N=63 C=65", "N=5 C=127", "N=16 C=1024",
                "N=16 C=1024 @strided", "N=129 C=257 @strided", "N=9 C=1023", "N=5 C=4096", "N=2 C=20000",
                "N=3 C=20001", "N=9 C=96 dy~large_mean"},
      .large = {"N=524289 C=4096"},
      .strided = {"dy", "y", "dx"},
      .in_place = {{"dy", "dx"}},
      .reference = softmax_backward_reference,
      .flops = "4*N*C",
      .gradient_of = &softmax_forward,
      .impls = {cpu("cpu", softmax_backward_cpu), cuda("cuda", softmax_backward_cuda)},
  };
}

}  // namespace

const Op<SoftmaxForward> softmax_forward{forward_spec()};
const Op<SoftmaxBackward> softmax_backward{backward_spec()};

}  // namespace tang
