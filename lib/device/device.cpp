#include "lib/device/device.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <limits>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/spans.h"
#include "lib/base/text.h"
#include "lib/device/cpu_device.h"
#include "lib/device/cuda_device.h"

namespace tang {

Buffer::~Buffer() {
  if (device_ != nullptr && data_ != nullptr) device_->release(data_, bytes_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

View Buffer::view(Dtype dtype, std::initializer_list<int64_t> dims, int64_t byte_offset) const {
  View result(nullptr, dtype, dims);
  if (byte_offset < 0 || byte_offset % size_of(dtype) != 0) {
    fail_input("a {} view cannot start at byte {}: a multiple of {} is needed", name_of(dtype), byte_offset,
               size_of(dtype));
  }
  if (byte_offset > bytes_ || result.size() > (bytes_ - byte_offset) / size_of(dtype)) {
    fail_input("{} from byte {} on does not fit a buffer of {} bytes", describe(result), byte_offset, bytes_);
  }
  result.data = static_cast<char*>(data_) + byte_offset;
  return result;
}

Buffer Device::allocate_zeroed(int64_t bytes) {
  Buffer buffer = allocate(bytes);
  if (bytes > 0) fill_bytes(buffer.data(), 0, bytes);
  return buffer;
}

namespace {

/// One side of a 2-D copy: refuses what would leave [0, length), naming the side.
void check_region(const char* side, int64_t offset, int64_t pitch, const Copy2d& plan, int64_t length) {
  if (length < 0) fail_input("2-D copy: {}_length is {}; it must not be negative", side, length);
  if (offset < 0) fail_input("2-D copy: {}_offset is {}; it must not be negative", side, offset);
  if (pitch < plan.width) fail_input("2-D copy: {}_pitch {} is below width {}", side, pitch, plan.width);
  int64_t end = 0;
  if (__builtin_mul_overflow(plan.height - 1, pitch, &end) || __builtin_add_overflow(end, offset, &end) ||
      __builtin_add_overflow(end, plan.width, &end) ||
      end > std::numeric_limits<int64_t>::max() / size_of(plan.dtype)) {
    fail_input("2-D copy: {}_offset {} + height {} × {}_pitch {} passes 2^63", side, offset, plan.height,
               side, pitch);
  }
  if (end > length) {
    fail_input(
        "2-D copy: the {} region ends at element {} of {} ({}_offset {}, {}_pitch {}, width {}, height {})",
        side, end, length, side, offset, side, pitch, plan.width, plan.height);
  }
}

}  // namespace

Copy2d plan_copy_2d(const Copy2d& wanted, int64_t source_length, int64_t target_length) {
  if (wanted.width <= 0) fail_input("2-D copy: width is {}; it must be positive", wanted.width);
  if (wanted.height <= 0) fail_input("2-D copy: height is {}; it must be positive", wanted.height);
  check_region("source", wanted.source_offset, wanted.source_pitch, wanted, source_length);
  check_region("target", wanted.target_offset, wanted.target_pitch, wanted, target_length);
  return wanted;
}

namespace {

std::unique_ptr<Device> open_automatic(bool announce) {
  if (cuda_device_count() > 0) return open_cuda_device(0);
  auto device = std::make_unique<CpuDevice>();
  if (announce) {
    std::fputs(fmt::format("no CUDA device here ({}): using the CPU, {} threads, {}\n", cuda_summary(),
                           device->threads(), device->caps().isa)
                   .c_str(),
               stderr);
  }
  return device;
}

int parse_ordinal(const std::string& name) {
  int ordinal = -1;
  const char* end = name.data() + name.size();
  const auto [stop, code] = std::from_chars(name.data() + 5, end, ordinal);
  if (code != std::errc{} || stop != end || ordinal < 0) {
    fail_input("device '{}': a number must follow 'cuda:', as in cuda:1", name);
  }
  return ordinal;
}

}  // namespace

std::unique_ptr<Device> open_device(const std::string& name, bool announce) {
  const Span span("device");
  if (name == "auto") return open_automatic(announce);
  if (name == "cpu") return std::make_unique<CpuDevice>();
  if (name == "cuda") return open_cuda_device(0);
  if (name.starts_with("cuda:")) return open_cuda_device(parse_ordinal(name));
  const std::array<std::string, 3> known = {"auto", "cpu", "cuda"};
  fail_input("device '{}' is unknown: it may be auto, cpu, cuda or cuda:N{}", name, suggestion(name, known));
}

bool cuda_available() {
  static const bool available = [] {
    try {
      return cuda_device_count() > 0;
    } catch (const Error&) {
      return false;  // a driver that is too old
    }
  }();
  return available;
}

}  // namespace tang
