#include "lib/model/activations.h"

#include <algorithm>
#include <cmath>

namespace tang {

StepScalars step_scalars(const OptimizerSettings& settings, double rate, int64_t valid, int64_t update) {
  const auto t = static_cast<double>(update);
  return {.loss_scale = valid > 0 ? 1.0f / static_cast<float>(valid) : 0.0f,
          .lr = static_cast<float>(rate),
          .bias1 = static_cast<float>(1.0 - std::pow(settings.beta1, t)),
          .bias2 = static_cast<float>(1.0 - std::pow(settings.beta2, t))};
}

View StepBuffers::as_columns(const View& flat, int64_t columns) const {
  return View(flat.data, flat.dtype, {ids.dim(0), columns});
}

View StepBuffers::halted() const {
  View flag = results.slice(0, 2, 3);
  flag.dtype = Dtype::u32;
  return flag;
}

int64_t logits_rows(const ModelConfig& config, const StepOptions& options, DeviceKind kind) {
  // On a GPU, enough rows to fill it; on a CPU, a chunk that its last cache can hold.
  constexpr int64_t gpu_rows = 8192, cpu_bytes = int64_t{8} << 20;
  const int64_t row_bytes = config.padded_vocab() * size_of(data_type(options.precision));
  const int64_t wanted =
      kind == DeviceKind::cuda ? gpu_rows : std::clamp<int64_t>(cpu_bytes / row_bytes / 64 * 64, 256, 2048);
  return std::min(wanted, options.rows());
}

namespace {

BlockBuffers lay_out_block(Workspace& workspace, const ModelConfig& c, const StepOptions& o, Dtype data) {
  const auto take = [&](Dtype dtype, std::initializer_list<int64_t> dims) {
    return workspace.take(MemoryClass::activations, dtype, dims);
  };
  const int64_t rows = o.rows();
  BlockBuffers b;
  b.rstd1 = take(Dtype::f32, {rows});
  b.rstd2 = take(Dtype::f32, {rows});
  b.norm1 = take(data, {rows, c.dim});
  b.norm2 = o.recompute == Recompute::none ? take(data, {rows, c.dim}) : b.norm1;
  b.qkv = take(data, {rows, c.qkv_rows()});
  b.attended = take(data, {rows, c.q_rows()});
  b.lse = take(Dtype::f32, {o.micro_batch, c.n_heads, o.seq_len});
  b.middle = take(data, {rows, c.dim});
  b.gate_up = take(data, {rows, 2 * c.ffn_dim});
  b.swiglu = take(data, {rows, c.ffn_dim});
  return b;
}

/// A block's own buffers, with those that recompute shares taken from `shared`.
BlockBuffers lay_out_partly_shared(Workspace& workspace, const ModelConfig& c, const StepOptions& o,
                                   Dtype data, const BlockBuffers& shared) {
  BlockBuffers b = shared;
  if (o.recompute == Recompute::block) return b;
  const auto take = [&](Dtype dtype, std::initializer_list<int64_t> dims) {
    return workspace.take(MemoryClass::activations, dtype, dims);
  };
  b.rstd1 = take(Dtype::f32, {o.rows()});
  b.rstd2 = take(Dtype::f32, {o.rows()});
  b.qkv = take(data, {o.rows(), c.qkv_rows()});
  b.attended = take(data, {o.rows(), c.q_rows()});
  b.lse = take(Dtype::f32, {o.micro_batch, c.n_heads, o.seq_len});
  b.middle = take(data, {o.rows(), c.dim});
  b.gate_up = take(data, {o.rows(), 2 * c.ffn_dim});
  if (o.recompute == Recompute::norms) b.swiglu = take(data, {o.rows(), c.ffn_dim});
  return b;
}

void lay_out_activations(StepBuffers& s, Workspace& workspace, const ModelConfig& c, const StepOptions& o) {
  const Dtype data = data_type(o.precision);
  const auto take = [&](Dtype dtype, std::initializer_list<int64_t> dims) {
    return workspace.take(MemoryClass::activations, dtype, dims);
  };
  for (int64_t l = 0; l < c.n_layers; ++l) {
    s.blocks.push_back(l == 0 || o.recompute == Recompute::none
                           ? lay_out_block(workspace, c, o, data)
                           : lay_out_partly_shared(workspace, c, o, data, s.blocks.front()));
    s.blocks.back().x = take(data, {o.rows(), c.dim});
  }
  s.last_x = take(data, {o.rows(), c.dim});
  s.last_rstd = take(Dtype::f32, {o.rows()});
  s.losses = take(Dtype::f32, {o.rows()});
  s.stream = take(data, {o.rows(), c.dim});
  s.narrow = take(data, {o.rows(), std::max(c.dim, c.q_rows())});
  s.wide = take(data, {o.rows(), std::max(c.ffn_dim, c.qkv_rows())});
}

}  // namespace

StepBuffers lay_out(Workspace& workspace, const ModelConfig& c, const ParamLayout& layout,
                    const StepOptions& o, DeviceKind kind) {
  const Dtype data = data_type(o.precision);
  StepBuffers s;
  s.master = workspace.take(MemoryClass::master, Dtype::f32, {layout.size});
  s.weights = data == Dtype::f32 ? s.master : workspace.take(MemoryClass::weights, data, {layout.size});
  s.moment1 = workspace.take(MemoryClass::moments, Dtype::f32, {layout.size});
  s.moment2 = workspace.take(MemoryClass::moments, Dtype::f32, {layout.size});
  s.gradients = workspace.take(MemoryClass::gradients, Dtype::f32, {layout.size});
  s.ids = workspace.take(MemoryClass::tables, Dtype::u32, {o.rows()});
  s.targets = workspace.take(MemoryClass::tables, Dtype::u32, {o.rows()});
  s.cos = workspace.take(MemoryClass::tables, Dtype::f32, {o.seq_len, c.head_dim / 2});
  s.sin = workspace.take(MemoryClass::tables, Dtype::f32, {o.seq_len, c.head_dim / 2});
  s.scalars = workspace.take(MemoryClass::tables, Dtype::f32, {sizeof(StepScalars) / sizeof(float)});
  s.results = workspace.take(MemoryClass::tables, Dtype::f32, {sizeof(StepResults) / sizeof(float)});
  s.logits = workspace.take(MemoryClass::logits, data, {logits_rows(c, o, kind), c.padded_vocab()});
  lay_out_activations(s, workspace, c, o);
  return s;
}

}  // namespace tang
