// Which run folder a run writes to, and which checkpoint, if any, it goes on from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/train/checkpoint.h"

namespace tang {

struct RunStart {
  fs::path run;                        // the run folder; it may not exist yet
  std::optional<fs::path> checkpoint;  // to go on from
  TrainState state;                    // of that checkpoint, else all zero
  std::vector<std::string> notes;      // to be said aloud
};

/// `resume`: "" (a new run: an input error when the folder has checkpoints), "auto" (the newest complete
/// checkpoint of run.dir, or without run.dir of the newest run of this configuration; none: a new run, and it
/// says so), a run folder, or a checkpoint folder. A damaged newest checkpoint is said aloud and the one
/// before is tried; when all are damaged it is an input error. Reads only, except that a damaged checkpoint
/// is renamed.
RunStart find_start(const RunConfig& config, const std::string& config_name, const std::string& resume);

/// Refuses to go on with another model shape, data, order, or sequence length; returns a note for every other
/// setting that changed (the new one is used).
std::vector<std::string> compare_with_checkpoint(const TrainState& state, const RunConfig& config,
                                                 const std::string& fingerprint);

}  // namespace tang
