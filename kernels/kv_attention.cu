// Attention of a few new queries over a key-value cache. What counts is reading the cache once at full speed:
// a CTA owns one split of the keys of one (batch, KV head) and serves up to TANG_ROWS query rows (the group's
// heads × the queries), so a decode reads every key and value once. A row of the cache is shared by `lanes`
// lanes, 16 bytes each; a lane group walks its own keys with its own online softmax, and groups, warps and
// splits are merged in a fixed order. Splits past a sequence's end exit at once. Floor: K and V once.
#include "kv_attention.h"

#include "groups.cuh"
#include "overlap.cuh"

#ifndef TANG_WARPS
#define TANG_WARPS 4
#endif
#ifndef TANG_HEAD_DIM
#define TANG_HEAD_DIM 64
#endif
#ifndef TANG_ROWS
#define TANG_ROWS 2
#endif

namespace {

constexpr int head_dim = TANG_HEAD_DIM, rows = TANG_ROWS;
constexpr int warps = TANG_WARPS, threads = warps * warp_size;
constexpr int groups = (head_dim + group_width - 1) / group_width;  // 16-byte groups of a cache row

constexpr int power_of_two(int least) {
  int power = 1;
  while (power < least) power *= 2;
  return power;
}
constexpr int lanes = groups > warp_size ? warp_size : power_of_two(groups);  // that share a row
constexpr int parts = (groups + lanes - 1) / lanes;                           // groups a lane holds
constexpr int values = parts * group_width;                                   // elements a lane holds
constexpr int unroll = rows > 4 ? 2 : 4;                                      // keys in flight per lane group
constexpr int step = threads / lanes;                                         // keys a pass of the CTA takes
// On an SM: what ptxas would choose by itself makes the wide variants spill and the narrow ones slack.
constexpr bool slack = vector_rows && parts == 1 && rows <= 2 && warps <= 4;
constexpr int fewest_ctas = slack ? 5 : vector_rows || warps <= 4 ? 2 : 1;

__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// What to subtract from scores: their maximum, or 0 where nothing was seen.
__device__ __forceinline__ float base_of(float maximum) { return maximum == -infinity() ? 0.0f : maximum; }

/// Keys that query `i` sees. A start past the capacity is the caller's mistake; nothing is read there.
__device__ __forceinline__ int visible_keys(const KvAttentionParams& p, uint32_t start, int i) {
  return static_cast<int>(min(static_cast<int64_t>(start) + i + 1, static_cast<int64_t>(p.capacity)));
}

/// The element where part `part` of this lane begins.
__device__ __forceinline__ int element_of(int lane, int part) {
  return (part * lanes + lane % lanes) * group_width;
}

template <int n>
__device__ __forceinline__ void load_row(uint4 (&row)[n], const data_t* source, int lane, bool inside) {
#pragma unroll
  for (int part = 0; part < n; ++part)
    row[part] = load_group(source, element_of(lane, part), inside ? head_dim : 0);
}

__device__ __forceinline__ void unpack_row(float (&x)[values], const uint4 (&row)[parts]) {
#pragma unroll
  for (int part = 0; part < parts; ++part) {
    float piece[group_width];
    unpack(piece, row[part]);
#pragma unroll
    for (int i = 0; i < group_width; ++i) x[part * group_width + i] = piece[i];
  }
}

/// Online softmax of each query row over the keys that a lane group has walked.
struct Running {
  float maximum[rows], sum[rows], o[rows][values];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      maximum[r] = -infinity(), sum[r] = 0.0f;
#pragma unroll
      for (int i = 0; i < values; ++i) o[r][i] = 0.0f;
    }
  }

  /// Scores become weights under the raised maximum.
  __device__ __forceinline__ void weigh(float (&scores)[unroll][rows]) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      float raised = maximum[r];
#pragma unroll
      for (int u = 0; u < unroll; ++u) raised = fmaxf(raised, scores[u][r]);
      const float base = base_of(raised), correction = exp2_approx(maximum[r] - base);
      maximum[r] = raised;
      float total = 0.0f;
#pragma unroll
      for (int i = 0; i < values; ++i) o[r][i] *= correction;
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
        scores[u][r] = exp2_approx(scores[u][r] - base);
        total += scores[u][r];
      }
      sum[r] = fmaf(sum[r], correction, total);
    }
  }

  /// Takes in the lane group `offset` lanes away, which takes in this one.
  __device__ __forceinline__ void join(int offset) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const float other = __shfl_xor_sync(all_lanes, maximum[r], offset);
      const float raised = fmaxf(maximum[r], other), base = base_of(raised);
      const float mine = exp2_approx(maximum[r] - base), theirs = exp2_approx(other - base);
      maximum[r] = raised;
      sum[r] = fmaf(__shfl_xor_sync(all_lanes, sum[r], offset), theirs, sum[r] * mine);
