#include "lib/ops/traced.h"

#include <algorithm>

#include "kernels/traced.h"
#include "lib/base/error.h"

namespace tang {

namespace {

void check_counts(const TracedCall& call) {
  const auto within = [&](size_t count, int64_t most, const char* what) {
    if (count < 1 || static_cast<int64_t>(count) > most)
      fail_input("{}: expected 1 to {} {}, found {}", call.name, most, what, count);
  };
  within(call.x.size(), traced_most_inputs, "inputs");
  within(call.y.size(), traced_most_outputs, "outputs");
  if (call.expressions.size() != call.y.size())
    fail_input("{}: {} expressions for {} outputs", call.name, call.expressions.size(), call.y.size());
  const int64_t needed = inputs_needed(call.expressions);
  if (needed > static_cast<int64_t>(call.x.size()))
    fail_input("{}: the expression needs {} inputs, but {} are given", call.name, needed, call.x.size());
}

void check_view(const TracedCall& call, const char* what, size_t index, const View& view) {
  const View& y = call.y[0];
  if (!view.present()) fail_input("{}: {} {} is missing", call.name, what, index);
  if (view.dtype == Dtype::u32 || view.dtype != y.dtype) {
    fail_input("{}: {} {} must be {}, found {}", call.name, what, index,
               y.dtype == Dtype::u32 ? "f32 or bf16" : name_of(y.dtype), describe(view));
  }
  if (view.stride(-1) != 1 && view.dim(-1) > 1) {
    fail_input("{}: the last dimension of {} {} must be contiguous, found {}", call.name, what, index,
               describe(view));
  }
}

bool same_dims(const View& a, const View& b) {
  return a.rank == b.rank && std::equal(a.dims.begin(), a.dims.begin() + a.rank, b.dims.begin());
}

/// Checks every shape, and turns full operands into rows.
TracedPlan plan_of(TracedCall& call) {
  check_counts(call);
  const View shape = call.y[0];
  bool packed = true, rows_shared = false;
  TracedPlan plan;
  for (size_t k = 0; k < call.y.size(); ++k) {
    check_view(call, "output", k, call.y[k]);
    if (!same_dims(call.y[k], shape))
      fail_input("{}: output {} is {}, but output 0 is {}", call.name, k, describe(call.y[k]),
                 describe(shape));
    packed = packed && call.y[k].packed();
    call.y[k] = call.y[k].rows();
    plan.y_row.push_back(call.y[k].stride(0));
  }
  for (size_t k = 0; k < call.x.size(); ++k) {
    View& x = call.x[k];
    check_view(call, "input", k, x);
    const bool full = same_dims(x, shape), row = !full && x.rank == 1 && x.dim(0) == shape.dim(-1);
    if (!full && !row && x.size() != 1) {
      fail_input("{}: input {} is {}: expected the output's {}, a row of {} or one number", call.name, k,
                 describe(x), describe(shape), shape.dim(-1));
    }
    packed = packed && (!full || x.packed());
    rows_shared = rows_shared || row;
    if (full) x = x.rows();
    plan.scalar.push_back(!full && !row);
    plan.x_row.push_back(full ? x.stride(0) : 0);
  }
  const View& y = call.y[0];
  plan.walk = packed && (!rows_shared || y.dim(0) == 1) ? RowWalk{1, y.size()} : RowWalk{y.dim(0), y.dim(1)};
  return plan;
}

}  // namespace

std::function<void()> prepare_traced(Device& device, const TracedCall& given) {
  TracedCall call = given;
  const TracedPlan plan = plan_of(call);
  if (call.y[0].size() == 0) return [] {};
  return device.kind() == DeviceKind::cpu ? traced_cpu(static_cast<CpuDevice&>(device), call, plan)
                                          : traced_cuda(static_cast<CudaDevice&>(device), call, plan);
}

namespace {

using A = ElementwiseArgs;

const std::vector<CaseText> ragged_cases = {"N=1 C=1",    "N=7 C=33",  "N=63 C=129 @strided", "N=16 C=1024",
                                            "N=1 C=1023", "N=257 C=8", "N=9 C=2816 @strided", "N=127 C=65"};

OpSpec example(const char* name, const char* about, std::vector<Operand> operands,
               std::vector<View A::*> inputs, Expr expression, const char* flops, void (*reference)(Ref&)) {
  operands.push_back(out("y", &A::y, "N C"));
  std::vector<std::string> strided;
  for (const Operand& operand : operands) {
    if (operand.dims == "N C") strided.push_back(operand.name);
  }
  return {.name = name,
          .about = about,
          .dims = {{"N", "rows", 32768}, {"C", "dim", 2816}},
          .operands = std::move(operands),
          .cases = ragged_cases,
          .strided = std::move(strided),
          .in_place = {{"a", "y"}},
          .reference = reference,
          .flops = flops,
          .impls = traced_impls<A>(name, std::move(inputs), {&A::y}, {expression})};
}

Operand full(const char* name, View A::*member) { return in(name, member, "N C"); }

OpSpec one() {
  return example("elementwise_1", "y = a / (1 + exp(-a)), traced from a closure", {full("a", &A::a)}, {&A::a},
                 trace<1>([](Expr a) { return silu(a); }), "4*N*C", elementwise_1_reference);
}
OpSpec two() {
  return example("elementwise_2", "y = tanh(a) * b, traced from a closure",
                 {full("a", &A::a), full("b", &A::b)}, {&A::a, &A::b},
                 trace<2>([](Expr a, Expr b) { return tanh(a) * b; }), "2*N*C", elementwise_2_reference);
}
OpSpec three() {
  return example("elementwise_3", "y = a * b + c, traced from a closure",
                 {full("a", &A::a), full("b", &A::b), full("c", &A::c)}, {&A::a, &A::b, &A::c},
                 trace<3>([](Expr a, Expr b, Expr c) { return a * b + c; }), "2*N*C",
                 elementwise_3_reference);
}
OpSpec four() {
  return example("elementwise_4", "y = max(a, b) * c - abs(d), traced from a closure",
                 {full("a", &A::a), full("b", &A::b), full("c", &A::c), full("d", &A::d)},
                 {&A::a, &A::b, &A::c, &A::d},
                 trace<4>([](Expr a, Expr b, Expr c, Expr d) { return max(a, b) * c - abs(d); }), "4*N*C",
                 elementwise_4_reference);
}
OpSpec broadcast() {
  return example("elementwise_broadcast",
                 "y = c * (a * b + a) with b a row and c one number, traced from a closure",
                 {full("a", &A::a), in("b", &A::b, "C"), in("c", &A::c, "1")}, {&A::a, &A::b, &A::c},
                 trace<3>([](Expr a, Expr b, Expr c) { return c * (a * b + a); }), "3*N*C",
                 elementwise_broadcast_reference);
}

}  // namespace

const Op<ElementwiseArgs> elementwise_1{one()};
const Op<ElementwiseArgs> elementwise_2{two()};
const Op<ElementwiseArgs> elementwise_3{three()};
const Op<ElementwiseArgs> elementwise_4{four()};
const Op<ElementwiseArgs> elementwise_broadcast{broadcast()};

}  // namespace tang
