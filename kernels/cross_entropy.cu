// Cross-entropy, forward and backward: one block a row. The row is read from memory once, into shared memory
// (what does not fit is read again, from L2): its maximum, then the sum of exponentials, then the gradient.
// Each thread reads back only what it stored itself, so the three passes need no barrier but the reductions'.
//
// A row is cut into a head up to the first 16-byte boundary, vectors, and a tail, so rows of odd width keep
// their vectors; where logits and gradient differ in alignment everything is head.
#include "cross_entropy.h"

#include "common.cuh"

namespace {

constexpr int width = vector_width<data_t>;
constexpr int unroll = 4;
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

/// Reads the row into the cache; returns this thread's maximum.
__device__ float read_row(const Row& row) {
  float top = -__int_as_float(0x7f800000);
  float values[width];
  const auto take = [&](const uint4& vector) {
    unpack(values, vector);
#pragma unroll
    for (int j = 0; j < width; ++j) top = fmaxf(top, values[j]);
  };
  const int step = blockDim.x;
  int i = threadIdx.x;
  for (; i + (unroll - 1) * step < row.count; i += unroll * step) {
    uint4 loaded[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) loaded[u] = row.vectors[i + u * step];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      if (i + u * step < row.cached) row.cache[i + u * step] = loaded[u];
      take(loaded[u]);
    }
  }
  for (; i < row.count; i += step) {
    const uint4 loaded = row.vectors[i];
    if (i < row.cached) row.cache[i] = loaded;
    take(loaded);
  }
  row.for_scalars([&](int c) { top = fmaxf(top, to_float(row.logits[c])); });
  return top;
}

__device__ float sum_row(const Row& row, float top) {
  float sum = 0;
  row.for_vectors([&](int, const uint4& vector) {
    float values[width];
    unpack(values, vector);
    float part = 0;
#pragma unroll
    for (int j = 0; j < width; ++j) part += exp_below(values[j], top);
    sum += part;
  });
  row.for_scalars([&](int c) { sum += exp_below(to_float(row.logits[c]), top); });
  return sum;
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

TANG_KERNEL cross_entropy(const CrossEntropyParams p) {
  extern __shared__ uint4 cache[];
  __shared__ float scratch[32];
  const int64_t n = blockIdx.x;
  const uint32_t target = p.targets[n];
  data_t* gradient = p.d_logits == nullptr ? nullptr : static_cast<data_t*>(p.d_logits) + n * p.d_logits_row;
  if (static_cast<int64_t>(target) == p.pad_id) {
    if (gradient != nullptr) clear(gradient, 0, p.width);
    if (threadIdx.x == 0) p.losses[n] = 0;
    return;
  }
  const Row row = make_row(p, n, cache);
  const bool valid = target < static_cast<uint32_t>(p.vocab);
  // Read by every thread before the reductions' barriers: the gradient may overwrite it.
  const float hit = valid ? to_float(row.logits[target]) : __int_as_float(0x7fc00000);
  const float top = block_max(read_row(row), scratch);
  const float sum = block_sum(sum_row(row, top), scratch);
  if (threadIdx.x == 0) p.losses[n] = logf(sum) - (hit - top);
  if (gradient == nullptr) return;
  const float scale = *p.scale;
  write_gradient(row, gradient, top, scale / sum, target, scale);
  clear(gradient, p.vocab, p.width);
}
