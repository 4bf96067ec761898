// The forward: x += O(attention(rope(norm(x) Wqkv))), x += down(swiglu(norm(x) Wgate_up)), block by block.
// The addition that ends one half is fused with the norm that begins the next.
#include "lib/model/step_builder.h"
#include "lib/ops/attention.h"
#include "lib/ops/cross_entropy.h"
#include "lib/ops/embedding.h"
#include "lib/ops/glu.h"
#include "lib/ops/matmul.h"
#include "lib/ops/reduce.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/rope.h"

namespace tang {

void StepBuilder::project(OpList& list, const View& x, const View& w, const View& y) {
  add(list, matmul, {.a = x, .b = w, .c = y, .transpose_b = true, .tf32 = o_.precision == Precision::tf32});
}

void StepBuilder::normalise(OpList& list, const View& x, int64_t weight, const View& y, const View& rstd) {
  add(list, rmsnorm_forward,
      {.x = x, .w = norm_weight(weight), .y = y, .rstd = rstd, .eps = static_cast<float>(c_.norm_eps)});
}

void StepBuilder::forward(OpList& list) {
  phase_ = "forward";
  const View table = weight(layout_.embedding, c_.padded_vocab(), c_.dim);
  add(list, embedding_forward, {.ids = s_.ids, .table = table, .y = s_.blocks.front().x});
  for (size_t layer = 0; layer < s_.blocks.size(); ++layer) block_forward(list, layer);
  add(list, rmsnorm_forward,
      {.x = s_.as_columns(s_.narrow, c_.dim),
       .w = norm_weight(layout_.final_norm),
       .residual = s_.blocks.back().middle,
       .sum = s_.last_x,
       .y = s_.stream,
       .rstd = s_.last_rstd,
       .eps = static_cast<float>(c_.norm_eps)});
}

/// Leaves the block's second half in `narrow`, to be added by the norm that comes next.
void StepBuilder::block_forward(OpList& list, size_t layer) {
  const BlockBuffers& b = s_.blocks[layer];
  const BlockOffsets& at = layout_.blocks[layer];
  if (layer == 0) {
    normalise(list, b.x, at.norm1, b.norm1, b.rstd1);
  } else {
    add(list, rmsnorm_forward,
        {.x = s_.as_columns(s_.narrow, c_.dim),
         .w = norm_weight(at.norm1),
         .residual = s_.blocks[layer - 1].middle,
         .sum = b.x,
         .y = b.norm1,
         .rstd = b.rstd1,
         .eps = static_cast<float>(c_.norm_eps)});
  }
  block_inside(list, layer);
  project(list, b.swiglu, weight(at.down, c_.dim, c_.ffn_dim), s_.as_columns(s_.narrow, c_.dim));
}

/// From the first norm's output to the SwiGLU's: what recomputing a block repeats.
void StepBuilder::block_inside(OpList& list, size_t layer) {
  const BlockBuffers& b = s_.blocks[layer];
  const BlockOffsets& at = layout_.blocks[layer];
  const View joined = s_.as_columns(s_.narrow, c_.dim);
  project(list, b.norm1, weight(at.qkv, c_.qkv_rows(), c_.dim), b.qkv);
  const View turned = heads(b.qkv, 0, c_.n_heads + c_.n_kv_heads);  // q and k lie side by side
  add(list, rope_forward, {.x = turned, .cos = s_.cos, .sin = s_.sin, .y = turned});
  add(list, attention_forward,
      {.q = heads(b.qkv, 0, c_.n_heads),
       .k = heads(b.qkv, c_.n_heads, c_.n_kv_heads),
       .v = heads(b.qkv, c_.n_heads + c_.n_kv_heads, c_.n_kv_heads),
       .o = heads(b.attended, 0, c_.n_heads),
       .lse = b.lse});
  project(list, b.attended, weight(at.o, c_.dim, c_.q_rows()), joined);
  add(list, rmsnorm_forward,
      {.x = joined,
       .w = norm_weight(at.norm2),
       .residual = b.x,
       .sum = b.middle,
       .y = b.norm2,
       .rstd = b.rstd2,
       .eps = static_cast<float>(c_.norm_eps)});
  project(list, b.norm2, weight(at.gate_up, 2 * c_.ffn_dim, c_.dim), b.gate_up);
  activate(list, b);
}

void StepBuilder::activate(OpList& list, const BlockBuffers& b) {
  const View gate = b.gate_up.slice(1, 0, c_.ffn_dim), up = b.gate_up.slice(1, c_.ffn_dim, 2 * c_.ffn_dim);
  add(list, *glu_ops(c_.activation).forward, {.gate = gate, .up = up, .y = b.swiglu});
}

void StepBuilder::head(OpList& list, bool first, bool with_gradients) {
  phase_ = "head + loss";
  const int64_t rows = o_.rows(), chunk = s_.logits.dim(0), vocab = c_.padded_vocab();
  const View w = weight(layout_.head, vocab, c_.dim);
  const View d_input = s_.as_columns(s_.narrow, c_.dim);
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t end = std::min(rows, begin + chunk);
    const View x = s_.stream.slice(0, begin, end);
    const View logits = s_.logits.slice(0, 0, end - begin);
    project(list, x, w, logits);
    add(list, cross_entropy,
        {.logits = logits,
         .targets = s_.targets.slice(0, begin, end),
         .scale = s_.loss_scale(),
         .losses = s_.losses.slice(0, begin, end),
         .d_logits = with_gradients ? logits : View(),
         .vocab = c_.vocab_size,
         .pad_id = o_.pad_id});
    if (!with_gradients) continue;
    weight_gradient(list, logits, x, gradient(layout_.head, vocab, c_.dim), !first || begin > 0);
    project_back(list, logits, w, d_input.slice(0, begin, end));
  }
  const View total = with_gradients ? s_.loss_sum() : s_.eval_loss_sum();
  add(list, reduce_sum,
      {.x = s_.losses.reshape({1, rows, 1}), .y = total.reshape({1, 1}), .accumulate = !first});
}

}  // namespace tang
