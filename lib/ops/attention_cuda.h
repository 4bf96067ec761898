// CUDA implementations of the attention family. attention.cpp registers them, best first.
#pragma once

#include "lib/ops/attention.h"

namespace tang {

/// bf16 on tensor cores, sm_80 and newer (kernels/attention_mma*.cu): mma.sync, any length, head sizes that
/// are multiples of 8 up to 128. Source: FlashAttention-2 (Dao, 2023); the backward is split in a dK/dV and a
/// dQ pass, so that it is deterministic without atomics.
std::function<void()> prepare_attention_forward_mma(CudaDevice& device, const AttentionForward& args);
std::function<void()> prepare_attention_backward_mma(CudaDevice& device, const AttentionBackward& args);

/// "" when these kernels can run the arguments, else the reason.
std::string attention_forward_mma_supports(const DeviceCaps& caps, const AttentionForward& args);
std::string attention_backward_mma_supports(const DeviceCaps& caps, const AttentionBackward& args);

// Hopper (attention_sm90_cuda.cpp): bf16, head sizes 64 and 128 forward, 64 backward.
std::string attention_forward_sm90_supports(const DeviceCaps& caps, const AttentionForward& a);
std::string attention_backward_sm90_supports(const DeviceCaps& caps, const AttentionBackward& a);
std::function<void()> attention_forward_sm90(CudaDevice& device, const AttentionForward& a);
std::function<void()> attention_backward_sm90(CudaDevice& device, const AttentionBackward& a);

}  // namespace tang
