// The registrations of the plain elementwise ops and the transpose.
#include "lib/ops/elementwise.h"

namespace tang {

namespace {

const std::vector<Dim> rows_and_columns = {{"N", "rows", 32768}, {"C", "dim", 1024}};

OpSpec cast_spec() {
  using A = Cast;
  return {
      .name = "cast",
      .about = "y = x in the other of f32 and bf16, to nearest even",
      .dims = rows_and_columns,
      .operands = {in("x", &A::x, "N C"), out("y", &A::y, "N C", Rule::other)},
      .cases = {"N=1 C=1", "N=7 C=33", "N=63 C=129 @strided", "N=16 C=1024", "N=16 C=1024 @strided",
                "N=1 C=1023 x~large_mean", "N=257 C=8"},
      .strided = {"x", "y"},
      .reference = cast_reference,
      .impls = {cpu("cpu", cast_cpu), cuda("cuda", cast_cuda)},
  };
}

OpSpec add_spec() {
  using A = Add;
  return {
      .name = "add",
      .about = "y = a + b",
      .dims = rows_and_columns,
      .operands = {in("a", &A::a, "N C"), in("b", &A::b, "N C"), out("y", &A::y, "N C")},
      .cases = {"N=1 C=1", "N=7 C=33", "N=63 C=129 @strided", "N=16 C=1024", "N=16 C=1024 @strided",
                "N=1 C=1023 a~large_mean", "N=257 C=8", "N=3 C=5000 @strided"},
      .strided = {"a", "b", "y"},
      .in_place = {{"a", "y"}},
      .reference = add_reference,
      .flops = "N*C",
      .impls = {cpu("cpu", add_cpu), cuda("cuda", add_cuda)},
  };
}

OpSpec add_assign_spec() {
  using A = AddAssign;
  return {
      .name = "add_assign",
      .about = "y += x, in f32",
      .dims = rows_and_columns,
      .operands = {in("x", &A::x, "N C"), inout("y", &A::y, "N C", Rule::f32)},
      .cases = {"N=1 C=1", "N=7 C=33", "N=63 C=129 @strided", "N=16 C=1024", "N=16 C=1024 @strided",
                "N=1 C=1023 x~large_mean", "N=257 C=8"},
      .strided = {"x", "y"},
      .reference = add_assign_reference,
      .flops = "N*C",
      .impls = {cpu("cpu", add_assign_cpu), cuda("cuda", add_assign_cuda)},
  };
}

OpSpec fill_spec() {
  using A = FillOp;
  return {
      .name = "fill",
      .about = "y = value",
      .dims = rows_and_columns,
      .operands = {out("y", &A::y, "N C")},
      .scalars = {scalar("value", &A::value, {0, 1.5, -1e30})},
      .cases = {"N=1 C=1", "N=7 C=33 value=0.1", "N=63 C=129 @strided", "N=16 C=1024", "N=16 C=1024 @strided",
                "N=1 C=1023"},
      .strided = {"y"},
      .reference = fill_reference,
      .impls = {cpu("cpu", fill_cpu), cuda("cuda", fill_cuda)},
  };
}

OpSpec transpose_spec() {
  using A = Transpose;
  return {
      .name = "transpose",
      .about = "y[c, r] = x[r, c]",
      .dims = {{"R", "rows", 32768}, {"C", "dim", 1024}},
      .operands = {in("x", &A::x, "R C"), out("y", &A::y, "C R")},
      .cases = {"R=1 C=1", "R=1 C=257", "R=1023 C=1", "R=7 C=33", "R=63 C=65", "R=64 C=64", "R=65 C=63",
                "R=127 C=129 @strided", "R=128 C=192 @strided", "R=72 C=1000", "R=256 C=64"},
      .strided = {"x", "y"},
      .reference = transpose_reference,
      .impls = {cpu("cpu", transpose_cpu), cuda("cuda", transpose_cuda)},
  };
}

}  // namespace

const Op<Cast> cast{cast_spec()};
const Op<Add> add{add_spec()};
const Op<AddAssign> add_assign{add_assign_spec()};
const Op<FillOp> fill{fill_spec()};
const Op<Transpose> transpose{transpose_spec()};

}  // namespace tang
