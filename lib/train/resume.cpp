#include "lib/train/resume.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "lib/base/error.h"

namespace tang {

namespace {

const fs::path runs_folder = "runs";

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &local);
  return text.data();
}

fs::path new_run_folder(const RunConfig& config, const std::string& name) {
  return config.run_dir.empty() ? runs_folder / (name + "-" + time_stamp()) : fs::path(config.run_dir);
}

/// The newest run of a configuration that has a checkpoint; time stamps sort by name.
std::optional<fs::path> newest_run(const std::string& name) {
  std::vector<fs::path> found;
  if (!fs::is_directory(runs_folder)) return std::nullopt;
  for (const auto& entry : fs::directory_iterator(runs_folder)) {
    const std::string folder = entry.path().filename().string();
    const bool stamped = folder.starts_with(name + "-") && folder.size() == name.size() + 16;
    if (stamped && !list_checkpoints(entry.path()).empty()) found.push_back(entry.path());
  }
  if (found.empty()) return std::nullopt;
  return *std::max_element(found.begin(), found.end());
}

/// Sets aside what is damaged; an input error when nothing is left.
void take_newest_complete(RunStart& start) {
  for (const CheckpointFolder& folder : list_checkpoints(start.run)) {
    try {
      start.state = read_state(folder.path);
      start.checkpoint = folder.path;
      return;
    } catch (const Error& problem) {
      fs::path aside = folder.path;
      aside += ".damaged";
      fs::remove_all(aside);
      fs::rename(folder.path, aside);
      start.notes.push_back(fmt::format("{}; set aside as {}, trying the checkpoint before it",
                                        problem.what(), aside.filename().string()));
    }
  }
  if (!start.notes.empty()) {
    fail_input("no complete checkpoint is left in {}: {}", start.run.string(), start.notes.back());
  }
}

void refuse_if_newer(const RunStart& start) {
  const auto all = list_checkpoints(start.run);
  if (all.empty() || all[0].step <= start.state.step) return;
  fail_input(
      "{} has a newer checkpoint than the one to go on from (step {}): move it away, or give another "
      "run.dir",
      start.run.string(), start.state.step);
}

RunStart start_from_checkpoint(const fs::path& checkpoint, const RunConfig& config) {
  RunStart start;
  start.state = read_state(checkpoint);
  start.checkpoint = checkpoint;
  const fs::path folder = fs::absolute(checkpoint).lexically_normal();
  const fs::path named = folder.has_filename() ? folder : folder.parent_path();
  start.run = config.run_dir.empty() ? named.parent_path().parent_path() : fs::path(config.run_dir);
  refuse_if_newer(start);
  return start;
}

RunStart start_automatically(const RunConfig& config, const std::string& name) {
  RunStart start;
  const std::optional<fs::path> newest = newest_run(name);
  start.run = config.run_dir.empty() && newest ? *newest : new_run_folder(config, name);
  take_newest_complete(start);
  if (!start.checkpoint) start.notes.push_back("--resume auto: no checkpoint found, starting afresh");
  return start;
}

}  // namespace

RunStart find_start(const RunConfig& config, const std::string& config_name, const std::string& resume) {
  const std::string name = fs::path(config_name).stem().string();
  if (resume == "auto") return start_automatically(config, name);
  if (!resume.empty()) {
    if (!fs::is_directory(resume)) fail_input("--resume {}: no such folder", resume);
    if (list_checkpoints(resume).empty()) return start_from_checkpoint(resume, config);
    RunStart start;
    start.run = resume;
    take_newest_complete(start);
    if (!config.run_dir.empty()) start.run = config.run_dir;
    refuse_if_newer(start);
    return start;
  }
  RunStart start;
  start.run = new_run_folder(config, name);
  if (!list_checkpoints(start.run).empty()) {
    fail_input("{} already has checkpoints: give --resume auto to go on, or another run.dir",
               start.run.string());
  }
  return start;
}

std::vector<std::string> compare_with_checkpoint(const TrainState& state, const RunConfig& config,
                                                 const std::string& fingerprint) {
  static const std::array<std::string, 5> fixed = {"data.seq_len", "data.shuffle", "train.seed", "model.",
                                                   "data.pad_id"};
  static const std::array<std::string, 2> of_fresh_weights = {"model.init_std", "model.init"};
  const auto is_one_of = [](const std::string& key, const auto& list) {
    return std::any_of(list.begin(), list.end(), [&](const std::string& entry) {
      return key == entry || (entry.ends_with('.') && key.starts_with(entry));
    });
  };
  if (state.fingerprint != fingerprint) {
    fail_input(
        "data.train is not what the checkpoint was trained on (fingerprint {} then, {} now): go on with "
        "the same shards, or start anew with model.init",
        state.fingerprint, fingerprint);
  }
  std::vector<std::string> notes;
  for (const ConfigField& field : schema()) {
    const auto before = state.config.find(field.key);
    const std::string now = field.print(config);
    if (before == state.config.end() || before->second == now || field.key == "run.dir") continue;
    if (is_one_of(field.key, fixed) && !is_one_of(field.key, of_fresh_weights)) {
      fail_input("{} was {} when the checkpoint was written, now it is {}: it cannot change on the way",
                 field.key, before->second, now);
    }
    notes.push_back(fmt::format("{} was {}, from here on it is {}", field.key, before->second, now));
  }
  return notes;
}

}  // namespace tang
