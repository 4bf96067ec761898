#include <cstdlib>
#include <limits>

#include "lib/base/error.h"
#include "lib/base/spans.h"
#include "lib/base/text.h"
#include "lib/cuda/cuda_try.h"
#include "lib/cuda/native_device.h"

namespace tang {

namespace {

DeviceCaps read_caps(int ordinal) {
  cudaDeviceProp properties{};
  CUDA_TRY(cudaGetDeviceProperties(&properties, ordinal));
  DeviceCaps caps;
  caps.kind = DeviceKind::cuda;
  caps.name = properties.name;
  caps.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  caps.compute_capability = 10 * properties.major + properties.minor;
  caps.multiprocessors = properties.multiProcessorCount;
  caps.shared_bytes_per_block = static_cast<int64_t>(properties.sharedMemPerBlockOptin);
  caps.isa = architecture_of(caps.compute_capability);
  if (caps.compute_capability < 80) {
    fail_machine("{} has compute capability {}.{}; 8.0 is the least that tang supports", caps.name,
                 properties.major, properties.minor);
  }
  return caps;
}

/// The device's stream-ordered pool, told to keep what it has.
cudaMemPool_t memory_pool(int ordinal) {
  int supported = 0;
  CUDA_TRY(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, ordinal));
  if (supported == 0) return nullptr;
  cudaMemPool_t pool = nullptr;
  CUDA_TRY(cudaDeviceGetDefaultMemPool(&pool, ordinal));
  uint64_t keep = std::numeric_limits<uint64_t>::max();
  CUDA_TRY(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  return pool;
}

/// Copies from and to such memory are not over when the call returns.
bool page_locked(const void* host) {
  cudaPointerAttributes attributes{};
  const bool known = cudaPointerGetAttributes(&attributes, host) == cudaSuccess;
  if (!known) cudaGetLastError();
  return known && attributes.type != cudaMemoryTypeUnregistered;
}

cudaEvent_t native(const Event& event) { return static_cast<cudaEvent_t>(event.get()); }

}  // namespace

NativeDevice::NativeDevice(int ordinal) : ordinal_(ordinal) {
  {
    const Span span("CUDA context");
    use();
  }
  caps_ = read_caps(ordinal);
  kernels_ = std::make_unique<KernelStore>(SourceSet::installed(), caps_.isa, JitCache::from_environment());
  pool_ = memory_pool(ordinal);
  CUDA_TRY(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking));
  CUDA_TRY(cudaStreamCreateWithFlags(&copy_, cudaStreamNonBlocking));
  CUDA_TRY(cudaEventCreateWithFlags(&fence_, cudaEventDisableTiming));
  const char* sync = std::getenv("TANG_SYNC");
  check_launches_ = sync != nullptr && sync == std::string_view("1");
}

NativeDevice::~NativeDevice() {
  cudaSetDevice(ordinal_);  // nothing here may throw: errors were the run's to report
  cudaStreamSynchronize(compute_);
  cudaStreamSynchronize(copy_);
  blas_.reset();
  workspace_ = Buffer();
  for (const Kernel& kernel : kernels_->all()) {
    kernel->function = nullptr;
    if (cudaLibrary_t library = std::exchange(kernel->module->library, nullptr)) cudaLibraryUnload(library);
  }
  kernels_.reset();
  cudaStreamSynchronize(compute_);
  cudaEventDestroy(fence_);
  cudaStreamDestroy(copy_);
  cudaStreamDestroy(compute_);
}

void NativeDevice::use() const { CUDA_TRY(cudaSetDevice(ordinal_)); }

cudaError_t NativeDevice::take_memory(void** data, int64_t bytes) {
  if (pool_ == nullptr) return cudaMalloc(data, bytes);
  const cudaError_t code = cudaMallocAsync(data, bytes, compute_);
  if (code != cudaErrorMemoryAllocation) return code;
  cudaGetLastError();  // the pool may hold freed pieces of the wrong size: give them back and try once more
  synchronize();
  CUDA_TRY(cudaMemPoolTrimTo(pool_, 0));
  return cudaMallocAsync(data, bytes, compute_);
}

Buffer NativeDevice::allocate(int64_t bytes) {
  if (bytes < 0) fail_input("cannot allocate {} bytes", bytes);
  if (capturing_) fail_check("an allocation of {} bytes inside a graph capture", bytes);
  if (bytes == 0) return Buffer(*this, nullptr, 0);
  const Span span("device memory");
  use();
  void* data = nullptr;
  const cudaError_t code = take_memory(&data, bytes);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    fail_machine("out of memory on {}: {} wanted, {} of {} in use", caps_.name, human_bytes(bytes),
                 human_bytes(memory_in_use()), human_bytes(caps_.memory_bytes));
  }
  CUDA_TRY(code);
  Buffer buffer(*this, data, bytes);
  CUDA_TRY(cudaEventRecord(fence_, compute_));
  CUDA_TRY(cudaStreamWaitEvent(copy_, fence_, 0));
  return buffer;
}

