#include "lib/model/params.h"

#include <algorithm>
#include <cmath>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/ops/random_normal.h"

namespace tang {

namespace {

/// Every tensor starts on 256 bytes in either dtype.
constexpr int64_t alignment = 128;

/// Apart from the streams that shuffle data.
constexpr int64_t first_init_stream = int64_t{1} << 40;

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

void initialize_params(Device& device, const ModelConfig& config, const ParamLayout& layout, uint64_t seed,
                       const View& arena) {
  if (arena.size() != layout.size || arena.dtype != Dtype::f32) {
    fail_check("initialize_params: the arena is {}, the layout has {} elements in f32", describe(arena),
               layout.size);
  }
  const double depth_scale = 1.0 / std::sqrt(2.0 * static_cast<double>(config.n_layers));
  device.fill_bytes(arena.data, 0, arena.bytes());
  std::vector<float> norms(static_cast<size_t>(layout.size - layout.decayed));  // with the gaps between them
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    const ParamTensor& tensor = layout.tensors[i];
    if (tensor.cols == 0) {
      std::fill_n(norms.begin() + (tensor.offset - layout.decayed), tensor.rows, 1.0f);
      continue;
    }
    random_normal(device,
                  {.y = arena.slice(0, tensor.offset, tensor.offset + tensor.size()),
                   .std = static_cast<float>(config.init_std * (tensor.onto_residual ? depth_scale : 1)),
                   .seed = static_cast<int64_t>(seed),
                   .stream = first_init_stream + static_cast<int64_t>(i)});
  }
  device.upload(arena.slice(0, layout.decayed, layout.size).data, norms.data(),
                static_cast<int64_t>(norms.size() * sizeof(float)));
}

}  // namespace tang