#pragma unroll
      for (int i = 0; i < values; ++i)
        o[r][i] = fmaf(__shfl_xor_sync(all_lanes, o[r][i], offset), theirs, o[r][i] * mine);
    }
  }
};

/// What the warps hand over; rows of o are padded like the lanes' elements.
struct Shared {
  float o[warps][rows][lanes * values];
  float maximum[warps][rows], sum[warps][rows];
};

/// What a CTA owns: keys begin … begin + count of one (batch, KV head), for query rows from first_row on.
/// Query row n is query n / group of the KV head's query head n % group.
struct Work {
  int b, kv_head, group, first_row, all_rows, split, begin, count;
  uint32_t start;

  __device__ __forceinline__ Work(const KvAttentionParams& p) {
    // The chunks of a split are neighbours: they find its keys in L2. So are the heads, whose rows of a
    // token-major cache lie side by side in one page of memory.
    const int chunk = blockIdx.x % p.chunks, pair = blockIdx.x / p.chunks;
    kv_head = pair % p.kv_heads;
    split = pair / p.kv_heads % p.splits, b = pair / p.kv_heads / p.splits;
    group = p.heads / p.kv_heads, first_row = chunk * rows, all_rows = group * p.queries;
    start = p.start[b], begin = split * p.split_keys;
    const int seen = visible_keys(p, start, (min(first_row + rows, all_rows) - 1) / group);
    count = min(p.split_keys, seen - begin);
  }
  __device__ __forceinline__ int query(int row) const { return row / group; }
  __device__ __forceinline__ int head(int row) const { return kv_head * group + row % group; }
  /// The first of the CTA's keys, in k or v.
  __device__ __forceinline__ const data_t* cache(const void* base, const KvStrides& strides) const {
    return row_at<data_t>(base, b * strides.batch + kv_head * strides.head + begin * strides.row);
  }
  __device__ __forceinline__ int64_t offset(const KvStrides& strides, int row) const {
    return b * strides.batch + query(row) * strides.row + head(row) * strides.head;
  }
};

struct Queries {
  float q[rows][values];  // times scale · log2 e
  int limit[rows];        // keys of this split that the row sees

  __device__ __forceinline__ void load(const KvAttentionParams& p, const Work& work, int lane) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const bool real = work.first_row + r < work.all_rows;
      const int row = real ? work.first_row + r : work.first_row;
      limit[r] = real ? min(visible_keys(p, work.start, work.query(row)) - work.begin, work.count) : 0;
      uint4 packed[parts];
      load_row(packed, row_at<data_t>(p.q, work.offset(p.q_strides, row)), lane, true);
      unpack_row(q[r], packed);
#pragma unroll
      for (int j = 0; j < values; ++j) q[r][j] *= p.scale_log2;
    }
  }

  /// Scores of one key a lane group: every lane of the group gets them.
  __device__ __forceinline__ void score(float (&scores)[rows], const uint4 (&packed)[parts], int key) const {
    float x[values];
    unpack_row(x, packed);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      float sum = 0.0f;
#pragma unroll
      for (int j = 0; j < values; ++j) sum = fmaf(q[r][j], x[j], sum);
#pragma unroll
      for (int offset = lanes / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(all_lanes, sum, offset);
      scores[r] = key < limit[r] ? sum : -infinity();
    }
  }
};

/// All keys and values of the CTA, once. The loads of a round are all under way before the first is used.
__device__ __forceinline__ void walk(Running& running, const KvAttentionParams& p, const Work& work,
                                     const Queries& queries, int lane) {
  const data_t *k = work.cache(p.k, p.k_strides), *v = work.cache(p.v, p.v_strides);
  const uint32_t count = work.count, mine = threadIdx.x / lanes;
  for (uint32_t done = 0; done < count; done += step * unroll) {
    uint4 keys[unroll][parts], vectors[unroll][parts];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const uint32_t key = done + u * step + mine;
      load_row(keys[u], k + key * p.k_strides.row, lane, key < count);
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const uint32_t key = done + u * step + mine;
      load_row(vectors[u], v + key * p.v_strides.row, lane, key < count);
    }
    float scores[unroll][rows];
#pragma unroll
    for (int u = 0; u < unroll; ++u)
      queries.score(scores[u], keys[u], static_cast<int>(done + u * step + mine));
    running.weigh(scores);
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      float x[values];
      unpack_row(x, vectors[u]);
#pragma unroll
      for (int r = 0; r < rows; ++r)
#pragma unroll
        for (int j = 0; j < values; ++j) running.o[r][j] = fmaf(scores[u][r], x[j], running.o[r][j]);
    }
  }
}

