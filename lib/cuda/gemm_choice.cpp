#include "lib/cuda/gemm_choice.h"

#include <cmath>
#include <cstring>

#include "lib/base/error.h"

namespace tang {

std::vector<GemmCandidate> within(std::vector<GemmCandidate> candidates, int64_t workspace_bytes) {
  std::erase_if(candidates, [&](const GemmCandidate& c) { return c.workspace > workspace_bytes; });
  return candidates;
}

size_t reference_of(std::span<const GemmCandidate> candidates) {
  constexpr float full = 0.75f;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const GemmCandidate& candidate = candidates[i];
    if (candidate.splits == 1 && candidate.waves >= full) return i;
  }
  return 0;
}

size_t fastest_equal(std::span<const GemmTrial> trials, size_t reference) {
  constexpr double noise = 0.01;
  const GemmTrial& own = trials[reference];
  if (!own.digest) return reference;
  size_t best = reference;
  double best_ms = own.ms * (1 - noise);
  for (size_t i = 0; i < trials.size(); ++i) {
    if (trials[i].digest != own.digest || trials[i].ms >= best_ms) continue;
    best = i;
    best_ms = trials[i].ms;
  }
  return best;
}

Digest gemm_key(const GemmPlace& place, const CudaGemm& p) {
  constexpr std::string_view rules = "products 1";  // to be counted up with any change of the rules
  return Digest()
      .add(rules)
      .add(fmt::format("{} {} {}", place.library, place.gpu, place.multiprocessors))
      .add(fmt::format("{:d}{:d} {}x{}x{} {}c+{}c", p.transpose_a, p.transpose_b, p.m, p.n, p.k, p.alpha,
                       p.beta))
      .add(fmt::format("{}>{} {}", name_of(p.input), name_of(p.output), p.math == MathMode::tf32))
      .add(fmt::format("{}@{} {}@{} {}@{}", p.lda, alignment_of(p.a), p.ldb, alignment_of(p.b), p.ldc,
                       alignment_of(p.c)));
}

uint32_t alignment_of(const void* address) {
  const auto value = reinterpret_cast<uintptr_t>(address) | 256;
  return static_cast<uint32_t>(value & -value);
}

bool worth_searching(const CudaGemm& p) {
  constexpr double least_flops = 1e10;
  const bool ieee = p.input == Dtype::f32 && p.math == MathMode::strict;
  return !ieee &&
         2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) >= least_flops;
}

std::string packed(const GemmAlgorithm& algorithm) {
  return std::string(reinterpret_cast<const char*>(algorithm.data()), sizeof algorithm);
}

std::optional<GemmAlgorithm> unpacked(std::string_view bytes) {
  GemmAlgorithm algorithm;
  if (bytes.size() != sizeof algorithm) return std::nullopt;
  std::memcpy(algorithm.data(), bytes.data(), sizeof algorithm);
  return algorithm;
}

}  // namespace tang
