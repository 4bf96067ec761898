#include "lib/ops/matmul.h"

#include <doctest/doctest.h>

#include <vector>

#include "lib/base/error.h"

namespace tang {
namespace {

TEST_CASE("matmul: bf16 sums in f32 across every block and rounds once") {
  // 2^-8 and 1 in bf16: a running bf16 sum would stay at 1.
  const int64_t depth = 2049;
  std::vector<bf16> a(depth, bf16(0x1p-8f)), b(depth, bf16(1.0f));
  a[0] = bf16(1.0f);
  bf16 rounded;
  float whole = 0;
  CpuDevice device(2);
  Matmul args{.a = View(a.data(), Dtype::bf16, {1, depth}),
              .b = View(b.data(), Dtype::bf16, {depth, 1}),
              .c = View(&rounded, Dtype::bf16, {1, 1})};
  matmul(device, args);
  CHECK(static_cast<float>(rounded) == 9.0f);  // 1 + 2048/256
  args.c = View(&whole, Dtype::f32, {1, 1});
  whole = 0.5f;
  args.accumulate = true;
  matmul(device, args);
  CHECK(whole == 9.5f);
}

TEST_CASE("matmul: blocks of a bf16 product meet without a seam, whatever the transposes") {
  const int64_t m = 515, n = 1027, k = 1030;
  CpuDevice device(2);
  std::vector<bf16> a(m * k), b(k * n), c(m * n);
  for (size_t i = 0; i < a.size(); ++i) a[i] = bf16(static_cast<float>(i * 7 % 5) - 2);
  for (size_t i = 0; i < b.size(); ++i) b[i] = bf16(static_cast<float>(i * 11 % 7) - 3);
  for (int flags = 0; flags < 4; ++flags) {
    const bool ta = flags & 1, tb = flags & 2;
    matmul(device, {.a = View(a.data(), Dtype::bf16, {ta ? k : m, ta ? m : k}),
                    .b = View(b.data(), Dtype::bf16, {tb ? n : k, tb ? k : n}),
                    .c = View(c.data(), Dtype::bf16, {m, n}),
                    .transpose_a = ta,
                    .transpose_b = tb});
    for (const int64_t i : {int64_t{0}, int64_t{511}, int64_t{512}, m - 1}) {
      for (const int64_t j : {int64_t{0}, int64_t{1023}, int64_t{1024}, n - 1}) {
        double sum = 0;
        for (int64_t q = 0; q < k; ++q) {
          sum += static_cast<double>(static_cast<float>(a[ta ? q * m + i : i * k + q])) *
                 static_cast<double>(static_cast<float>(b[tb ? j * k + q : q * n + j]));
        }
        CHECK(static_cast<float>(c[i * n + j]) == static_cast<float>(bf16(static_cast<float>(sum))));
      }
    }
  }
}

TEST_CASE("matmul: shapes that do not fit are refused with both operands") {
  CpuDevice device(1);
  std::vector<float> memory(64, 0.0f);
  const Matmul args{.a = View(memory.data(), Dtype::f32, {2, 3}),
                    .b = View(memory.data(), Dtype::f32, {4, 2}),
                    .c = View(memory.data(), Dtype::f32, {2, 2})};
  CHECK_THROWS_WITH_AS(matmul(device, args),
                       "matmul: dimension 0 of b is 4, but K = 3 in a f32 [2, 3] (b is f32 [4, 2])", Error);
}

TEST_CASE("matmul: scratch is there exactly where an operand is turned, and holds it") {
  float element = 0;
  int turned = 0;
  for (const int64_t m : {1023, 1024, 2000})
    for (const int64_t n : {40, 1024, 1500})
      for (const int64_t k : {64, 66})
        for (int flags = 0; flags < 8; ++flags)
          for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
            const bool ta = flags & 1, tb = flags & 2;
            const Matmul args{.a = View(&element, dtype, {ta ? k : m, ta ? m : k}),
                              .b = View(&element, dtype, {tb ? n : k, tb ? k : n}),
                              .c = View(&element, dtype, {m, n}),
                              .transpose_a = ta,
                              .transpose_b = tb,
                              .tf32 = (flags & 4) != 0};
            const Turned operand = turned_operand(args);
            const int64_t width = operand == Turned::a ? m : operand == Turned::b ? n : 0;
            const int64_t bytes = matmul.scratch_bytes(&args);
            if (dtype == Dtype::f32) CHECK(bytes == (k * width * 4 + 255) / 256 * 256);
            CHECK((dtype == Dtype::f32 || operand == Turned::none));
            turned += operand != Turned::none;
          }
  CHECK(turned == 8);
}

}  // namespace
}  // namespace tang
