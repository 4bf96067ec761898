#include "lib/format/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lib/base/dtype.h"
#include "lib/base/error.h"
#include "lib/base/json.h"

namespace tang {

namespace {

constexpr uint64_t max_header_bytes = 100'000'000;

struct FileDtype {
  std::string_view name;
  int64_t bits;
};

/// In the reference writer's order; later ones come first in a file.
constexpr FileDtype file_dtypes[] = {
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
};

const FileDtype* find_dtype(std::string_view name) {
  const auto* found = std::find_if(std::begin(file_dtypes), std::end(file_dtypes),
                                   [&](const FileDtype& dtype) { return dtype.name == name; });
  return found == std::end(file_dtypes) ? nullptr : found;
}

/// Bytes of a tensor; `what` opens the input error for sizes past 64 bits and for sub-byte sizes that do not
/// fill whole bytes.
uint64_t tensor_bytes(const TensorInfo& tensor, const std::string& what) {
  uint64_t bits = static_cast<uint64_t>(tensor_dtype_bits(tensor.dtype));
  for (const int64_t dim : tensor.shape) {
    if (__builtin_mul_overflow(bits, static_cast<uint64_t>(dim), &bits)) {
      fail_input("{}: shape {} of {} passes 2^64 bits", what, tensor.shape, tensor.dtype);
    }
  }
  if (bits % 8 != 0)
    fail_input("{}: shape {} of {} is not a whole number of bytes", what, tensor.shape, tensor.dtype);
  return bits / 8;
}

TensorInfo parse_tensor(const std::string& file, const std::string& name, const Json& entry) {
  TensorInfo tensor{.name = name};
  const std::string what = fmt::format("{}: tensor '{}'", file, name);
  try {
    tensor.dtype = entry.at("dtype").as_string();
    for (const Json& dim : entry.at("shape").items()) {
      const uint64_t size = dim.as_uint();
      if (size > INT64_MAX) fail_input("dimension {} passes 2^63", size);
      tensor.shape.push_back(static_cast<int64_t>(size));
    }
    const Json::Array& offsets = entry.at("data_offsets").items();
    if (offsets.size() != 2) fail_input("expected 2 data_offsets, found {}", offsets.size());
    tensor.begin = offsets[0].as_uint();
    tensor.end = offsets[1].as_uint();
  } catch (const Error& error) {
    fail_input("{}: {}", what, error.what());
  }
  if (find_dtype(tensor.dtype) == nullptr) fail_input("{} has unknown dtype '{}'", what, tensor.dtype);
  const uint64_t bytes = tensor_bytes(tensor, what);
  if (tensor.end < tensor.begin || tensor.end - tensor.begin != bytes) {
    fail_input("{}: {} {} has {} bytes, its data_offsets are [{}, {}]", what, tensor.dtype, tensor.shape,
               bytes, tensor.begin, tensor.end);
  }
  return tensor;
}

}  // namespace

int64_t tensor_dtype_bits(std::string_view dtype) {
  const FileDtype* found = find_dtype(dtype);
  return found == nullptr ? 0 : found->bits;
}

SafetensorsFile::SafetensorsFile(const fs::path& path) : file_(path) {
  const std::string name = path.string();
  const uint64_t size = file_.bytes().size();
  if (size < 8) fail_input("{} is no safetensors file: at least 8 bytes expected, found {}", name, size);
  uint64_t length = 0;
  std::memcpy(&length, file_.bytes().data(), 8);
  if (length > max_header_bytes) {
    fail_input("{}: a safetensors header has at most {} bytes, this one says {}", name, max_header_bytes,
               length);
  }
  buffer_start_ = 8 + length;
  if (buffer_start_ > size) {
    fail_input("{} is cut short: its header ends at byte {}, the file at {}", name, buffer_start_, size);
  }
  parse_header({reinterpret_cast<const char*>(file_.bytes().data()) + 8, length}, size - buffer_start_);
}

void SafetensorsFile::parse_header(std::string_view header, uint64_t buffer_bytes) {
  const std::string name = path().string();
  const size_t first = header.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || header[first] != '{') {
    fail_input("{}: the safetensors header must be a JSON object", name);
  }
  const Json root = Json::parse(header, name + ": header");
  for (const auto& [key, entry] : root.members()) {
    if (key != "__metadata__") {
      tensors_.push_back(parse_tensor(name, key, entry));
      continue;
    }
    if (!entry.is_object()) fail_input("{}: __metadata__ must be an object of strings", name);
    for (const auto& [meta, value] : entry.members()) {
      if (!value.is_string()) fail_input("{}: __metadata__ '{}' must be a string", name, meta);
      metadata_[meta] = value.as_string();
    }
  }
  std::stable_sort(tensors_.begin(), tensors_.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  for (size_t i = 0; i < tensors_.size(); ++i) index_[tensors_[i].name] = i;
  check_tiling(buffer_bytes);
}

void SafetensorsFile::check_tiling(uint64_t buffer_bytes) const {
  const std::string name = path().string();
  uint64_t at = 0;
  for (const TensorInfo& tensor : tensors_) {
    if (tensor.begin != at) {
      fail_input("{}: tensor '{}' starts at byte {} of the data, expected {} ({})", name, tensor.name,
                 tensor.begin, at, tensor.begin > at ? "bytes that belong to no tensor" : "tensors overlap");
    }
    at = tensor.end;
  }
  if (at == buffer_bytes) return;
  fail_input("{} {}: expected {} + {} header + data bytes, found {}", name,
             at > buffer_bytes ? "is cut short" : "has bytes that belong to no tensor", buffer_start_, at,
             buffer_start_ + buffer_bytes);
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const TensorInfo& SafetensorsFile::expect(std::string_view name, std::string_view dtype,
                                          std::span<const int64_t> shape) const {
  const TensorInfo* tensor = find(name);
  if (tensor == nullptr) fail_input("{} has no tensor '{}'", path().string(), name);
  if (tensor->dtype != dtype ||
      !std::equal(shape.begin(), shape.end(), tensor->shape.begin(), tensor->shape.end())) {
    fail_input("{}: tensor '{}' is {} {}, expected {} {}", path().string(), name, tensor->dtype,
               tensor->shape, dtype, shape);
  }
  return *tensor;
}

std::span<const std::byte> SafetensorsFile::bytes(const TensorInfo& tensor) const {
  return file_.bytes().subspan(buffer_start_ + tensor.begin, tensor.end - tensor.begin);
}

std::vector<float> read_f32(const SafetensorsFile& file, const std::string& name,
                            std::span<const int64_t> shape) {
  const TensorInfo* found = file.find(name);
  const bool narrow = found != nullptr && found->dtype == "BF16";
  const auto bytes = file.bytes(file.expect(name, narrow ? "BF16" : "F32", shape));
  std::vector<float> values(bytes.size() / (narrow ? sizeof(bf16) : sizeof(float)));
  if (!narrow) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    bf16 value;
    std::memcpy(&value, bytes.data() + sizeof value * i, sizeof value);
    values[i] = static_cast<float>(value);
  }
  return values;
}

namespace {

/// Indices of `tensors` in the order in which they are written.
std::vector<size_t> writing_order(std::span<const TensorSource> tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (const TensorSource& tensor : tensors) {
    if (find_dtype(tensor.dtype) == nullptr) {
      fail_check("tensor '{}': safetensors has no dtype '{}'", tensor.name, tensor.dtype);
    }
    if (tensor.name == "__metadata__") fail_check("a tensor cannot be called __metadata__");
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const FileDtype* first = find_dtype(tensors[a].dtype);
    const FileDtype* second = find_dtype(tensors[b].dtype);
    return first != second ? first > second : tensors[a].name < tensors[b].name;
  });
  return order;
}

}  // namespace

