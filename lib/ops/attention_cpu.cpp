// Attention on the CPU: tiled online softmax whose vector lanes are queries. A block of 64 queries is
// transposed once; then the scores, the softmax and the weighted sums all run lane by lane with keys and
// values as scalar factors in their natural layout, so that no reduction crosses lanes. Storage is f32 or
// bf16, arithmetic f32. A task owns what it writes, whatever the thread count: results repeat bit for bit.
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "lib/device/simd.h"
#include "lib/ops/attention.h"

#define TANG_INLINE inline __attribute__((always_inline))

namespace tang {

namespace {

constexpr int64_t block = 64;  // queries of a block, and keys: a diagonal block is square

/// 64-byte aligned floats that grow and are kept for the thread's next call.
class Scratch {
 public:
  float* reserve(int64_t count) {
    if (static_cast<int64_t>(memory_.size()) < count + 16) memory_.resize(static_cast<size_t>(count + 16));
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (64 - address % 64) % 64 / sizeof(float);
  }

 private:
  std::vector<float> memory_;
};

template <int Bytes>
struct Lanes {
  typedef float Vector __attribute__((vector_size(Bytes), may_alias, aligned(4)));
  static constexpr int rows = Bytes == 64 ? 8 : 4;  // of the tile that registers hold …
  static constexpr int columns = 2 * Bytes / 4;     // … two vectors wide
};
constexpr int64_t widest = 32;  // every Lanes<>::columns divides it: row lengths are padded to it

int64_t padded(int64_t count) { return (count + widest - 1) / widest * widest; }

/// A left factor in place: element (row, p) lies at data[row · row_stride + p · step].
struct Left {
  const float* data;
  int64_t row_stride, step;
};
/// Rows of floats, a multiple of `widest` long.
struct Rows {
  float* data;
  int64_t stride;
};

template <int Bytes, int Count>
TANG_INLINE void multiply_tile(const Left& a, int64_t row, const Rows& b, int64_t column, int64_t depth,
                               const Rows& c, bool accumulate) {
  using Vector = typename Lanes<Bytes>::Vector;
  Vector sum[Count][2] = {};
  float* target = c.data + row * c.stride + column;
  if (accumulate) {
#pragma GCC unroll 8
    for (int i = 0; i < Count; ++i) {
      const Vector* old = reinterpret_cast<const Vector*>(target + i * c.stride);
      sum[i][0] = old[0], sum[i][1] = old[1];
    }
  }
  const float* left = a.data + row * a.row_stride;
  const float* right = b.data + column;
  for (int64_t p = 0; p < depth; ++p, left += a.step, right += b.stride) {
    const Vector* line = reinterpret_cast<const Vector*>(right);
    const Vector first = line[0], second = line[1];
#pragma GCC unroll 8
    for (int i = 0; i < Count; ++i) {
      const float factor = left[i * a.row_stride];
      sum[i][0] += first * factor;
      sum[i][1] += second * factor;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i) {
    Vector* line = reinterpret_cast<Vector*>(target + i * c.stride);
    line[0] = sum[i][0], line[1] = sum[i][1];
  }
}

/// c[row][column] = (or +=) Σ_p a(row, p) · b[p][column].
template <int Bytes>
TANG_INLINE void multiply(int64_t rows, int64_t columns, int64_t depth, const Left& a, const Rows& b,
                          const Rows& c, bool accumulate) {
  using L = Lanes<Bytes>;
  for (int64_t column = 0; column < columns; column += L::columns) {
    int64_t row = 0;
    for (; row + L::rows <= rows; row += L::rows)
      multiply_tile<Bytes, L::rows>(a, row, b, column, depth, c, accumulate);
    for (; row < rows; ++row) multiply_tile<Bytes, 1>(a, row, b, column, depth, c, accumulate);
  }
}

/// The (batch, head) matrix of a [B, T, heads, D] view: element (t, d) at data[t · stride + d].
template <class T>
struct Matrix {
  T* data;
  int64_t stride;

  Matrix(const View& view, int64_t batch, int64_t head)
      : data(view.as<T>() + batch * view.stride(0) + head * view.stride(2)), stride(view.stride(1)) {}
  T* row(int64_t t) const { return data + t * stride; }
};

/// out[r][0 … out.stride) = rows first + r as f32, zero past `dim`.
template <class T>
TANG_INLINE void pack_rows(const Matrix<T>& source, int64_t first, int64_t count, int64_t dim,
                           const Rows& out) {
  for (int64_t r = 0; r < count; ++r) {
    const T* line = source.row(first + r);
    float* target = out.data + r * out.stride;
    for (int64_t d = 0; d < dim; ++d) target[d] = load(line, d);
    for (int64_t d = dim; d < out.stride; ++d) target[d] = 0;
  }
}

/// out[d][lane] = row first + lane as f32, zero past `count` lanes. out.stride = block.
template <class T>
TANG_INLINE void pack_columns(const Matrix<T>& source, int64_t first, int64_t count, int64_t dim,
                              const Rows& out) {
  for (int64_t lane = 0; lane < count; ++lane) {
    const T* line = source.row(first + lane);
    for (int64_t d = 0; d < dim; ++d) out.data[d * block + lane] = load(line, d);
  }
  for (int64_t lane = count; lane < block; ++lane) {
    for (int64_t d = 0; d < dim; ++d) out.data[d * block + lane] = 0;
  }
}

/// Row first + lane = factor[lane] · column `lane` of `source`.
template <class T>
TANG_INLINE void store_columns(const Matrix<T>& target, int64_t first, int64_t count, int64_t dim,
                               const Rows& source, const float* factor) {
  for (int64_t lane = 0; lane < count; ++lane) {
    T* line = target.row(first + lane);
    for (int64_t d = 0; d < dim; ++d) store(line, d, source.data[d * block + lane] * factor[lane]);
  }
}

/// Running softmax of a block of queries.
struct Statistics {
  float maximum[block], sum[block];
};

/// Scores [keys][block] become weights exp(scale · score − maximum); `out` [dim][block] is rescaled.
TANG_INLINE void online_softmax(const Rows& scores, int64_t keys, float scale, bool diagonal,
                                Statistics& rows, const Rows& out, int64_t dim) {
  float maximum[block], correction[block], sum[block];
  for (int64_t lane = 0; lane < block; ++lane) maximum[lane] = rows.maximum[lane];
  for (int64_t key = 0; key < keys; ++key) {
    float* line = scores.data + key * block;
    if (diagonal) {
      for (int64_t lane = 0; lane < key; ++lane) line[lane] = -std::numeric_limits<float>::infinity();
    }
    for (int64_t lane = 0; lane < block; ++lane) {
      const float score = line[lane] * scale, old = maximum[lane];
      line[lane] = score;
      maximum[lane] = score > old ? score : old;
    }
  }
  for (int64_t lane = 0; lane < block; ++lane) {
    correction[lane] = fast_exp(rows.maximum[lane] - maximum[lane]);
    rows.maximum[lane] = maximum[lane];
    sum[lane] = rows.sum[lane] * correction[lane];
  }
  for (int64_t key = 0; key < keys; ++key) {
    float* line = scores.data + key * block;
    for (int64_t lane = 0; lane < block; ++lane) {
      line[lane] = fast_exp(line[lane] - maximum[lane]);
      sum[lane] += line[lane];
    }
  }
  for (int64_t lane = 0; lane < block; ++lane) rows.sum[lane] = sum[lane];
  for (int64_t d = 0; d < dim; ++d) {
    for (int64_t lane = 0; lane < block; ++lane) out.data[d * block + lane] *= correction[lane];
  }
}

/// What both directions derive from their arguments.
struct Shape {
  int64_t batch, length, heads, kv_heads, dim, blocks, group;
  float scale;

  Shape(const View& q, const View& k, float wanted_scale)
      : batch(q.dim(0)),
        length(q.dim(1)),
        heads(q.dim(2)),
        kv_heads(k.dim(2)),
        dim(q.dim(3)),
        blocks((length + block - 1) / block),
        group(heads / kv_heads),
        scale(attention_scale(wanted_scale, dim)) {}
};

/// Tasks [begin, end) of (batch, head, query block), the block fastest.
template <class T, int Bytes>
TANG_INLINE void forward_tasks(const AttentionForward& a, const Shape& s, Scratch& scratch, int64_t begin,
                               int64_t end) {
  const int64_t width = padded(s.dim);
  float* memory = scratch.reserve(2 * s.dim * block + 2 * block * width + block * block);
  const Rows q{memory, block}, out{q.data + s.dim * block, block};                  // [dim, block]
  const Rows k{out.data + s.dim * block, width}, v{k.data + block * width, width};  // [block, width]
  const Rows scores{v.data + block * width, block};                                 // [block, block]
  for (int64_t task = begin; task < end; ++task) {
    const int64_t query_block = task % s.blocks, head = task / s.blocks % s.heads;
    const int64_t batch = task / s.blocks / s.heads, kv_head = head / s.group;
    const int64_t first = query_block * block, count = std::min(block, s.length - first);
    pack_columns(Matrix<T>(a.q, batch, head), first, count, s.dim, q);
    Statistics rows;
    for (int64_t lane = 0; lane < block; ++lane) {
      rows.maximum[lane] = -std::numeric_limits<float>::infinity(), rows.sum[lane] = 0;
    }
    std::fill(out.data, out.data + s.dim * block, 0.0f);
    for (int64_t key_block = 0; key_block <= query_block; ++key_block) {
      const int64_t first_key = key_block * block, keys = std::min(block, s.length - first_key);
      pack_rows(Matrix<T>(a.k, batch, kv_head), first_key, keys, s.dim, k);
      pack_rows(Matrix<T>(a.v, batch, kv_head), first_key, keys, s.dim, v);
      multiply<Bytes>(keys, block, s.dim, {k.data, width, 1}, q, scores, false);
      online_softmax(scores, keys, s.scale, key_block == query_block, rows, out, s.dim);
      multiply<Bytes>(s.dim, block, keys, {v.data, 1, width}, scores, out, true);
    }
    float inverse[block];
    for (int64_t lane = 0; lane < block; ++lane) inverse[lane] = 1.0f / rows.sum[lane];
    store_columns(Matrix<T>(a.o, batch, head), first, count, s.dim, out, inverse);
    float* lse = a.lse.as<float>() + batch * a.lse.stride(0) + head * a.lse.stride(1) + first;
    for (int64_t lane = 0; lane < count; ++lane) lse[lane] = rows.maximum[lane] + std::log(rows.sum[lane]);
  }
}

/// Turns scores and products d_o · v, both [keys][block], into weights and score gradients. Lanes past the
/// end have lse 0, delta 0 and zero products: their gradients are zero.
TANG_INLINE void score_gradients(const Rows& weights, const Rows& products, int64_t keys, float scale,
                                 bool diagonal, const float* lse, const float* delta) {
  for (int64_t key = 0; key < keys; ++key) {
    float* weight = weights.data + key * block;
    float* product = products.data + key * block;
    for (int64_t lane = 0; lane < block; ++lane) weight[lane] = fast_exp(weight[lane] * scale - lse[lane]);
    if (diagonal) {
      for (int64_t lane = 0; lane < key; ++lane) weight[lane] = 0;
    }
    for (int64_t lane = 0; lane < block; ++lane) product[lane] = weight[lane] * (product[lane] - delta[lane]);
  }
}

/// The backward of one (batch, KV head): all the group's query heads, every query block, every key block.
template <class T, int Bytes>
class BackwardTask {
 public:
  TANG_INLINE BackwardTask(const AttentionBackward& a, const Shape& s, Scratch& scratch) : a_(a), s_(s) {
    const int64_t width = padded(s.dim), tiles = s.dim * block, rows = block * width;
    float* next = scratch.reserve(2 * s.length * width + 3 * tiles + 4 * rows + 2 * block * block);
    const auto take = [&](int64_t count, int64_t stride) {
      float* data = next;
      next += count;
      return Rows{data, stride};
    };
    dk_ = take(s.length * width, width), dv_ = take(s.length * width, width);
    q_columns_ = take(tiles, block), do_columns_ = take(tiles, block), dq_ = take(tiles, block);
    q_ = take(rows, width), do_ = take(rows, width), k_ = take(rows, width), v_ = take(rows, width);
    weights_ = take(block * block, block), products_ = take(block * block, block);
  }

  TANG_INLINE void run(int64_t batch, int64_t kv_head) {
    const int64_t width = dk_.stride;
    std::fill(dk_.data, dk_.data + 2 * s_.length * width, 0.0f);  // dv follows dk
    for (int64_t head = kv_head * s_.group; head < (kv_head + 1) * s_.group; ++head) {
      for (int64_t query_block = 0; query_block < s_.blocks; ++query_block)
        run_queries(batch, head, kv_head, query_block);
    }
    const Matrix<T> dk(a_.dk, batch, kv_head), dv(a_.dv, batch, kv_head);
    for (int64_t t = 0; t < s_.length; ++t) {
      for (int64_t d = 0; d < s_.dim; ++d) store(dk.row(t), d, dk_.data[t * width + d] * s_.scale);
      for (int64_t d = 0; d < s_.dim; ++d) store(dv.row(t), d, dv_.data[t * width + d]);
    }
  }

 private:
  TANG_INLINE void run_queries(int64_t batch, int64_t head, int64_t kv_head, int64_t query_block) {
    const int64_t first = query_block * block, count = std::min(block, s_.length - first), width = dk_.stride;
    const Matrix<T> q(a_.q, batch, head), d_o(a_.d_o, batch, head), o(a_.o, batch, head);
    const Matrix<T> k(a_.k, batch, kv_head), v(a_.v, batch, kv_head);
    const float* stored_lse = a_.lse.as<float>() + batch * a_.lse.stride(0) + head * a_.lse.stride(1) + first;
    float* stored_delta =
        a_.delta.as<float>() + batch * a_.delta.stride(0) + head * a_.delta.stride(1) + first;
    float lse[block] = {}, delta[block] = {}, factor[block];
    for (int64_t lane = 0; lane < count; ++lane) {
      const T *left = o.row(first + lane), *right = d_o.row(first + lane);
      lse[lane] = stored_lse[lane];
      delta[lane] = sum_lanes(s_.dim, [&](int64_t d) { return load(left, d) * load(right, d); });
      stored_delta[lane] = delta[lane];
    }
    pack_columns(q, first, count, s_.dim, q_columns_);
    pack_columns(d_o, first, count, s_.dim, do_columns_);
    pack_rows(q, first, count, s_.dim, q_);
    pack_rows(d_o, first, count, s_.dim, do_);
    std::fill(dq_.data, dq_.data + s_.dim * block, 0.0f);
    for (int64_t key_block = 0; key_block <= query_block; ++key_block) {
      const int64_t first_key = key_block * block, keys = std::min(block, s_.length - first_key);
      pack_rows(k, first_key, keys, s_.dim, k_);
      pack_rows(v, first_key, keys, s_.dim, v_);
      multiply<Bytes>(keys, block, s_.dim, {k_.data, width, 1}, q_columns_, weights_, false);
      multiply<Bytes>(keys, block, s_.dim, {v_.data, width, 1}, do_columns_, products_, false);
      score_gradients(weights_, products_, keys, s_.scale, key_block == query_block, lse, delta);
      multiply<Bytes>(s_.dim, block, keys, {k_.data, 1, width}, products_, dq_, true);
      multiply<Bytes>(keys, width, count, {products_.data, block, 1}, q_,
                      {dk_.data + first_key * width, width}, true);
      multiply<Bytes>(keys, width, count, {weights_.data, block, 1}, do_,
                      {dv_.data + first_key * width, width}, true);
    }
    for (float& value : factor) value = s_.scale;
    store_columns(Matrix<T>(a_.dq, batch, head), first, count, s_.dim, dq_, factor);
  }

  const AttentionBackward& a_;
  const Shape& s_;
  Rows dk_{}, dv_{};                        // [length, width]
  Rows q_columns_{}, do_columns_{}, dq_{};  // [dim, block]
  Rows q_{}, do_{}, k_{}, v_{};             // [block, width]
  Rows weights_{}, products_{};             // [keys, queries]
};

/// body(std::integral_constant<int, bytes of a vector>) compiled for the widest instruction set of this CPU.
template <class Body>
void with_vectors(const Body& body) {
  switch (detect_isa()) {
    case Isa::avx512:
      return run_avx512([&] { body(std::integral_constant<int, 64>()); });
    case Isa::avx2:
      return run_avx2([&] { body(std::integral_constant<int, 32>()); });
    case Isa::baseline:
      return body(std::integral_constant<int, 16>());
  }
}

Scratch& thread_scratch() {
  thread_local Scratch scratch;
  return scratch;
}

template <class T>
void forward(CpuDevice& device, const AttentionForward& a) {
  const Shape s(a.q, a.k, a.scale);
  device.parallel_for(s.batch * s.heads * s.blocks, 1, [&](int64_t begin, int64_t end) {
    Scratch& scratch = thread_scratch();
    with_vectors([&](auto bytes) { forward_tasks<T, bytes.value>(a, s, scratch, begin, end); });
  });
}

template <class T>
void backward(CpuDevice& device, const AttentionBackward& a) {
  const Shape s(a.q, a.k, a.scale);
  device.parallel_for(s.batch * s.kv_heads, 1, [&](int64_t begin, int64_t end) {
    Scratch& scratch = thread_scratch();
    with_vectors([&](auto bytes) {
      BackwardTask<T, bytes.value> task(a, s, scratch);
      for (int64_t i = begin; i < end; ++i) task.run(i / s.kv_heads, i % s.kv_heads);
    });
  });
}

}  // namespace

void attention_forward_cpu(CpuDevice& device, const AttentionForward& a) {
  a.q.dtype == Dtype::f32 ? forward<float>(device, a) : forward<bf16>(device, a);
}

void attention_backward_cpu(CpuDevice& device, const AttentionBackward& a) {
  a.q.dtype == Dtype::f32 ? backward<float>(device, a) : backward<bf16>(device, a);
}

}  // namespace tang
