#include <cstdlib>
#include <memory>
#include <new>

#include "lib/device/cpu_gemm.h"
#include "lib/device/simd.h"

#define TANG_INLINE inline __attribute__((always_inline))

namespace tang {

namespace {

constexpr int64_t k_block = 256;    // rows of a packed B panel: one panel of B stays in the first-level cache
constexpr int64_t m_block = 192;    // rows of packed A: 192 KiB, half of a second-level cache
constexpr int64_t n_block = 3072;   // columns of packed B, shared by all threads: 3 MiB
constexpr int64_t task_width = 96;  // columns of one task: narrow, so that every thread gets its share

/// C tile kept in registers: `rows` × (`vectors` · Bytes / 4).
template <int Bytes, int Rows, int Vectors>
struct Tile {
  typedef float Vector __attribute__((vector_size(Bytes), may_alias));
  static constexpr int width = Bytes / 4, rows = Rows, vectors = Vectors, columns = width * Vectors;
};
using TileAvx512 = Tile<64, 12, 2>;   // 24 accumulators of 32 registers
using TileAvx2 = Tile<32, 6, 2>;      // 12 of 16
using TileBaseline = Tile<16, 4, 2>;  // 8 of 16: without FMA a product takes a register too

/// 64-byte aligned scratch that grows and is kept for the thread's next call.
class Scratch {
 public:
  float* reserve(int64_t count) {
    if (count > capacity_) {
      data_.reset(static_cast<float*>(std::aligned_alloc(64, (count * 4 + 63) / 64 * 64)));
      capacity_ = data_ ? count : 0;
      if (!data_) throw std::bad_alloc();
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };
  std::unique_ptr<float, Free> data_;
  int64_t capacity_ = 0;
};

/// Packs `span` ≤ Lanes lines of a matrix into panel[k][Lanes], zero beyond `span`. Element (line, p) lies at
/// source[line · line_stride + p · k_stride]; one of the strides is 1.
template <int Lanes>
TANG_INLINE void pack_panel(const float* source, int64_t line_stride, int64_t k_stride, int64_t span,
                            int64_t depth, float* panel) {
  if (span == Lanes && line_stride == 1) {
    for (int64_t p = 0; p < depth; ++p) {
      for (int lane = 0; lane < Lanes; ++lane) panel[p * Lanes + lane] = source[p * k_stride + lane];
    }
    return;
  }
  for (int64_t lane = 0; lane < Lanes; ++lane) {
    const float* line = source + lane * line_stride;
    if (lane < span) {
      for (int64_t p = 0; p < depth; ++p) panel[p * Lanes + lane] = line[p * k_stride];
    } else {
      for (int64_t p = 0; p < depth; ++p) panel[p * Lanes + lane] = 0;
    }
  }
}

/// Where one K block's products go.
struct Target {
  float* c;
  int64_t ldc;
  float alpha, beta;  // beta 0: C is not read
};

template <class Vector>
TANG_INLINE void update(float* c, const Vector& product, const Target& target) {
  Vector value = product * target.alpha;
  if (target.beta != 0) {
    Vector old;
    __builtin_memcpy(&old, c, sizeof old);
    value += old * target.beta;
  }
  __builtin_memcpy(c, &value, sizeof value);
}

template <class T>
TANG_INLINE void multiply_tile(const float* a, const float* b, int64_t depth, const Target& target,
                               int64_t rows, int64_t columns) {
  using Vector = typename T::Vector;
  Vector sum[T::rows][T::vectors] = {};
  for (int64_t p = 0; p < depth; ++p, a += T::rows, b += T::columns) {
    Vector line[T::vectors];
#pragma GCC unroll 4
    for (int j = 0; j < T::vectors; ++j) line[j] = reinterpret_cast<const Vector*>(b)[j];
#pragma GCC unroll 16
    for (int i = 0; i < T::rows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < T::vectors; ++j) sum[i][j] += line[j] * a[i];
    }
  }
  if (rows == T::rows && columns == T::columns) {
#pragma GCC unroll 16
    for (int i = 0; i < T::rows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < T::vectors; ++j)
        update(target.c + i * target.ldc + j * T::width, sum[i][j], target);
    }
    return;
  }
  float edge[T::rows][T::columns];
  __builtin_memcpy(edge, sum, sizeof edge);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      float& c = target.c[i * target.ldc + j];
      c = target.beta == 0 ? edge[i][j] * target.alpha : edge[i][j] * target.alpha + c * target.beta;
    }
  }
}

