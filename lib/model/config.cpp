#include "lib/model/config.h"

#include "lib/base/error.h"
#include "lib/base/view.h"
#include "lib/ops/glu.h"

namespace tang {

namespace {

constexpr int64_t largest_head_dim = 256;  // of the attention kernels

int64_t weights_per_layer(const ModelConfig& c) {
  return c.qkv_rows() * c.dim + c.dim * c.q_rows() + 3 * c.ffn_dim * c.dim;
}

}  // namespace

ModelConfig resolve(ModelConfig config) {
  if (config.n_kv_heads == 0) config.n_kv_heads = config.n_heads;
  if (config.head_dim == 0 && config.n_heads > 0 && config.dim % config.n_heads == 0) {
    config.head_dim = config.dim / config.n_heads;
  }
  return config;
}

std::optional<ConfigProblem> problem_in(const ModelConfig& c) {
  const std::pair<const char*, int64_t> counts[] = {
      {"dim", c.dim},         {"n_layers", c.n_layers},     {"n_heads", c.n_heads},
      {"ffn_dim", c.ffn_dim}, {"n_kv_heads", c.n_kv_heads}, {"vocab_size", c.vocab_size}};
  for (const auto& [key, value] : counts) {
    if (value < 1) return ConfigProblem{key, fmt::format("must be 1 or more, found {}", value)};
  }
  if (c.head_dim == 0) {
    return ConfigProblem{"n_heads",
                         fmt::format("dim {} is not divisible by n_heads {} ({} mod {} = {}): give "
                                     "head_dim, or change one of them",
                                     c.dim, c.n_heads, c.dim, c.n_heads, c.dim % c.n_heads)};
  }
  if (c.n_heads % c.n_kv_heads != 0) {
    return ConfigProblem{
        "n_kv_heads",
        fmt::format("n_heads {} must be divisible by n_kv_heads {} (here {} mod {} = {})", c.n_heads,
                    c.n_kv_heads, c.n_heads, c.n_kv_heads, c.n_heads % c.n_kv_heads)};
  }
  if (c.head_dim < 2 || c.head_dim % 2 != 0 || c.head_dim > largest_head_dim) {
    return ConfigProblem{"head_dim", fmt::format("head_dim {} is not supported: it must be even (RoPE turns "
                                                 "pairs) and from 2 to {}",
                                                 c.head_dim, largest_head_dim)};
  }
  try {
    activation_of(c.activation);
  } catch (const Error& error) {
    return ConfigProblem{"activation", error.what()};
  }
  return std::nullopt;
}

ModelConfig validated(const ModelConfig& config) {
  const ModelConfig resolved = resolve(config);
  if (const auto problem = problem_in(resolved)) fail_input("model.{}: {}", problem->key, problem->text);
  return resolved;
}

int64_t parameter_count(const ModelConfig& c) {
  const int64_t tables = (c.tie_embeddings ? 1 : 2) * checked_product({c.vocab_size, c.dim}, "the embedding");
  return tables + c.n_layers * (weights_per_layer(c) + 2 * c.dim) + c.dim;
}

int64_t matmul_parameters(const ModelConfig& c) {
  return c.n_layers * weights_per_layer(c) + checked_product({c.vocab_size, c.dim}, "the head");
}

double train_flops_per_token(const ModelConfig& c, int64_t seq_len) {
  return 6.0 * static_cast<double>(matmul_parameters(c)) + 6.0 * static_cast<double>(c.n_layers) *
                                                               static_cast<double>(seq_len) *
                                                               static_cast<double>(c.q_rows());
}

}  // namespace tang
