// f32 goes to the device's GEMM as it is. bf16 is widened a block at a time, so the scratch stays at a few
// megabytes whatever the shape, multiplied and summed in f32, and rounded once.
#include "lib/device/simd.h"
#include "lib/ops/matmul.h"

namespace tang {

namespace {

constexpr int64_t block_rows = 512, block_columns = 1024, block_depth = 1024;

CpuGemm problem_of(const Matmul& a) {
  return {.transpose_a = a.transpose_a,
          .transpose_b = a.transpose_b,
          .m = a.c.dim(0),
          .n = a.c.dim(1),
          .k = a.transpose_a ? a.a.dim(0) : a.a.dim(1),
          .beta = a.accumulate ? 1.0f : 0.0f,
          .lda = leading_dimension(a.a),
          .ldb = leading_dimension(a.b),
          .ldc = leading_dimension(a.c)};
}

/// A reusable f32 block; it grows to the largest one asked for and then stays.
class Block {
 public:
  float* reserve(int64_t elements) {
    if (static_cast<int64_t>(values_.size()) < elements) values_.resize(static_cast<size_t>(elements));
    return values_.data();
  }

 private:
  std::vector<float> values_;
};

/// rows × width elements from one pitch (elements between rows) to another, converted.
template <class To, class From>
void convert(const CpuDevice& device, To* target, int64_t target_pitch, const From* source,
             int64_t source_pitch, int64_t rows, int64_t width) {
  device.parallel_for(rows, 1 + 16384 / std::max<int64_t>(width, 1), [&](int64_t begin, int64_t end) {
    simd([&] {
      for (int64_t row = begin; row < end; ++row) {
        To* to = target + row * target_pitch;
        const From* from = source + row * source_pitch;
        for (int64_t i = 0; i < width; ++i) store(to, i, load(from, i));
      }
    });
  });
}

/// Widens the block of a stored matrix whose top left element is (row, column); its pitch is `width` then.
const float* widen(const CpuDevice& device, Block& block, const View& matrix, int64_t row, int64_t column,
                   int64_t rows, int64_t width) {
  float* target = block.reserve(rows * width);
  convert(device, target, width, matrix.as<bf16>() + row * matrix.stride(0) + column, matrix.stride(0), rows,
          width);
  return target;
}

/// One block of c at (i, j), summed over all of k.
void multiply_block(const CpuDevice& device, const Matmul& a, const CpuGemm& whole, int64_t i, int64_t j) {
  static thread_local Block left, right, result;
  const int64_t rows = std::min(block_rows, whole.m - i), columns = std::min(block_columns, whole.n - j);
  const bool rounds = a.c.dtype == Dtype::bf16;
  CpuGemm part = whole;
  part.m = rows;
  part.n = columns;
  if (rounds) {
    part.c = result.reserve(rows * columns);
    part.ldc = columns;
    if (a.accumulate)
      convert(device, part.c, columns, a.c.as<bf16>() + i * whole.ldc + j, whole.ldc, rows, columns);
  } else {
    part.c = a.c.as<float>() + i * whole.ldc + j;
  }
  int64_t k = 0;
  do {  // once even for an empty k: the GEMM then clears c
    part.k = std::min(block_depth, whole.k - k);
    part.lda = std::max<int64_t>(1, whole.transpose_a ? rows : part.k);
    part.ldb = std::max<int64_t>(1, whole.transpose_b ? part.k : columns);
    part.a = whole.transpose_a ? widen(device, left, a.a, k, i, part.k, rows)
                               : widen(device, left, a.a, i, k, rows, part.k);
    part.b = whole.transpose_b ? widen(device, right, a.b, j, k, columns, part.k)
                               : widen(device, right, a.b, k, j, part.k, columns);
    device.gemm(part);
    part.beta = 1;
    k += block_depth;
  } while (k < whole.k);
  if (rounds) convert(device, a.c.as<bf16>() + i * whole.ldc + j, whole.ldc, part.c, columns, rows, columns);
}

}  // namespace

void matmul_cpu(CpuDevice& device, const Matmul& a) {
  CpuGemm problem = problem_of(a);
  if (a.a.dtype == Dtype::f32) {
    problem.a = a.a.as<float>();
    problem.b = a.b.as<float>();
    problem.c = a.c.as<float>();
    return device.gemm(problem);
  }
  for (int64_t j = 0; j < problem.n; j += block_columns) {
    for (int64_t i = 0; i < problem.m; i += block_rows) multiply_block(device, a, problem, i, j);
  }
}

}  // namespace tang
