// The shape of a Llama-style decoder and what follows from it: sizes, parameter and FLOP counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/dtype.h"

namespace tang {

struct ModelConfig {
  int64_t dim = 0;         // C
  int64_t n_layers = 0;    // L
  int64_t n_heads = 0;     // H
  int64_t n_kv_heads = 0;  // Hkv; 0: n_heads
  int64_t head_dim = 0;    // D; 0: dim / n_heads
  int64_t ffn_dim = 0;     // F
  int64_t vocab_size = 0;  // V
  double rope_theta = 10000;
  double norm_eps = 1e-5;
  bool tie_embeddings = true;
  double init_std = 0.02;
  std::string activation = "silu";  // of the feed-forward: see activation_of in lib/ops/glu.h

  // Derived; they need n_kv_heads and head_dim filled in (see resolve).
  int64_t q_rows() const { return n_heads * head_dim; }
  int64_t kv_rows() const { return n_kv_heads * head_dim; }
  int64_t qkv_rows() const { return q_rows() + 2 * kv_rows(); }
  /// Rows of the embedding and the head in memory: whole tiles of 128. Files hold vocab_size rows.
  int64_t padded_vocab() const { return (vocab_size + 127) / 128 * 128; }
};

/// How a model computes: see docs/NUMERICS.md.
enum class Precision { bf16, f32, tf32 };
constexpr Dtype data_type(Precision precision) {
  return precision == Precision::bf16 ? Dtype::bf16 : Dtype::f32;
}

/// A setting that cannot be: the key at fault and why.
struct ConfigProblem {
  std::string key;  // "n_heads"
  std::string text;
};

/// Fills in what has a default that depends on other fields (n_kv_heads, head_dim).
ModelConfig resolve(ModelConfig config);

/// The first thing wrong with a resolved shape, or nothing.
std::optional<ConfigProblem> problem_in(const ModelConfig& config);

/// resolve, then an input error for the first problem.
ModelConfig validated(const ModelConfig& config);

/// Trained numbers, without padding.
int64_t parameter_count(const ModelConfig& config);

/// Weights that take part in matrix products, the head included (also when it is the embedding), the
/// embedding's look-up not.
int64_t matmul_parameters(const ModelConfig& config);

/// 6·matmul_parameters + 6·L·T·H·D: a multiply-add is 2, the backward twice the forward, and causal attention
/// half of the square.
double train_flops_per_token(const ModelConfig& config, int64_t seq_len);

}  // namespace tang
