// Cached attention on the CPU: a task is some query rows of one (batch, KV head), which walk the cache
// together in tiles of keys, so that each tile is converted once. Storage is f32 or bf16, arithmetic f32.
// A task owns what it writes, and how rows are shared out depends on shapes alone: results repeat bit for
// bit.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/base/error.h"
#include "lib/device/simd.h"
#include "lib/ops/attention.h"
#include "lib/ops/kv_attention.h"

#define TANG_INLINE inline __attribute__((always_inline))

namespace tang {

namespace {

constexpr int64_t tile_keys = 64, most_rows = 32;

/// Element (b, t, h, 0) of a [B, T, heads, D] view.
template <class T>
inline T* head_row(const View& view, int64_t b, int64_t t, int64_t h) {
  return static_cast<T*>(view.data) + b * view.stride(0) + t * view.stride(1) + h * view.stride(2);
}

template <class T>
class Task {
 public:
  explicit Task(const KvAttention& a)
      : a_(a),
        queries_(a.q.dim(1)),
        dim_(a.q.dim(3)),
        group_(a.q.dim(2) / a.k.dim(2)),
        chunks_((group_ * queries_ + most_rows - 1) / most_rows),
        scale_(attention_scale(a.scale, dim_)),
        tile_(static_cast<size_t>(tile_keys * dim_)),
        q_(static_cast<size_t>(most_rows * dim_)),
        o_(q_.size()) {}

  int64_t chunks() const { return chunks_; }

  /// Query rows of chunk `index` % chunks: row r is query r / group of the KV head's query head r % group.
  TANG_INLINE void run(int64_t index) {
    const int64_t pair = index / chunks_, first = index % chunks_ * most_rows;
    batch_ = pair / a_.k.dim(2), kv_head_ = pair % a_.k.dim(2), first_ = first;
    count_ = std::min(most_rows, group_ * queries_ - first);
    start_ = a_.start.as<uint32_t>()[batch_];
    for (int64_t r = 0; r < count_; ++r) {
      const T* q = row_of(a_.q, r);
      for (int64_t d = 0; d < dim_; ++d) q_[r * dim_ + d] = load(q, d) * scale_;
      maximum_[r] = -std::numeric_limits<float>::infinity(), sum_[r] = 0;
    }
    std::fill(o_.begin(), o_.end(), 0.0f);
    const int64_t seen = visible(count_ - 1);
    for (int64_t key = 0; key < seen; key += tile_keys) walk(key, std::min(tile_keys, seen - key));
    for (int64_t r = 0; r < count_; ++r) {
      T* o = row_of(a_.o, r);
      for (int64_t d = 0; d < dim_; ++d) store(o, d, o_[r * dim_ + d] / sum_[r]);
    }
  }

 private:
  T* row_of(const View& view, int64_t r) const {
    const int64_t row = first_ + r;
    return head_row<T>(view, batch_, row / group_, kv_head_ * group_ + row % group_);
  }
  int64_t visible(int64_t r) const { return start_ + (first_ + r) / group_ + 1; }

  TANG_INLINE void read_tile(const View& cache, int64_t first, int64_t keys) {
    for (int64_t j = 0; j < keys; ++j) {
      const T* line = head_row<T>(cache, batch_, first + j, kv_head_);
      float* target = tile_.data() + j * dim_;
      for (int64_t d = 0; d < dim_; ++d) target[d] = load(line, d);
    }
  }

  /// One tile of keys: every row's weights, then every row's sum.
  TANG_INLINE void walk(int64_t first, int64_t keys) {
    read_tile(a_.k, first, keys);
    for (int64_t r = 0; r < count_; ++r) weigh(r, std::min(keys, visible(r) - first));
    read_tile(a_.v, first, keys);
    for (int64_t r = 0; r < count_; ++r) {
      float* o = o_.data() + r * dim_;
      for (int64_t j = 0; j < std::min(keys, visible(r) - first); ++j) {
        const float weight = weights_[r][j];
        const float* v = tile_.data() + j * dim_;
        for (int64_t d = 0; d < dim_; ++d) o[d] += weight * v[d];
      }
    }
  }

  TANG_INLINE void weigh(int64_t r, int64_t keys) {
    if (keys <= 0) return;
    const float* q = q_.data() + r * dim_;
    float* weights = weights_[r];
    for (int64_t j = 0; j < keys; ++j) {
      const float* k = tile_.data() + j * dim_;
      weights[j] = sum_lanes(dim_, [&](int64_t d) { return q[d] * k[d]; });
    }
    const float raised = max_lanes(keys, maximum_[r], [&](int64_t j) { return weights[j]; });
    const float correction = fast_exp(maximum_[r] - raised);
    maximum_[r] = raised;
    for (int64_t j = 0; j < keys; ++j) weights[j] = fast_exp(weights[j] - raised);
    sum_[r] = sum_[r] * correction + sum_lanes(keys, [&](int64_t j) { return weights[j]; });
    float* o = o_.data() + r * dim_;
    for (int64_t d = 0; d < dim_; ++d) o[d] *= correction;
  }

  const KvAttention& a_;
  int64_t queries_, dim_, group_, chunks_;
  float scale_;
  std::vector<float> tile_, q_, o_;  // [tile_keys, dim], [rows, dim], [rows, dim]
  float weights_[most_rows][tile_keys], maximum_[most_rows], sum_[most_rows];
  int64_t batch_ = 0, kv_head_ = 0, first_ = 0, count_ = 0, start_ = 0;
};

template <class T>
void run_tasks(CpuDevice& device, const KvAttention& a) {
  const int64_t tasks = a.q.dim(0) * a.k.dim(2) * Task<T>(a).chunks();
  device.parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
    Task<T> task(a);
    simd([&] {
      for (int64_t i = begin; i < end; ++i) task.run(i);
    });
  });
}

}  // namespace

void kv_attention_cpu(CpuDevice& device, const KvAttention& a) {
  const uint32_t* start = a.start.as<uint32_t>();
  for (int64_t b = 0; b < a.q.dim(0); ++b) {
    if (start[b] + a.q.dim(1) > a.k.dim(1))
      fail_input("kv_attention: sequence {} has start {} and Q = {} queries, which passes the cache's S = {}",
                 b, start[b], a.q.dim(1), a.k.dim(1));
  }
  a.q.dtype == Dtype::f32 ? run_tasks<float>(device, a) : run_tasks<bf16>(device, a);
}

}  // namespace tang
