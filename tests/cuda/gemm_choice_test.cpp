#include "lib/cuda/gemm_choice.h"

#include <doctest/doctest.h>

#include <set>

namespace tang {
namespace {

GemmCandidate candidate(int splits, float waves, int64_t workspace = 0) {
  GemmCandidate result;
  result.splits = splits;
  result.waves = waves;
  result.workspace = workspace;
  return result;
}

CudaGemm step_product() {
  return {.transpose_b = true,
          .m = 32768,
          .n = 2048,
          .k = 1024,
          .input = Dtype::bf16,
          .output = Dtype::bf16,
          .lda = 1024,
          .ldb = 1024,
          .ldc = 2048};
}

}  // namespace

TEST_CASE("gemm choice: the bits are those of the first unsplit sum that fills the GPU, else of the first") {
  CHECK(reference_of(std::vector{candidate(2, 0.5f)}) == 0);
  CHECK(reference_of(
            std::vector{candidate(-1, 1), candidate(2, 0.5f), candidate(1, 0.97f), candidate(1, 1)}) == 2);
  CHECK(reference_of(std::vector{candidate(-1, 1), candidate(1, 0.1f), candidate(4, 0.25f)}) == 0);
  CHECK(reference_of(std::vector{candidate(-1, 1), candidate(1, 0.1f), candidate(1, 15.5f)}) == 2);
  CHECK(reference_of(std::vector{candidate(1, 8), candidate(1, 7)}) == 0);
}

TEST_CASE("gemm choice: speed chooses among equal bits alone, and must show") {
  const auto picked = [](std::vector<GemmTrial> trials, size_t reference) {
    return fastest_equal(trials, reference);
  };
  CHECK(picked({{7, 1.0}, {7, 0.9}, {7, 0.8}, {8, 0.1}}, 0) == 2);
  CHECK(picked({{7, 1.0}, {8, 0.5}}, 0) == 0);
  CHECK(picked({{8, 0.5}, {7, 1.0}, {7, 1.1}}, 1) == 1);
  CHECK(picked({{7, 1.0}, {7, 0.995}}, 0) == 0);
  CHECK(picked({{7, 1.0}, {std::nullopt, 0.1}}, 0) == 0);
  CHECK(picked({{std::nullopt, 1.0}, {std::nullopt, 0.1}, {7, 0.1}}, 0) == 0);
}

TEST_CASE("gemm choice: what needs more workspace than there is does not take part") {
  const auto left = within({candidate(1, 1, 0), candidate(2, 1, 65), candidate(3, 1, 64)}, 64);
  REQUIRE(left.size() == 2);
  CHECK(left[0].splits == 1);
  CHECK(left[1].splits == 3);
}

TEST_CASE("gemm choice: whatever the list or a time may depend on is in the key") {
  std::set<std::string> keys;
  const GemmPlace here = {130100, "NVIDIA H200", 132};
  int count = 0;
  const auto add = [&](const GemmPlace& place, auto change) {
    CudaGemm problem = step_product();
    change(problem);
    keys.insert(gemm_key(place, problem).bytes());
    ++count;
  };
  const auto same = [](CudaGemm&) {};
  add(here, same);
  add({130101, here.gpu, here.multiprocessors}, same);
  add({here.library, "NVIDIA H100", here.multiprocessors}, same);
  add({here.library, here.gpu, 114}, same);
  add(here, [](CudaGemm& p) { p.transpose_a = true; });
  add(here, [](CudaGemm& p) { p.transpose_b = false; });
  add(here, [](CudaGemm& p) { std::swap(p.m, p.n); });
  add(here, [](CudaGemm& p) { p.k = 2048; });
  add(here, [](CudaGemm& p) { p.beta = 1; });
  add(here, [](CudaGemm& p) { p.alpha = 0.5f; });
  add(here, [](CudaGemm& p) { p.output = Dtype::f32; });
  add(here, [](CudaGemm& p) { p.input = p.output = Dtype::f32; });
  add(here, [](CudaGemm& p) { p.input = p.output = Dtype::f32, p.math = MathMode::tf32; });
  add(here, [](CudaGemm& p) { p.lda += 8; });
  add(here, [](CudaGemm& p) { p.ldb += 8; });
  add(here, [](CudaGemm& p) { p.ldc += 8; });
  for (const auto operand : {&CudaGemm::a, &CudaGemm::b})
    add(here, [&](CudaGemm& p) { p.*operand = reinterpret_cast<const void*>(uintptr_t{16}); });
  add(here, [](CudaGemm& p) { p.c = reinterpret_cast<void*>(uintptr_t{16}); });
  CHECK(keys.size() == static_cast<size_t>(count));
  CudaGemm moved = step_product();
  moved.a = reinterpret_cast<const void*>(uintptr_t{4096});  // as well aligned as any
  CHECK(gemm_key(here, moved).bytes() == gemm_key(here, step_product()).bytes());
}

TEST_CASE("gemm choice: alignment counts up to 256 bytes") {
  const auto at = [](uintptr_t address) { return alignment_of(reinterpret_cast<const void*>(address)); };
  CHECK(at(4096) == 256);
  CHECK(at(4096 + 48) == 16);
  CHECK(at(4098) == 2);
  CHECK(at(0) == 256);
}

TEST_CASE("gemm choice: short products and IEEE f32 are not searched") {
  CudaGemm problem = step_product();
  CHECK(worth_searching(problem));
  problem.m = 64;
  CHECK_FALSE(worth_searching(problem));
  problem = step_product();
  problem.input = problem.output = Dtype::f32;
  CHECK_FALSE(worth_searching(problem));
  problem.math = MathMode::tf32;
  CHECK(worth_searching(problem));
}

TEST_CASE("gemm choice: an algorithm survives as bytes; other lengths are none") {
  const GemmAlgorithm algorithm = {1, 2, 3, 4, 5, 6, 7, ~uint64_t{0}};
  CHECK(unpacked(packed(algorithm)) == algorithm);
  CHECK_FALSE(unpacked(packed(algorithm) + "x"));
  CHECK_FALSE(unpacked(""));
}

}  // namespace tang
