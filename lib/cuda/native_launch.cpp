#include "kernels/scale_rows.h"
#include "lib/base/error.h"
#include "lib/base/spans.h"
#include "lib/cuda/call_check.h"
#include "lib/cuda/cuda_try.h"
#include "lib/cuda/native_device.h"
#include "lib/cuda/tensor_map.h"

namespace tang {

namespace {

dim3 native(const Dim3& dim) {
  return dim3(static_cast<unsigned>(dim.x), static_cast<unsigned>(dim.y), static_cast<unsigned>(dim.z));
}

class NativeGraph final : public Graph {
 public:
  NativeGraph(int ordinal, cudaStream_t stream, cudaGraph_t graph) : ordinal_(ordinal), stream_(stream) {
    const Span span("graph");
    CUDA_TRY(cudaGraphInstantiate(&executable_, graph, 0));
    CUDA_TRY(cudaGraphUpload(executable_, stream_));
  }
  ~NativeGraph() override {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  }
  void launch() override {
    CUDA_TRY(cudaSetDevice(ordinal_));
    CUDA_TRY(cudaGraphLaunch(executable_, stream_));
  }

 private:
  int ordinal_;
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

void NativeDevice::load(KernelState& kernel) {
  const KernelSpec& spec = kernel.spec;
  const JitEntry& entry = [&]() -> const JitEntry& {
    const Span span("wait for a kernel's binary");
    return kernel.entry();
  }();
  const Span span("kernel onto the device");
  if (capturing_) fail_check("{} is first used inside a graph capture: prepare it before", title(spec));
  check_shared(spec, entry.static_shared_bytes, caps_);
  use();
  KernelModule& module = *kernel.module;
  if (module.library == nullptr) {
    CUDA_TRY(cudaLibraryLoadData(&module.library, module.result.get().cubin.data(), nullptr, nullptr, 0,
                                 nullptr, nullptr, 0));
  }
  cudaKernel_t function = nullptr;
  CUDA_TRY(cudaLibraryGetKernel(&function, module.library, spec.entry.c_str()));
  const auto* handle = reinterpret_cast<const void*>(function);
  cudaFuncAttributes attributes{};
  CUDA_TRY(cudaFuncGetAttributes(&attributes, handle));  // loads it now, not at the first launch
  if (spec.shared_bytes >
      attributes.maxDynamicSharedSizeBytes) {  // never lowered: another spec may need more
    CUDA_TRY(cudaFuncSetAttribute(handle, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(spec.shared_bytes)));
  }
  kernel.function = function;
}

void NativeDevice::finish_compiling() {
  for (; loaded_ < kernels_->all().size(); ++loaded_) {
    KernelState& kernel = *kernels_->all()[loaded_];
    if (kernel.function == nullptr) load(kernel);
  }
}

void NativeDevice::launch(const Kernel& kernel, const LaunchShape& shape, const void* params,
                          int64_t param_bytes) {
  if (!check_launch(kernel->spec, shape, param_bytes)) return;
  if (kernel->function == nullptr) load(*kernel);
  use();
  cudaLaunchConfig_t config{};
  config.gridDim = native(shape.grid);
  config.blockDim = native(shape.block);
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = compute_;
  cudaLaunchAttribute attributes[2] = {};
  config.attrs = attributes;
  if (shape.cluster.x * shape.cluster.y * shape.cluster.z != 1) {
    const dim3 cluster = native(shape.cluster);
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {cluster.x, cluster.y, cluster.z};
  }
  if (shape.overlap_previous && caps_.compute_capability >= 90) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  void* arguments[] = {const_cast<void*>(params)};
  cudaError_t code = cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel->function), arguments);
  if (code == cudaSuccess && check_launches_ && !capturing_) code = cudaStreamSynchronize(compute_);
  if (code != cudaSuccess) {
    cudaGetLastError();
    fail_machine("CUDA: {} from {}, grid {}, block {}, {} shared bytes", cudaGetErrorString(code),
                 title(kernel->spec), describe(shape.grid), describe(shape.block), shape.shared_bytes);
  }
}

std::function<void()> NativeDevice::scale_rows(const CudaGemm& problem) {
  if (problem.beta == 1) return [] {};
  const ScaleRowsParams params = {problem.c, problem.m, problem.n, problem.ldc, problem.beta};
  const char* type = problem.output == Dtype::bf16 ? "bf16" : "float";
  const int64_t blocks =
      std::min<int64_t>((params.rows * params.columns + 255) / 256, 8 * caps_.multiprocessors);
  return bind(kernel({"scale_rows.cu", "scale_rows", {{"TANG_T", type}}, sizeof params}),
              {.grid = {blocks}, .block = {256}}, params);
}

std::function<void()> NativeDevice::gemm(const CudaGemm& problem) {
  check_gemm(problem);
  if (problem.m == 0 || problem.n == 0) return [] {};
  if (problem.k == 0) return scale_rows(problem);
  if (capturing_) fail_check("a product is prepared inside a graph capture: prepare it before");
  use();
  if (!blas_) {
    const Span span("cuBLASLt");
    workspace_ = allocate(Blas::workspace_bytes);
    blas_ = std::make_unique<Blas>(*this, compute_, workspace_.data(), JitCache::from_environment());
  }
  return blas_->prepare(problem);
}

TensorMap NativeDevice::encode(const TensorMapSpec& spec) {
  use();
  return encode_tensor_map(spec);
}

std::unique_ptr<Graph> NativeDevice::capture(const std::function<void()>& work) {
  if (capturing_) fail_check("a graph capture inside a graph capture");
  finish_compiling();
  use();
  // Only this thread is watched: kernels may be compiling on others.
  CUDA_TRY(cudaStreamBeginCapture(compute_, cudaStreamCaptureModeThreadLocal));
  capturing_ = true;
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  cudaGraph_t graph = nullptr;
  const cudaError_t code = cudaStreamEndCapture(compute_, &graph);
  capturing_ = false;
  for (void* data : std::exchange(freed_in_capture_, {})) give_memory(data);
  const std::unique_ptr<CUgraph_st, void (*)(cudaGraph_t)> owner(graph, [](cudaGraph_t g) {
    if (g != nullptr) cudaGraphDestroy(g);
  });
  if (failure) {
    cudaGetLastError();
    std::rethrow_exception(failure);
  }
  CUDA_TRY(code);
  return std::make_unique<NativeGraph>(ordinal_, compute_, graph);
}

}  // namespace tang
