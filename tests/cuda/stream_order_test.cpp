// Memory lives and dies in stream order. Needs a GPU: skipped, and counted as skipped, elsewhere.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "kernels/scale_rows.h"
#include "lib/base/error.h"
#include "lib/device/cuda_device.h"
#include "lib/ops/kv_attention.h"

namespace tang {

TEST_CASE("cuda: a buffer freed while a kernel still writes it is not reused early, on either stream" *
          doctest::skip(!cuda_available())) {
  const auto device = open_cuda_device(0);
  const int64_t rows = 1 << 14, columns = 1 << 10, bytes = rows * columns * 4;
  for (const StreamId stream : {StreamId::compute, StreamId::copy}) {
    for (int round = 0; round < 3; ++round) {
      Buffer first = device->allocate(bytes);
      device->fill_bytes(first.data(), 0x3f, bytes);  // 0.747: scaling by 1 keeps it, and rewrites it
      const ScaleRowsParams params = {first.data(), rows, columns, columns, 1.0f};
      const auto write =
          device->bind(device->kernel({"scale_rows.cu", "scale_rows", {{"TANG_T", "float"}}, sizeof params}),
                       {.grid = {rows}, .block = {64}}, params);
      for (int i = 0; i < 64; ++i) write();
      { const Buffer dying = std::move(first); }  // the kernels are still running
      const Buffer second = device->allocate(bytes);
      device->fill_bytes(second.data(), 0, bytes, stream);  // a kernel that still owned this would undo it
      const Event filled = device->record(stream);
      device->wait(filled, StreamId::compute);
      std::vector<uint32_t> words(static_cast<size_t>(rows * columns), 1);
      device->download(words.data(), second.data(), bytes);
      device->synchronize();
      CHECK(std::count(words.begin(), words.end(), 0u) == rows * columns);
    }
  }
}

TEST_CASE("cuda: an op's own scratch may be freed before its kernels have run" *
          doctest::skip(!cuda_available())) {
  const auto device = open_cuda_device(0);
  const int64_t batch = 4, capacity = 2048, heads = 8, dim = 64;
  const Buffer q = device->allocate_zeroed(batch * heads * dim * 4), o = device->allocate(q.bytes());
  const Buffer cache = device->allocate_zeroed(batch * capacity * heads * dim * 4);
  const std::vector<uint32_t> starts(batch, capacity - 1);
  const Buffer start = device->allocate(batch * 4);
  device->upload(start.data(), starts.data(), start.bytes());
  const View k = cache.view(Dtype::f32, {batch, capacity, heads, dim});
  for (int i = 0; i < 20; ++i) {
    device->fill_bytes(o.data(), 0xff, o.bytes());
    kv_attention(*device, {.q = q.view(Dtype::f32, {batch, 1, heads, dim}),
                           .k = k,
                           .v = k,
                           .start = start.view(Dtype::u32, {batch}),
                           .o = o.view(Dtype::f32, {batch, 1, heads, dim}),
                           .workspace = {}});
    const Buffer next = device->allocate(1 << 22);  // likely the scratch's memory
    device->fill_bytes(next.data(), 0xff, next.bytes(), StreamId::copy);
    std::vector<float> out(static_cast<size_t>(batch * heads * dim), 1.0f);
    device->download(out.data(), o.data(), o.bytes());
    CHECK(std::count(out.begin(), out.end(), 0.0f) == batch * heads * dim);
  }
}

}  // namespace tang
