// The registration of SwiGLU.
#include "lib/ops/swiglu.h"

namespace tang {

namespace {

const std::vector<Dim> rows_and_width = {{"N", "rows", 32768}, {"F", "ffn-dim", 2816}};

OpSpec forward_spec() {
  using A = SwigluForward;
  return {
      .name = "swiglu_forward",
      .about = "y = gate / (1 + exp(-gate)) * up",
      .dims = rows_and_width,
      .operands = {in("gate", &A::gate, "N F"), in("up", &A::up, "N F"), out("y", &A::y, "N F")},
      .cases = {"N=1 F=1", "N=7 F=33", "N=63 F=129 @strided", "N=16 F=1024", "N=9 F=2816 @strided",
                "N=1 F=1023", "N=257 F=8 gate~large_mean", "N=127 F=65"},
      .large = {"N=524289 F=4096"},
      .strided = {"gate", "up", "y"},
      .reference = swiglu_forward_reference,
      .flops = "5*N*F",
      .impls = {cpu("cpu", swiglu_forward_cpu), cuda("cuda", swiglu_forward_cuda)},
  };
}

OpSpec backward_spec() {
  using A = SwigluBackward;
  return {
      .name = "swiglu_backward",
      .about =
          "d_gate = dy * up * s * (1 + gate * (1 - s)), d_up = dy * gate * s, with s = 1 / (1 + exp(-gate)); "
          "y = gate * s * up",
      .dims = rows_and_width,
      .operands = {in("dy", &A::dy, "N F"), in("gate", &A::gate, "N F"), in("up", &A::up, "N F"),
                   out("d_gate", &A::d_gate, "N F"), out("d_up", &A::d_up, "N F"),
                   out("y", &A::y, "N F").rare()},
      .cases = {"N=1 F=1", "N=7 F=33", "N=63 F=129 @strided", "N=16 F=1024", "N=9 F=2816 @strided",
                "N=1 F=1023", "N=257 F=8 gate~large_mean", "N=127 F=65", "N=7 F=33 +y",
                "N=63 F=128 +y @strided"},
      .large = {"N=524289 F=4096"},
      .strided = {"dy", "gate", "up", "d_gate", "d_up", "y"},
      .in_place = {{"gate", "d_gate"}, {"up", "d_up"}},
      .reference = swiglu_backward_reference,
      .flops = "11*N*F",
      .gradient_of = &swiglu_forward,
      .impls = {cpu("cpu", swiglu_backward_cpu), cuda("cuda", swiglu_backward_cuda)},
  };
}

}  // namespace

const Op<SwigluForward> swiglu_forward{forward_spec()};
const Op<SwigluBackward> swiglu_backward{backward_spec()};

}  // namespace tang
