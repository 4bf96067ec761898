#include "lib/data/inspect.h"

#include <algorithm>

#include "lib/base/error.h"
#include "lib/data/dataset.h"
#include "lib/data/documents.h"
#include "lib/format/safetensors.h"
#include "lib/format/sniff.h"
#include "lib/format/token_shard.h"
#include "lib/text/tokenizer.h"

namespace tang {

namespace {

std::unique_ptr<Tokenizer> tokenizer_beside(const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  return has_tokenizer(folder) ? load_tokenizer(folder) : nullptr;
}

Json inspect_shard(const fs::path& path) {
  constexpr int64_t block = 1 << 20, shown = 32;
  const TokenShard shard(path);
  const std::unique_ptr<Tokenizer> tokenizer = tokenizer_beside(path);
  std::vector<uint32_t> ids(static_cast<size_t>(std::min(block, shard.size())));
  std::vector<uint32_t> first;
  uint32_t largest = 0;
  int64_t marks = 0;
  for (int64_t begin = 0; begin < shard.size(); begin += block) {
    const int64_t count = std::min(block, shard.size() - begin);
    shard.read(begin, count, ids.data());
    if (begin == 0) first.assign(ids.begin(), ids.begin() + std::min(shown, count));
    largest = std::max(largest, *std::max_element(ids.begin(), ids.begin() + count));
    if (tokenizer != nullptr)
      marks += std::count(ids.begin(), ids.begin() + count, tokenizer->document_mark());
  }
  if (tokenizer != nullptr && largest >= tokenizer->vocab_size()) {
    fail_input("{}: its largest id is {}, but the tokenizer beside it has {} ids", path.string(), largest,
               tokenizer->vocab_size());
  }
  Json result = Json::object({{"magic", shard.kind().magic},
                              {"version", shard.kind().version},
                              {"bytes_per_id", shard.kind().id_bytes},
                              {"tokens", shard.size()},
                              {"largest_id", largest}});
  if (tokenizer != nullptr) {
    result["documents"] = marks;
    result["tokenizer"] = tokenizer->kind();
  }
  result["first_ids"] = Json::list(first);
  if (tokenizer != nullptr) result["first_text"] = tokenizer->decode(first);
  return result;
}

Json inspect_safetensors(const fs::path& path) {
  const SafetensorsFile file(path);
  Json tensors = Json::array();
  int64_t values = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    values += static_cast<int64_t>((tensor.end - tensor.begin) * 8) / tensor_dtype_bits(tensor.dtype);
    tensors.push_back(
        Json::object({{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", Json::list(tensor.shape)}}));
  }
  Json metadata = Json::object();
  for (const auto& [key, value] : file.metadata()) metadata[key] = value;
  return Json::object({{"values", values}, {"metadata", metadata}, {"tensors", tensors}});
}

Json inspect_tokenizer(const fs::path& path) {
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(path);
  return Json::object({{"tokenizer", tokenizer->kind()},
                       {"vocab_size", tokenizer->vocab_size()},
                       {"document_mark", tokenizer->document_mark()},
                       {"lossless", tokenizer->lossless()}});
}

Json inspect_text(const fs::path& path) {
  DocumentReader reader(find_sources({path.string()}), "text");
  int64_t documents = 0, bytes = 0;
  for (Document document; reader.next(document); ++documents)
    bytes += static_cast<int64_t>(document.text.size());
  return Json::object({{"documents", documents}, {"blank_documents", reader.blank()}, {"text_bytes", bytes}});
}

Json inspect_contents(const fs::path& path, FileKind kind) {
  switch (kind) {
    case FileKind::token_shard:
      return inspect_shard(path);
    case FileKind::safetensors:
      return inspect_safetensors(path);
    case FileKind::sentencepiece:
      return inspect_tokenizer(path);
    case FileKind::json:
      if (path.filename() == "tokenizer.json") return inspect_tokenizer(path);
      return Json::object({{"members", Json::parse(read_file(path), path.string()).members().size()}});
    case FileKind::json_lines:
    case FileKind::text:
      return inspect_text(path);
    default:
      fail_input("{} is {}, which tang does not read", path.string(), describe(kind));
  }
}

Json inspect_file(const fs::path& path) {
  const MappedFile file(path);
  const FileKind kind = sniff(path, file.bytes());
  Json result =
      Json::object({{"path", path.string()}, {"kind", describe(kind)}, {"bytes", file.bytes().size()}});
  const Json contents = inspect_contents(path, kind);
  for (const auto& [name, value] : contents.members()) result[name] = value;
  return result;
}

Json inspect_folder(const fs::path& folder) {
  Json result = Json::object({{"path", folder.string()}, {"kind", "a folder of token shards"}});
  const fs::path description = folder / dataset_file;
  if (fs::exists(description)) result["dataset"] = Json::parse(read_file(description), description.string());
  const std::vector<fs::path> shards = glob((folder / "*.bin").string());
  if (shards.empty()) fail_input("{} holds no token shards (*.bin)", folder.string());
  for (const fs::path& path : shards) result["shards"].push_back(inspect_file(path));
  return result;
}

void flatten(const Json& object, const std::string& prefix,
             std::vector<std::pair<std::string, std::string>>& lines) {
  for (const auto& [name, value] : object.members()) {
    if (value.is_object()) {
      flatten(value, prefix + name + ".", lines);
    } else if (value.is_array() && !value.items().empty() && value.items()[0].is_object()) {
      for (size_t i = 0; i < value.items().size(); ++i) {
        flatten(value.items()[i], fmt::format("{}{}[{}].", prefix, name, i), lines);
      }
    } else {
      lines.emplace_back(prefix + name, value.dump());
    }
  }
}

}  // namespace

Json inspect(const fs::path& path) {
  return fs::is_directory(path) ? inspect_folder(path) : inspect_file(path);
}

std::string describe_members(const Json& object) {
  std::vector<std::pair<std::string, std::string>> lines;
  flatten(object, "", lines);
  size_t width = 0;
  for (const auto& [name, value] : lines) width = std::max(width, name.size());
  std::string text;
  for (const auto& [name, value] : lines) text += fmt::format("{:<{}}  {}\n", name, width, value);
  return text;
}

}  // namespace tang
