// A model with key-value caches, a few sequences side by side: prompts go in by chunks, then a token of each
// sequence at a time. All memory is taken and every op prepared at construction; on CUDA they run as
// graphs.
//
// Every sequence has a row of the cache for each position. `start`, on the device, says where each stands, so
// one prepared list serves every position. A chunk may reach past a prompt's end: what it leaves there is
// overwritten by the token that comes to that position before any query sees it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lib/model/memory_plan.h"
#include "lib/model/op_list.h"
#include "lib/model/params.h"

namespace tang {

struct DecoderOptions {
  Precision precision = Precision::f32;  // of the weights
  int64_t batch = 1;                     // B: sequences
  int64_t capacity = 0;                  // positions that a sequence may take
  int64_t chunk = 0;                     // Q: positions of a prompt at once; 0: what suits the device
  int64_t vocab = 0;                     // ids that may be chosen, the first ones; 0: all
  int64_t burst = 0;                     // R: greedy steps queued as one; 0: what suits the device
};

/// Made-up or real addresses of everything a decoder works with.
struct DecoderBuffers {
  View weights;        // the arena, as param_layout has it: borrowed
  View cos, sin;       // f32 [S, D / 2]; S: capacity in whole chunks
  View ids, start;     // u32 [B]: the next step's input and its position
  View ring;           // u32 [B, R]: ids that greedy steps chose, see next_token
  View chunk_ids;      // u32 [B Q]
  View chunk_start;    // u32 [B]
  View cache;          // [L, B, 2 Hkv, S D]: K's heads, then V's
  View stream, other;  // [N, C], N = B Q: the residual stream, before and after an addition
  View norm, joined;   // [N, C]
  View rstd;           // f32 [N]
  View qkv;            // [N, (H + 2 Hkv) D]
  View attended;       // [N, H D]
  View lse;            // f32 [B, H, Q]
  View gate_up;        // [N, 2 F]
  View swiglu;         // [N, F]
  View logits;         // f32 [B, padded V]
};

class Decoder {
 public:
  /// `weights`: an arena in the precision's dtype, laid out by param_layout(config). It is borrowed and may
  /// change between calls (a model in training).
  Decoder(Device& device, const ModelConfig& config, const View& weights, const DecoderOptions& options);

  Device& device() const { return device_; }
  const DecoderOptions& options() const { return options_; }
  const ModelConfig& config() const { return config_; }
  const MemoryPlan& memory() const { return workspace_->used(); }

  /// Puts a prompt of each sequence (1 … capacity ids) into the caches, except for its last token, which
  /// becomes the next input. Fewer prompts than B leave the other sequences idle. Waits for the device.
  void prefill(std::span<const std::vector<uint32_t>> prompts);

  /// One step of every sequence: logits of what follows its input.
  void forward();
  /// `steps` of them, 1 or the burst; each time the likeliest token becomes the next input, one position on
  /// (the last one when there is none). On CUDA a burst is one graph.
  void forward_greedy(int64_t steps = 1);
  /// Queues the copy of the ring [B, R] to `target` (in pinned memory: without waiting). Sequence b's token
  /// for position p, counted from its prompt's first, is at [b, p % R] until R steps later.
  void queue_ids(uint32_t* target);
  /// Sets the next inputs and where they stand, [B] each.
  void feed(std::span<const uint32_t> ids, std::span<const uint32_t> start);
  /// Brings the last step's logits to the host; waits.
  void fetch_logits();
  /// Those of one sequence, of the ids that may be chosen.
  std::span<const float> logits(int64_t sequence) const;

 private:
  Device& device_;
  ModelConfig config_;
  DecoderOptions options_;
  ParamLayout layout_;
  std::unique_ptr<Workspace> workspace_;
  DecoderBuffers buffers_;
  OpList first_chunk_, further_chunk_, step_, greedy_step_, burst_;
  std::shared_ptr<void> host_ids_;     // pinned u32 [B Q]
  std::shared_ptr<void> host_inputs_;  // pinned u32 [2 B]: ids, start
  std::shared_ptr<void> host_logits_;  // pinned f32 [B, padded V]
};

/// Memory that a Decoder takes for these, by class (weights are not its own).
MemoryPlan plan_decoder(const ModelConfig& config, const DecoderOptions& options, DeviceKind kind);

}  // namespace tang
