// The device interface: memory, copies, order. Nothing here is per op; ops reach the rest through CpuDevice
// or CudaDevice.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/view.h"

namespace tang {

enum class DeviceKind { cpu, cuda };
constexpr std::string_view name_of(DeviceKind kind) { return kind == DeviceKind::cpu ? "cpu" : "cuda"; }

struct DeviceCaps {
  DeviceKind kind = DeviceKind::cpu;
  std::string name;                    // "NVIDIA H200", or the CPU's model name
  int64_t memory_bytes = 0;            // total
  int compute_capability = 0;          // CUDA: 10 × major + minor (90 on Hopper); 0 on the CPU
  int multiprocessors = 0;             // CUDA
  int64_t shared_bytes_per_block = 0;  // CUDA: the opt-in maximum
  int threads = 0;                     // CPU: size of the pool
  std::string isa;                     // CPU: "avx512", "avx2" or "baseline"; CUDA: "sm_90a"
};

class Device;

/// Device memory that frees itself in stream order: work already queued may still use it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, void* data, int64_t bytes) : device_(&device), data_(data), bytes_(bytes) {}
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  /// A packed view of the memory from `byte_offset` on; an input error when it does not fit.
  View view(Dtype dtype, std::initializer_list<int64_t> dims, int64_t byte_offset = 0) const;

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

enum class StreamId { compute, copy };

/// A point in a stream's order. Opaque; made by Device::record.
using Event = std::shared_ptr<void>;

/// A two-dimensional copy between pitched regions, in elements. plan_copy_2d is the only way to make one.
struct Copy2d {
  Dtype dtype;
  int64_t source_offset, source_pitch, target_offset, target_pitch, width, height;
};

/// Checks the plan against both buffers' lengths (elements) before any driver sees it. Refuses an empty copy,
/// a pitch below the width, a region past either end, overlapping arithmetic past 2^63: each with the
/// dimension's name.
Copy2d plan_copy_2d(const Copy2d& wanted, int64_t source_length, int64_t target_length);

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceCaps& caps() const = 0;
  DeviceKind kind() const { return caps().kind; }

  /// Memory aligned to 256 bytes; its content is undefined. Out of memory is a machine error with the sizes.
  virtual Buffer allocate(int64_t bytes) = 0;
  Buffer allocate_zeroed(int64_t bytes);

  // All of these are queued on `stream`. upload and download take host memory: pageable memory makes them
  // wait, memory from allocate_pinned does not, and then the caller waits (synchronize, or an event) before
  // touching it.
  virtual void upload(void* target, const void* host, int64_t bytes, StreamId stream = StreamId::compute) = 0;
  virtual void download(void* host, const void* source, int64_t bytes,
                        StreamId stream = StreamId::compute) = 0;
  virtual void copy(void* target, const void* source, int64_t bytes, StreamId stream = StreamId::compute) = 0;
  virtual void copy_2d(void* target, const void* source, const Copy2d& plan,
                       StreamId stream = StreamId::compute) = 0;
  virtual void fill_bytes(void* target, int value, int64_t bytes, StreamId stream = StreamId::compute) = 0;

  virtual Event record(StreamId stream = StreamId::compute) = 0;
  virtual void wait(const Event& event, StreamId stream) = 0;  // the stream waits, the host does not
  virtual void synchronize(const Event& event) = 0;            // the host waits
  virtual void synchronize() = 0;                              // the host waits for every stream
  /// Device time between two recorded events, in milliseconds; both must have completed.
  virtual double elapsed_ms(const Event& begin, const Event& end) = 0;

  /// Host memory that copies asynchronously.
  virtual std::shared_ptr<void> allocate_pinned(int64_t bytes) = 0;

  /// Bytes in use on the device by the driver's own figure (0 where unknown, as on the CPU).
  virtual int64_t memory_in_use() const = 0;

 private:
  friend class Buffer;
  virtual void release(void* data, int64_t bytes) noexcept = 0;
};

/// An operation that is ready: running it only launches. It allocates nothing, looks nothing up and reads
/// nothing back, so it can be captured in a graph. It borrows the memory it was prepared with.
class Prepared {
 public:
  Prepared() = default;
  Prepared(std::string_view op, std::function<void()> launch) : op_(op), launch_(std::move(launch)) {}
  void operator()() const { launch_(); }
  std::string_view op() const { return op_; }  // the registered op's name, for profiles

 private:
  std::string_view op_;
  std::function<void()> launch_;
};

/// "cpu", "cuda", "cuda:1", or "auto": CUDA where there is a GPU, else the CPU (said on stderr when
/// `announce`). A machine error when CUDA is asked for and cannot be had; a driver that is too old is never
/// taken for "no GPU".
std::unique_ptr<Device> open_device(const std::string& name, bool announce = true);

/// True where a CUDA device can be opened.
bool cuda_available();

}  // namespace tang
