// The registration of reduce_sum.
#include "lib/ops/reduce.h"

namespace tang {

namespace {

OpSpec reduce_spec() {
  using A = ReduceSum;
  // Chunks of R that the CUDA kernels sum apart (reduce_chunk in reduce_cuda.cpp); none when one is enough.
  const std::string chunk = "(128+16256*(I==1))";
  const std::string chunks =
      "(R>" + chunk + ")*((R+" + chunk + "-1-(R+" + chunk + "-1)%" + chunk + ")/" + chunk + ")";
  return {
      .name = "reduce_sum",
      .about = "y[o, i] = sum over r of x[o, r, i]; R = 0 gives zeros",
      .dims = {{"O", "outer", 1}, {"R", "reduced", 32768}, {"I", "inner", 1024}},
      .operands = {in("x", &A::x, "O R I"), accumulate("y", &A::y, "O I", Rule::data_or_f32),
                   scratch("partials", &A::partials, "O " + chunks + " I")},
      .scalars = {scalar("accumulate", &A::accumulate, {0, 1})},
      .cases = {"O=1 R=1 I=1", "O=3 R=0 I=5", "O=3 R=0 I=1", "O=7 R=33 I=1", "O=2 R=300 I=129 @strided",
                "O=5 R=127 I=1 @strided", "O=1 R=1023 I=65", "O=1 R=1024 I=64 y:f32", "O=1 R=40000 I=1",
                "O=2 R=40008 I=1 y:f32", "O=5 R=129 I=3 y:f32", "O=1 R=7000 I=7", "O=257 R=8 I=1",
                "O=9 R=4104 I=1", "O=33 R=63 I=16", "O=1 R=129 I=2100", "O=4 R=257 I=24 x~large_mean y:f32"},
      .strided = {"x", "y"},
      .reference = reduce_sum_reference,
      .flops = "O*R*I",
      .impls = {cpu("cpu", reduce_sum_cpu), cuda("cuda", reduce_sum_cuda)},
      .bitwise_across_strides = false,  // entries of R that lie apart are summed in another order
  };
}

}  // namespace

const Op<ReduceSum> reduce_sum{reduce_spec()};

}  // namespace tang
