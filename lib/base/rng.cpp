#include "lib/base/rng.h"

#include <numeric>
#include <utility>

#include "kernels/normal.h"
#include "lib/base/error.h"

namespace tang {

namespace {

uint64_t join(uint32_t low, uint32_t high) { return (uint64_t{high} << 32) | low; }

double to_unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

uint64_t Rng::bits(uint64_t index) const {
  const tang_normal::Block block = tang_normal::philox(seed_, stream_, index / 2);
  const int half = static_cast<int>(index % 2) * 2;
  return join(block.words[half], block.words[half + 1]);
}

double Rng::uniform(uint64_t index) const { return to_unit(bits(index)); }

double Rng::normal(uint64_t index) const {
  const tang_normal::Pair pair = tang_normal::normal_pair(seed_, stream_, index / 2);
  return index % 2 == 0 ? pair.even : pair.odd;
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
