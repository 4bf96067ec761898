#include "lib/ops/rows.h"

#include "lib/ops/op.h"

namespace tang {

RowWalk walk_rows(std::initializer_list<View> views) {
  const View& first = *views.begin();
  const bool packed = std::all_of(views.begin(), views.end(), [](const View& view) { return view.packed(); });
  return packed ? RowWalk{1, first.size()} : RowWalk{first.dim(0), first.dim(1)};
}

bool vectorised(std::initializer_list<View> views, RowWalk walk, int64_t width) {
  if (walk.length % width != 0) return false;
  return std::all_of(views.begin(), views.end(), [&](const View& view) {
    auto bits = static_cast<int64_t>(reinterpret_cast<uintptr_t>(view.data));
    for (int axis = 0; walk.rows > 1 && axis + 1 < view.rank; ++axis) {
      if (view.dims[axis] > 1) bits |= view.strides[axis] * size_of(view.dtype);
    }
    return bits % 16 == 0;
  });
}

RowLaunch launch_rows(RowWalk walk, int64_t width) {
  constexpr int64_t most_threads = 256, warp = 32;
  const int64_t groups = (walk.length + width - 1) / width;
  const int64_t tiles = (groups + most_threads - 1) / most_threads;
  const int64_t threads = ((groups + tiles - 1) / tiles + warp - 1) / warp * warp;
  return {{.grid = {walk.rows * tiles}, .block = {threads}}, tiles};
}

RowTeam row_team(int64_t length, int64_t width, int64_t most_threads, int64_t most_groups) {
  int64_t team = 32;
  while (team < most_threads && team * width * most_groups < length) team *= 2;
  const int64_t groups = (length + team * width - 1) / (team * width);
  return {team, groups <= most_groups ? groups : 0};
}

LaunchShape launch_teams(int64_t rows, RowTeam team) {
  const int64_t teams = team.team == 32 ? 4 : 1;
  return {.grid = {(rows + teams - 1) / teams}, .block = {team.team * teams}};
}

KernelConstants row_constants(Dtype dtype, bool vector) {
  return {{"TANG_T", kernel_type(dtype)}, {"TANG_VECTOR", vector ? "1" : "0"}};
}

KernelConstants row_constants(Dtype dtype, bool vector, RowTeam team) {
  KernelConstants constants = row_constants(dtype, vector);
  constants.emplace_back("TANG_TEAM", std::to_string(team.team));
  constants.emplace_back("TANG_GROUPS", std::to_string(team.groups));
  return constants;
}

}  // namespace tang
