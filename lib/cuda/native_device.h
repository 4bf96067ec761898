// The CUDA device on real hardware. Memory, streams and events in native_memory.cpp; kernels, products and
// graphs in native_launch.cpp; how one is opened in cuda_open.cpp.
#pragma once

#include <cuda_runtime_api.h>

#include "lib/cuda/blas.h"
#include "lib/cuda/kernel_store.h"
#include "lib/device/cuda_device.h"

namespace tang {

class NativeDevice final : public CudaDevice {
 public:
  /// `ordinal` exists and its driver is new enough.
  explicit NativeDevice(int ordinal);
  ~NativeDevice() override;

  const DeviceCaps& caps() const override { return caps_; }
  Buffer allocate(int64_t bytes) override;
  void upload(void* target, const void* host, int64_t bytes, StreamId stream) override;
  void download(void* host, const void* source, int64_t bytes, StreamId stream) override;
  void copy(void* target, const void* source, int64_t bytes, StreamId stream) override;
  void copy_2d(void* target, const void* source, const Copy2d& plan, StreamId stream) override;
  void fill_bytes(void* target, int value, int64_t bytes, StreamId stream) override;
  Event record(StreamId stream) override;
  void wait(const Event& event, StreamId stream) override;
  void synchronize(const Event& event) override;
  void synchronize() override;
  double elapsed_ms(const Event& begin, const Event& end) override;
  std::shared_ptr<void> allocate_pinned(int64_t bytes) override;
  int64_t memory_in_use() const override;

  Kernel kernel(const KernelSpec& spec) override { return kernels_->get(spec); }
  void finish_compiling() override;
  void launch(const Kernel& kernel, const LaunchShape& shape, const void* params,
              int64_t param_bytes) override;
  std::function<void()> gemm(const CudaGemm& problem) override;
  TensorMap encode(const TensorMapSpec& spec) override;
  std::unique_ptr<Graph> capture(const std::function<void()>& work) override;

 private:
  void release(void* data, int64_t bytes) noexcept override;
  cudaStream_t stream_of(StreamId id) const { return id == StreamId::compute ? compute_ : copy_; }
  void use() const;  // makes this the calling thread's device
  cudaError_t take_memory(void** data, int64_t bytes);
  void give_memory(void* data) noexcept;
  void load(KernelState& kernel);
  std::function<void()> scale_rows(const CudaGemm& problem);

  int ordinal_;
  DeviceCaps caps_;
  cudaStream_t compute_ = nullptr, copy_ = nullptr;
  cudaEvent_t fence_ = nullptr;   // orders one stream behind the other around allocations
  cudaMemPool_t pool_ = nullptr;  // none: the driver has no stream-ordered allocator
  bool check_launches_ = false;   // TANG_SYNC: wait for each launch and name the one that failed
  bool capturing_ = false;
  std::vector<void*> freed_in_capture_;  // given back when the capture ends
  std::unique_ptr<KernelStore> kernels_;
  size_t loaded_ = 0;  // of kernels_->all()
  Buffer workspace_;   // the products'
  std::unique_ptr<Blas> blas_;
};

}  // namespace tang
