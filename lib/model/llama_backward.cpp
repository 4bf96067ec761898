// The backward, in the forward's reverse order. `stream` carries the gradient of the residual stream,
// `narrow` and `wide` whatever is on its way; what the forward did not keep is computed again just before its
// use.
#include "lib/model/step_builder.h"
#include "lib/ops/adamw.h"
#include "lib/ops/attention.h"
#include "lib/ops/embedding.h"
#include "lib/ops/glu.h"
#include "lib/ops/matmul.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/rope.h"

namespace tang {

void StepBuilder::project_back(OpList& list, const View& dy, const View& w, const View& dx) {
  add(list, matmul, {.a = dy, .b = w, .c = dx, .tf32 = o_.precision == Precision::tf32});
}

void StepBuilder::weight_gradient(OpList& list, const View& dy, const View& x, const View& dw,
                                  bool accumulate) {
  add(list, matmul,
      {.a = dy,
       .b = x,
       .c = dw,
       .transpose_a = true,
       .accumulate = accumulate,
       .tf32 = o_.precision == Precision::tf32});
}

void StepBuilder::backward(OpList& list, bool first) {
  phase_ = "backward";
  add(list, rmsnorm_backward,
      {.dy = s_.as_columns(s_.narrow, c_.dim),
       .x = s_.last_x,
       .w = norm_weight(layout_.final_norm),
       .rstd = s_.last_rstd,
       .dx = s_.stream,
       .dw = norm_gradient(layout_.final_norm),
       .accumulate = !first});
  for (size_t layer = s_.blocks.size(); layer-- > 0;) {
    const BlockBuffers& b = s_.blocks[layer];
    const bool still_there = layer + 1 == s_.blocks.size();  // shared buffers hold the last block's values
    if (o_.recompute == Recompute::block && !still_there) {
      normalise(list, b.x, layout_.blocks[layer].norm1, b.norm1, b.rstd1);
      block_inside(list, layer);
    }
    feed_forward_backward(list, layer, first);
    attention_backward_part(list, layer, first);
  }
  // A tied table already holds the head's share.
  add(list, embedding_backward,
      {.ids = s_.ids,
       .dy = s_.stream,
       .d_table = gradient(layout_.embedding, c_.padded_vocab(), c_.dim),
       .accumulate = !first || c_.tie_embeddings});
}

void StepBuilder::activate_back(OpList& list, const View& dy, const BlockBuffers& b, const View& y) {
  const View gate = b.gate_up.slice(1, 0, c_.ffn_dim), up = b.gate_up.slice(1, c_.ffn_dim, 2 * c_.ffn_dim);
  add(list, *glu_ops(c_.activation).backward,
      {.dy = dy, .gate = gate, .up = up, .d_gate = gate, .d_up = up, .y = y});
}

void StepBuilder::feed_forward_backward(OpList& list, size_t layer, bool first) {
  const BlockBuffers& b = s_.blocks[layer];
  const BlockOffsets& at = layout_.blocks[layer];
  const bool still_there = layer + 1 == s_.blocks.size();
  const View d_swiglu = s_.as_columns(s_.wide, c_.ffn_dim), d_norm = s_.as_columns(s_.narrow, c_.dim);
  const bool again = o_.recompute == Recompute::swiglu && !still_there;
  // SwiGLU's own backward gives its output again on the way, for a third of what a pass of its own costs.
  const bool on_the_way = again && glu_ops(c_.activation).backward == &swiglu_backward;
  if (again && !on_the_way) activate(list, b);
  const auto down_gradient = [&] {
    weight_gradient(list, s_.stream, b.swiglu, gradient(at.down, c_.dim, c_.ffn_dim), !first);
  };
  if (!on_the_way) down_gradient();
  project_back(list, s_.stream, weight(at.down, c_.dim, c_.ffn_dim), d_swiglu);
  activate_back(list, d_swiglu, b, on_the_way ? b.swiglu : View());
  if (on_the_way) down_gradient();
  const bool norm_shared = o_.recompute == Recompute::norms || o_.recompute == Recompute::swiglu;
  if (norm_shared && !still_there) normalise(list, b.middle, at.norm2, b.norm2, b.rstd2);
  weight_gradient(list, b.gate_up, b.norm2, gradient(at.gate_up, 2 * c_.ffn_dim, c_.dim), !first);
  project_back(list, b.gate_up, weight(at.gate_up, 2 * c_.ffn_dim, c_.dim), d_norm);
  add(list, rmsnorm_backward,
      {.dy = d_norm,
       .x = b.middle,
       .w = norm_weight(at.norm2),
       .rstd = b.rstd2,
       .d_sum = s_.stream,
       .dx = s_.stream,
       .dw = norm_gradient(at.norm2),
       .accumulate = !first});
}

void StepBuilder::attention_backward_part(OpList& list, size_t layer, bool first) {
  const BlockBuffers& b = s_.blocks[layer];
  const BlockOffsets& at = layout_.blocks[layer];
  const View d_attended = s_.as_columns(s_.narrow, c_.q_rows()), d_norm = s_.as_columns(s_.narrow, c_.dim);
  const View d_qkv = s_.as_columns(s_.wide, c_.qkv_rows());
  const int64_t kv = c_.n_heads, value = c_.n_heads + c_.n_kv_heads;  // first head of k, of v
  weight_gradient(list, s_.stream, b.attended, gradient(at.o, c_.dim, c_.q_rows()), !first);
  project_back(list, s_.stream, weight(at.o, c_.dim, c_.q_rows()), d_attended);
  add(list, attention_backward,
      {.q = heads(b.qkv, 0, c_.n_heads),
       .k = heads(b.qkv, kv, c_.n_kv_heads),
       .v = heads(b.qkv, value, c_.n_kv_heads),
       .o = heads(b.attended, 0, c_.n_heads),
       .d_o = heads(d_attended, 0, c_.n_heads),
       .lse = b.lse,
       .dq = heads(d_qkv, 0, c_.n_heads),
       .dk = heads(d_qkv, kv, c_.n_kv_heads),
       .dv = heads(d_qkv, value, c_.n_kv_heads)});
  const View turned = heads(d_qkv, 0, value);
  add(list, rope_backward, {.dy = turned, .cos = s_.cos, .sin = s_.sin, .dx = turned});
  if (o_.recompute != Recompute::none) normalise(list, b.x, at.norm1, b.norm1, b.rstd1);
  weight_gradient(list, d_qkv, b.norm1, gradient(at.qkv, c_.qkv_rows(), c_.dim), !first);
  project_back(list, d_qkv, weight(at.qkv, c_.qkv_rows(), c_.dim), d_norm);
  add(list, rmsnorm_backward,
      {.dy = d_norm,
       .x = b.x,
       .w = norm_weight(at.norm1),
       .rstd = b.rstd1,
       .d_sum = s_.stream,
       .dx = s_.stream,
       .dw = norm_gradient(at.norm1),
       .accumulate = !first});
}

void StepBuilder::optimizer(OpList& list) {
  phase_ = "optimizer";
  const OptimizerSettings& settings = o_.optimizer;
  add(list, global_norm, {.x = s_.gradients, .norm = s_.grad_norm()});
  add(list, finite_guard, {.values = s_.results.slice(0, 0, 2), .halted = s_.halted()});
  const bool separate = s_.weights.data != s_.master.data;
  add(list, adamw,
      {.grad = s_.gradients,
       .norm = s_.grad_norm(),
       .control = s_.control(),
       .halted = s_.halted(),
       .master = s_.master,
       .m = s_.moment1,
       .v = s_.moment2,
       .weights = separate ? s_.weights : View(),
       .decayed = layout_.decayed,
       .beta1 = static_cast<float>(settings.beta1),
       .beta2 = static_cast<float>(settings.beta2),
       .eps = static_cast<float>(settings.eps),
       .weight_decay = static_cast<float>(settings.weight_decay),
       .clip_norm = static_cast<float>(settings.clip_norm)});
}

}  // namespace tang
