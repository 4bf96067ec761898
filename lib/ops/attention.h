// Causal grouped-query attention: o = softmax(scale · q kᵀ, causal) v, query head h on KV head h / (H / Hkv).
// Nothing of size T² is stored. Method: tiled online softmax (Dao et al., FlashAttention-2, 2023).
#pragma once

#include <cmath>

#include "lib/ops/op.h"

namespace tang {

struct AttentionForward {
  View q;           // [B, T, H, D]
  View k, v;        // [B, T, Hkv, D]
  View o;           // [B, T, H, D]
  View lse;         // f32 [B, H, T]: natural log of the sum of exp(scale · q·k) over the visible keys
  float scale = 0;  // 0: 1 / sqrt(D)
};

struct AttentionBackward {
  View q, k, v, o;  // as in the forward
  View d_o;         // [B, T, H, D]: gradient of o
  View lse;         // f32 [B, H, T], from the forward
  View dq;          // [B, T, H, D]
  View dk, dv;      // [B, T, Hkv, D]: summed over the query heads of a group
  View delta;       // f32 [B, H, T] scratch: Σ_d o · d_o
  View workspace;   // f32 scratch: sums of dQ in whole tiles of 128 rows, and what goes with them
  float scale = 0;  // 0: 1 / sqrt(D)
};

/// The factor of the scores: `wanted`, or 1 / sqrt(D) for 0. The references have their own.
inline float attention_scale(float wanted, int64_t head_dim) {
  return wanted != 0 ? wanted : 1.0f / std::sqrt(static_cast<float>(head_dim));
}

extern const Op<AttentionForward> attention_forward;
extern const Op<AttentionBackward> attention_backward;

// The implementations, registered in attention.cpp; attention_cuda.h has CUDA's.
void attention_forward_reference(Ref& r);
void attention_backward_reference(Ref& r);
void attention_forward_plain(Ref& r);
void attention_backward_plain(Ref& r);
void attention_forward_cpu(CpuDevice& device, const AttentionForward& a);
void attention_backward_cpu(CpuDevice& device, const AttentionBackward& a);

}  // namespace tang
