// CUDA implementations of the attention family. attention.cpp registers them, best first.
#pragma once

#include "kernels/attention.h"
#include "lib/ops/attention.h"

namespace tang {

// What every implementation shares.
AttentionForwardParams attention_params(const AttentionForward& args);
AttentionBackwardParams attention_params(const AttentionBackward& args);
/// "" when the statistics are packed, the scale is not negative and the blocks of `rows` positions fit a
/// grid; with `aligned`, also that every row of every tensor starts at a multiple of 16 bytes. Else what is
/// wanted.
std::string attention_refusal(const AttentionForward& args, int64_t rows, bool aligned);
std::string attention_refusal(const AttentionBackward& args, int64_t rows, bool aligned);

/// bf16 on tensor cores, sm_80 and newer (kernels/attention_mma*.cu): mma.sync, any length, head sizes that
/// are multiples of 8 up to 128. Source: FlashAttention-2 (Dao, 2023); the backward is split in a dK/dV and a
/// dQ pass, so that it is deterministic without atomics.
std::function<void()> prepare_attention_forward_mma(CudaDevice& device, const AttentionForward& args);
std::function<void()> prepare_attention_backward_mma(CudaDevice& device, const AttentionBackward& args);

/// "" when these kernels can run the arguments, else the reason.
std::string attention_forward_mma_supports(const DeviceCaps& caps, const AttentionForward& args);
std::string attention_backward_mma_supports(const DeviceCaps& caps, const AttentionBackward& args);

// Hopper (attention_sm90_cuda.cpp): bf16, head sizes 64 and 128.
std::string attention_forward_sm90_supports(const DeviceCaps& caps, const AttentionForward& a);
std::string attention_backward_sm90_supports(const DeviceCaps& caps, const AttentionBackward& a);
std::function<void()> attention_forward_sm90(CudaDevice& device, const AttentionForward& a);
std::function<void()> attention_backward_sm90(CudaDevice& device, const AttentionBackward& a);

/// f32 on FFMA units in register tiles (kernels/attention_simt*.cu): head sizes that are multiples of 4 up to
/// 128. The backward is split like that of the tensor cores.
std::function<void()> attention_forward_simt(CudaDevice& device, const AttentionForward& a);
std::function<void()> attention_backward_simt(CudaDevice& device, const AttentionBackward& a);
std::string attention_forward_simt_supports(const DeviceCaps& caps, const AttentionForward& a);
std::string attention_backward_simt_supports(const DeviceCaps& caps, const AttentionBackward& a);

/// Any head size up to 256, any alignment, both dtypes (kernels/attention_simple.cu).
std::function<void()> attention_forward_simple(CudaDevice& device, const AttentionForward& a);
std::function<void()> attention_backward_simple(CudaDevice& device, const AttentionBackward& a);
std::string attention_forward_simple_supports(const DeviceCaps& caps, const AttentionForward& a);
std::string attention_backward_simple_supports(const DeviceCaps& caps, const AttentionBackward& a);

}  // namespace tang
