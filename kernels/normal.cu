// Random normals: a pair a thread. The doubles cost less than the write on a data-centre GPU, and some ten
// milliseconds for 10^8 values where doubles are slow.
#include "normal.h"

#include "common.cuh"

TANG_KERNEL random_normal(const RandomNormalParams p) {
  const int64_t pair = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (2 * pair >= p.count) return;
  const tang_normal::Pair drawn = tang_normal::normal_pair(p.seed, p.stream, static_cast<uint64_t>(pair));
  p.y[2 * pair] = __double2float_rn(__dmul_rn(p.std, drawn.even));
  if (2 * pair + 1 < p.count) p.y[2 * pair + 1] = __double2float_rn(__dmul_rn(p.std, drawn.odd));
}
