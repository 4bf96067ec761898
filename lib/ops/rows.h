// What the memory-bound ops share: how rows are walked, on the CPU and by the kernels built on
// kernels/groups.cuh.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "lib/base/view.h"
#include "lib/device/cpu_device.h"
#include "lib/device/cuda_device.h"
#include "lib/device/simd.h"

namespace tang {

/// Elementwise work over [rows, length]: one long row when every operand is packed.
struct RowWalk {
  int64_t rows, length;
};
RowWalk walk_rows(std::initializer_list<View> views);

/// body(row, begin, end) over every element in parallel, each call inside simd().
template <class Body>
void for_elements(const CpuDevice& device, RowWalk walk, const Body& body) {
  constexpr int64_t grain = 16384;
  device.parallel_for(walk.rows * walk.length, grain, [&](int64_t first, int64_t last) {
    simd([&] {
      for (int64_t i = first; i < last;) {
        const int64_t row = i / walk.length, begin = i - row * walk.length;
        const int64_t end = std::min(walk.length, begin + (last - i));
        body(row, begin, end);
        i += end - begin;
      }
    });
  });
}

/// Rows a thread of the CPU should take at least, when a row costs `length` cheap steps.
inline int64_t row_grain(int64_t length) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(length, 1));
}

/// Elements in 16 bytes: the group of kernels/groups.cuh.
constexpr int64_t group_width(Dtype dtype) { return 16 / size_of(dtype); }

/// True when TANG_VECTOR may be 1: rows are whole groups of `width` elements and start on 16 bytes in every
/// present view.
bool vectorised(std::initializer_list<View> views, RowWalk walk, int64_t width);

/// One group a thread, `tiles` blocks a row: what place_in() in kernels/groups.cuh expects.
struct RowLaunch {
  LaunchShape shape;
  int64_t tiles;
};
RowLaunch launch_rows(RowWalk walk, int64_t width);

/// How a row is held in registers: `groups` groups in each of the `team` threads that share it. groups = 0:
/// the row is too long and is read again instead.
struct RowTeam {
  int64_t team, groups;
};
RowTeam row_team(int64_t length, int64_t width, int64_t most_threads, int64_t most_groups);
/// A team a row: four warps a block, or one larger team (whose barriers need the whole block).
LaunchShape launch_teams(int64_t rows, RowTeam team);

using KernelConstants = std::vector<std::pair<std::string, std::string>>;
/// TANG_T and TANG_VECTOR; and TANG_TEAM and TANG_GROUPS.
KernelConstants row_constants(Dtype dtype, bool vector);
KernelConstants row_constants(Dtype dtype, bool vector, RowTeam team);

}  // namespace tang
