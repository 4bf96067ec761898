// safetensors files: u64 header length, a JSON header, then the tensors' bytes, row-major little-endian.
// The format: https://github.com/huggingface/safetensors (README "Format").
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/file.h"

namespace tang {

/// Bits of one element of a safetensors dtype ("F32", "BF16", "I64", …); 0 when there is no such dtype.
int64_t tensor_dtype_bits(std::string_view dtype);

struct TensorInfo {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;   // [] is a scalar
  uint64_t begin = 0, end = 0;  // bytes, relative to the first tensor's
};

/// A mapped file. Opening checks everything that the format promises (README and reference tests): header
/// length and JSON, no name twice, dtypes, shapes without overflow, offsets that tile the buffer exactly, no
/// byte too few or too many. What does not hold is an input error naming the file and both values.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const fs::path& path);

  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in file order
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const fs::path& path() const { return file_.path(); }

  const TensorInfo* find(std::string_view name) const;  // nullptr: no such tensor
  /// The tensor of that name, with the dtype and shape given; anything else is an input error naming both.
  const TensorInfo& expect(std::string_view name, std::string_view dtype,
                           std::span<const int64_t> shape) const;

  /// The tensor's bytes. They may be unaligned: memcpy, do not cast.
  std::span<const std::byte> bytes(const TensorInfo& tensor) const;

 private:
  void parse_header(std::string_view header, uint64_t buffer_bytes);
  void check_tiling(uint64_t buffer_bytes) const;

  MappedFile file_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
  uint64_t buffer_start_ = 0;
};

/// A tensor's values as f32, from F32 or BF16; another dtype or shape is an input error.
std::vector<float> read_f32(const SafetensorsFile& file, const std::string& name,
                            std::span<const int64_t> shape);

/// A tensor to write. `fetch`, when set, is called once when its turn comes and returns the bytes, valid
/// until the next call: a model on a GPU need not be on the host whole. Otherwise `data` points at them.
struct TensorSource {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  std::function<const void*()> fetch = nullptr;
};

/// Writes atomically (AtomicFile), tensors ordered as the reference writer does (widest dtype first, then by
/// name), header padded to 8 bytes. {"format": "pt"} is what transformers asks for. Unknown dtypes and a
/// repeated name (tied weights are stored once) are check errors.
void write_safetensors(const fs::path& path, std::span<const TensorSource> tensors,
                       const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace tang
