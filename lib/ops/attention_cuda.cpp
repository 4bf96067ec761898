// Host side of the f32 register-tiled kernels ("cuda:simt") and of the simple ones ("cuda:simple").
#include <cmath>
#include <initializer_list>

#include "lib/base/error.h"
#include "lib/ops/attention_cuda.h"

namespace tang {

namespace {

constexpr int64_t simt_threads = 128;

AttentionStrides strides_of(const View& view) { return {view.stride(0), view.stride(1), view.stride(2)}; }

using Named = std::initializer_list<std::pair<const char*, const View*>>;

/// Every row of a head starts at a multiple of 16 bytes.
bool rows_aligned(const View& view) {
  if (reinterpret_cast<uintptr_t>(view.data) % 16 != 0) return false;
  for (int axis = 0; axis < 3; ++axis) {
    if (view.dim(axis) > 1 && view.stride(axis) * size_of(view.dtype) % 16 != 0) return false;
  }
  return true;
}

std::string refusal(const View& q, float scale, int64_t rows, bool aligned, const Named& tensors,
                    const Named& statistics) {
  constexpr int64_t most_blocks = 65535;  // of a grid's second dimension
  if (q.dim(1) > most_blocks * rows)
    return fmt::format("wants at most {} positions, found {}", most_blocks * rows, q.dim(1));
  if (scale < 0) return fmt::format("wants a positive scale, found {:g}", scale);
  for (const auto& [name, view] : tensors) {
    if (aligned && !rows_aligned(*view)) return fmt::format("wants {} with rows aligned to 16 bytes", name);
  }
  for (const auto& [name, view] : statistics) {
    if (!view->packed()) return fmt::format("wants {} packed, found {}", name, describe(*view));
  }
  return "";
}

/// One launch of a pass: a kernel of `source` with these constants.
template <class Params>
std::function<void()> launch_of(CudaDevice& device, const char* source, const char* entry,
                                std::vector<std::pair<std::string, std::string>> constants,
                                const LaunchShape& shape, const Params& params) {
  return device.bind(device.kernel({.source = source,
                                    .entry = entry,
                                    .constants = std::move(constants),
                                    .param_bytes = sizeof(Params),
                                    .shared_bytes = shape.shared_bytes}),
                     shape, params);
}

int64_t blocks_for(int64_t count, int64_t each) { return (count + each - 1) / each; }

/// Runs the launches in order.
std::function<void()> sequence(std::function<void()> first, std::function<void()> second,
                               std::function<void()> third) {
  return [first = std::move(first), second = std::move(second), third = std::move(third)] {
    first();
    second();
    third();
  };
}

// ---- cuda:simt ----

/// What a pass keeps in shared memory, counted in tiles of its stationary and streamed rows.
struct Pass {
  const char *source, *entry;
  const char* selector;    // the constant that compiles this entry alone, or nullptr
  int64_t stationary;      // tiles of `rows`
  int64_t row_statistics;  // floats per streamed row
};
constexpr Pass forward_pass = {"attention_simt.cu", "attention_forward_simt", nullptr, 1, 0};
constexpr Pass key_pass = {"attention_simt_backward.cu", "attention_dkv_simt", "TANG_KEY_ROWS", 2, 2};
constexpr Pass query_pass = {"attention_simt_backward.cu", "attention_dq_simt", "TANG_QUERY_ROWS", 2, 0};

struct Tiles {
  int64_t rows, columns;
};

int64_t shared_bytes(const Pass& pass, int64_t head_dim, const Tiles& tiles) {
  const int64_t stride = (head_dim + 31) / 32 * 32 + 4;  // as in attention_simt.cuh
  const int64_t floats = (pass.stationary * tiles.rows + 2 * tiles.columns) * stride +
                         tiles.rows * tiles.columns + pass.row_statistics * tiles.columns;
  return floats * static_cast<int64_t>(sizeof(float));
}

/// The largest tiles that the accumulators' registers allow, or else what the chip's shared memory holds: the
/// last fits 99 KiB (sm_86, sm_89, sm_120).
Tiles choose_tiles(const DeviceCaps& caps, const Pass& pass, int64_t head_dim) {
  const bool forward = pass.stationary == 1, narrow = head_dim <= 64;
  const std::initializer_list<Tiles> candidates = {narrow ? Tiles{forward ? 128 : 64, 64} : Tiles{64, 32},
                                                   narrow ? Tiles{64, 64} : Tiles{32, 32}};
  for (const Tiles& tiles : candidates) {
    if (shared_bytes(pass, head_dim, tiles) <= caps.shared_bytes_per_block) return tiles;
  }
  fail_machine("{} needs {} bytes of shared memory a block, this device has {}", pass.entry,
               shared_bytes(pass, head_dim, *(candidates.end() - 1)), caps.shared_bytes_per_block);
}

template <class Params>
std::function<void()> simt_pass(CudaDevice& device, const Pass& pass, int64_t columns_of_grid,
                                const Params& params) {
  const Tiles tiles = choose_tiles(device.caps(), pass, params.head_dim);
  std::vector<std::pair<std::string, std::string>> constants = {
      {"TANG_HEAD_DIM", std::to_string(params.head_dim)},
      {"TANG_TILE_ROWS", std::to_string(tiles.rows)},
      {"TANG_TILE_COLUMNS", std::to_string(tiles.columns)}};
  if (pass.selector != nullptr) constants.push_back({pass.selector, "1"});
  return launch_of(device, pass.source, pass.entry, std::move(constants),
                   {.grid = {columns_of_grid, blocks_for(params.length, tiles.rows)},
                    .block = {simt_threads},
                    .shared_bytes = shared_bytes(pass, params.head_dim, tiles)},
                   params);
}

constexpr int64_t simt_fewest_rows = 32;  // of the smallest tiles

std::string simt_reason(const View& q) {
  const int64_t head_dim = q.dim(3);
  if (q.dtype != Dtype::f32) return fmt::format("wants f32, found {}", name_of(q.dtype));
  if (head_dim % 4 != 0 || head_dim > 128)
    return fmt::format("wants a head_dim that is a multiple of 4 up to 128, found {}", head_dim);
  return "";
}

/// Lanes that share a row of the delta kernel, as in attention_simt_backward.cu.
int64_t delta_lanes(int64_t head_dim) {
  const int64_t chunks = head_dim / 4;
  return chunks >= 32 ? 32 : chunks > 8 ? 16 : chunks > 4 ? 8 : chunks > 2 ? 4 : chunks;
}

// ---- cuda:simple ----

constexpr int64_t simple_rows = 16, simple_threads = 128, simple_streamed = 32;  // as in attention_simple.cu
constexpr int64_t delta_threads = 256;

/// Kernels are told how many 32-wide slices a row has, not its exact width: few variants serve all sizes.
std::vector<std::pair<std::string, std::string>> simple_constants(Dtype dtype, const char* selector,
                                                                  int64_t slices) {
  return {{"TANG_T", kernel_type(dtype)}, {"TANG_SLICES", std::to_string(slices)}, {selector, "1"}};
}

template <class Params>
std::function<void()> simple_pass(CudaDevice& device, const char* entry, const char* selector, Dtype dtype,
                                  int64_t stationary, int64_t columns_of_grid, const Params& params) {
  const int64_t slices = blocks_for(params.head_dim, 32);
  const int64_t floats = (stationary * simple_rows + 2 * simple_streamed) * (slices * 32 + 1);
  return launch_of(device, "attention_simple.cu", entry, simple_constants(dtype, selector, slices),
                   {.grid = {columns_of_grid, blocks_for(params.length, simple_rows)},
                    .block = {simple_threads},
                    .shared_bytes = floats * static_cast<int64_t>(sizeof(float))},
                   params);
}

}  // namespace

AttentionForwardParams attention_params(const AttentionForward& a) {
  return {.q = a.q.data,
          .k = a.k.data,
          .v = a.v.data,
          .o = a.o.data,
          .lse = a.lse.as<float>(),
          .q_strides = strides_of(a.q),
          .k_strides = strides_of(a.k),
          .v_strides = strides_of(a.v),
          .o_strides = strides_of(a.o),
          .batch = static_cast<int32_t>(a.q.dim(0)),
          .length = static_cast<int32_t>(a.q.dim(1)),
          .heads = static_cast<int32_t>(a.q.dim(2)),
          .kv_heads = static_cast<int32_t>(a.k.dim(2)),
          .head_dim = static_cast<int32_t>(a.q.dim(3)),
          .scale = attention_scale(a.scale, a.q.dim(3))};
}

AttentionBackwardParams attention_params(const AttentionBackward& a) {
  return {.q = a.q.data,
          .k = a.k.data,
          .v = a.v.data,
          .o = a.o.data,
          .d_o = a.d_o.data,
          .lse = a.lse.as<float>(),
          .delta = a.delta.as<float>(),
          .dq = a.dq.data,
          .dk = a.dk.data,
          .dv = a.dv.data,
          .q_strides = strides_of(a.q),
          .k_strides = strides_of(a.k),
          .v_strides = strides_of(a.v),
          .o_strides = strides_of(a.o),
          .do_strides = strides_of(a.d_o),
          .dq_strides = strides_of(a.dq),
          .dk_strides = strides_of(a.dk),
          .dv_strides = strides_of(a.dv),
          .batch = static_cast<int32_t>(a.q.dim(0)),
          .length = static_cast<int32_t>(a.q.dim(1)),
          .heads = static_cast<int32_t>(a.q.dim(2)),
          .kv_heads = static_cast<int32_t>(a.k.dim(2)),
          .head_dim = static_cast<int32_t>(a.q.dim(3)),
          .scale = attention_scale(a.scale, a.q.dim(3))};
}

std::string attention_refusal(const AttentionForward& a, int64_t rows, bool aligned) {
  return refusal(a.q, a.scale, rows, aligned, {{"q", &a.q}, {"k", &a.k}, {"v", &a.v}, {"o", &a.o}},
                 {{"lse", &a.lse}});
}

std::string attention_refusal(const AttentionBackward& a, int64_t rows, bool aligned) {
  return refusal(a.q, a.scale, rows, aligned,
                 {{"q", &a.q},
                  {"k", &a.k},
                  {"v", &a.v},
                  {"o", &a.o},
                  {"d_o", &a.d_o},
                  {"dq", &a.dq},
                  {"dk", &a.dk},
                  {"dv", &a.dv}},
                 {{"lse", &a.lse}, {"delta", &a.delta}});
}

std::string attention_forward_simt_supports(const DeviceCaps&, const AttentionForward& a) {
  const std::string reason = simt_reason(a.q);
  return reason.empty() ? attention_refusal(a, simt_fewest_rows, true) : reason;
}

std::string attention_backward_simt_supports(const DeviceCaps&, const AttentionBackward& a) {
  const std::string reason = simt_reason(a.q);
  return reason.empty() ? attention_refusal(a, simt_fewest_rows, true) : reason;
}

std::string attention_forward_simple_supports(const DeviceCaps&, const AttentionForward& a) {
  return attention_refusal(a, simple_rows, false);
}

std::string attention_backward_simple_supports(const DeviceCaps&, const AttentionBackward& a) {
  return attention_refusal(a, simple_rows, false);
}

std::function<void()> attention_forward_simt(CudaDevice& device, const AttentionForward& a) {
  const AttentionForwardParams params = attention_params(a);
  return simt_pass(device, forward_pass, a.q.dim(0) * a.q.dim(2), params);
}

std::function<void()> attention_backward_simt(CudaDevice& device, const AttentionBackward& a) {
  const AttentionBackwardParams params = attention_params(a);
  const int64_t heads = a.q.dim(0) * a.q.dim(2), lanes = delta_lanes(a.q.dim(3));
  auto delta = launch_of(
      device, "attention_simt_backward.cu", "attention_delta_simt",
      {{"TANG_HEAD_DIM", std::to_string(params.head_dim)},
       {"TANG_TILE_ROWS", "64"},
       {"TANG_TILE_COLUMNS", "64"},
       {"TANG_DELTA", "1"}},
      {.grid = {blocks_for(heads * a.q.dim(1) * lanes, delta_threads)}, .block = {delta_threads}}, params);
  return sequence(std::move(delta), simt_pass(device, key_pass, a.k.dim(0) * a.k.dim(2), params),
                  simt_pass(device, query_pass, heads, params));
}

std::function<void()> attention_forward_simple(CudaDevice& device, const AttentionForward& a) {
  return simple_pass(device, "attention_forward_simple", "TANG_FORWARD", a.q.dtype, 1,
                     a.q.dim(0) * a.q.dim(2), attention_params(a));
}

std::function<void()> attention_backward_simple(CudaDevice& device, const AttentionBackward& a) {
  const AttentionBackwardParams params = attention_params(a);
  const int64_t heads = a.q.dim(0) * a.q.dim(2), kv_heads = a.k.dim(0) * a.k.dim(2);
  auto delta = launch_of(
      device, "attention_simple.cu", "attention_delta_simple", simple_constants(a.q.dtype, "TANG_DELTA", 1),
      {.grid = {blocks_for(heads * a.q.dim(1), delta_threads / 32)}, .block = {delta_threads}}, params);
  return sequence(
      std::move(delta),
      simple_pass(device, "attention_dkv_simple", "TANG_KEY_ROWS", a.q.dtype, 2, kv_heads, params),
      simple_pass(device, "attention_dq_simple", "TANG_QUERY_ROWS", a.q.dtype, 2, heads, params));
}

}  // namespace tang
