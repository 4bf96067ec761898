// Token embedding. The backward sorts the positions by id (a stable radix sort, so equal ids stay in order of
// position), sums fixed chunks of the sorted rows, and folds the sums of an id that spans chunks in order:
// the result does not depend on which block runs first, and an id that fills the batch is shared by many
// blocks.
#include "embedding.h"

#include "common.cuh"

namespace {

constexpr int digits = 1 << embedding_digit_bits;
constexpr int warps = embedding_threads / warp_size;
constexpr int rounds = embedding_tile / embedding_threads;  // keys of one thread
static_assert(digits == embedding_threads, "a thread of the sorting kernels owns a digit");

__device__ const data_t* row_of(const void* base, int64_t row, int64_t stride) {
  return static_cast<const data_t*>(base) + row * stride;
}

__device__ uint32_t key_at(const EmbeddingSortParams& p, int64_t i) {
  const uint32_t key = p.keys[i];
  return key < p.vocab ? key : p.vocab;
}
__device__ uint32_t digit_of(const EmbeddingSortParams& p, uint32_t key) { return (key >> p.shift) % digits; }

/// Sum of `value` over the threads before this one, and over all. `scratch` holds a number a warp.
__device__ uint32_t sum_before(uint32_t value, uint32_t* scratch, uint32_t& total) {
  const int warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  uint32_t inclusive = value;
#pragma unroll
  for (int offset = 1; offset < warp_size; offset *= 2) {
    const uint32_t below = __shfl_up_sync(all_lanes, inclusive, offset);
    if (lane >= offset) inclusive += below;
  }
  if (lane == warp_size - 1) scratch[warp] = inclusive;
  __syncthreads();
  uint32_t before = inclusive - value;
  total = 0;
#pragma unroll
  for (int w = 0; w < warps; ++w) {
    if (w < warp) before += scratch[w];
    total += scratch[w];
  }
  __syncthreads();
  return before;
}

}  // namespace

TANG_KERNEL embedding_forward(const EmbeddingForwardParams p) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (n >= p.rows) return;
  const uint32_t id = p.ids[n];
  data_t* y = static_cast<data_t*>(p.y) + n * p.y_row;
  if (id >= p.vocab) {
    for (int64_t c = threadIdx.x; c < p.dim; c += blockDim.x) {
      y[c] = from_float<data_t>(__int_as_float(0x7fc00000));
    }
    return;
  }
  const data_t* row = row_of(p.table, id, p.table_row);
  int64_t vectors = 0;
  if (aligned_16(row, 0) && aligned_16(y, 0)) vectors = p.dim / vector_width<data_t>;
  for (int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
    reinterpret_cast<uint4*>(y)[i] = reinterpret_cast<const uint4*>(row)[i];
  }
  for (int64_t c = vectors * vector_width<data_t> + threadIdx.x; c < p.dim; c += blockDim.x) y[c] = row[c];
}

TANG_KERNEL embedding_count(const EmbeddingSortParams p) {
  __shared__ uint32_t counts[digits];
  counts[threadIdx.x] = 0;
  __syncthreads();
#pragma unroll
  for (int r = 0; r < rounds; ++r) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * embedding_tile + r * embedding_threads + threadIdx.x;
    if (i < p.rows) atomicAdd(&counts[digit_of(p, key_at(p, i))], 1u);  // a count has no order
  }
  __syncthreads();
  p.histogram[threadIdx.x * p.tiles + blockIdx.x] = counts[threadIdx.x];
}

/// A block a digit: its counts become the counts of the tiles before.
TANG_KERNEL embedding_scan(const EmbeddingSortParams p) {
  __shared__ uint32_t scratch[warps];
  uint32_t* counts = p.histogram + blockIdx.x * p.tiles;
  uint32_t carry = 0;
  for (int64_t begin = 0; begin < p.tiles; begin += embedding_threads) {
    const int64_t i = begin + threadIdx.x;
    uint32_t total = 0;
    const uint32_t before = sum_before(i < p.tiles ? counts[i] : 0, scratch, total);
    if (i < p.tiles) counts[i] = carry + before;
    carry += total;
  }
  if (threadIdx.x == 0) p.totals[blockIdx.x] = carry;
}

