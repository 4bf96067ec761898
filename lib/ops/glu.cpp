#include "lib/ops/glu.h"

#include <array>
#include <map>
#include <memory>

#include "lib/base/error.h"
#include "lib/expr/parse.h"

namespace tang {

namespace {

struct Text {
  std::string name, forward, backward;  // of the op family, and its formulas
};

const std::vector<Dim> rows_and_width = {{"N", "rows", 32768}, {"F", "ffn-dim", 2816}};

const std::vector<CaseText> smooth_cases = {
    "N=1 F=1",    "N=7 F=33",   "N=63 F=129 @strided", "N=16 F=1024",
    "N=1 F=1023", "N=127 F=65", "N=9 F=2816 @strided", "N=257 F=8 gate~large_mean"};
// The gradient check differentiates the packed cases numerically, which a kink spoils: their gates stay on
// one side of 0.
const std::vector<CaseText> kinked_cases = {"N=1 F=1 gate~positive",
                                            "N=7 F=33 gate~positive",
                                            "N=16 F=1024 gate~very_negative",
                                            "N=63 F=129 @strided",
                                            "N=9 F=2816 @strided",
                                            "N=1 F=1023 @strided",
                                            "N=257 F=8 @strided gate~large_mean"};

OpSpec forward_spec(const Text& text, Expr activation, const std::vector<CaseText>& cases,
                    void (*reference)(Ref&)) {
  using A = GluForward;
  const Expr gate = Expr::input(0), up = Expr::input(1);
  return {.name = text.name + "_forward",
          .about = text.forward,
          .dims = rows_and_width,
          .operands = {in("gate", &A::gate, "N F"), in("up", &A::up, "N F"), out("y", &A::y, "N F")},
          .cases = cases,
          .strided = {"gate", "up", "y"},
          .reference = reference,
          .flops = "8*N*F",
          .impls = traced_impls<A>(text.name + "_forward", {&A::gate, &A::up}, {&A::y},
                                   {substitute(activation, std::array{gate}) * up})};
}

OpSpec backward_spec(const Text& text, Expr activation, const std::vector<CaseText>& cases,
                     const OpBase* forward, void (*reference)(Ref&)) {
  using A = GluBackward;
  const Expr dy = Expr::input(0), gate = Expr::input(1), up = Expr::input(2);
  const Expr loss = substitute(activation, std::array{gate}) * up * dy;
  return {.name = text.name + "_backward",
          .about = text.backward,
          .dims = rows_and_width,
          .operands = {in("dy", &A::dy, "N F"), in("gate", &A::gate, "N F"), in("up", &A::up, "N F"),
                       out("d_gate", &A::d_gate, "N F"), out("d_up", &A::d_up, "N F")},
          .cases = cases,
          .strided = {"dy", "gate", "up", "d_gate", "d_up"},
          .in_place = {{"gate", "d_gate"}, {"up", "d_up"}},
          .reference = reference,
          .flops = "16*N*F",
          .gradient_of = forward,
          .impls = traced_impls<A>(text.name + "_backward", {&A::dy, &A::gate, &A::up},
                                   {&A::d_gate, &A::d_up}, {gradient(loss, 1), gradient(loss, 2)})};
}

Expr x() { return Expr::input(0); }

const Text gelu_text = {
    "gelu_glu", "y = gate * (1 + erf(gate / sqrt(2))) / 2 * up",
    "d_gate = dy * up * (cdf + gate * pdf) of the normal distribution, d_up = dy * gate * cdf"};
const Text gelu_tanh_text = {"gelu_tanh_glu",
                             "y = gate * (1 + tanh(sqrt(2 / pi) * (gate + 0.044715 * gate^3))) / 2 * up",
                             "d_gate = dy * up * gelu_tanh'(gate), d_up = dy * gelu_tanh(gate)"};
const Text relu2_text = {"relu2_glu", "y = max(gate, 0)^2 * up",
                         "d_gate = dy * up * 2 * max(gate, 0), d_up = dy * max(gate, 0)^2"};

/// The ops of an activation that a configuration spells out.
struct OwnOps {
  explicit OwnOps(const std::string& activation)
      : forward(forward_spec(text_of(activation), activation_of(activation), {}, nullptr)),
        backward(backward_spec(text_of(activation), activation_of(activation), {}, &forward, nullptr)) {}

  static Text text_of(const std::string& activation) {
    return {"activation_glu", fmt::format("y = act(gate) * up, act(x) = {}", activation),
            fmt::format("d_gate and d_up of act(gate) * up, act(x) = {}", activation)};
  }
  const Op<GluForward> forward;
  const Op<GluBackward> backward;
};

}  // namespace

const Op<GluForward> gelu_glu_forward{
    forward_spec(gelu_text, gelu(x()), smooth_cases, gelu_glu_forward_reference)};
const Op<GluBackward> gelu_glu_backward{
    backward_spec(gelu_text, gelu(x()), smooth_cases, &gelu_glu_forward, gelu_glu_backward_reference)};
const Op<GluForward> gelu_tanh_glu_forward{
    forward_spec(gelu_tanh_text, gelu_tanh(x()), smooth_cases, gelu_tanh_glu_forward_reference)};
const Op<GluBackward> gelu_tanh_glu_backward{backward_spec(
    gelu_tanh_text, gelu_tanh(x()), smooth_cases, &gelu_tanh_glu_forward, gelu_tanh_glu_backward_reference)};
const Op<GluForward> relu2_glu_forward{
    forward_spec(relu2_text, relu2(x()), smooth_cases, relu2_glu_forward_reference)};
const Op<GluBackward> relu2_glu_backward{
    backward_spec(relu2_text, relu2(x()), kinked_cases, &relu2_glu_forward, relu2_glu_backward_reference)};

Expr activation_of(const std::string& text) {
  if (text == "silu") return silu(x());
  if (text == "gelu") return gelu(x());
  if (text == "gelu_tanh") return gelu_tanh(x());
  if (text == "relu2") return relu2(x());
  static const std::array<std::string, 1> names = {"x"};
  const Expr activation = parse_expression(text, names);
  if (!depends_on(activation, 0)) fail_input("expression '{}': an activation is a function of x", text);
  return activation;
}

GluOps glu_ops(const std::string& activation) {
  if (activation == "silu") return {&swiglu_forward, &swiglu_backward};
  if (activation == "gelu") return {&gelu_glu_forward, &gelu_glu_backward};
  if (activation == "gelu_tanh") return {&gelu_tanh_glu_forward, &gelu_tanh_glu_backward};
  if (activation == "relu2") return {&relu2_glu_forward, &relu2_glu_backward};
  static std::map<std::string, std::unique_ptr<const OwnOps>> made;
  auto& ops = made[activation];
  if (!ops) ops = std::make_unique<const OwnOps>(activation);
  return {&ops->forward, &ops->backward};
}

}  // namespace tang