/// Element d of row r over all warps: to o, or to the split's partial result.
__device__ __forceinline__ void write(const KvAttentionParams& p, const Work& work, const Shared& shared,
                                      int r, int d) {
  const int row = work.first_row + r;
  float maximum = shared.maximum[0][r], sum = 0.0f, o = 0.0f;
#pragma unroll
  for (int w = 1; w < warps; ++w) maximum = fmaxf(maximum, shared.maximum[w][r]);
#pragma unroll
  for (int w = 0; w < warps; ++w) {
    const float weight = exp2_approx(shared.maximum[w][r] - base_of(maximum));
    sum = fmaf(shared.sum[w][r], weight, sum);
    o = fmaf(shared.o[w][r][d], weight, o);
  }
  if (p.splits == 1) {
    row_at<data_t>(p.o, work.offset(p.o_strides, row))[d] = from_float<data_t>(o / sum);
    return;
  }
  const int64_t token = static_cast<int64_t>(work.b) * p.queries + work.query(row);
  const int64_t at = (token * p.heads + work.head(row)) * p.splits + work.split;
  p.partial_o[at * head_dim + d] = o;
  if (d == 0) p.partial_statistics[2 * at] = maximum, p.partial_statistics[2 * at + 1] = sum;
}

}  // namespace

TANG_KERNEL __launch_bounds__(threads, fewest_ctas) kv_attention(const KvAttentionParams p) {
  __shared__ Shared shared;
  const int warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  let_next_start();
  wait_for_previous();
  const Work work(p);
  if (work.count <= 0) return;  // the whole CTA: nothing of this split is read later
  Queries queries;
  queries.load(p, work, lane);
  Running running;
  running.clear();
  walk(running, p, work, queries, lane);
#pragma unroll
  for (int offset = lanes; offset < warp_size; offset *= 2) running.join(offset);
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    if (lane < lanes) {
#pragma unroll
      for (int j = 0; j < values; ++j)
        shared.o[warp][r][element_of(lane, j / group_width) + j % group_width] = running.o[r][j];
    }
    if (lane == 0) shared.maximum[warp][r] = running.maximum[r], shared.sum[warp][r] = running.sum[r];
  }
  __syncthreads();
  for (int item = threadIdx.x; item < rows * head_dim; item += threads) {
    const int r = item / head_dim, row = work.first_row + r;
    if (row < work.all_rows && visible_keys(p, work.start, work.query(row)) > work.begin)
      write(p, work, shared, r, item - r * head_dim);
  }
}

namespace {

constexpr int merge_threads = 256;               // in lib/ops/kv_attention_cuda.cpp
constexpr int most_splits = 256;                 // most_splits in lib/ops/kv_attention.cpp
constexpr int columns = power_of_two(head_dim);  // threads that walk one share of the splits
constexpr int shares = merge_threads / columns;

}  // namespace

/// One CTA a query row: the splits that the row sees, in a fixed order.
TANG_KERNEL __launch_bounds__(merge_threads) kv_attention_merge(const KvAttentionParams p) {
  __shared__ float weights[most_splits], scratch[warp_size], folded[merge_threads];
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x, token = row / p.heads, b = token / p.queries;
  const int head = static_cast<int>(row - token * p.heads), i = static_cast<int>(token - b * p.queries);
  const int active = (visible_keys(p, p.start[b], i) - 1) / p.split_keys + 1;
  const float* statistics = p.partial_statistics + row * p.splits * 2;
  float maximum = -infinity();
  for (int s = threadIdx.x; s < active; s += merge_threads) maximum = fmaxf(maximum, statistics[2 * s]);
  maximum = block_max(maximum, scratch);
  float sum = 0.0f;
  for (int s = threadIdx.x; s < active; s += merge_threads) {
    weights[s] = exp2_approx(statistics[2 * s] - base_of(maximum));
    sum = fmaf(weights[s], statistics[2 * s + 1], sum);
  }
  sum = block_sum(sum, scratch);  // its barriers show every thread the weights

  const int d = threadIdx.x % columns, share = threadIdx.x / columns;
  const float* partial = p.partial_o + row * p.splits * head_dim + d;
  float o = 0.0f;
  if (d < head_dim) {
#pragma unroll 8
    for (int s = share; s < active; s += shares) o = fmaf(weights[s], partial[s * head_dim], o);
  }
  folded[threadIdx.x] = o;
  __syncthreads();
  if (share != 0 || d >= head_dim) return;
#pragma unroll
  for (int other = 1; other < shares; ++other) o += folded[other * columns + d];
  row_at<data_t>(p.o, b * p.o_strides.batch + i * p.o_strides.row + head * p.o_strides.head)[d] =
      from_float<data_t>(o / sum);
}
