#include "lib/infer/decoder.h"

#include <algorithm>

#include "lib/base/error.h"
#include "lib/infer/decoder_builder.h"
#include "lib/ops/rope.h"

namespace tang {

MemoryPlan plan_decoder(const ModelConfig& config, const DecoderOptions& options, DeviceKind kind) {
  const DecoderOptions o = complete(config, options, kind);
  const ParamLayout layout = param_layout(config);
  Workspace workspace;
  DecoderBuffers buffers = lay_out(workspace, config, o);
  // Only its shape matters here.
  buffers.weights = View(buffers.cache.data, data_type(o.precision), {layout.size});
  DecoderBuilder builder(nullptr, config, layout, o, buffers);
  OpList nothing;
  builder.chunk(nothing, true);
  builder.chunk(nothing, false);
  builder.begin(nothing);
  builder.compute(nothing);
  builder.choose(nothing);
  workspace.take(MemoryClass::scratch, Dtype::u32, {(builder.scratch_bytes() + 3) / 4});
  return workspace.used();
}

Decoder::Decoder(Device& device, const ModelConfig& config, const View& weights,
                 const DecoderOptions& options)
    : device_(device),
      config_(validated(config)),
      options_(complete(config_, options, device.kind())),
      layout_(param_layout(config_)) {
  const View arena(weights.data, data_type(options_.precision), {layout_.size});
  if (describe(arena) != describe(weights)) {
    fail_input("a decoder's weights: expected {}, found {}", describe(arena), describe(weights));
  }
  const MemoryPlan plan = plan_decoder(config_, options_, device_.kind());
  workspace_ = std::make_unique<Workspace>(device_, plan);
  buffers_ = lay_out(*workspace_, config_, options_);
  buffers_.weights = weights;
  const int64_t scratch_words = plan[MemoryClass::scratch] / size_of(Dtype::u32);
  void* scratch = workspace_->take(MemoryClass::scratch, Dtype::u32, {scratch_words}).data;
  DecoderBuilder builder(&device_, config_, layout_, options_, buffers_, scratch);
  builder.chunk(first_chunk_, true);
  builder.chunk(further_chunk_, false);
  OpList begin, compute, choose;
  builder.begin(begin);
  builder.compute(compute);
  builder.choose(choose);
  step_.add(begin), step_.add(compute);
  greedy_step_.add(step_), greedy_step_.add(choose);
  burst_.add(begin);
  for (int64_t i = 0; i < options_.burst; ++i) burst_.add(compute), burst_.add(choose);
  const RopeTables tables = rope_tables(buffers_.cos.dim(0), config_.head_dim, config_.rope_theta);
  device_.upload(buffers_.cos.data, tables.cos.data(), buffers_.cos.bytes());
  device_.upload(buffers_.sin.data, tables.sin.data(), buffers_.sin.bytes());
  // Masked positions are never read, but what is undefined might be NaN, and 0 · NaN is not 0.
  device_.fill_bytes(buffers_.cache.data, 0, buffers_.cache.bytes());
  host_ids_ = device_.allocate_pinned(buffers_.chunk_ids.bytes());
  host_inputs_ = device_.allocate_pinned(2 * buffers_.ids.bytes());
  host_logits_ = device_.allocate_pinned(buffers_.logits.bytes());
  device_.synchronize();  // the tables leave scope
}

void Decoder::prefill(std::span<const std::vector<uint32_t>> prompts) {
  const int64_t batch = options_.batch, chunk = options_.chunk;
  if (static_cast<int64_t>(prompts.size()) > batch) {
    fail_input("{} prompts for a decoder of {} sequences", prompts.size(), batch);
  }
  int64_t longest = 0;
  std::vector<uint32_t> ids(static_cast<size_t>(batch), 0), start(static_cast<size_t>(batch), 0);
  for (size_t b = 0; b < prompts.size(); ++b) {
    const auto length = static_cast<int64_t>(prompts[b].size());
    if (length < 1 || length > options_.capacity) {
      fail_input("prompt {} has {} tokens; the caches take 1 to {}", b + 1, length, options_.capacity);
    }
    ids[b] = prompts[b].back();
    start[b] = static_cast<uint32_t>(length - 1);
    longest = std::max(longest, length - 1);
  }
  auto* rows = static_cast<uint32_t*>(host_ids_.get());
  for (int64_t begin = 0; begin < longest; begin += chunk) {
    std::fill(rows, rows + batch * chunk, 0u);
    for (size_t b = 0; b < prompts.size(); ++b) {
      const int64_t end = std::min<int64_t>(begin + chunk, start[b]);
      if (begin < end) {
        std::copy(prompts[b].begin() + begin, prompts[b].begin() + end,
                  rows + static_cast<int64_t>(b) * chunk);
      }
    }
    auto* at = static_cast<uint32_t*>(host_inputs_.get());
    std::fill(at, at + batch, static_cast<uint32_t>(begin));
    device_.upload(buffers_.chunk_ids.data, rows, buffers_.chunk_ids.bytes());
    device_.upload(buffers_.chunk_start.data, at, buffers_.chunk_start.bytes());
    (begin == 0 ? first_chunk_ : further_chunk_).run(device_);
    device_.synchronize(device_.record());  // the host's rows are free again
  }
  feed(ids, start);
  device_.synchronize(device_.record());
}

void Decoder::forward() { step_.run(device_); }

void Decoder::forward_greedy(int64_t steps) { (steps == 1 ? greedy_step_ : burst_).run(device_); }

void Decoder::queue_ids(uint32_t* target) {
  device_.download(target, buffers_.ring.data, buffers_.ring.bytes());
}

void Decoder::feed(std::span<const uint32_t> ids, std::span<const uint32_t> start) {
  auto* inputs = static_cast<uint32_t*>(host_inputs_.get());
  std::copy(ids.begin(), ids.end(), inputs);
  std::copy(start.begin(), start.end(), inputs + options_.batch);
  device_.upload(buffers_.ids.data, inputs, buffers_.ids.bytes());
  device_.upload(buffers_.start.data, inputs + options_.batch, buffers_.start.bytes());
}

void Decoder::fetch_logits() {
  device_.download(host_logits_.get(), buffers_.logits.data, buffers_.logits.bytes());
  device_.synchronize(device_.record());
}

std::span<const float> Decoder::logits(int64_t sequence) const {
  const auto* rows = static_cast<const float*>(host_logits_.get());
  return {rows + sequence * config_.padded_vocab(), static_cast<size_t>(options_.vocab)};
}

}  // namespace tang
