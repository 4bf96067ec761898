// The buffers of a training step, as views. Which of them are kept a layer each and which are shared follows
// from the recompute option.
#pragma once

#include <vector>

#include "lib/model/memory_plan.h"
#include "lib/model/params.h"

namespace tang {

/// What one block keeps for its backward.
struct BlockBuffers {
  View x;             // [N, C]: the residual stream before the block
  View norm1, norm2;  // [N, C]: normalised inputs of attention and of the feed-forward
  View rstd1, rstd2;  // f32 [N]
  View qkv;           // [N, (H + 2 Hkv) D]: q and k after RoPE
  View attended;      // [N, H D]
  View lse;           // f32 [B, H, T]
  View middle;        // [N, C]: the residual stream after attention
  View gate_up;       // [N, 2 F]; the backward turns it into its gradient in place
  View swiglu;        // [N, F]
};

/// Scalars that go to the device each step, in one upload.
struct StepScalars {
  float loss_scale = 1;  // 1 / valid targets of the global batch
  float unused[3] = {};  // the optimizer's three start on 16 bytes
  float lr = 0;
  float bias1 = 1, bias2 = 1;  // 1 − beta1^t, 1 − beta2^t
  float unused_too = 0;
};

/// Those of one step: `rate` and the number of updates with it, counted from 1; `valid` targets in the batch.
StepScalars step_scalars(const OptimizerSettings& settings, double rate, int64_t valid, int64_t update);

/// Results that come back from the device, in one download.
struct StepResults {
  float loss_sum = 0;   // Σ losses over the valid targets of the step
  float grad_norm = 0;  // of the whole gradient, before clipping
  uint32_t halted = 0;  // a loss or norm was not finite: no update since
  uint32_t unused = 0;
  float eval_loss_sum = 0;
  float unused_too[3] = {};
};

struct StepBuffers {
  // Parameters: the flat arenas [P].
  View weights;                              // in the mode's dtype; the master itself in f32
  View master, moment1, moment2, gradients;  // f32
  // Input and rotation tables.
  View ids, targets;  // u32 [N]
  View cos, sin;      // f32 [T, D / 2]
  View scalars;       // f32 [8]: StepScalars
  View results;       // f32 [8]: StepResults
  // Activations.
  std::vector<BlockBuffers> blocks;
  View last_x;        // [N, C]: the residual stream after the last block
  View last_rstd;     // f32 [N]
  View logits;        // [chunk, padded V]
  View losses;        // f32 [N]
  View stream;        // [N, C]: the last norm's output, then the residual stream's gradient
  View narrow, wide;  // [N, max(C, H D)] and [N, max(F, (H + 2 Hkv) D)]: flat memory, viewed as needed

  /// `flat` as [N, columns].
  View as_columns(const View& flat, int64_t columns) const;
  View loss_scale() const { return scalars.slice(0, 0, 1); }
  View control() const { return scalars.slice(0, 4, 7); }
  View loss_sum() const { return results.slice(0, 0, 1); }
  View grad_norm() const { return results.slice(0, 1, 2); }
  View eval_loss_sum() const { return results.slice(0, 4, 5); }
  View halted() const;
};

/// Rows of logits that exist at once.
int64_t logits_rows(const ModelConfig& config, const StepOptions& options, DeviceKind kind);

StepBuffers lay_out(Workspace& workspace, const ModelConfig& config, const ParamLayout& layout,
                    const StepOptions& options, DeviceKind kind);

}  // namespace tang
