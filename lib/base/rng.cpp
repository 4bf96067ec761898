#include "lib/base/rng.h"

#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "lib/base/error.h"

namespace tang {

namespace {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

}  // namespace

uint64_t Rng::bits(uint64_t index) const {
  const uint64_t block = index / 2;
  const auto words = philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                             static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                            static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32));
  const int half = static_cast<int>(index % 2) * 2;
  return (uint64_t{words[half + 1]} << 32) | words[half];
}

double Rng::uniform(uint64_t index) const { return static_cast<double>(bits(index) >> 11) * 0x1p-53; }

double Rng::normal(uint64_t index) const {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform(2 * index)));
  return radius * std::cos(2.0 * std::numbers::pi * uniform(2 * index + 1));
}

uint64_t Rng::below(uint64_t index, uint64_t limit) const {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits(index)) * limit) >> 64);
}

std::vector<uint32_t> permutation(uint64_t count, uint64_t seed, uint64_t stream) {
  if (count > UINT32_MAX) fail_input("a permutation of {} items passes 2^32", count);
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  const Rng rng(seed, stream);
  for (uint64_t i = count; i > 1; --i) std::swap(order[i - 1], order[rng.below(i, i)]);
  return order;
}

}  // namespace tang