void write_safetensors(const fs::path& path, std::span<const TensorSource> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::vector<size_t> order = writing_order(tensors);
  Json::Object entries;
  std::vector<std::string> names;
  std::vector<uint64_t> sizes;
  uint64_t at = 0;
  for (const size_t i : order) {
    const TensorSource& tensor = tensors[i];
    const TensorInfo info{.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape};
    sizes.push_back(tensor_bytes(info, "tensor " + tensor.name));
    names.push_back(tensor.name);
    entries.emplace_back(tensor.name, Json::object({{"dtype", tensor.dtype},
                                                    {"shape", Json::list(tensor.shape)},
                                                    {"data_offsets", Json::array({at, at + sizes.back()})}}));
    at += sizes.back();
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) fail_check("{}: tensor '{}' given twice", path.string(), *twice);

  Json header = Json::object();
  for (const auto& [key, value] : metadata) header["__metadata__"][key] = value;
  for (auto& [name, entry] : entries) header[name] = std::move(entry);
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();

  AtomicFile file(path);
  file.append(&length, 8);
  file.append(text);
  for (size_t i = 0; i < order.size(); ++i) {
    if (sizes[i] == 0) continue;
    const TensorSource& tensor = tensors[order[i]];
    file.append(tensor.fetch ? tensor.fetch() : tensor.data, sizes[i]);
  }
  file.commit();
}

}  // namespace tang
