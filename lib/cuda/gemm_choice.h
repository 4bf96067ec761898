// Which of cuBLASLt's algorithms runs a product. The rules alone: free of the library and of the GPU.
//
// Speed may choose only among algorithms that give the same bits. Whose bits those are is a function of the
// library's list for the product (that is: of its version, the GPU and the product), never of a clock.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/cuda/jit_cache.h"
#include "lib/device/cuda_device.h"

namespace tang {

/// cuBLASLt's opaque algorithm: valid for one version of the library.
using GemmAlgorithm = std::array<uint64_t, 8>;

struct GemmCandidate {
  GemmAlgorithm algorithm{};
  int splits = 1;         // parts that K is cut into, to be added afterwards; negative: as it suits the GPU
  float waves = 0;        // tiles over what the GPU runs at once
  int64_t workspace = 0;  // bytes
};

/// Those that need no more than `workspace_bytes`, in their order.
std::vector<GemmCandidate> within(std::vector<GemmCandidate> candidates, int64_t workspace_bytes);

/// The candidate whose bits the product shall have: the first that sums all of K in one sequence and still
/// fills the GPU, because then tile, cluster and schedule change no bit and the choice is wide; else the
/// first. `candidates` is not empty.
size_t reference_of(std::span<const GemmCandidate> candidates);

/// One candidate's trial: the digest of its result (none: it did not run) and its best time.
struct GemmTrial {
  std::optional<uint64_t> digest;
  double ms = 0;
};

/// The fastest of those with the reference's digest. The reference itself, where nothing beats it by more
/// than a clock's noise or it has no digest.
size_t fastest_equal(std::span<const GemmTrial> trials, size_t reference);

/// What a choice holds for: everything that the library's list and a time may depend on.
struct GemmPlace {
  uint64_t library = 0;  // cuBLASLt's version
  std::string gpu;
  int multiprocessors = 0;
};
Digest gemm_key(const GemmPlace& place, const CudaGemm& problem);

/// Largest power of two, up to 256, that divides the address.
uint32_t alignment_of(const void* address);

/// Products large enough for a search to pay: shorter ones run in microseconds. Not IEEE f32, where the first
/// choice is the best that was seen.
bool worth_searching(const CudaGemm& problem);

/// An algorithm as bytes and back; nothing when `bytes` is not one's.
std::string packed(const GemmAlgorithm& algorithm);
std::optional<GemmAlgorithm> unpacked(std::string_view bytes);

}  // namespace tang