void NativeDevice::release(void* data, int64_t) noexcept {
  if (!capturing_) return give_memory(data);
  try {
    freed_in_capture_.push_back(data);
  } catch (...) {  // out of host memory: leaking is all that is left
  }
}

void NativeDevice::give_memory(void* data) noexcept {
  cudaSetDevice(ordinal_);
  if (pool_ == nullptr) {
    cudaFree(data);  // waits for the device by itself
    return;
  }
  cudaEventRecord(fence_, copy_);
  cudaStreamWaitEvent(compute_, fence_, 0);
  cudaFreeAsync(data, compute_);
}

void NativeDevice::upload(void* target, const void* host, int64_t bytes, StreamId stream) {
  if (bytes == 0) return;
  use();
  CUDA_TRY(cudaMemcpyAsync(target, host, bytes, cudaMemcpyHostToDevice, stream_of(stream)));
  if (!capturing_ && !page_locked(host)) CUDA_TRY(cudaStreamSynchronize(stream_of(stream)));
}

void NativeDevice::download(void* host, const void* source, int64_t bytes, StreamId stream) {
  if (bytes == 0) return;
  use();
  CUDA_TRY(cudaMemcpyAsync(host, source, bytes, cudaMemcpyDeviceToHost, stream_of(stream)));
  if (!capturing_ && !page_locked(host)) CUDA_TRY(cudaStreamSynchronize(stream_of(stream)));
}

void NativeDevice::copy(void* target, const void* source, int64_t bytes, StreamId stream) {
  if (bytes == 0) return;
  use();
  CUDA_TRY(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, stream_of(stream)));
}

void NativeDevice::copy_2d(void* target, const void* source, const Copy2d& plan, StreamId stream) {
  use();
  const int64_t size = size_of(plan.dtype);
  CUDA_TRY(cudaMemcpy2DAsync(static_cast<char*>(target) + plan.target_offset * size, plan.target_pitch * size,
                             static_cast<const char*>(source) + plan.source_offset * size,
                             plan.source_pitch * size, plan.width * size, plan.height,
                             cudaMemcpyDeviceToDevice, stream_of(stream)));
}

void NativeDevice::fill_bytes(void* target, int value, int64_t bytes, StreamId stream) {
  if (bytes == 0) return;
  use();
  CUDA_TRY(cudaMemsetAsync(target, value, bytes, stream_of(stream)));
}

Event NativeDevice::record(StreamId stream) {
  use();
  cudaEvent_t event = nullptr;
  CUDA_TRY(cudaEventCreate(&event));
  Event result(event, [](void* native) { cudaEventDestroy(static_cast<cudaEvent_t>(native)); });
  CUDA_TRY(cudaEventRecord(event, stream_of(stream)));
  return result;
}

void NativeDevice::wait(const Event& event, StreamId stream) {
  use();
  CUDA_TRY(cudaStreamWaitEvent(stream_of(stream), native(event), 0));
}

void NativeDevice::synchronize(const Event& event) { CUDA_TRY(cudaEventSynchronize(native(event))); }

void NativeDevice::synchronize() {
  use();
  CUDA_TRY(cudaStreamSynchronize(compute_));
  CUDA_TRY(cudaStreamSynchronize(copy_));
}

double NativeDevice::elapsed_ms(const Event& begin, const Event& end) {
  float milliseconds = 0;
  CUDA_TRY(cudaEventElapsedTime(&milliseconds, native(begin), native(end)));
  return milliseconds;
}

std::shared_ptr<void> NativeDevice::allocate_pinned(int64_t bytes) {
  if (bytes < 0) fail_input("cannot allocate {} bytes", bytes);
  use();
  void* data = nullptr;
  CUDA_TRY(cudaHostAlloc(&data, std::max<int64_t>(bytes, 1), cudaHostAllocPortable));
  return {data, [](void* memory) { cudaFreeHost(memory); }};
}

int64_t NativeDevice::memory_in_use() const {
  use();
  size_t free = 0, total = 0;
  CUDA_TRY(cudaMemGetInfo(&free, &total));
  return static_cast<int64_t>(total - free);
}

}  // namespace tang
