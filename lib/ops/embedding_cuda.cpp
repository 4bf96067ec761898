#include "kernels/embedding.h"

#include <algorithm>
#include <bit>

#include "lib/ops/embedding.h"

namespace tang {

namespace {

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Threads for `work` items a row, whole warps.
int64_t threads_for(int64_t work, int64_t most) {
  return std::clamp<int64_t>(divide_up(work, 32) * 32, 32, most);
}

template <class Params>
std::function<void()> launch(CudaDevice& device, const char* entry, Dtype dtype, const LaunchShape& shape,
                             const Params& params) {
  return device.bind(device.kernel({.source = "embedding.cu",
                                    .entry = entry,
                                    .constants = {{"TANG_T", kernel_type(dtype)}},
                                    .param_bytes = sizeof params}),
                     shape, params);
}

bool rows_aligned_16(const View& matrix) {
  return (reinterpret_cast<uintptr_t>(matrix.data) |
          static_cast<uintptr_t>(matrix.stride(0) * size_of(matrix.dtype))) %
             16 ==
         0;
}

/// The workspace's parts, in u32: see embedding_workspace.
struct Workspace {
  float* partials;
  uint32_t *keys[2], *positions[2], *histogram, *totals;

  Workspace(const EmbeddingBackward& a, int64_t tiles) {
    const int64_t rows = a.dy.dim(0), dim = a.dy.dim(1);
    partials = reinterpret_cast<float*>(a.workspace.as<uint32_t>());  // first: 16-byte accesses
    uint32_t* next = a.workspace.as<uint32_t>() + divide_up(rows, embedding_chunk) * 2 * dim;
    for (int i = 0; i < 2; ++i) {
      keys[i] = next;
      positions[i] = next + rows;
      next += 2 * rows;
    }
    histogram = next;
    totals = next + (tiles << embedding_digit_bits);
  }
};

}  // namespace

std::function<void()> embedding_forward_cuda(CudaDevice& device, const EmbeddingForward& a) {
  const EmbeddingForwardParams params{.ids = a.ids.as<uint32_t>(),
                                      .table = a.table.data,
                                      .y = a.y.data,
                                      .table_row = a.table.stride(0),
                                      .y_row = a.y.stride(0),
                                      .rows = a.y.dim(0),
                                      .vocab = a.table.dim(0),
                                      .dim = a.y.dim(1)};
  const int64_t lanes = threads_for(divide_up(params.dim * size_of(a.y.dtype), 16), 256), rows = 256 / lanes;
  return launch(device, "embedding_forward", a.y.dtype,
                {.grid = {divide_up(params.rows, rows)}, .block = {lanes, rows}}, params);
}

std::function<void()> embedding_backward_cuda(CudaDevice& device, const EmbeddingBackward& a) {
  const int64_t rows = a.dy.dim(0), vocab = a.d_table.dim(0), dim = a.dy.dim(1);
  const int64_t tiles = divide_up(rows, embedding_tile), chunks = divide_up(rows, embedding_chunk);
  const Dtype dtype = a.dy.dtype;
  const Workspace space(a, tiles);
  std::vector<std::function<void()>> steps;

  const int passes = std::max(
      1, static_cast<int>(divide_up(std::bit_width(static_cast<uint64_t>(vocab)), embedding_digit_bits)));
  for (int pass = 0; pass < passes; ++pass) {
    const int from = 1 - pass % 2, to = pass % 2;
    const EmbeddingSortParams sort{.keys = pass == 0 ? a.ids.as<uint32_t>() : space.keys[from],
                                   .positions = pass == 0 ? nullptr : space.positions[from],
                                   .sorted_keys = space.keys[to],
                                   .sorted_positions = space.positions[to],
                                   .histogram = space.histogram,
                                   .totals = space.totals,
                                   .rows = rows,
                                   .tiles = tiles,
                                   .vocab = static_cast<uint32_t>(vocab),
                                   .shift = pass * embedding_digit_bits};
    const LaunchShape by_tile{.grid = {tiles}, .block = {embedding_threads}};
    const LaunchShape by_digit{.grid = {1 << embedding_digit_bits}, .block = {embedding_threads}};
    steps.push_back(launch(device, "embedding_count", dtype, by_tile, sort));
    steps.push_back(launch(device, "embedding_scan", dtype, by_digit, sort));
    steps.push_back(launch(device, "embedding_scatter", dtype, by_tile, sort));
  }

  const int64_t width = 16 / size_of(dtype);
  const bool vectors = dim % width == 0 && rows_aligned_16(a.dy) && rows_aligned_16(a.d_table);
  const EmbeddingSumParams sum{.keys = space.keys[(passes - 1) % 2],
                               .positions = space.positions[(passes - 1) % 2],
                               .dy = a.dy.data,
                               .d_table = a.d_table.as<float>(),
                               .partials = space.partials,
                               .dy_row = a.dy.stride(0),
                               .table_row = a.d_table.stride(0),
                               .rows = rows,
                               .vocab = vocab,
                               .dim = dim,
                               .accumulate = a.accumulate,
                               .vectors = vectors};
  const auto by_chunk = [&](int64_t columns_a_thread) {
    const int64_t work = divide_up(dim, columns_a_thread), threads = threads_for(work, 128);
    return LaunchShape{.grid = {chunks, divide_up(work, threads)}, .block = {threads}};
  };
  if (!a.accumulate) {
    steps.push_back(launch(device, "embedding_clear", dtype,
                           {.grid = {vocab}, .block = {threads_for(divide_up(dim, 4), 256)}}, sum));
  }
  steps.push_back(launch(device, "embedding_sum", dtype, by_chunk(vectors ? width : 1), sum));
  steps.push_back(launch(device, "embedding_fold", dtype, by_chunk(vectors ? 4 : 1), sum));
  return [steps] {
    for (const auto& step : steps) step();
  };
}

}  // namespace tang