template <class Body>
void run_for(TileAvx512, const Body& body) {
  run_avx512(body);
}
template <class Body>
void run_for(TileAvx2, const Body& body) {
  run_avx2(body);
}
template <class Body>
void run_for(TileBaseline, const Body& body) {
  body();
}

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <class T>
void pack_b(const CpuDevice& device, const CpuGemm& p, int64_t k0, int64_t depth, int64_t n0, int64_t columns,
            float* packed) {
  const int64_t line_stride = p.transpose_b ? p.ldb : 1, k_stride = p.transpose_b ? 1 : p.ldb;
  const float* source = p.b + k0 * k_stride + n0 * line_stride;
  device.parallel_for(ceil_div(columns, T::columns), 4, [&](int64_t begin, int64_t end) {
    run_for(T{}, [&] {
      for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t first = panel * T::columns;
        pack_panel<T::columns>(source + first * line_stride, line_stride, k_stride,
                               std::min<int64_t>(T::columns, columns - first), depth, packed + first * depth);
      }
    });
  });
}

/// Rows [m0, m0 + rows) of A, packed by the thread that needs them.
template <class T>
TANG_INLINE void pack_a(const CpuGemm& p, int64_t k0, int64_t depth, int64_t m0, int64_t rows,
                        float* packed) {
  const int64_t line_stride = p.transpose_a ? 1 : p.lda, k_stride = p.transpose_a ? p.lda : 1;
  for (int64_t first = 0; first < rows; first += T::rows) {
    pack_panel<T::rows>(p.a + k0 * k_stride + (m0 + first) * line_stride, line_stride, k_stride,
                        std::min<int64_t>(T::rows, rows - first), depth, packed + first * depth);
  }
}

/// One K block times one N block: tasks of m_block rows × task_width columns, each on its own part of C.
template <class T>
void multiply_block(const CpuDevice& device, const CpuGemm& p, int64_t k0, int64_t depth, int64_t n0,
                    int64_t columns, const float* packed_b) {
  const int64_t across = ceil_div(columns, task_width);
  const float beta = k0 == 0 ? p.beta : 1.0f;
  device.parallel_for(ceil_div(p.m, m_block) * across, 1, [&](int64_t begin, int64_t end) {
    thread_local Scratch scratch;
    float* packed_a = scratch.reserve(ceil_div(m_block, T::rows) * T::rows * k_block);
    run_for(T{}, [&] {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t m0 = task / across * m_block, rows = std::min(m_block, p.m - m0);
        const int64_t j0 = task % across * task_width, j1 = std::min(columns, j0 + task_width);
        if (task == begin || j0 == 0) pack_a<T>(p, k0, depth, m0, rows, packed_a);
        for (int64_t j = j0; j < j1; j += T::columns) {
          for (int64_t i = 0; i < rows; i += T::rows) {
            multiply_tile<T>(packed_a + i * depth, packed_b + j * depth, depth,
                             {p.c + (m0 + i) * p.ldc + n0 + j, p.ldc, p.alpha, beta},
                             std::min<int64_t>(T::rows, rows - i), std::min<int64_t>(T::columns, j1 - j));
          }
        }
      }
    });
  });
}

template <class T>
void multiply(const CpuDevice& device, const CpuGemm& p) {
  static_assert(task_width % T::columns == 0 && n_block % task_width == 0);
  thread_local Scratch scratch;
  float* packed_b = scratch.reserve(std::min(n_block, ceil_div(p.n, T::columns) * T::columns) * k_block);
  for (int64_t n0 = 0; n0 < p.n; n0 += n_block) {
    const int64_t columns = std::min(n_block, p.n - n0);
    for (int64_t k0 = 0; k0 < p.k; k0 += k_block) {
      const int64_t depth = std::min(k_block, p.k - k0);
      pack_b<T>(device, p, k0, depth, n0, columns, packed_b);
      multiply_block<T>(device, p, k0, depth, n0, columns, packed_b);
    }
  }
}

}  // namespace

void gemm_portable(const CpuDevice& device, const CpuGemm& problem) {
  switch (detect_isa()) {
    case Isa::avx512:
      return multiply<TileAvx512>(device, problem);
    case Isa::avx2:
      return multiply<TileAvx2>(device, problem);
    case Isa::baseline:
      return multiply<TileBaseline>(device, problem);
  }
}

}  // namespace tang
