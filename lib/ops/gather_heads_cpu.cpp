#include <cstring>

#include "lib/base/error.h"
#include "lib/ops/gather_heads.h"
#include "lib/ops/rows.h"

namespace tang {

void copy_heads(CpuDevice& device, const HeadCopy& c) {
  const int64_t length = c.x.dim(1), heads = c.x.dim(2), size = size_of(c.x.dtype);
  const int64_t bytes = c.x.dim(3) * size;
  const auto offset = [size](const View& view, int64_t b, int64_t t, int64_t h) {
    return (b * view.stride(0) + t * view.stride(1) + h * view.stride(2)) * size;
  };
  const uint32_t* start = c.start.present() ? c.start.as<uint32_t>() : nullptr;
  const auto* x = static_cast<const char*>(c.x.data);
  auto* y = static_cast<char*>(c.y.data);
  device.parallel_for(c.x.dim(0) * length, row_grain(heads * c.x.dim(3)), [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      const int64_t b = token / length, t = token - b * length;
      const int64_t target = t + (start != nullptr ? start[b] : 0);
      if (target >= c.y.dim(1)) continue;
      for (int64_t h = 0; h < heads; ++h)
        std::memcpy(y + offset(c.y, b, target, h), x + offset(c.x, b, t, h), static_cast<size_t>(bytes));
    }
  });
}

void gather_heads_cpu(CpuDevice& device, const GatherHeads& a) { copy_heads(device, head_copy_of(a)); }

void cache_append_cpu(CpuDevice& device, const CacheAppend& a) {
  const int64_t rows = a.x.dim(1), capacity = a.cache.dim(1);
  const uint32_t* start = a.start.as<uint32_t>();
  for (int64_t b = 0; b < a.x.dim(0); ++b) {
    if (start[b] + rows > capacity)
      fail_input(
          "cache_append: sequence {} has start {} and Q = {} new rows, which passes the cache's S = {}", b,
          start[b], rows, capacity);
  }
  copy_heads(device, {.x = a.x, .y = a.cache, .start = a.start});
}

void cache_concat_cpu(CpuDevice& device, const CacheConcat& a) {
  for (const HeadCopy& copy : head_copies_of(a)) copy_heads(device, copy);
}

}  // namespace tang
