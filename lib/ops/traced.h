// Elementwise kernels from a closure over symbolic inputs:
//   elementwise(device, {a, b}, y, [](Expr a, Expr b) { return silu(a) * b; });
// One kernel is compiled per expression, dtype and alignment; on the CPU the same expression runs over tiles.
// Arithmetic is f32 whatever the operands are stored in.
#pragma once

#include <utility>

#include "lib/expr/expr.h"
#include "lib/ops/op.h"
#include "lib/ops/rows.h"

namespace tang {

/// Expressions over inputs 0 … and where their operands lie. All of one dtype, f32 or bf16.
struct TracedCall {
  std::string name;               // of the kernel: letters, digits and _
  std::vector<Expr> expressions;  // one for each of y: at most 4
  std::vector<View> x;            // at most 8: [N, C] as y; [C], used in every row; or [1]
  std::vector<View> y;  // [N, C] each (more axes count as rows); may be the memory of an x of y's shape
};

/// Checks and compiles; the result only launches. An input error names the operand whose shape or dtype does
/// not fit.
std::function<void()> prepare_traced(Device& device, const TracedCall& call);

/// The closure as an expression over inputs 0 … n−1.
template <size_t n, class F>
Expr trace(const F& closure) {
  return [&]<size_t... i>(std::index_sequence<i...>) {
    return Expr(closure(Expr::input(static_cast<int64_t>(i))...));
  }
  (std::make_index_sequence<n>());
}

template <size_t n, class F>
Prepared prepare_elementwise(Device& device, const View (&x)[n], const View& y, const F& closure) {
  return Prepared("elementwise",
                  prepare_traced(device, {"elementwise", {trace<n>(closure)}, {x, x + n}, {y}}));
}
/// Prepare and run once. In a loop, prepare once instead: this traces and looks the kernel up every time.
template <size_t n, class F>
void elementwise(Device& device, const View (&x)[n], const View& y, const F& closure) {
  prepare_elementwise(device, x, y, closure)();
}

/// The implementations of a registered op that is nothing but expressions of its inputs.
template <class A>
std::vector<Impl> traced_impls(std::string name, std::vector<View A::*> x, std::vector<View A::*> y,
                               std::vector<Expr> expressions) {
  const auto prepare = [name = std::move(name), x = std::move(x), y = std::move(y),
                        expressions = std::move(expressions)](Device& device, const void* args) {
    TracedCall call{name, expressions, {}, {}};
    for (const auto member : x) call.x.push_back(static_cast<const A*>(args)->*member);
    for (const auto member : y) call.y.push_back(static_cast<const A*>(args)->*member);
    return prepare_traced(device, call);
  };
  const auto always = [](const DeviceCaps&, const void*) { return std::string(); };
  return {{"cpu", DeviceKind::cpu, always, prepare}, {"cuda", DeviceKind::cuda, always, prepare}};
}

/// How a checked call is walked.
struct TracedPlan {
  RowWalk walk;
  std::vector<bool> scalar;           // x[k] is one number
  std::vector<int64_t> x_row, y_row;  // elements between rows; 0 for a [C] and a [1]
};
std::function<void()> traced_cpu(CpuDevice& device, const TracedCall& call, const TracedPlan& plan);
std::function<void()> traced_cuda(CudaDevice& device, const TracedCall& call, const TracedPlan& plan);

// Registered examples, so that every check and bench covers the machinery.
struct ElementwiseArgs {
  View a, b, c, d;  // [N, C]; in elementwise_broadcast b is [C] and c [1]
  View y;           // [N, C]; may be a's memory
};
extern const Op<ElementwiseArgs> elementwise_1;
extern const Op<ElementwiseArgs> elementwise_2;
extern const Op<ElementwiseArgs> elementwise_3;
extern const Op<ElementwiseArgs> elementwise_4;
extern const Op<ElementwiseArgs> elementwise_broadcast;

void elementwise_1_reference(Ref& r);
void elementwise_2_reference(Ref& r);
void elementwise_3_reference(Ref& r);
void elementwise_4_reference(Ref& r);
void elementwise_broadcast_reference(Ref& r);

}  // namespace tang
