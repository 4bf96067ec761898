#include "lib/cuda/gemm_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/gemm_probe.h"
#include "lib/cuda/cuda_try.h"

namespace tang {

namespace {

constexpr int most_rounds = 5;
constexpr double timing_ms = 25;  // for all candidates of a product; a last round may pass it
constexpr int64_t threads = 256;

KernelSpec fill_spec(const char* type) {
  return {"gemm_probe.cu", "fill_probe", {{"TANG_T", type}}, sizeof(FillProbeParams)};
}

/// Elements of a row-major matrix with rows `ld` apart, rounded up to whole 256-byte pieces.
int64_t elements(int64_t rows, int64_t ld) { return (rows * ld + 255) / 256 * 256; }

}  // namespace

/// Device memory from the driver itself: what a search used must not stay in the device's pool.
class ProbeMemory {
 public:
  explicit ProbeMemory(int64_t bytes) {
    if (cudaMalloc(&data_, static_cast<size_t>(bytes)) == cudaSuccess) return;
    cudaGetLastError();
    data_ = nullptr;
  }
  ~ProbeMemory() { cudaFree(data_); }
  ProbeMemory(const ProbeMemory&) = delete;
  ProbeMemory& operator=(const ProbeMemory&) = delete;
  char* data() const { return static_cast<char*>(data_); }

 private:
  void* data_ = nullptr;
};

/// A product on operands of its own.
struct GemmSearch::Probe {
  const Product& product;
  int64_t a_count, b_count, c_count;  // elements
  int64_t a_bytes, b_bytes, c_bytes;
  ProbeMemory memory;
  Operands operands{};
  unsigned long long* sum = nullptr;

  explicit Probe(const Product& of)
      : product(of),
        a_count(elements(p().transpose_a ? p().k : p().m, p().lda)),
        b_count(elements(p().transpose_b ? p().n : p().k, p().ldb)),
        c_count(elements(p().m, p().ldc)),
        a_bytes(a_count * size_of(p().input)),
        b_bytes(b_count * size_of(p().input)),
        c_bytes(c_count * size_of(p().output)),
        memory(a_bytes + b_bytes + c_bytes + 256) {
    char* base = memory.data();
    if (base == nullptr) return;
    operands = {base, base + a_bytes, base + a_bytes + b_bytes};
    sum = reinterpret_cast<unsigned long long*>(base + a_bytes + b_bytes + c_bytes);
  }
  const CudaGemm& p() const { return product.problem(); }
};

GemmSearch::GemmSearch(CudaDevice& device, cudaStream_t stream, cublasLtHandle_t handle, Workspace workspace)
    : device_(device),
      stream_(stream),
      handle_(handle),
      workspace_(workspace),
      fill_f32_(device.kernel(fill_spec("float"))),
      fill_bf16_(device.kernel(fill_spec("bf16"))),
      digest_(
          device.kernel({"gemm_probe.cu", "digest_probe", {{"TANG_T", "bf16"}}, sizeof(DigestProbeParams)})) {
}

std::optional<size_t> GemmSearch::run(const Product& product, std::span<const GemmCandidate> candidates,
                                      size_t reference) {
  const Probe probe(product);
  if (probe.memory.data() == nullptr) return std::nullopt;
  const CudaGemm& p = product.problem();
  fill(const_cast<void*>(probe.operands.a), p.input, probe.a_count, 1);
  fill(const_cast<void*>(probe.operands.b), p.input, probe.b_count, 2);
  std::vector<GemmTrial> trials = compare(probe, candidates);
  time(probe, candidates, trials, reference);
  return fastest_equal(trials, reference);
}

std::vector<GemmTrial> GemmSearch::compare(const Probe& probe, std::span<const GemmCandidate> candidates) {
  std::vector<GemmTrial> trials(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    fill(probe.operands.c, probe.p().output, probe.c_count, 3);  // what beta keeps, and the gaps
    if (multiply(probe, candidates[i])) trials[i].digest = digest(probe);
  }
  return trials;
}

/// In turns, so that a clock that climbs or falls meets all of them. The best time of each counts; who falls
/// far behind drops out.
void GemmSearch::time(const Probe& probe, std::span<const GemmCandidate> candidates,
                      std::vector<GemmTrial>& trials, size_t reference) {
  constexpr double far = 1.1;
  std::vector<size_t> running;
  for (size_t i = 0; i < trials.size(); ++i) {
    trials[i].ms = std::numeric_limits<double>::max();
    if (trials[i].digest && trials[i].digest == trials[reference].digest) running.push_back(i);
  }
  double spent = 0;
  for (int round = 0; round < most_rounds && running.size() > 1 && spent < timing_ms; ++round) {
    multiply(probe, candidates[reference]);  // the host gains its lead
    std::vector<Event> marks{device_.record()};
    for (const size_t i : running) {
      multiply(probe, candidates[i]);
      marks.push_back(device_.record());
    }
    device_.synchronize(marks.back());
    double best = std::numeric_limits<double>::max();
    for (size_t i = 0; i < running.size(); ++i) {
      const double ms = device_.elapsed_ms(marks[i], marks[i + 1]);
      double& least = trials[running[i]].ms;
      least = std::min(least, ms);
      best = std::min(best, least);
      spent += ms;
    }
    std::erase_if(running, [&](size_t i) { return trials[i].ms > far * best; });
  }
}

bool GemmSearch::multiply(const Probe& probe, const GemmCandidate& candidate) {
  return probe.product.run(handle_, stream_, candidate.algorithm, probe.operands, workspace_) ==
         CUBLAS_STATUS_SUCCESS;
}

void GemmSearch::fill(void* values, Dtype dtype, int64_t count, uint64_t seed) {
  const FillProbeParams params = {values, count, seed};
  const LaunchShape shape = {.grid = {std::min((count + threads - 1) / threads, int64_t{2048})},
                             .block = {threads}};
  device_.launch(dtype == Dtype::bf16 ? fill_bf16_ : fill_f32_, shape, &params, sizeof params);
}

uint64_t GemmSearch::digest(const Probe& probe) {
  CUDA_TRY(cudaMemsetAsync(probe.sum, 0, sizeof *probe.sum, stream_));
  const DigestProbeParams params = {static_cast<const uint32_t*>(probe.operands.c),
                                    probe.c_bytes / static_cast<int64_t>(sizeof(uint32_t)), probe.sum};
  device_.launch(digest_, {.grid = {2048}, .block = {threads}}, &params, sizeof params);
  unsigned long long sum = 0;
  CUDA_TRY(cudaMemcpyAsync(&sum, probe.sum, sizeof sum, cudaMemcpyDeviceToHost, stream_));
  CUDA_TRY(cudaStreamSynchronize(stream_));
  return sum;
}

}  // namespace tang
