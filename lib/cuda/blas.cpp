#include "lib/cuda/blas.h"

#include <cstdlib>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/spans.h"
#include "lib/cuda/blas_library.h"
#include "lib/cuda/gemm_search.h"

namespace tang {

namespace {
constexpr int most_candidates = 16;  // the library stops at eight or so by itself
}

struct Blas::Library {
  BlasHandle handle;
  std::optional<GemmSearch> search;  // from the first product that is searched
};

Blas::Blas(CudaDevice& device, cudaStream_t stream, void* workspace, JitCache cache)
    : device_(device),
      stream_(stream),
      workspace_(workspace),
      cache_(std::move(cache)),
      place_{lt().GetVersion(), device.caps().name, device.caps().multiprocessors},
      library_(std::make_unique<Library>()) {
  const char* search = std::getenv("TANG_GEMM_SEARCH");
  searches_ = search == nullptr || search != std::string_view("0");
}

Blas::~Blas() = default;

std::function<void()> Blas::prepare(const CudaGemm& problem) {
  const Span span("choice of algorithm");
  const auto product = std::make_shared<const Product>(problem);
  const Digest key = gemm_key(place_, problem);
  auto found = chosen_.find(key.bytes());
  if (found == chosen_.end()) found = chosen_.emplace(key.bytes(), choose(*product, key)).first;
  return [product, algorithm = found->second, handle = cublasLtHandle_t(library_->handle), stream = stream_,
          workspace = Workspace{workspace_, workspace_bytes}, fresh = true]() mutable {
    std::optional<Span> first;  // it loads the library's kernel
    if (std::exchange(fresh, false)) first.emplace("first launches of products");
    const CudaGemm& p = product->problem();
    require(product->run(handle, stream, algorithm, {p.a, p.b, p.c}, workspace), "cublasLtMatmul");
  };
}

GemmAlgorithm Blas::choose(const Product& product, const Digest& key) {
  const bool searched = searches_ && worth_searching(product.problem());
  if (searched) {
    if (const auto algorithm = kept(product, key)) return *algorithm;
  }
  const cublasLtHandle_t handle = library_->handle;
  const auto candidates = product.candidates(handle, workspace_bytes, most_candidates);
  const size_t reference = reference_of(candidates);
  if (!searched) return candidates[reference].algorithm;
  if (!library_->search) {
    library_->search.emplace(device_, stream_, handle, Workspace{workspace_, workspace_bytes});
  }
  const Span span("search for an algorithm");
  const std::optional<size_t> fastest = library_->search->run(product, candidates, reference);
  if (!fastest) return candidates[reference].algorithm;
  cache_.store(key, packed(candidates[*fastest].algorithm));
  return candidates[*fastest].algorithm;
}

std::optional<GemmAlgorithm> Blas::kept(const Product& product, const Digest& key) const {
  const auto payload = cache_.find(key);
  const auto algorithm = payload ? unpacked(*payload) : std::nullopt;
  if (!algorithm || !product.accepts(library_->handle, *algorithm, workspace_bytes)) return std::nullopt;
  return algorithm;
}

}  // namespace tang
