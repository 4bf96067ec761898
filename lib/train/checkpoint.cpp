#include "lib/train/checkpoint.h"

#include <unistd.h>

#include <algorithm>

#include "lib/base/error.h"
#include "lib/format/safetensors.h"
#include "lib/model/hf_config.h"
#include "lib/train/checksum.h"

namespace tang {

namespace {

constexpr int64_t state_format = 1;
const char* const state_file = "state.json";
const char* const model_file = "model.safetensors";
const char* const optimizer_file = "optimizer.safetensors";
const char* const config_file = "config.json";

/// Tensors of one arena, fetched from the device as their turn comes.
void add_sources(std::vector<TensorSource>& sources, const Llama& model, Arena arena,
                 const std::string& prefix) {
  const auto fetched = std::make_shared<std::vector<float>>();
  for (const ParamTensor& tensor : model.layout().tensors) {
    sources.push_back(
        {prefix + tensor.name, "F32", tensor.shape(), nullptr, [&model, arena, &tensor, fetched] {
           *fetched = model.download(arena, tensor);
           return static_cast<const void*>(fetched->data());
         }});
  }
}

Json without_checksum(const Json& state) {
  Json rest = Json::object();
  for (const auto& [name, value] : state.members()) {
    if (name != "checksum") rest[name] = value;
  }
  return rest;
}

Json state_json(const TrainState& state, const fs::path& folder) {
  Json files = Json::object(), config = Json::object();
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) files[name] = checksum_of_file(folder / name);
  for (const auto& [key, value] : state.config) config[key] = value;
  Json json = Json::object({{"format", state_format},
                            {"step", state.step},
                            {"updates", state.updates},
                            {"tokens", state.tokens},
                            {"next_sequence", state.next_sequence},
                            {"data_fingerprint", state.fingerprint},
                            {"config", config},
                            {"xxh64", files}});
  json["checksum"] = checksum(json.dump());
  return json;
}

void copy_tokenizer(const std::string& tokenizer, const fs::path& folder) {
  if (tokenizer.empty()) return;
  const fs::path source(tokenizer);
  write_file_atomic(folder / source.filename(), read_file(source));
}

fs::path hidden(const fs::path& path) {
  return path.parent_path() / fmt::format(".{}.{}.tmp", path.filename().string(), ::getpid());
}

/// A folder that is being removed must not look like a checkpoint that lost files.
void remove_folder(const fs::path& path) {
  const fs::path away = hidden(path);
  fs::rename(path, away);
  fs::remove_all(away);
}

void write_files(const fs::path& folder, Llama& model, const TrainState& state,
                 const std::string& tokenizer) {
  std::vector<TensorSource> weights, moments;
  add_sources(weights, model, Arena::master, "");
  add_sources(moments, model, Arena::moment1, "m.");
  add_sources(moments, model, Arena::moment2, "v.");
  write_safetensors(folder / model_file, weights);
  write_safetensors(folder / optimizer_file, moments);
  write_file_atomic(folder / config_file, hf_config(model.config(), model.options().seq_len).dump(2) + "\n");
  copy_tokenizer(tokenizer, folder);
  write_file_atomic(folder / state_file, state_json(state, folder).dump(2) + "\n");
}

}  // namespace

fs::path save_checkpoint(const fs::path& run, Llama& model, const TrainState& state, int64_t keep,
                         const std::string& tokenizer) {
  const fs::path folder = run / "checkpoints", target = folder / fmt::format("step-{}", state.step);
  const fs::path temporary = hidden(target);
  fs::create_directories(folder);
  fs::remove_all(temporary);
  fs::create_directory(temporary);
  try {
    write_files(temporary, model, state, tokenizer);
    sync_path(temporary);
    if (fs::exists(target)) remove_folder(target);
    fs::rename(temporary, target);
    sync_path(folder);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
  const std::vector<CheckpointFolder> all = list_checkpoints(run);
  for (size_t i = static_cast<size_t>(keep); i < all.size(); ++i) remove_folder(all[i].path);
  return target;
}

std::string weights_checksum(const fs::path& folder) {
  const fs::path path = folder / state_file;
  return Json::parse(read_file(path), path.string()).at("xxh64").at(model_file).as_string();
}

namespace {

void load_arena(const SafetensorsFile& file, const std::string& prefix, Arena arena, Llama& model) {
  model.clear(arena);
  for (const ParamTensor& tensor : model.layout().tensors) {
    model.upload(arena, tensor, read_f32(file, prefix + tensor.name, tensor.shape()));
  }
}

}  // namespace

void load_checkpoint(const fs::path& folder, Llama& model) {
  load_weights(folder, model);
  const SafetensorsFile optimizer(folder / optimizer_file);
  load_arena(optimizer, "m.", Arena::moment1, model);
  load_arena(optimizer, "v.", Arena::moment2, model);
}

void load_weights(const fs::path& folder, Llama& model) {
  const Json config = Json::parse(read_file(folder / config_file), (folder / config_file).string());
  if (const auto difference = difference_to_hf_config(config, model.config())) {
    fail_input("{}: {}", (folder / config_file).string(), *difference);
  }
  const SafetensorsFile weights(folder / model_file);
  load_arena(weights, "", Arena::master, model);
  for (Arena which : {Arena::gradient, Arena::moment1, Arena::moment2}) model.clear(which);
  model.refresh_weights();
}

TrainState read_state(const fs::path& folder) {
  const fs::path path = folder / state_file;
  if (!fs::exists(path)) fail_input("{} has no {}", folder.string(), state_file);
  const Json json = Json::parse(read_file(path), path.string());
  if (json.at("checksum").as_string() != checksum(without_checksum(json).dump())) {
    fail_input("{} is damaged: its checksum does not match", path.string());
  }
  if (json.at("format").as_int() != state_format) {
    fail_input("{}: expected format {}, found {}", path.string(), state_format, json.at("format").as_int());
  }
  for (const char* name : {model_file, optimizer_file, config_file}) json.at("xxh64").at(name);
  for (const auto& [name, sum] : json.at("xxh64").members()) {
    if (!fs::exists(folder / name)) fail_input("{} is incomplete: {} is missing", folder.string(), name);
    const std::string found = checksum_of_file(folder / name);
    if (found != sum.as_string()) {
      fail_input("{} is damaged: its checksum is {}, expected {}", (folder / name).string(), found,
                 sum.as_string());
    }
  }
  TrainState state;
  state.step = json.at("step").as_int();
  state.updates = json.at("updates").as_int();
  state.tokens = json.at("tokens").as_int();
  state.next_sequence = json.at("next_sequence").as_int();
  state.fingerprint = json.at("data_fingerprint").as_string();
  for (const auto& [key, value] : json.at("config").members()) state.config[key] = value.as_string();
  return state;
}

void remove_leftovers(const fs::path& run) {
  const fs::path folder = run / "checkpoints";
  if (!fs::is_directory(folder)) return;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".step-") && name.ends_with(".tmp")) leftovers.push_back(entry.path());
  }
  for (const fs::path& path : leftovers) fs::remove_all(path);
}

}  // namespace tang
