// The CPU back end: one OpenMP pool, run-time instruction sets, and a GEMM. It is also the reference machine.
#pragma once

#include "lib/device/device.h"

namespace tang {

/// C[m, n] = alpha · op(A)[m, k] · op(B)[k, n] + beta · C, row-major, f32. beta = 0 never reads C.
struct CpuGemm {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  float alpha = 1, beta = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  const float* b = nullptr;
  int64_t ldb = 0;
  float* c = nullptr;
  int64_t ldc = 0;
};

class CpuDevice final : public Device {
 public:
  /// `threads` 0: all that the process may use.
  explicit CpuDevice(int threads = 0);

  const DeviceCaps& caps() const override { return caps_; }
  int threads() const { return caps_.threads; }

  /// Calls body(begin, end) over [0, count) cut into at most one contiguous range a thread, none smaller than
  /// `grain` items except the last. The cut depends on count, grain and the thread count alone.
  void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) const;

  /// Uses the same pool; oneDNN where the build has it, else a portable blocked kernel.
  void gemm(const CpuGemm& problem) const;

  Buffer allocate(int64_t bytes) override;
  void upload(void* target, const void* host, int64_t bytes, StreamId stream) override;
  void download(void* host, const void* source, int64_t bytes, StreamId stream) override;
  void copy(void* target, const void* source, int64_t bytes, StreamId stream) override;
  void copy_2d(void* target, const void* source, const Copy2d& plan, StreamId stream) override;
  void fill_bytes(void* target, int value, int64_t bytes, StreamId stream) override;
  Event record(StreamId stream) override;
  void wait(const Event&, StreamId) override {}
  void synchronize(const Event&) override {}
  void synchronize() override {}
  double elapsed_ms(const Event& begin, const Event& end) override;
  std::shared_ptr<void> allocate_pinned(int64_t bytes) override;
  int64_t memory_in_use() const override { return 0; }

 private:
  void release(void* data, int64_t bytes) noexcept override;
  DeviceCaps caps_;
};

}  // namespace tang
