// What an op's CUDA implementation may ask for, free of CUDA's own headers. lib/cuda implements it; where the
// build has no toolkit, lib/cuda/absent.cpp is linked and opening a device throws one sentence.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "lib/device/device.h"

namespace tang {

/// A kernel in kernels/, specialised by constants. The constants become -DNAME=VALUE.
struct KernelSpec {
  std::string source;                                          // "rmsnorm.cu"
  std::string entry;                                           // extern "C" name
  std::vector<std::pair<std::string, std::string>> constants;  // {"TANG_T", "bf16"}
  int64_t param_bytes = 0;   // sizeof the one by-value parameter struct; checked against the loaded kernel
  int64_t shared_bytes = 0;  // dynamic shared memory a launch may ask for (opted in beyond 48 KiB)
  std::string text = {};     // generated source; `source` is then only its name in messages
};

struct KernelState;
/// A handle to a kernel that is compiled or loaded in the background; the first launch waits for it.
using Kernel = std::shared_ptr<KernelState>;

struct Dim3 {
  int64_t x = 1, y = 1, z = 1;
};

struct LaunchShape {
  Dim3 grid, block;
  int64_t shared_bytes = 0;
  Dim3 cluster;                   // {1,1,1}: none
  bool overlap_previous = false;  // programmatic dependent launch: the kernel itself waits for its inputs
};

enum class MathMode {
  strict,
  tf32
};  // strict: IEEE f32 products (or bf16 × bf16 → f32); tf32: f32 inputs cut to 10 fraction bits

/// C[m, n] = alpha · op(A) · op(B) + beta · C, row-major. A and B share `input`; C is `output` (bf16, or
/// f32).
struct CudaGemm {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  float alpha = 1, beta = 0;
  Dtype input = Dtype::f32, output = Dtype::f32;
  MathMode math = MathMode::strict;
  const void* a = nullptr;
  int64_t lda = 0;
  const void* b = nullptr;
  int64_t ldb = 0;
  void* c = nullptr;
  int64_t ldc = 0;
};

/// The hardware's 128-byte tensor map, opaque.
struct alignas(64) TensorMap {
  std::array<unsigned char, 128> bytes;
};

/// What a tensor map describes: a tile box of a strided tensor (innermost dimension first, as the hardware
/// counts).
struct TensorMapSpec {
  Dtype dtype = Dtype::bf16;
  void* base = nullptr;                // 16-byte aligned
  std::vector<int64_t> dims;           // elements
  std::vector<int64_t> strides_bytes;  // of dims 1 …, multiples of 16
  std::vector<int64_t> box;            // elements, at most 256 each
  bool swizzle_128b = true;
};

/// A captured sequence of launches, replayed as one.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch() = 0;
};

class CudaDevice : public Device {
 public:
  /// Compiles for this device, or finds the binary in the cache. Equal specs give the same handle.
  virtual Kernel kernel(const KernelSpec& spec) = 0;
  /// Waits for every kernel asked for so far, so that the first run (or a capture) finds them loaded.
  virtual void finish_compiling() = 0;

  /// Queues the kernel on the compute stream with one by-value struct parameter. An empty grid launches
  /// nothing.
  virtual void launch(const Kernel& kernel, const LaunchShape& shape, const void* params,
                      int64_t param_bytes) = 0;

  /// Picks the algorithm now; the returned call only launches.
  virtual std::function<void()> gemm(const CudaGemm& problem) = 0;

  virtual TensorMap encode(const TensorMapSpec& spec) = 0;

  /// Everything `work` queues on the compute stream becomes a graph and is not run.
  virtual std::unique_ptr<Graph> capture(const std::function<void()>& work) = 0;

  /// A ready launch of `kernel` with a copy of `params`.
  template <class Params>
  std::function<void()> bind(Kernel kernel, const LaunchShape& shape, const Params& params) {
    return
        [this, kernel = std::move(kernel), shape, params] { launch(kernel, shape, &params, sizeof params); };
  }
};

/// CUDA device number `ordinal`. A machine error: no toolkit in the build, no driver, driver too old, no such
/// device.
std::unique_ptr<CudaDevice> open_cuda_device(int ordinal);

/// A device that compiles for `architecture` ("sm_90a") without a GPU: memory is host memory, launches do
/// nothing. It records what it compiled: see lib/check/compile.
struct CompiledKernel {
  std::string source, entry, constants;  // constants as "TANG_T=bf16 TANG_D=64"
  int registers = 0;
  int64_t spill_bytes = 0, stack_bytes = 0, static_shared_bytes = 0, cubin_bytes = 0;
  double seconds = 0;
  std::vector<std::string> warnings;  // ptxas lines that cost speed or correctness (C75xx), whole
};
class CompileOnlyDevice : public CudaDevice {
 public:
  virtual std::vector<CompiledKernel>
  compiled() = 0;  // waits for all; a failed compilation is a check error with the log
};
std::unique_ptr<CompileOnlyDevice> open_compile_only_device(const std::string& architecture);

/// CUDA devices that can be opened (0 without toolkit, driver or GPU). A driver that is too old is a machine
/// error.
int cuda_device_count();

/// One line for --version: toolkit, NVRTC and driver versions, or why there is no CUDA.
std::string cuda_summary();

}  // namespace tang
