// Cross-entropy, forward and backward: one block a row. The row is read from memory once, into shared memory
// (what does not fit is read again, from L2), and its maximum and sum of exponentials found on the way; then
// comes the gradient. Each thread reads back only what it stored itself, so the two passes need no barrier
// but the reductions'.
//
// A row is cut into a head up to the first 16-byte boundary, vectors, and a tail, so rows of odd width keep
// their vectors; where logits and gradient differ in alignment everything is head.
#include "cross_entropy.h"

#include "common.cuh"

namespace {

constexpr int width = vector_width<data_t>;
constexpr int unroll = 4;
constexpr int most_threads = 512;  // in lib/ops/cross_entropy_cuda.cpp
constexpr float log2_e = 1.44269504088896341f;

/// exp(x - top). bf16: by the hardware's 2^x, whose error is far below the result's rounding.
__device__ __forceinline__ float exp_below(float x, float top) {
  if constexpr (sizeof(data_t) == 4) {
    return expf(x - top);
  } else {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"((x - top) * log2_e));
    return result;
  }
}

/// One row, as this thread sees it.
struct Row {
  const data_t* logits;
  const uint4* vectors;  // logits' 16-byte vectors
  uint4* cache;          // the first `cached` of them
  int head, count, cached, vocab;

  /// Columns before and after the vectors. Every one belongs to one thread.
  template <class Body>
  __device__ void for_scalars(const Body& body) const {
    for (int c = threadIdx.x; c < head; c += blockDim.x) body(c);
    for (int c = head + count * width + static_cast<int>(threadIdx.x); c < vocab; c += blockDim.x) body(c);
  }
  /// Every vector of this thread, from the cache where it is kept.
  template <class Body>
  __device__ void for_vectors(const Body& body) const {
#pragma unroll 2
    for (int i = threadIdx.x; i < cached; i += blockDim.x) body(i, cache[i]);
#pragma unroll 2
    for (int i = cached + static_cast<int>(threadIdx.x); i < count; i += blockDim.x) body(i, vectors[i]);
  }
};

__device__ void unpack(float (&values)[width], const uint4& vector) {
  load_vector(values, reinterpret_cast<const data_t*>(&vector));
}

__device__ Row make_row(const CrossEntropyParams& p, int64_t n, uint4* cache) {
  Row row;
  row.logits = static_cast<const data_t*>(p.logits) + n * p.logits_row;
  row.vocab = p.vocab;
  const auto start = reinterpret_cast<uint64_t>(row.logits);
  const auto target = p.d_logits == nullptr
                          ? start
                          : reinterpret_cast<uint64_t>(static_cast<data_t*>(p.d_logits) + n * p.d_logits_row);
  const int gap = static_cast<int>((16 - start % 16) % 16 / sizeof(data_t));
  row.head = (start - target) % 16 == 0 && gap < p.vocab ? gap : p.vocab;
  row.count = (p.vocab - row.head) / width;
  row.vectors = reinterpret_cast<const uint4*>(row.logits + row.head);
  row.cache = cache;
  row.cached = row.count < p.cached_vectors ? row.count : p.cached_vectors;
  return row;
}

__device__ __forceinline__ float minus_infinity() { return -__int_as_float(0x7f800000); }

/// The largest of some logits, and the sum of exp(logit - largest).
struct Running {
  float top = minus_infinity(), sum = 0.0f;

  /// What to subtract: 0 where all was -inf, so that no NaN comes of it.
  __device__ __forceinline__ float base() const { return top == minus_infinity() ? 0.0f : top; }

  template <int n>
  __device__ __forceinline__ void raise(const float (&values)[n]) {
    float largest = values[0];
#pragma unroll
    for (int i = 1; i < n; ++i) largest = fmaxf(largest, values[i]);
    if (!(largest > top)) return;
    sum *= exp_below(top, largest);
    top = largest;
  }
  template <int n>
  __device__ __forceinline__ void add(const float (&values)[n]) {
    float part = 0.0f;
#pragma unroll
    for (int i = 0; i < n; ++i) part += exp_below(values[i], base());
    sum += part;
  }
};

/// Vectors that a thread has on their way: `first`, first + blockDim.x, …
struct Batch {
  uint4 vector[unroll];

  __device__ __forceinline__ void load(const Row& row, int first) {
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const int i = first + u * static_cast<int>(blockDim.x);
      if (i < row.count) vector[u] = row.vectors[i];
    }
  }
};

