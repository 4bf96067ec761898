// Gated units: y = act(gate) · up, with any activation that can be written as an expression. Derived from the
// activation by tracing; silu has kernels of its own (swiglu.h).
#pragma once

#include "lib/ops/swiglu.h"
#include "lib/ops/traced.h"

namespace tang {

using GluForward = SwigluForward;
using GluBackward = SwigluBackward;

/// "silu", "gelu" (erf), "gelu_tanh", "relu2", or an expression in x such as "x * sigmoid(1.702 * x)". An
/// input error with the column when it cannot be read, or when x is not in it.
Expr activation_of(const std::string& text);

/// The two ops of an activation: the registered ones for a name, else made on first use.
/// They live as long as the process.
struct GluOps {
  const Op<GluForward>* forward;
  const Op<GluBackward>* backward;
};
GluOps glu_ops(const std::string& activation);

extern const Op<GluForward> gelu_glu_forward;
extern const Op<GluBackward> gelu_glu_backward;
extern const Op<GluForward> gelu_tanh_glu_forward;
extern const Op<GluBackward> gelu_tanh_glu_backward;
extern const Op<GluForward> relu2_glu_forward;
extern const Op<GluBackward> relu2_glu_backward;

// The formulas, written without expressions.
void gelu_glu_forward_reference(Ref& r);
void gelu_glu_backward_reference(Ref& r);
void gelu_tanh_glu_forward_reference(Ref& r);
void gelu_tanh_glu_backward_reference(Ref& r);
void relu2_glu_forward_reference(Ref& r);
void relu2_glu_backward_reference(Ref& r);

}  // namespace tang
