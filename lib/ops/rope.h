// Rotary position embedding (Su et al., 2021), half-split: pairs (i, i + R/2) of the first R = rotary_dims of
// each head turn by position · theta^(-2i/R); the other dims pass through. The backward turns the other way.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct RopeForward {
  View x;                // [B, T, H, D]
  View cos, sin;         // f32 [P, R/2], P >= position + start[b] + T: see rope_tables
  View y;                // [B, T, H, D]; may be x's memory
  int64_t position = 0;  // of t = 0
  View start = {};  // u32 [B], may be absent: added to each sequence's positions (decoding; on the device,
                    // so that a graph can be replayed)
};

struct RopeBackward {
  View dy;        // [B, T, H, D]
  View cos, sin;  // as in the forward
  View dx;        // [B, T, H, D]; may be dy's memory
  int64_t position = 0;
};

extern const Op<RopeForward> rope_forward;
extern const Op<RopeBackward> rope_backward;

/// Host tables [positions, rotary_dims / 2], computed in f64 and rounded once to f32. rotary_dims must be
/// even.
struct RopeTables {
  std::vector<float> cos, sin;
};
RopeTables rope_tables(int64_t positions, int64_t rotary_dims, double theta);

// The implementations, registered in rope.cpp.
void rope_forward_reference(Ref& r);
void rope_backward_reference(Ref& r);
void rope_forward_cpu(CpuDevice& device, const RopeForward& a);
void rope_backward_cpu(CpuDevice& device, const RopeBackward& a);
std::function<void()> rope_forward_cuda(CudaDevice& device, const RopeForward& a);
std::function<void()> rope_backward_cuda(CudaDevice& device, const RopeBackward& a);

}  // namespace tang
