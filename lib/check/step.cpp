#include "lib/check/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/base/error.h"
#include "lib/base/rng.h"
#include "lib/check/devices.h"
#include "lib/model/llama.h"

namespace tang {

namespace {

constexpr uint64_t seed = 20;
constexpr uint64_t token_stream = 77;

ModelConfig small_model() {
  return validated({.dim = 96,
                    .n_layers = 3,
                    .n_heads = 6,
                    .n_kv_heads = 2,
                    .head_dim = 32,
                    .ffn_dim = 200,
                    .vocab_size = 301});
}

StepOptions small_step(Precision precision) {
  StepOptions options{.precision = precision, .micro_batch = 3, .seq_len = 77};
  options.optimizer.lr = 1e-3;
  return options;
}

struct Batch {
  std::vector<uint32_t> ids, targets;
};

/// Ids with a pattern to learn: mostly the successor of the one before.
Batch draw_batch(const StepOptions& options, int64_t vocab, int64_t step) {
  const Rng rng(seed, token_stream);
  const int64_t rows = options.rows();
  const auto token = [&](int64_t index) {
    const auto at = static_cast<uint64_t>(step * (rows + 1) + index);
    return rng.uniform(2 * at) < 0.7 ? static_cast<uint64_t>(index * 7 % vocab)
                                     : rng.below(2 * at + 1, vocab);
  };
  Batch batch;
  for (int64_t i = 0; i < rows; ++i) {
    batch.ids.push_back(static_cast<uint32_t>(token(i)));
    batch.targets.push_back(static_cast<uint32_t>(token(i + 1)));
  }
  return batch;
}

/// What a run gives: the first step's gradients and every step's loss.
struct Trace {
  std::vector<std::vector<float>> gradients;  // a tensor each
  std::vector<double> losses;
};

Trace run_steps(Device& device, Precision precision, int64_t steps) {
  const StepOptions options = small_step(precision);
  Llama model(device, small_model(), options);
  model.initialize(seed);
  Trace trace;
  for (int64_t step = 0; step < steps; ++step) {
    const Batch batch = draw_batch(options, model.config().vocab_size, step);
    model.set_scalars(step_scalars(options.optimizer, options.optimizer.lr, options.rows(), step + 1));
    model.load_batch(batch.ids.data(), batch.targets.data());
    model.accumulate(true);
    if (step == 0) {
      for (const ParamTensor& tensor : model.layout().tensors) {
        trace.gradients.push_back(model.download(Arena::gradient, tensor));
      }
    }
    model.update();
    trace.losses.push_back(static_cast<double>(model.results().loss_sum) /
                           static_cast<double>(options.rows()));
  }
  return trace;
}

double relative_distance(const std::vector<float>& got, const std::vector<float>& wanted) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double d = static_cast<double>(got[i]) - static_cast<double>(wanted[i]);
    difference += d * d;
    size += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
  }
  return size == 0 ? (difference == 0 ? 0 : INFINITY) : std::sqrt(difference / size);
}

double gradient_limit(Precision precision) {
  const ModelConfig model = small_model();
  const auto roundings = static_cast<double>(12 * model.n_layers);
  const auto terms = static_cast<double>(small_step(precision).rows());
  switch (precision) {
    case Precision::bf16:
      return 4 * unit_roundoff(Dtype::bf16) * std::sqrt(roundings);
    case Precision::tf32:
      return 4 * 0x1p-11 * std::sqrt(roundings);
    case Precision::f32:
      return 4 * unit_roundoff(Dtype::f32) * std::sqrt(roundings * terms);
  }
  return 0;
}

constexpr double loss_limit(Precision precision) {
  return precision == Precision::f32 ? 5e-6 : precision == Precision::tf32 ? 1e-3 : 1e-2;
}

constexpr std::string_view label_of(Precision precision) {
  return precision == Precision::f32 ? "f32" : precision == Precision::tf32 ? "tf32" : "bf16";
}

Counts compare_traces(const Trace& got, const Trace& wanted, Precision precision, const std::string& label) {
  Counts counts;
  const ParamLayout layout = param_layout(small_model());
  double worst_gradient = 0, worst_loss = 0;
  std::string worst_tensor = "none";
  for (size_t i = 0; i < layout.tensors.size(); ++i) {
    const double distance = relative_distance(got.gradients[i], wanted.gradients[i]);
    const bool good = distance <= gradient_limit(precision);
    (good ? counts.passed : counts.failed) += 1;
    if (!good) {
      fmt::print("  {}: gradient of {} is {:.2e} away, allowed {:.2e}\n", label, layout.tensors[i].name,
                 distance, gradient_limit(precision));
    }
    if (!(distance <= worst_gradient)) worst_gradient = distance, worst_tensor = layout.tensors[i].name;
  }
  for (size_t step = 0; step < wanted.losses.size(); ++step) {
    const double distance = std::abs(got.losses[step] / wanted.losses[step] - 1);
    const bool good = distance <= loss_limit(precision);
    (good ? counts.passed : counts.failed) += 1;
    if (!good) {
      fmt::print("  {}: loss of step {} is {:.7f}, wanted {:.7f} within {:.0e}\n", label, step + 1,
                 got.losses[step], wanted.losses[step], loss_limit(precision));
    }
    worst_loss = std::max(worst_loss, distance);
  }
  fmt::print("{:<12} gradients {:.2e} of {:.2e} ({})\n{:<12} losses    {:.2e} of {:.0e}, {:.4f} to {:.4f}\n",
             label, worst_gradient, gradient_limit(precision), worst_tensor, "", worst_loss,
             loss_limit(precision), got.losses.front(), got.losses.back());
  return counts;
}

}  // namespace

Counts check_step(const StepCheckOptions& options) {
  if (options.steps < 1) fail_input("--steps must be 1 or more, found {}", options.steps);
  const OpenDevices devices = open_devices(options.device);
  CpuDevice reference_device;
  const Trace wanted = run_steps(reference_device, Precision::f32, options.steps);
  Counts counts;
  for (const auto& device : devices.open) {
    for (const Precision precision : {Precision::f32, Precision::bf16, Precision::tf32}) {
      const bool on_cpu = device->kind() == DeviceKind::cpu;
      if (on_cpu && precision != Precision::bf16)
        continue;  // f32 is the reference itself, and tf32 is f32 there
      const std::string label = fmt::format("{} {}", tang::name_of(device->kind()), label_of(precision));
      counts += compare_traces(run_steps(*device, precision, options.steps), wanted, precision, label);
    }
  }
  if (!devices.absent.empty()) {
    fmt::print("cuda skipped: {}\n", devices.absent);
    counts.skipped += 1;
  }
  return counts;
}

}  // namespace tang
