#include <algorithm>
#include <array>

#include "kernels/traced.h"
#include "lib/device/simd.h"
#include "lib/expr/tile.h"
#include "lib/ops/traced.h"

namespace tang {

namespace {

constexpr int64_t tile = TileProgram::tile;

/// What every thread of a run shares.
struct TracedRun {
  TileProgram program;
  TracedCall call;
  TracedPlan plan;
};

template <class T>
void load_tile(float* target, const View& view, int64_t offset, int64_t count) {
  const T* source = static_cast<const T*>(view.data) + offset;
  simd([&] {
    for (int64_t i = 0; i < count; ++i) target[i] = load(source, i);
  });
}

template <class T>
void store_tile(const View& view, int64_t offset, int64_t count, const float* values) {
  T* target = static_cast<T*>(view.data) + offset;
  simd([&] {
    for (int64_t i = 0; i < count; ++i) store(target, i, values[i]);
  });
}

/// Elements [first, last) of the walk. A tile's inputs are copied before its outputs are stored: in place is
/// safe.
template <class T>
void run_range(const TracedRun& run, int64_t first, int64_t last) {
  const TracedCall& call = run.call;
  const TracedPlan& plan = run.plan;
  std::vector<float> memory(static_cast<size_t>(run.program.scratch()) + call.x.size() * tile);
  std::array<float*, traced_most_inputs> x{};
  std::array<const float*, traced_most_outputs> y{};
  for (size_t k = 0; k < call.x.size(); ++k) {
    x[k] = memory.data() + run.program.scratch() + static_cast<int64_t>(k) * tile;
    if (plan.scalar[k]) std::fill_n(x[k], tile, load(static_cast<const T*>(call.x[k].data), 0));
  }
  for (int64_t i = first; i < last;) {
    const int64_t row = i / plan.walk.length, begin = i - row * plan.walk.length;
    const int64_t count = std::min({tile, plan.walk.length - begin, last - i});
    for (size_t k = 0; k < call.x.size(); ++k) {
      if (!plan.scalar[k]) load_tile<T>(x[k], call.x[k], row * plan.x_row[k] + begin, count);
    }
    run.program.run(count, x.data(), memory.data(), y.data());
    for (size_t k = 0; k < call.y.size(); ++k)
      store_tile<T>(call.y[k], row * plan.y_row[k] + begin, count, y[k]);
    i += count;
  }
}

}  // namespace

std::function<void()> traced_cpu(CpuDevice& device, const TracedCall& call, const TracedPlan& plan) {
  const auto run = std::make_shared<const TracedRun>(
      TracedRun{TileProgram(call.expressions, static_cast<int64_t>(call.x.size())), call, plan});
  return [run, &device] {
    constexpr int64_t grain = 16384;
    const bool wide = run->call.y[0].dtype == Dtype::f32;
    device.parallel_for(run->plan.walk.rows * run->plan.walk.length, grain, [&](int64_t first, int64_t last) {
      wide ? run_range<float>(*run, first, last) : run_range<bf16>(*run, first, last);
    });
  };
}

}  // namespace tang
