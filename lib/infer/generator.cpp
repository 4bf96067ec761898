#include "lib/infer/generator.h"

#include <algorithm>
#include <chrono>
#include <deque>

#include "lib/base/error.h"

namespace tang {

using std::chrono::steady_clock;

/// One call of run(): the texts so far.
struct Generator::Run {
  std::span<const std::vector<uint32_t>> prompts;
  const GenerateOptions& options;
  const OnToken& on_token;
  const OnEnd& on_end;
  GenerateTimes& times;
  steady_clock::time_point began;
  std::vector<Generated> texts;
  std::vector<bool> done;
  int64_t open;  // texts that go on

  double seconds() const { return std::chrono::duration<double>(steady_clock::now() - began).count(); }

  void end(size_t b, bool stopped) {
    texts[b].stopped = stopped;
    done[b] = true;
    --open;
    if (on_end) on_end(static_cast<int64_t>(b), stopped);
  }

  /// A step's token of every text.
  void take(const uint32_t* ids) {
    if (times.steps++ == 0) times.first_token_s = seconds();
    for (size_t b = 0; b < texts.size(); ++b) {
      if (done[b]) continue;
      ++times.tokens;
      if (static_cast<int64_t>(ids[b]) == options.stop_id) {
        end(b, true);
        continue;
      }
      texts[b].ids.push_back(ids[b]);
      if (on_token) on_token(static_cast<int64_t>(b), ids[b]);
      if (static_cast<int64_t>(texts[b].ids.size()) == options.max_tokens) end(b, false);
    }
  }
};

Generator::Generator(Device& device, const ModelConfig& config, const View& weights,
                     const DecoderOptions& options)
    : decoder_(device, config, weights, options),
      host_tokens_(
          device.allocate_pinned(slots * options.batch * decoder_.options().burst * size_of(Dtype::u32))) {}

void Generator::warm_up() {
  if (decoder_.device().kind() == DeviceKind::cpu) return;
  const int64_t capacity = decoder_.options().capacity;
  // Each twice: op by op, then captured. A single step, a burst and the next single step; a prompt long
  // enough for a first chunk and a further one, where there is room.
  const int64_t greedy_tokens = std::min(decoder_.options().burst + 2, capacity);
  const int64_t sampled_tokens = std::min<int64_t>(2, capacity);
  for (int round = 0; round < 2; ++round) {
    for (const auto& [tokens, temperature] :
         {std::pair(greedy_tokens, 0.0), std::pair(sampled_tokens, 1.0)}) {
      const int64_t length = std::min(capacity - tokens + 1, decoder_.options().chunk + 2);
      const std::vector<std::vector<uint32_t>> prompts = {
          std::vector<uint32_t>(static_cast<size_t>(length), 0)};
      run(prompts, {.max_tokens = tokens, .sampling = {.temperature = temperature}});
    }
  }
}

std::vector<Generated> Generator::run(std::span<const std::vector<uint32_t>> prompts,
                                      const GenerateOptions& options, const OnToken& on_token,
                                      const OnEnd& on_end) {
  check_sampling(options.sampling);
  if (options.max_tokens < 1) fail_input("max_tokens must be 1 or more, found {}", options.max_tokens);
  const int64_t capacity = decoder_.options().capacity;
  for (size_t b = 0; b < prompts.size(); ++b) {
    const auto length = static_cast<int64_t>(prompts[b].size());
    // The last new token is never an input.
    if (length + options.max_tokens - 1 > capacity) {
      fail_input("prompt {} has {} tokens; with {} new ones it takes {} positions, and the caches hold {}",
                 b + 1, length, options.max_tokens, length + options.max_tokens - 1, capacity);
    }
  }
  times_ = {};
  Run state{prompts,
            options,
            on_token,
            on_end,
            times_,
            steady_clock::now(),
            std::vector<Generated>(prompts.size()),
            std::vector<bool>(prompts.size(), false),
            static_cast<int64_t>(prompts.size())};
  for (Generated& text : state.texts) text.ids.reserve(static_cast<size_t>(options.max_tokens));
  if (prompts.empty()) return {};
  decoder_.prefill(prompts);
  if (options.sampling.greedy()) {
    run_greedy(state);
  } else {
    run_sampled(state);
  }
  times_.total_s = state.seconds();
  return std::move(state.texts);
}

/// The next step's token of every text, from the slot of its position.
void Generator::take_from_ring(Run& run, const uint32_t* ring) const {
  const int64_t burst = decoder_.options().burst;
  std::vector<uint32_t> ids;
  for (const std::vector<uint32_t>& prompt : run.prompts) {
    const int64_t position = static_cast<int64_t>(prompt.size()) + run.times.steps;
    ids.push_back(ring[static_cast<int64_t>(ids.size()) * burst + position % burst]);
  }
  run.take(ids.data());
}

/// The device feeds itself, a burst ahead of the host; steps past the last stop token are in vain. The first
/// token comes alone: nobody shall wait for those after it.
void Generator::run_greedy(Run& run) {
  Device& device = decoder_.device();
  const int64_t most = run.options.max_tokens, burst = decoder_.options().burst;
  const int64_t ring = decoder_.options().batch * burst;
  const size_t ahead = device.kind() == DeviceKind::cpu ? 1 : slots;
  auto* tokens = static_cast<uint32_t*>(host_tokens_.get());
  struct Queued {
    int64_t steps;
    uint32_t* ring;
    Event done;
  };
  std::deque<Queued> under_way;
  int64_t steps = 0;  // queued so far
  for (int64_t slot = 0; run.open > 0; under_way.pop_front()) {
    for (; steps < most && under_way.size() < ahead; slot = (slot + 1) % slots) {
      // No step past the limit: it would take a position too many.
      const int64_t count = steps > 0 && most - steps >= burst ? burst : 1;
      decoder_.forward_greedy(count);
      decoder_.queue_ids(tokens + slot * ring);
      under_way.push_back({count, tokens + slot * ring, device.record()});
      steps += count;
    }
    const Queued& next = under_way.front();
    device.synchronize(next.done);
    for (int64_t i = 0; i < next.steps && run.open > 0; ++i) take_from_ring(run, next.ring);
  }
  device.synchronize(device.record());  // the slots are free again
}

void Generator::run_sampled(Run& run) {
  const auto batch = static_cast<size_t>(decoder_.options().batch);
  Sampler sampler(run.options.sampling);
  std::vector<uint32_t> ids(batch, 0), start(batch, 0);
  for (size_t b = 0; b < run.prompts.size(); ++b) {
    start[b] = static_cast<uint32_t>(run.prompts[b].size() - 1);
  }
  for (uint64_t step = 0;; ++step) {
    decoder_.forward();
    decoder_.fetch_logits();
    for (size_t b = 0; b < run.texts.size(); ++b) {
      if (!run.done[b]) ids[b] = sampler.pick(decoder_.logits(static_cast<int64_t>(b)), step);
    }
    run.take(ids.data());
    if (run.open == 0) break;
    // A text that is done stays where it is, writing over its last row.
    for (size_t b = 0; b < run.texts.size(); ++b) start[b] += run.done[b] ? 0 : 1;
    decoder_.feed(ids, start);
  }
}

}  // namespace tang