/// Each warp owns consecutive keys and places them 32 at a time, so equal digits keep their order.
TANG_KERNEL embedding_scatter(const EmbeddingSortParams p) {
  __shared__ uint32_t places[warps][digits];
  __shared__ uint32_t scratch[warps];
  const int warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  const int64_t first =
      static_cast<int64_t>(blockIdx.x) * embedding_tile + warp * (rounds * warp_size) + lane;
#pragma unroll
  for (int w = 0; w < warps; ++w) places[w][threadIdx.x] = 0;
  __syncthreads();
  uint32_t keys[rounds];
#pragma unroll
  for (int r = 0; r < rounds; ++r) {
    const int64_t i = first + r * warp_size;
    keys[r] = i < p.rows ? key_at(p, i) : 0;
    if (i < p.rows) atomicAdd(&places[warp][digit_of(p, keys[r])], 1u);
  }
  __syncthreads();
  uint32_t all = 0;
  uint32_t place =
      sum_before(p.totals[threadIdx.x], scratch, all) + p.histogram[threadIdx.x * p.tiles + blockIdx.x];
#pragma unroll
  for (int w = 0; w < warps; ++w) {
    const uint32_t count = places[w][threadIdx.x];
    places[w][threadIdx.x] = place;
    place += count;
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < rounds; ++r) {
    const int64_t i = first + r * warp_size;
    const bool valid = i < p.rows;
    const uint32_t digit = digit_of(p, keys[r]);
    const uint32_t peers = __match_any_sync(all_lanes, valid ? digit : digits);
    const uint32_t rank = __popc(peers & ((1u << lane) - 1));
    const uint32_t target = places[warp][digit] + rank;
    __syncwarp();
    if (valid && rank == 0) places[warp][digit] += __popc(peers);
    __syncwarp();
    if (!valid) continue;
    p.sorted_keys[target] = keys[r];
    p.sorted_positions[target] = p.positions == nullptr ? static_cast<uint32_t>(i) : p.positions[i];
  }
}

namespace {

template <int W>
struct Columns {
  float values[W];

  __device__ void load(const data_t* row) {
    if constexpr (W == 1) {
      values[0] = to_float(*row);
    } else {
      load_vector(values, row);
    }
  }
  __device__ void load_sum(const float* row) {
    if constexpr (W == 1) {
      values[0] = *row;
    } else {
#pragma unroll
      for (int j = 0; j < W; j += 4) {
        load_vector(*reinterpret_cast<float(*)[4]>(&values[j]), row + j);
      }
    }
  }
  __device__ void store_sum(float* row) const {
    if constexpr (W == 1) {
      *row = values[0];
    } else {
#pragma unroll
      for (int j = 0; j < W; j += 4) {
        store_vector(row + j, *reinterpret_cast<const float(*)[4]>(&values[j]));
      }
    }
  }
  __device__ void add(const Columns& other) {
#pragma unroll
    for (int j = 0; j < W; ++j) values[j] += other.values[j];
  }
};

template <int W>
__device__ void write_row(const EmbeddingSumParams& p, uint32_t id, int64_t column, Columns<W> sum) {
  float* target = p.d_table + id * p.table_row + column;
  if (p.accumulate != 0) {
    Columns<W> before;
    before.load_sum(target);
    before.add(sum);
    sum = before;
  }
  sum.store_sum(target);
}

__device__ float* partial_of(const EmbeddingSumParams& p, int64_t chunk, int edge, int64_t column) {
  return p.partials + (chunk * 2 + edge) * p.dim + column;
}

template <int W>
__device__ void sum_chunk(const EmbeddingSumParams& p, const uint32_t* keys, const uint32_t* positions,
                          int count, bool continues, bool goes_on) {
  constexpr int in_flight = 4;
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * W;
  if (column >= p.dim) return;
  Columns<W> sum{};
  bool first = true;  // this id is the chunk's first
  for (int begin = 0; begin < count; begin += in_flight) {
    Columns<W> rows[in_flight];
#pragma unroll
    for (int u = 0; u < in_flight; ++u) {
      if (begin + u < count) rows[u].load(row_of(p.dy, positions[begin + u], p.dy_row) + column);
    }
#pragma unroll
    for (int u = 0; u < in_flight; ++u) {
      const int i = begin + u;
      if (i >= count) break;
      sum.add(rows[u]);
      const bool last = i + 1 == count;
      if (!last && keys[i + 1] == keys[i]) continue;
      if (first && continues) {
        sum.store_sum(partial_of(p, blockIdx.x, 0, column));
      } else if (last && goes_on) {
        sum.store_sum(partial_of(p, blockIdx.x, 1, column));
      } else if (keys[i] < p.vocab) {
        write_row(p, keys[i], column, sum);
      }
      sum = Columns<W>{};
      first = false;
    }
  }
}

/// The id that starts in chunk `chunk` and ends in chunk `end` - 1.
template <int W>
__device__ void fold_chunks(const EmbeddingSumParams& p, uint32_t id, int64_t chunk, int64_t end) {
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * W;
  if (column >= p.dim) return;
  Columns<W> sum;
  sum.load_sum(partial_of(p, chunk, 1, column));
#pragma unroll 8
  for (int64_t j = chunk + 1; j < end; ++j) {
    Columns<W> part;
    part.load_sum(partial_of(p, j, 0, column));
    sum.add(part);
  }
  write_row(p, id, column, sum);
}

}  // namespace

