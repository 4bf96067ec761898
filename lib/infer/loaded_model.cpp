#include "lib/infer/loaded_model.h"

#include <algorithm>

#include "lib/base/error.h"
#include "lib/format/run_folder.h"
#include "lib/format/safetensors.h"
#include "lib/model/hf_config.h"
#include "lib/model/params.h"

namespace tang {

namespace {

constexpr const char* config_file = "config.json";
constexpr const char* weights_file = "model.safetensors";

bool whole(const fs::path& folder) {
  return fs::is_regular_file(folder / config_file) && fs::is_regular_file(folder / weights_file);
}

template <class T>
void upload_weights(Device& device, const SafetensorsFile& file, const ParamLayout& layout,
                    const View& weights) {
  std::vector<T> arena(static_cast<size_t>(layout.size), T(0.0f));  // gaps and padding stay zero
  for (const ParamTensor& tensor : layout.tensors) {
    const std::vector<float> values = read_f32(file, tensor.name, tensor.shape());
    std::transform(values.begin(), values.end(), arena.begin() + tensor.offset,
                   [](float value) { return T(value); });
  }
  device.upload(weights.data, arena.data(), weights.bytes());
  device.synchronize();  // the arena leaves scope
}

}  // namespace

fs::path find_checkpoint(const fs::path& path) {
  if (!fs::is_directory(path)) fail_input("--model {}: there is no such folder", path.string());
  if (whole(path)) return path;
  const auto checkpoints = list_checkpoints(path);
  for (const CheckpointFolder& folder : checkpoints) {
    if (whole(folder.path)) return folder.path;
  }
  fail_input("{} is neither a checkpoint ({} and {}) nor a run folder with a whole one in checkpoints/",
             path.string(), config_file, weights_file);
}

LoadedModel load_model(Device& device, const fs::path& folder, Precision precision) {
  LoadedModel model;
  const fs::path config = folder / config_file;
  const Json json = Json::parse(read_file(config), config.string());
  model.config = config_from_hf(json, config.string());
  if (const Json* context = json.find("max_position_embeddings"); context != nullptr && context->is_integer())
    model.context = context->as_int();
  model.tokenizer = load_tokenizer(folder);
  if (model.tokenizer->vocab_size() > model.config.vocab_size) {
    fail_input("{}: the tokenizer has {} ids, the model {}", folder.string(), model.tokenizer->vocab_size(),
               model.config.vocab_size);
  }
  const SafetensorsFile file(folder / weights_file);
  const ParamLayout layout = param_layout(model.config);
  model.precision = precision;
  const Dtype dtype = data_type(precision);
  model.memory = device.allocate(layout.size * size_of(dtype));
  model.weights = model.memory.view(dtype, {layout.size});
  if (dtype == Dtype::bf16) {
    upload_weights<bf16>(device, file, layout, model.weights);
  } else {
    upload_weights<float>(device, file, layout, model.weights);
  }
  return model;
}

}  // namespace tang
