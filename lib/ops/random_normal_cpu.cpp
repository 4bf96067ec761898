// Built with contraction off, as kernels/normal.h asks.
#include "kernels/normal.h"
#include "lib/device/simd.h"
#include "lib/ops/random_normal.h"

namespace tang {

void random_normal_cpu(CpuDevice& device, const RandomNormal& a) {
  constexpr int64_t pairs_a_task = 4096;
  float* y = a.y.as<float>();
  const int64_t count = a.y.size();
  const auto seed = static_cast<uint64_t>(a.seed), stream = static_cast<uint64_t>(a.stream);
  const double std = static_cast<double>(a.std);
  device.parallel_for(count / 2, pairs_a_task, [&](int64_t begin, int64_t end) {
    simd([&] {
      for (int64_t pair = begin; pair < end; ++pair) {
        const auto drawn = tang_normal::normal_pair(seed, stream, static_cast<uint64_t>(pair));
        y[2 * pair] = static_cast<float>(std * drawn.even);
        y[2 * pair + 1] = static_cast<float>(std * drawn.odd);
      }
    });
  });
  if (count % 2 == 0) return;
  const auto drawn = tang_normal::normal_pair(seed, stream, static_cast<uint64_t>(count / 2));
  y[count - 1] = static_cast<float>(std * drawn.even);
}

}  // namespace tang
