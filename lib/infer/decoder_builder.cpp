#include "lib/infer/decoder_builder.h"

#include <algorithm>

#include "lib/base/error.h"
#include "lib/ops/attention.h"
#include "lib/ops/elementwise.h"
#include "lib/ops/embedding.h"
#include "lib/ops/glu.h"
#include "lib/ops/kv_attention.h"
#include "lib/ops/matmul.h"
#include "lib/ops/matvec.h"
#include "lib/ops/next_token.h"
#include "lib/ops/project_append.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/rope_append.h"

namespace tang {

DecoderOptions complete(const ModelConfig& config, DecoderOptions o, DeviceKind kind) {
  // A GPU wants rows to fill it, a CPU no row that a short prompt does not have.
  constexpr int64_t gpu_chunk = 256, cpu_chunk = 32;
  if (o.batch < 1 || o.capacity < 1) {
    fail_input("a decoder needs a batch and a capacity of 1 or more, found {} and {}", o.batch, o.capacity);
  }
  // Between two graphs a GPU waits some 5 us, a step of a small model takes 400: eight steps make that 0.2%.
  // Longer bursts bring little more, and all that follow a stop token are in vain. A CPU waits for nothing.
  constexpr int64_t gpu_burst = 8, cpu_burst = 1;
  if (o.burst < 0) fail_input("a decoder's burst must be 1 or more steps, found {}", o.burst);
  if (o.burst == 0) o.burst = kind == DeviceKind::cuda ? gpu_burst : cpu_burst;
  if (o.chunk == 0) o.chunk = kind == DeviceKind::cuda ? gpu_chunk : cpu_chunk;
  o.chunk = std::min(o.chunk, o.capacity);
  if (o.vocab == 0) o.vocab = config.vocab_size;
  if (o.vocab > config.vocab_size) {
    fail_input("{} ids to choose from, but the model's vocabulary has {}", o.vocab, config.vocab_size);
  }
  return o;
}

DecoderBuffers lay_out(Workspace& workspace, const ModelConfig& c, const DecoderOptions& o) {
  const Dtype data = data_type(o.precision);
  const int64_t rows = checked_product({o.batch, o.chunk}, "the rows of a chunk");
  const int64_t positions = (o.capacity + o.chunk - 1) / o.chunk * o.chunk;
  const auto table = [&](Dtype dtype, std::initializer_list<int64_t> dims) {
    return workspace.take(MemoryClass::tables, dtype, dims);
  };
  const auto activation = [&](int64_t columns) {
    return workspace.take(MemoryClass::activations, data, {rows, columns});
  };
  DecoderBuffers s;
  s.cos = table(Dtype::f32, {positions, c.head_dim / 2});
  s.sin = table(Dtype::f32, {positions, c.head_dim / 2});
  s.ids = table(Dtype::u32, {o.batch});
  s.start = table(Dtype::u32, {o.batch});
  s.ring = table(Dtype::u32, {o.batch, o.burst});
  s.chunk_ids = table(Dtype::u32, {rows});
  s.chunk_start = table(Dtype::u32, {o.batch});
  s.cache = workspace.take(MemoryClass::cache, data,
                           {c.n_layers, o.batch, 2 * c.n_kv_heads, positions * c.head_dim});
  s.rstd = workspace.take(MemoryClass::activations, Dtype::f32, {rows});
  s.stream = activation(c.dim);
  s.other = activation(c.dim);
  s.norm = activation(c.dim);
  s.joined = activation(c.dim);
  s.qkv = activation(c.qkv_rows());
  s.attended = activation(c.q_rows());
  s.lse = workspace.take(MemoryClass::activations, Dtype::f32, {o.batch, c.n_heads, o.chunk});
  s.gate_up = activation(2 * c.ffn_dim);
  s.swiglu = activation(c.ffn_dim);
  s.logits = workspace.take(MemoryClass::logits, Dtype::f32, {o.batch, c.padded_vocab()});
  return s;
}

/// Whether a step's rows suit matvec, which keeps them in shared memory.
bool DecoderBuilder::few() const {
  constexpr int64_t most_bytes = 96 << 10;
  const int64_t widest = std::max({c_.dim, c_.ffn_dim, c_.q_rows()});
  return o_.batch <= most_matvec_rows && o_.batch * widest * size_of(data_type(o_.precision)) <= most_bytes;
}

View DecoderBuilder::heads(const View& rows, int64_t first, int64_t count, int64_t length) const {
  return rows.slice(1, first * c_.head_dim, (first + count) * c_.head_dim)
      .reshape({o_.batch, length, count, c_.head_dim});
}

View DecoderBuilder::cached(size_t layer, int64_t first, int64_t count) const {
  const auto index = static_cast<int64_t>(layer);
  const int64_t positions = s_.cos.dim(0);
  View view = s_.cache.slice(0, index, index + 1).slice(2, first, first + count);
  const int64_t sequence = view.stride(1), head = view.stride(2);
  view.dims = {o_.batch, positions, count, c_.head_dim};
  view.strides = {sequence, c_.head_dim, head, 1};
  return view;
}

void DecoderBuilder::embed(OpList& list, const View& ids, const View& rows) {
  add(list, embedding_forward, {.ids = ids, .table = embedding(), .y = rows});
}

void DecoderBuilder::project(OpList& list, const View& x, const View& w, const View& y) {
  add(list, matmul, {.a = x, .b = w, .c = y, .transpose_b = true, .tf32 = o_.precision == Precision::tf32});
}

void DecoderBuilder::normalise(OpList& list, const View& x, int64_t weight, int64_t rows) {
  add(list, rmsnorm_forward,
      {.x = x,
       .w = norm_weight(weight),
       .y = first(s_.norm, rows),
       .rstd = s_.rstd.slice(0, 0, rows),
       .eps = static_cast<float>(c_.norm_eps)});
}

/// q turned in place; k, turned, and v into the cache.
void DecoderBuilder::append(OpList& list, size_t layer, const Shape& shape) {
  const View qkv = first(s_.qkv, rows(shape));
  const View q = heads(qkv, 0, c_.n_heads, shape.length);
  add(list, rope_append,
      {.q = q,
       .k = heads(qkv, c_.n_heads, c_.n_kv_heads, shape.length),
       .v = heads(qkv, c_.n_heads + c_.n_kv_heads, c_.n_kv_heads, shape.length),
       .cos = s_.cos,
       .sin = s_.sin,
       .start = shape.start,
       .y = q,
       .k_cache = cached(layer, 0, c_.n_kv_heads),
       .v_cache = cached(layer, c_.n_kv_heads, c_.n_kv_heads)});
}

void DecoderBuilder::attend(OpList& list, size_t layer, const Shape& shape) {
  const View q = heads(first(s_.qkv, rows(shape)), 0, c_.n_heads, shape.length);
  const View o = heads(first(s_.attended, rows(shape)), 0, c_.n_heads, shape.length);
  const View k = cached(layer, 0, c_.n_kv_heads), v = cached(layer, c_.n_kv_heads, c_.n_kv_heads);
  if (!shape.from_zero)
    return add(list, kv_attention, {.q = q, .k = k, .v = v, .start = shape.start, .o = o});
  add(list, attention_forward,
      {.q = q, .k = k.slice(1, 0, shape.length), .v = v.slice(1, 0, shape.length), .o = o, .lse = s_.lse});
}

void DecoderBuilder::layer_of_few(OpList& list, size_t layer, const Shape& shape) {
  const BlockOffsets& at = layout_.blocks[layer];
  const int64_t n = rows(shape);
  const auto eps = static_cast<float>(c_.norm_eps);
  const View stream = first(s_.stream, n), gate_up = first(s_.gate_up, n);
  add(list, project_append,
      {.x = stream,
       .w = weight(at.qkv, c_.qkv_rows(), c_.dim),
       .norm = norm_weight(at.norm1),
       .cos = s_.cos,
       .sin = s_.sin,
       .start = shape.start,
       .q = first(s_.qkv, n).slice(1, 0, c_.q_rows()).reshape({n, c_.n_heads, c_.head_dim}),
       .k_cache = cached(layer, 0, c_.n_kv_heads),
       .v_cache = cached(layer, c_.n_kv_heads, c_.n_kv_heads),
       .eps = eps});
  attend(list, layer, shape);
  add(list, matvec,
      {.x = first(s_.attended, n), .w = weight(at.o, c_.dim, c_.q_rows()), .residual = stream, .y = stream});
  add(list, matvec,
      {.x = stream,
       .w = weight(at.gate_up, 2 * c_.ffn_dim, c_.dim),
       .norm = norm_weight(at.norm2),
       .y = gate_up,
       .eps = eps});
  const View gate = gate_up.slice(1, 0, c_.ffn_dim), up = gate_up.slice(1, c_.ffn_dim, 2 * c_.ffn_dim);
  const View w = weight(at.down, c_.dim, c_.ffn_dim);
  if (c_.activation == "silu")  // which the product does on its way in
    return add(list, matvec, {.x = up, .w = w, .gate = gate, .residual = stream, .y = stream});
  const View swiglu = first(s_.swiglu, n);
  add(list, *glu_ops(c_.activation).forward, {.gate = gate, .up = up, .y = swiglu});
  add(list, matvec, {.x = swiglu, .w = w, .residual = stream, .y = stream});
}

void DecoderBuilder::layer_of_many(OpList& list, size_t layer, const Shape& shape, bool last_of_chunk) {
  const BlockOffsets& at = layout_.blocks[layer];
  const int64_t n = rows(shape);
  const View stream = first(s_.stream, n), other = first(s_.other, n), norm = first(s_.norm, n);
  const View joined = first(s_.joined, n), gate_up = first(s_.gate_up, n), swiglu = first(s_.swiglu, n);
  normalise(list, stream, at.norm1, n);
  project(list, norm, weight(at.qkv, c_.qkv_rows(), c_.dim), first(s_.qkv, n));
  append(list, layer, shape);
  if (last_of_chunk) return;
  attend(list, layer, shape);
  project(list, first(s_.attended, n), weight(at.o, c_.dim, c_.q_rows()), joined);
  add(list, rmsnorm_forward,
      {.x = joined,
       .w = norm_weight(at.norm2),
       .residual = stream,
       .sum = other,
       .y = norm,
       .rstd = s_.rstd.slice(0, 0, n),
       .eps = static_cast<float>(c_.norm_eps)});
  project(list, norm, weight(at.gate_up, 2 * c_.ffn_dim, c_.dim), gate_up);
  add(list, *glu_ops(c_.activation).forward,
      {.gate = gate_up.slice(1, 0, c_.ffn_dim),
       .up = gate_up.slice(1, c_.ffn_dim, 2 * c_.ffn_dim),
       .y = swiglu});
  project(list, swiglu, weight(at.down, c_.dim, c_.ffn_dim), joined);
  add(list, tang::add, {.a = joined, .b = other, .y = stream});
}

void DecoderBuilder::head(OpList& list) {
  const View stream = first(s_.stream, o_.batch);
  const View w = weight(layout_.head, c_.padded_vocab(), c_.dim);
  if (few()) {
    return add(list, matvec,
               {.x = stream,
                .w = w,
                .norm = norm_weight(layout_.final_norm),
                .y = s_.logits,
                .eps = static_cast<float>(c_.norm_eps)});
  }
  normalise(list, stream, layout_.final_norm, o_.batch);
  project(list, first(s_.norm, o_.batch), w, s_.logits);
}

void DecoderBuilder::chunk(OpList& list, bool first_one) {
  phase_ = "prefill";
  const Shape shape{o_.chunk, s_.chunk_start, first_one};
  embed(list, s_.chunk_ids, first(s_.stream, rows(shape)));
  for (size_t layer = 0; layer < layout_.blocks.size(); ++layer) {
    layer_of_many(list, layer, shape, layer + 1 == layout_.blocks.size());
  }
}

void DecoderBuilder::begin(OpList& list) {
  phase_ = "decode";
  embed(list, s_.ids, first(s_.stream, o_.batch));
}

void DecoderBuilder::compute(OpList& list) {
  phase_ = "decode";
  const Shape shape{1, s_.start};
  for (size_t layer = 0; layer < layout_.blocks.size(); ++layer) {
    if (few()) {
      layer_of_few(list, layer, shape);
    } else {
      layer_of_many(list, layer, shape, false);
    }
  }
  head(list);
}

void DecoderBuilder::choose(OpList& list) {
  phase_ = "decode";
  add(list, next_token,
      {.logits = s_.logits,
       .ids = s_.ids,
       .start = s_.start,
       .ring = s_.ring,
       .table = embedding(),
       .y = first(s_.stream, o_.batch),
       .vocab = o_.vocab,
       .last = o_.capacity - 1});
}

}  // namespace tang
