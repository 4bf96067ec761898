// A model small enough to check by hand, and batches for it.
#pragma once

#include <cmath>
#include <vector>

#include "lib/base/rng.h"
#include "lib/device/cpu_device.h"
#include "lib/model/llama.h"

namespace tang {

inline ModelConfig tiny_model_config() {
  return validated({.dim = 32,
                    .n_layers = 2,
                    .n_heads = 4,
                    .n_kv_heads = 2,
                    .head_dim = 8,
                    .ffn_dim = 48,
                    .vocab_size = 61,
                    .init_std = 0.1});
}

inline StepOptions tiny_step_options(Precision precision, int64_t micro_batch) {
  StepOptions options{.precision = precision, .micro_batch = micro_batch, .seq_len = 16};
  options.optimizer.lr = 1e-2;
  return options;
}

struct TinyBatch {
  std::vector<uint32_t> ids, targets;
};

inline TinyBatch tiny_batch(int64_t sequences, uint64_t seed = 1) {
  TinyBatch batch;
  for (int64_t i = 0; i < sequences * 16; ++i) {
    batch.ids.push_back(static_cast<uint32_t>(Rng(seed, 1).below(static_cast<uint64_t>(i), 61)));
    batch.targets.push_back(static_cast<uint32_t>(Rng(seed, 2).below(static_cast<uint64_t>(i), 61)));
  }
  return batch;
}

inline StepScalars tiny_scalars(const Llama& model, int64_t valid, int64_t t) {
  const OptimizerSettings& o = model.options().optimizer;
  return {.loss_scale = valid > 0 ? 1.0f / static_cast<float>(valid) : 0.0f,
          .lr = static_cast<float>(o.lr),
          .bias1 = static_cast<float>(1 - std::pow(o.beta1, static_cast<double>(t))),
          .bias2 = static_cast<float>(1 - std::pow(o.beta2, static_cast<double>(t)))};
}

/// Forward and backward of a batch in as many micro-steps as it takes; the mean loss.
inline double accumulate_batch(Llama& model, const TinyBatch& batch, int64_t t = 1) {
  const auto total = static_cast<int64_t>(batch.ids.size());
  model.set_scalars(tiny_scalars(model, total, t));
  for (int64_t at = 0; at < total; at += model.options().rows()) {
    model.load_batch(batch.ids.data() + at, batch.targets.data() + at);
    model.accumulate(at == 0);
  }
  return static_cast<double>(model.results().loss_sum) / static_cast<double>(total);
}

/// All of an arena, gaps included.
inline std::vector<float> whole(const Llama& model, Arena arena) {
  const View view = model.arena(arena);
  const float* values = view.as<float>();
  return {values, values + view.size()};
}

}  // namespace tang
