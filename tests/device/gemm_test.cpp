#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/rng.h"
#include "lib/device/cpu_gemm.h"

namespace tang {
namespace {

std::vector<float> gaussian(int64_t count, uint64_t stream) {
  const Rng rng(7, stream);
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(rng.normal(i));
  return values;
}

using Multiply = void (*)(const CpuDevice&, const CpuGemm&);
void multiply_default(const CpuDevice& device, const CpuGemm& problem) { device.gemm(problem); }

/// Random operands with padded rows and the f64 triple loop over them.
struct Case {
  CpuGemm p;
  std::vector<float> a, b, c, result;

  Case(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b, float alpha, float beta) {
    p = {transpose_a, transpose_b, m, n, k, alpha, beta};
    p.lda = (transpose_a ? m : k) + 3;
    p.ldb = (transpose_b ? k : n) + 2;
    p.ldc = n + 1;
    a = gaussian((transpose_a ? k : m) * p.lda, 1);
    b = gaussian((transpose_b ? n : k) * p.ldb, 2);
    c = gaussian(m * p.ldc, 3);
    if (beta == 0) std::fill(c.begin(), c.end(), std::numeric_limits<float>::quiet_NaN());
    result = c;
    p.a = a.data(), p.b = b.data(), p.c = result.data();
  }

  /// Largest error over the bound that rounding allows.
  double worst() const {
    double worst = 0;
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0, squares = 0;
        const auto add = [&](double term) { sum += term, squares += term * term; };
        for (int64_t q = 0; q < p.k; ++q) {
          add(double(p.alpha) * a[p.transpose_a ? q * p.lda + i : i * p.lda + q] *
              b[p.transpose_b ? j * p.ldb + q : q * p.ldb + j]);
        }
        if (p.beta != 0) add(double(p.beta) * c[i * p.ldc + j]);
        const double bound = 0x1p-24 * std::abs(sum) + 4 * 0x1p-24 * std::sqrt((p.k + 4.0) * squares) + 1e-30;
        const double error = std::abs(result[i * p.ldc + j] - sum) / bound;
        worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
      }
    }
    return worst;
  }

  /// True when the gaps between C's rows still hold what they held.
  bool gaps_untouched() const {
    for (int64_t i = 0; i < p.m; ++i) {
      const float before = c[i * p.ldc + p.n], after = result[i * p.ldc + p.n];
      if (std::memcmp(&before, &after, sizeof before) != 0) return false;
    }
    return true;
  }
};

void check_shapes(Multiply multiply) {
  const CpuDevice device;
  const int64_t shapes[][3] = {{1, 1, 1},   {1, 40, 17},   {5, 1, 300}, {12, 32, 256}, {13, 33, 257},
                               {7, 391, 9}, {200, 50, 70}, {3, 5, 0},   {30, 400, 260}};
  for (const auto& [m, n, k] : shapes) {
    for (int form = 0; form < 4; ++form) {
      for (const auto& [alpha, beta] : {std::pair{1.0f, 0.0f}, {0.5f, 1.0f}, {-2.0f, 0.25f}}) {
        Case example(m, n, k, form & 1, form & 2, alpha, beta);
        multiply(device, example.p);
        const std::string which = fmt::format("m {} n {} k {} form {} alpha {}", m, n, k, form, alpha);
        CHECK_MESSAGE(example.worst() <= 1, which);
        CHECK_MESSAGE(example.gaps_untouched(), which);
      }
    }
  }
}

}  // namespace

TEST_CASE("gemm: CpuDevice::gemm matches an f64 triple loop, whatever the transposes, alpha and beta") {
  check_shapes(multiply_default);
}

TEST_CASE("gemm: the portable kernel matches an f64 triple loop, whatever the transposes, alpha and beta") {
  check_shapes(+[](const CpuDevice& device, const CpuGemm& problem) {
    // Its own contract starts at k > 0; CpuDevice::gemm handles the rest.
    problem.k == 0 ? device.gemm(problem) : gemm_portable(device, problem);
  });
}

TEST_CASE("gemm: blocks beyond one panel of columns") {
  Case example(3, 3100, 10, false, true, 1, 0);
  gemm_portable(CpuDevice(), example.p);
  CHECK(example.worst() <= 1);
}

TEST_CASE("gemm: the portable kernel gives the same bits for every thread count") {
  Case one(100, 800, 300, false, false, 1, 0), three = one;
  three.p.a = three.a.data(), three.p.b = three.b.data(), three.p.c = three.result.data();
  gemm_portable(CpuDevice(1), one.p);
  gemm_portable(CpuDevice(3), three.p);
  CHECK(std::memcmp(one.result.data(), three.result.data(), one.result.size() * sizeof(float)) == 0);
}

TEST_CASE("gemm: two runs give the same bits") {
  const CpuDevice device;
  Case first(65, 130, 700, true, false, 1, 0);
  device.gemm(first.p);
  const std::vector<float> bits = first.result;
  device.gemm(first.p);
  CHECK(std::memcmp(bits.data(), first.result.data(), bits.size() * sizeof(float)) == 0);
}

TEST_CASE("gemm: a leading dimension below the row is refused by name") {
  const CpuDevice device;
  Case example(4, 4, 4, false, false, 1, 0);
  example.p.ldb = 3;
  CHECK_THROWS_WITH_AS(device.gemm(example.p), doctest::Contains("ldb is 3"), Error);
}

}  // namespace tang
