// The registration of the matrix-vector product.
#include "lib/ops/matvec.h"

namespace tang {

namespace {

OpSpec spec() {
  using A = Matvec;
  return {
      .name = "matvec",
      .about =
          "y = residual + silu(gate) * rmsnorm(x, norm) * w^T for few rows; each of the three is optional",
      .dims = {{"B", "batch", 1}, {"N", "n", 50304}, {"K", "k", 1024}},
      .operands = {in("x", &A::x, "B K"), in("w", &A::w, "N K"), in("norm", &A::norm, "K").optional(),
                   in("gate", &A::gate, "B K").optional(), in("residual", &A::residual, "B N").optional(),
                   out("y", &A::y, "B N", Rule::data_or_f32)},
      .scalars = {scalar("eps", &A::eps, {1e-5, 1e-2})},
      .cases = {"B=1 N=1 K=1 -norm -gate -residual", "B=1 N=33 K=63 -norm -gate -residual",
                "B=1 N=257 K=1024 -gate -residual", "B=1 N=65 K=2816 -norm", "B=2 N=129 K=1000 -gate",
                "B=3 N=40 K=264 -norm -gate", "B=5 N=31 K=127", "B=8 N=65 K=1032 -gate y:f32 -residual",
                "B=8 N=19 K=2816 -norm", "B=4 N=5000 K=72 -norm -gate -residual",
                "B=1 N=9001 K=40 -gate -residual y:f32", "B=7 N=64 K=256 @strided",
                "B=2 N=33 K=65 -gate @strided", "B=1 N=48 K=512 x~large_mean -gate -residual"},
      .strided = {"x", "w", "gate", "residual", "y"},
      .where = {"B >= 1", "K >= 1"},
      .in_place = {{"residual", "y"}},
      .reference = matvec_reference,
      .flops = "2*B*N*K",
      .impls = {cpu("cpu", matvec_cpu), cuda("cuda", matvec_cuda, matvec_cuda_supports)},
  };
}

}  // namespace

const Op<Matvec> matvec{spec()};

}  // namespace tang
