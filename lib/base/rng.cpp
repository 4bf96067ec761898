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

uint64_t join(uint32_t low, uint32_t high) { return (uint64_t{high} << 32) | low; }

double to_unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

std::array<uint32_t, 4> Rng::block(uint64_t index) const {
  return philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                 static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32));
}

uint64_t Rng::bits(uint64_t index) const {
  const auto words = block(index / 2);
  const int half = static_cast<int>(index % 2) * 2;
  return join(words[half], words[half + 1]);
}

double Rng::uniform(uint64_t index) const { return to_unit(bits(index)); }

Rng::Pair Rng::normal_pair(uint64_t pair) const {
  const auto words = block(pair);
  const double radius = std::sqrt(-2.0 * std::log(1.0 - to_unit(join(words[0], words[1]))));
  const double angle = 2.0 * std::numbers::pi * to_unit(join(words[2], words[3]));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

double Rng::normal(uint64_t index) const {
  const Pair pair = normal_pair(index / 2);
  return index % 2 == 0 ? pair.even : pair.odd;
}

void Rng::fill_normal(uint64_t first, double scale, std::span<float> out) const {
  if (first % 2 != 0) fail_input("fill_normal starts at an even index, found {}", first);
  for (size_t i = 0; i < out.size(); i += 2) {
    const Pair pair = normal_pair((first + i) / 2);
    out[i] = static_cast<float>(scale * pair.even);
    if (i + 1 < out.size()) out[i + 1] = static_cast<float>(scale * pair.odd);
  }
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