TANG_KERNEL embedding_sum(const EmbeddingSumParams p) {
  __shared__ uint32_t keys[embedding_chunk], positions[embedding_chunk];
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * embedding_chunk;
  const int count = p.rows - begin < embedding_chunk ? static_cast<int>(p.rows - begin) : embedding_chunk;
  if (threadIdx.x < count) {
    keys[threadIdx.x] = p.keys[begin + threadIdx.x];
    positions[threadIdx.x] = p.positions[begin + threadIdx.x];
  }
  __syncthreads();
  const bool continues = begin > 0 && p.keys[begin - 1] == keys[0];
  const bool goes_on = begin + count < p.rows && p.keys[begin + count] == keys[count - 1];
  if (p.vectors != 0) {
    sum_chunk<vector_width<data_t>>(p, keys, positions, count, continues, goes_on);
  } else {
    sum_chunk<1>(p, keys, positions, count, continues, goes_on);
  }
}

/// A block a chunk; all but those where an id starts and goes on have nothing to do.
TANG_KERNEL embedding_fold(const EmbeddingSumParams p) {
  const int64_t chunk = blockIdx.x, begin = chunk * embedding_chunk, next = begin + embedding_chunk;
  if (next >= p.rows) return;
  const uint32_t id = p.keys[next - 1];
  const bool starts_here = begin == 0 || p.keys[begin - 1] != id;
  if (!starts_here || p.keys[next] != id || id >= p.vocab) return;
  // The first chunk, after the next one, that begins with another id.
  int64_t low = chunk + 2, high = (p.rows + embedding_chunk - 1) / embedding_chunk;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (p.keys[middle * embedding_chunk] == id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (p.vectors != 0) {
    fold_chunks<4>(p, id, chunk, low);
  } else {
    fold_chunks<1>(p, id, chunk, low);
  }
}

TANG_KERNEL embedding_clear(const EmbeddingSumParams p) {
  float* row = p.d_table + blockIdx.x * p.table_row;
  const int64_t vectors = p.vectors != 0 ? p.dim / 4 : 0;
  for (int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
    reinterpret_cast<float4*>(row)[i] = make_float4(0, 0, 0, 0);
  }
  for (int64_t c = vectors * 4 + threadIdx.x; c < p.dim; c += blockDim.x) row[c] = 0;
}
