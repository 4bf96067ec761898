// Counter-based random numbers: value i of a stream is a pure function of (seed, stream, i), so every device,
// thread count and resume draws the same.
#pragma once

#include <cstdint>
#include <vector>

namespace tang {

/// Philox4x32-10 (Salmon et al., SC 2011), keyed by `seed`, one independent sequence per `stream`.
class Rng {
 public:
  explicit Rng(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  uint64_t bits(uint64_t index) const;                   // 64 random bits, number `index` of the stream
  double uniform(uint64_t index) const;                  // in [0, 1)
  double normal(uint64_t index) const;                   // mean 0, standard deviation 1: kernels/normal.h
  uint64_t below(uint64_t index, uint64_t limit) const;  // in [0, limit)

 private:
  uint64_t seed_, stream_;
};

/// A seeded permutation of 0 … count-1 (Fisher-Yates over Rng(seed, stream)).
std::vector<uint32_t> permutation(uint64_t count, uint64_t seed, uint64_t stream);

}  // namespace tang
