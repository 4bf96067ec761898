// Where every weight lies. All parameters share one flat arena (as do their gradients, moments and masters,
// with the same layout): 2-D tensors first, then norm weights, so that weight decay is one boundary.
#pragma once

#include <string>
#include <vector>

#include "lib/device/device.h"
#include "lib/model/config.h"

namespace tang {

/// A tensor as files name it. Fused weights hold several: Wqkv is q, k and v, one after the other.
struct ParamTensor {
  std::string name;            // Hugging Face's: "model.layers.0.self_attn.q_proj.weight"
  int64_t rows = 0, cols = 0;  // cols 0: a vector of `rows`
  int64_t offset = 0;          // of its first element in the arena
  bool onto_residual = false;  // projects onto the residual stream: initialised smaller

  int64_t size() const { return cols == 0 ? rows : rows * cols; }
  std::vector<int64_t> shape() const {
    return cols == 0 ? std::vector<int64_t>{rows} : std::vector<int64_t>{rows, cols};
  }
};

/// Element offsets of one block's (fused) weights.
struct BlockOffsets {
  int64_t qkv = 0;               // [(H + 2 Hkv) D, C]
  int64_t o = 0;                 // [C, H D]
  int64_t gate_up = 0;           // [2 F, C]
  int64_t down = 0;              // [C, F]
  int64_t norm1 = 0, norm2 = 0;  // [C]
};

struct ParamLayout {
  int64_t size = 0;     // elements of the arena, alignment gaps and vocabulary padding (all zero) included
  int64_t decayed = 0;  // the first `decayed` elements hold the 2-D tensors
  int64_t embedding = 0, head = 0;  // [padded V, C]; the same when tied
  int64_t final_norm = 0;           // [C]
  std::vector<BlockOffsets> blocks;
  std::vector<ParamTensor> tensors;  // each once, in the order of the arena

  /// The tensor of that name; an input error with the nearest name otherwise.
  const ParamTensor& tensor(std::string_view name) const;
};

/// For a validated config.
ParamLayout param_layout(const ModelConfig& config);

/// Fresh master weights, as in GPT-2: normal(0, init_std), projections onto the residual stream scaled by
/// 1 / sqrt(2 L), norms 1, padding 0. Tensor number i draws from stream 2^40 + i of `seed`. They are drawn on
/// `device` into `arena`, f32 [P], and have the same bits on every device.
void initialize_params(Device& device, const ModelConfig& config, const ParamLayout& layout, uint64_t seed,
                       const View& arena);

}  // namespace tang
