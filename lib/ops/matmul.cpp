#include "lib/ops/matmul.h"

namespace tang {

namespace {

/// Elements of the operand that turned_operand names.
const std::string turned =
    "tf32*transpose_a*(1-transpose_b)*(K%4==0)*K*(N*(N<=M)*(M>=1024)+M*(M<N)*(N>=1024))";
static_assert(turned_uses == 1024, "the scratch's expression");

OpSpec spec() {
  using A = Matmul;
  return {
      .name = "matmul",
      .about = "c = op(a) * op(b), row-major, f32 sums; op transposes where its flag is set",
      .dims = {{"M", "m", 32768}, {"N", "n", 2816}, {"K", "k", 1024}},
      .operands = {in("a", &A::a, "M K").transposed_if("transpose_a"),
                   in("b", &A::b, "K N").transposed_if("transpose_b"),
                   accumulate("c", &A::c, "M N", Rule::data_or_f32), scratch("turned", &A::turned, turned)},
      .scalars = {scalar("transpose_a", &A::transpose_a, {0, 1}),
                  scalar("transpose_b", &A::transpose_b, {0, 1}),
                  scalar("accumulate", &A::accumulate, {0, 1}), scalar("tf32", &A::tf32, {0, 1})},
      .cases = {"M=1 N=1 K=1",
                "M=7 N=33 K=63",
                "M=65 N=129 K=127",
                "M=64 N=256 K=128",
                "M=3 N=5 K=1023",
                "M=257 N=7 K=65",
                "M=1 N=1023 K=129 transpose_b=1",
                "M=5 N=3 K=0",
                "M=5 N=3 K=0 accumulate=1",
                "M=33 N=65 K=40 transpose_a=1 transpose_b=1",
                "M=33 N=63 K=257 c:f32",
                "M=40 N=24 K=1023 transpose_a=1 accumulate=1 c:f32",
                "M=65 N=63 K=129 @strided",
                "M=33 N=40 K=65 transpose_a=1 @strided",
                "M=33 N=40 K=65 transpose_b=1 accumulate=1 @strided",
                "M=128 N=64 K=1023 tf32=1",
                "M=32 N=72 K=136 transpose_a=1 transpose_b=1 tf32=1",
                "M=1025 N=39 K=132 transpose_a=1 tf32=1",
                "M=1024 N=64 K=66 transpose_a=1 tf32=1",
                "M=72 N=1027 K=68 transpose_a=1 accumulate=1 tf32=1",
                "M=1024 N=100 K=64 transpose_a=1 tf32=1 @strided"},
      .strided = {"a", "b", "c"},
      .reference = matmul_reference,
      .flops = "2*M*N*K",
      .impls = {cpu("cpu", matmul_cpu), cuda("cuda", matmul_cuda)},
      .bitwise_across_strides = false,  // the libraries choose by alignment
  };
}

}  // namespace

const Op<Matmul> matmul{spec()};

Turned turned_operand(const Matmul& a) {
  const int64_t rows = a.c.dim(0), columns = a.c.dim(1);
  const bool both_lie_across_k = a.transpose_a && !a.transpose_b;
  if (!a.tf32 || a.a.dtype != Dtype::f32 || !both_lie_across_k || a.a.dim(0) % 4 != 0) return Turned::none;
  if (columns <= rows) return rows >= turned_uses ? Turned::b : Turned::none;
  return columns >= turned_uses ? Turned::a : Turned::none;
}

}  // namespace tang