/// Reads the row, of which `batch` is on its way, into the cache. The exponentials are summed under the
/// largest logit so far while the next batch travels.
__device__ __forceinline__ Running read_row(const Row& row, Batch batch) {
  Running running;
  const int step = blockDim.x;
  for (int first = threadIdx.x; first < row.count; first += unroll * step) {
    Batch next;
    next.load(row, first + unroll * step);
    float values[width];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const int i = first + u * step;
      if (i >= row.count) break;
      if (i < row.cached) row.cache[i] = batch.vector[u];
      unpack(values, batch.vector[u]);
      running.raise(values);
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      if (first + u * step >= row.count) break;
      unpack(values, batch.vector[u]);
      running.add(values);
    }
    batch = next;
  }
  row.for_scalars([&](int c) {
    const float value[1] = {to_float(row.logits[c])};
    running.raise(value);
    running.add(value);
  });
  return running;
}

__device__ void write_gradient(const Row& row, data_t* gradient, float top, float factor, uint32_t target,
                               float scale) {
  row.for_vectors([&](int i, const uint4& vector) {
    float values[width];
    unpack(values, vector);
#pragma unroll
    for (int j = 0; j < width; ++j) values[j] = exp_below(values[j], top) * factor;
    const uint32_t local = target - static_cast<uint32_t>(row.head + i * width);
    if (local < width) {
#pragma unroll
      for (int j = 0; j < width; ++j) values[j] -= local == j ? scale : 0.0f;
    }
    store_vector(gradient + row.head + i * width, values);
  });
  row.for_scalars([&](int c) {
    const float p = exp_below(to_float(row.logits[c]), top) * factor;
    gradient[c] = from_float<data_t>(static_cast<uint32_t>(c) == target ? p - scale : p);
  });
}

/// Zeroes columns [begin, end) of a row.
__device__ void clear(data_t* row, int begin, int end) {
  int first =
      begin + static_cast<int>(reinterpret_cast<uint64_t>(row + begin) % 16 == 0
                                   ? 0
                                   : (16 - reinterpret_cast<uint64_t>(row + begin) % 16) / sizeof(data_t));
  if (first > end) first = end;
  const int vectors = (end - first) / width;
  for (int c = begin + static_cast<int>(threadIdx.x); c < first; c += blockDim.x) row[c] = data_t{};
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    reinterpret_cast<uint4*>(row + first)[i] = make_uint4(0, 0, 0, 0);
  }
  for (int c = first + vectors * width + static_cast<int>(threadIdx.x); c < end; c += blockDim.x) {
    row[c] = data_t{};
  }
}

}  // namespace

TANG_KERNEL __launch_bounds__(most_threads, 2) cross_entropy(const CrossEntropyParams p) {
  extern __shared__ uint4 cache[];
  __shared__ float scratch[32];
  const int64_t n = blockIdx.x;
  data_t* gradient = p.d_logits == nullptr ? nullptr : static_cast<data_t*>(p.d_logits) + n * p.d_logits_row;
  // All under way at once: the row, which padding alone does not need, and what is used long after.
  const Row row = make_row(p, n, cache);
  Batch batch;
  batch.load(row, threadIdx.x);
  const uint32_t target = p.targets[n];
  const float scale = gradient != nullptr ? *p.scale : 0.0f;
  if (static_cast<int64_t>(target) == p.pad_id) {
    if (gradient != nullptr) clear(gradient, 0, p.width);
    if (threadIdx.x == 0) p.losses[n] = 0;
    return;
  }
  const bool valid = target < static_cast<uint32_t>(p.vocab);
  // Read by every thread before the reductions' barriers: the gradient may overwrite it.
  const float hit = valid ? to_float(row.logits[target]) : __int_as_float(0x7fc00000);
  const Running mine = read_row(row, batch);
  const float top = block_max(mine.top, scratch);
  // A thread whose logits are all -inf has a sum of 0, which an infinite difference must not turn into NaN.
  const float sum = block_sum(mine.sum == 0.0f ? 0.0f : mine.sum * exp_below(mine.top, top), scratch);
  if (threadIdx.x == 0) p.losses[n] = logf(sum) - (hit - top);
  if (gradient == nullptr) return;
  write_gradient(row, gradient, top, scale / sum, target, scale);
  clear(gradient, p.vocab, p.width);
}
