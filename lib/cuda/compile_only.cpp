#include <fmt/ranges.h>

#include <cstdlib>
#include <map>
#include <set>

#include "lib/base/error.h"
#include "lib/cuda/call_check.h"
#include "lib/cuda/kernel_store.h"
#include "lib/cuda/tensor_map.h"
#include "lib/device/cpu_device.h"
#include "lib/device/cuda_device.h"

namespace tang {

namespace {

class NoGraph final : public Graph {
  void launch() override {}
};

/// What the ops ask of a chip before they choose a kernel.
DeviceCaps caps_of(const std::string& architecture) {
  struct Chip {
    int multiprocessors;
    int64_t memory_gib, shared_bytes;
  };
  static const std::map<int, Chip> chips = {{80, {108, 80, 166912}},   {86, {84, 48, 101376}},
                                            {89, {142, 48, 101376}},   {90, {132, 141, 232448}},
                                            {100, {148, 180, 232448}}, {120, {170, 32, 101376}}};
  const int capability = architecture.starts_with("sm_") ? std::atoi(architecture.c_str() + 3) : 0;
  if (capability < 80) {
    fail_input("architecture '{}' is not one that tang compiles for: sm_80, sm_90a, sm_100a, sm_120 …",
               architecture);
  }
  const Chip& chip = std::prev(chips.upper_bound(capability))->second;  // its own, or the nearest before it
  DeviceCaps caps;
  caps.kind = DeviceKind::cuda;
  caps.name = fmt::format("compiler for {}", architecture);
  caps.memory_bytes = chip.memory_gib << 30;
  caps.compute_capability = capability;
  caps.multiprocessors = chip.multiprocessors;
  caps.shared_bytes_per_block = chip.shared_bytes;
  caps.isa = architecture;
  return caps;
}

class CompilerDevice final : public CompileOnlyDevice {
 public:
  explicit CompilerDevice(const std::string& architecture)
      : caps_(caps_of(architecture)),
        kernels_(SourceSet::installed(), architecture, JitCache(std::nullopt)) {}

  const DeviceCaps& caps() const override { return caps_; }
  Buffer allocate(int64_t bytes) override { return memory_.allocate(bytes); }
  void upload(void* target, const void* host, int64_t bytes, StreamId stream) override {
    memory_.upload(target, host, bytes, stream);
  }
  void download(void* host, const void* source, int64_t bytes, StreamId stream) override {
    memory_.download(host, source, bytes, stream);
  }
  void copy(void* target, const void* source, int64_t bytes, StreamId stream) override {
    memory_.copy(target, source, bytes, stream);
  }
  void copy_2d(void* target, const void* source, const Copy2d& plan, StreamId stream) override {
    memory_.copy_2d(target, source, plan, stream);
  }
  void fill_bytes(void* target, int value, int64_t bytes, StreamId stream) override {
    memory_.fill_bytes(target, value, bytes, stream);
  }
  Event record(StreamId stream) override { return memory_.record(stream); }
  void wait(const Event&, StreamId) override {}
  void synchronize(const Event&) override {}
  void synchronize() override {}
  double elapsed_ms(const Event& begin, const Event& end) override { return memory_.elapsed_ms(begin, end); }
  std::shared_ptr<void> allocate_pinned(int64_t bytes) override { return memory_.allocate_pinned(bytes); }
  int64_t memory_in_use() const override { return 0; }

  Kernel kernel(const KernelSpec& spec) override { return kernels_.get(spec); }
  void finish_compiling() override {
    for (const Kernel& kernel : kernels_.all()) kernel->entry();
  }
  void launch(const Kernel& kernel, const LaunchShape& shape, const void*, int64_t param_bytes) override {
    check_launch(kernel->spec, shape, param_bytes);
  }
  std::function<void()> gemm(const CudaGemm& problem) override {
    check_gemm(problem);
    return [] {};
  }
  TensorMap encode(const TensorMapSpec& spec) override {
    check_tensor_map(spec);
    return {};
  }
  std::unique_ptr<Graph> capture(const std::function<void()>& work) override {
    work();
    return std::make_unique<NoGraph>();
  }

  std::vector<CompiledKernel> compiled() override;

 private:
  CompiledKernel report(const KernelState& kernel) const;
  void release(void*, int64_t) noexcept override {}  // memory_ made every buffer and frees it

  DeviceCaps caps_;
  CpuDevice memory_;
  KernelStore kernels_;
};

CompiledKernel CompilerDevice::report(const KernelState& kernel) const {
  const JitEntry& entry = kernel.entry();
  const JitResult& result = kernel.module->result.get();
  check_shared(kernel.spec, entry.static_shared_bytes, caps_);
  return {kernel.spec.source,
          entry.name,
          describe(kernel.spec.constants),
          entry.registers,
          entry.spill_bytes,
          entry.stack_bytes,
          entry.static_shared_bytes,
          static_cast<int64_t>(result.cubin.size()),
          result.seconds,
          result.warnings};
}

std::vector<CompiledKernel> CompilerDevice::compiled() {
  std::vector<CompiledKernel> list;
  std::set<std::string> faults;  // a source that fails does so once for each of its entries
  for (const Kernel& kernel : kernels_.all()) {
    try {
      list.push_back(report(*kernel));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::machine) throw;
      faults.insert(error.what());
    }
  }
  if (!faults.empty()) fail_check("{}", fmt::join(faults, "; "));
  return list;
}

}  // namespace

std::unique_ptr<CompileOnlyDevice> open_compile_only_device(const std::string& architecture) {
  return std::make_unique<CompilerDevice>(architecture);
}

}  // namespace tang
