#include "lib/model/params.h"

#include <algorithm>
#include <cmath>

#include "lib/base/error.h"
#include "lib/base/rng.h"
#include "lib/base/text.h"
#include "lib/device/cpu_device.h"

namespace tang {

namespace {

/// Every tensor starts on 256 bytes in either dtype.
constexpr int64_t alignment = 128;

/// Apart from the streams that shuffle data.
constexpr uint64_t first_init_stream = uint64_t{1} << 40;

class Builder {
 public:
  explicit Builder(ParamLayout& layout) : layout_(layout) {}

  /// Room for `rows` × `cols` (0: a vector); returns its offset.
  int64_t place(int64_t rows, int64_t cols) {
    const int64_t offset = layout_.size;
    const int64_t size = cols == 0 ? rows : checked_product({rows, cols}, "a weight");
    layout_.size += (size + alignment - 1) / alignment * alignment;
    return offset;
  }

  void name(std::string name, int64_t rows, int64_t cols, int64_t offset, bool onto_residual = false) {
    layout_.tensors.push_back({std::move(name), rows, cols, offset, onto_residual});
  }

 private:
  ParamLayout& layout_;
};

void place_block(Builder& builder, const ModelConfig& c, const std::string& prefix, BlockOffsets& block) {
  const int64_t dim = c.dim, q = c.q_rows(), kv = c.kv_rows(), ffn = c.ffn_dim;
  block.qkv = builder.place(c.qkv_rows(), dim);
  builder.name(prefix + "self_attn.q_proj.weight", q, dim, block.qkv);
  builder.name(prefix + "self_attn.k_proj.weight", kv, dim, block.qkv + q * dim);
  builder.name(prefix + "self_attn.v_proj.weight", kv, dim, block.qkv + (q + kv) * dim);
  block.o = builder.place(dim, q);
  builder.name(prefix + "self_attn.o_proj.weight", dim, q, block.o, true);
  block.gate_up = builder.place(2 * ffn, dim);
  builder.name(prefix + "mlp.gate_proj.weight", ffn, dim, block.gate_up);
  builder.name(prefix + "mlp.up_proj.weight", ffn, dim, block.gate_up + ffn * dim);
  block.down = builder.place(dim, ffn);
  builder.name(prefix + "mlp.down_proj.weight", dim, ffn, block.down, true);
}

std::string layer_prefix(int64_t layer) { return fmt::format("model.layers.{}.", layer); }

}  // namespace

ParamLayout param_layout(const ModelConfig& c) {
  ParamLayout layout;
  Builder builder(layout);
  layout.blocks.resize(static_cast<size_t>(c.n_layers));
  layout.embedding = layout.head = builder.place(c.padded_vocab(), c.dim);
  builder.name("model.embed_tokens.weight", c.vocab_size, c.dim, layout.embedding);
  for (int64_t l = 0; l < c.n_layers; ++l) {
    place_block(builder, c, layer_prefix(l), layout.blocks[static_cast<size_t>(l)]);
  }
  if (!c.tie_embeddings) {
    layout.head = builder.place(c.padded_vocab(), c.dim);
    builder.name("lm_head.weight", c.vocab_size, c.dim, layout.head);
  }
  layout.decayed = layout.size;
  for (int64_t l = 0; l < c.n_layers; ++l) {
    BlockOffsets& block = layout.blocks[static_cast<size_t>(l)];
    block.norm1 = builder.place(c.dim, 0);
    builder.name(layer_prefix(l) + "input_layernorm.weight", c.dim, 0, block.norm1);
    block.norm2 = builder.place(c.dim, 0);
    builder.name(layer_prefix(l) + "post_attention_layernorm.weight", c.dim, 0, block.norm2);
  }
  layout.final_norm = builder.place(c.dim, 0);
  builder.name("model.norm.weight", c.dim, 0, layout.final_norm);
  return layout;
}

const ParamTensor& ParamLayout::tensor(std::string_view name) const {
  std::vector<std::string> names;
  for (const ParamTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
    names.push_back(tensor.name);
  }
  fail_input("the model has no tensor '{}'{}", name, suggestion(name, names));
}

void initialize_params(const ModelConfig& config, const ParamLayout& layout, uint64_t seed,
                       std::span<float> arena) {
  if (static_cast<int64_t>(arena.size()) != layout.size) {
    fail_check("initialize_params: the arena has {} elements, the layout {}", arena.size(), layout.size);
  }
  std::fill(arena.begin(), arena.end(), 0.0f);
  const CpuDevice host;
  const double depth_scale = 1.0 / std::sqrt(2.0 * static_cast<double>(config.n_layers));
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    const ParamTensor& tensor = layout.tensors[i];
    float* values = arena.data() + tensor.offset;
    if (tensor.cols == 0) {
      std::fill(values, values + tensor.rows, 1.0f);
      continue;
    }
    const Rng rng(seed, first_init_stream + i);
    const double std = config.init_std * (tensor.onto_residual ? depth_scale : 1.0);
    constexpr int64_t pairs_a_task = 4096;
    host.parallel_for((tensor.size() + 1) / 2, pairs_a_task, [&](int64_t begin, int64_t end) {
      const int64_t last = std::min(2 * end, tensor.size());
      rng.fill_normal(static_cast<uint64_t>(2 * begin), std, {values + 2 * begin, values + last});
    });
  }
}

}  // namespace tang
