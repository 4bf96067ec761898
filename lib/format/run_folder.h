// Where a training run keeps its checkpoints: RUN/checkpoints/step-N.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/file.h"

namespace tang {

/// The checkpoints of a run, complete or not, by number of steps, newest first. Other names are ignored.
struct CheckpointFolder {
  int64_t step = 0;
  fs::path path;
};
std::vector<CheckpointFolder> list_checkpoints(const fs::path& run);

}  // namespace tang
