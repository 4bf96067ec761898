// Host side of the Hopper attention kernels: tensor maps over strided views, scratch, launches.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "kernels/attention_sm90.h"
#include "lib/ops/attention_cuda.h"

namespace tang {

namespace {

constexpr int64_t tile_rows = 128;

int64_t tiles(int64_t length, int64_t rows = tile_rows) { return (length + rows - 1) / rows; }

/// The five-dimensional map {64, T, D/64, heads, B} of a [B, T, heads, D] view, with a box of `rows` ×
/// `slabs` slabs of `heads` heads.
AttentionTensorMap tensor_map(CudaDevice& device, const View& x, int64_t rows, int64_t slabs,
                              int64_t heads = 1) {
  constexpr int64_t element = 2, slab = 64;
  // A dimension of extent 1 has no stride worth the name: any legal one will do.
  const auto stride = [&](int axis) { return x.dim(axis) == 1 ? slab * element : x.stride(axis) * element; };
  const TensorMap map = device.encode({.dtype = x.dtype,
                                       .base = x.data,
                                       .dims = {slab, x.dim(1), x.dim(3) / slab, x.dim(2), x.dim(0)},
                                       .strides_bytes = {stride(1), slab * element, stride(2), stride(0)},
                                       .box = {slab, rows, slabs, heads, 1}});
  return std::bit_cast<AttentionTensorMap>(map.bytes);
}

/// Why a view cannot be reached by tensor maps, or "".
std::string map_refusal(const char* name, const View& x) {
  const bool aligned = reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && x.stride(0) % 8 == 0 &&
                       x.stride(1) % 8 == 0 && x.stride(2) % 8 == 0;
  return aligned ? "" : fmt::format("{} is not aligned to 16 bytes in every stride", name);
}

std::string common_refusal(const DeviceCaps& caps, const View& q) {
  if (caps.compute_capability != 90) return "needs compute capability 9.0";
  if (q.dtype != Dtype::bf16) return "bf16 only";
  return "";
}

std::string first_refusal(std::initializer_list<std::pair<const char*, const View*>> views) {
  for (const auto& [name, view] : views) {
    if (std::string reason = map_refusal(name, *view); !reason.empty()) return reason;
  }
  return "";
}

}  // namespace

std::string attention_forward_sm90_supports(const DeviceCaps& caps, const AttentionForward& a) {
  if (std::string reason = common_refusal(caps, a.q); !reason.empty()) return reason;
  if (a.q.dim(3) != 64 && a.q.dim(3) != 128) return "head size 64 or 128 only";
  if (a.scale < 0) return fmt::format("wants a positive scale, found {:g}", a.scale);
  return first_refusal({{"q", &a.q}, {"k", &a.k}, {"v", &a.v}, {"o", &a.o}});
}

namespace {

/// How the forward cuts its work; the constants of attention_sm90.cu.
struct ForwardShape {
  int64_t consumers, heads, keys, stages;
  bool take_turns;

  int64_t positions() const { return 64 * consumers / heads; }
};

/// The fastest of those measured (docs/PERFORMANCE.md). Four warpgroups hide the ends of tiles from each
/// other, three take fewer and larger steps; only two have registers for 128 keys of 128 channels. Two heads
/// a tile waste less of the blocks on the diagonal.
ForwardShape forward_shape(const AttentionForward& a) {
  const int64_t length = a.q.dim(1), group = a.q.dim(2) / a.k.dim(2);
  if (a.q.dim(3) == 128) {
    return length <= 512 ? ForwardShape{3, 1, 64, 3, false} : ForwardShape{2, 1, 128, 2, true};
  }
  return length <= 4096 ? ForwardShape{4, group % 2 == 0 ? 2 : 1, 64, 4, false}
                        : ForwardShape{3, 1, 128, 3, true};
}

/// Groups of `heads` query heads walked together: K and V of at most 64 query heads and 16 MiB, which the L2
/// holds beside what streams through it.
int64_t forward_section(const AttentionForward& a, int64_t heads) {
  constexpr int64_t resident_bytes = int64_t{16} << 20;
  const int64_t pair_bytes = a.q.dim(1) * a.q.dim(3) * 2 * size_of(a.q.dtype);
  const int64_t fitting = resident_bytes / pair_bytes * (a.q.dim(2) / a.k.dim(2));
  return std::max<int64_t>(1, std::min<int64_t>(64, fitting) / heads);
}

}  // namespace

std::function<void()> attention_forward_sm90(CudaDevice& device, const AttentionForward& a) {
  const ForwardShape shape = forward_shape(a);
  const int64_t head_dim = a.q.dim(3), slabs = head_dim / 64, row_bytes = head_dim * 2;
  AttentionForwardSm90Params params{};
  params.q = tensor_map(device, a.q, shape.positions(), slabs, shape.heads);
  params.k = tensor_map(device, a.k, shape.keys, slabs);
  params.v = tensor_map(device, a.v, shape.keys, slabs);
  params.o = tensor_map(device, a.o, 64, 1);
  params.lse = a.lse.as<float>();
  params.batch = static_cast<int32_t>(a.q.dim(0));
  params.length = static_cast<int32_t>(a.q.dim(1));
  params.heads = static_cast<int32_t>(a.q.dim(2));
  params.kv_heads = static_cast<int32_t>(a.k.dim(2));
  params.section = static_cast<int32_t>(forward_section(a, shape.heads));
  params.scale_log2 = attention_scale(a.scale, head_dim) * std::numbers::log2e_v<float>;
  params.unscale_log2 = 1 / params.scale_log2;
  const int64_t shared = 2 * 64 * shape.consumers * row_bytes + 2 * shape.stages * shape.keys * row_bytes +
                         1024 + 512;  // Q twice, K and V; alignment; barriers
  const Kernel kernel = device.kernel({.source = "attention_sm90.cu",
                                       .entry = "attention_forward_sm90",
                                       .constants = {{"TANG_T", "bf16"},
                                                     {"TANG_HEAD_DIM", std::to_string(head_dim)},
                                                     {"TANG_CONSUMERS", std::to_string(shape.consumers)},
                                                     {"TANG_HEADS", std::to_string(shape.heads)},
                                                     {"TANG_KEYS", std::to_string(shape.keys)},
                                                     {"TANG_STAGES", std::to_string(shape.stages)},
                                                     {"TANG_TURNS", shape.take_turns ? "1" : "0"}},
                                       .param_bytes = sizeof params,
                                       .shared_bytes = shared});
  const int64_t work = tiles(a.q.dim(1), shape.positions()) * a.q.dim(0) * a.q.dim(2) / shape.heads;
  return device.bind(kernel,
                     {.grid = {std::min<int64_t>(work, device.caps().multiprocessors)},
                      .block = {128 * (shape.consumers + 1)},
                      .shared_bytes = shared},
                     params);
}

std::string attention_backward_sm90_supports(const DeviceCaps& caps, const AttentionBackward& a) {
  if (std::string reason = common_refusal(caps, a.q); !reason.empty()) return reason;
  if (a.q.dim(3) != 64 && a.q.dim(3) != 128) return "head size 64 or 128 only";
  return first_refusal({{"q", &a.q},
                        {"k", &a.k},
                        {"v", &a.v},
                        {"o", &a.o},
                        {"d_o", &a.d_o},
                        {"dq", &a.dq},
                        {"dk", &a.dk},
                        {"dv", &a.dv}});
}

namespace {

/// What the backward's kernel for a head size fixes, as in its source.
struct BackwardKernel {
  const char *source, *entry;
  int64_t queries;  // of a step, and of a tile of dQ sums; an item has tile_rows keys
  int64_t shared;
};
BackwardKernel backward_kernel(int64_t head_dim) {
  // Tiles, dS, dQ; log-sum-exp and delta; barriers.
  if (head_dim == 64)
    return {"attention_backward_sm90.cu", "attention_backward_sm90", 128,
            8 * 16384 + 2 * 32768 + 32768 + 4 * 512 + 256};
  return {"attention_backward128_sm90.cu", "attention_backward128_sm90", 64,
          3 * 32768 + 4 * 16384 + 2 * 16384 + 32768 + 4 * 256 + 256};
}

/// How a backward is cut, and its workspace.
struct BackwardPlan {
  BackwardKernel kernel;
  int64_t batch, length, heads, kv_heads, head_dim;
  int64_t pairs;         // (sequence, query head)
  int64_t blocks, rows;  // of a pair: tiles of queries, and their rows with the padding
  // In the workspace's order:
  float *sums, *lse, *delta;  // dQ [pairs, rows, D], padded log-sum-exp and delta [pairs, rows]
  uint32_t* turns;            // [pairs, blocks], then the number of the next item

  explicit BackwardPlan(const AttentionBackward& a)
      : kernel(backward_kernel(a.q.dim(3))),
        batch(a.q.dim(0)),
        length(a.q.dim(1)),
        heads(a.q.dim(2)),
        kv_heads(a.k.dim(2)),
        head_dim(a.q.dim(3)),
        pairs(batch * heads),
        blocks(tiles(length, kernel.queries)),
        rows(blocks * kernel.queries),
        sums(a.workspace.as<float>()),
        lse(sums + pairs * rows * head_dim),
        delta(lse + pairs * rows),
        turns(reinterpret_cast<uint32_t*>(delta + pairs * rows)) {}
};

AttentionBackwardPrepareParams prepare_params(const AttentionBackward& a, const BackwardPlan& plan) {
  AttentionBackwardPrepareParams params{};
  params.o = a.o.data, params.d_o = a.d_o.data, params.lse = a.lse.as<float>();
  params.padded_lse = plan.lse, params.delta = plan.delta, params.turns = plan.turns;
  params.o_batch = a.o.stride(0), params.o_row = a.o.stride(1), params.o_head = a.o.stride(2);
  params.do_batch = a.d_o.stride(0), params.do_row = a.d_o.stride(1), params.do_head = a.d_o.stride(2);
  params.batch = static_cast<int32_t>(plan.batch), params.length = static_cast<int32_t>(plan.length);
  params.heads = static_cast<int32_t>(plan.heads);
  return params;
}

AttentionBackwardSm90Params main_params(CudaDevice& device, const AttentionBackward& a,
                                        const BackwardPlan& plan) {
  // Of f32 sums: beyond the L2's half their adds run at memory speed.
  constexpr int64_t resident_bytes = int64_t{16} << 20;
  const int64_t slabs = plan.head_dim / 64;
  const int64_t group_bytes = plan.heads / plan.kv_heads * plan.rows * plan.head_dim * 4;
  AttentionBackwardSm90Params params{};
  params.q = tensor_map(device, a.q, plan.kernel.queries, slabs);
  params.d_o = tensor_map(device, a.d_o, plan.kernel.queries, slabs);
  params.k = tensor_map(device, a.k, tile_rows, slabs);
  params.v = tensor_map(device, a.v, tile_rows, slabs);
  params.dk = tensor_map(device, a.dk, 64, 1);
  params.dv = tensor_map(device, a.dv, 64, 1);
  params.lse = plan.lse, params.delta = plan.delta, params.dq = plan.sums, params.turns = plan.turns;
  params.next = plan.turns + plan.pairs * plan.blocks;
  params.batch = static_cast<int32_t>(plan.batch), params.length = static_cast<int32_t>(plan.length);
  params.heads = static_cast<int32_t>(plan.heads), params.kv_heads = static_cast<int32_t>(plan.kv_heads);
  params.section = static_cast<int32_t>(std::max<int64_t>(1, resident_bytes / group_bytes));
  params.scale = attention_scale(a.scale, plan.head_dim);
  return params;
}

AttentionBackwardFinishParams finish_params(const AttentionBackward& a, const BackwardPlan& plan) {
  AttentionBackwardFinishParams params{};
  params.sums = plan.sums, params.dq = a.dq.data;
  params.dq_batch = a.dq.stride(0), params.dq_row = a.dq.stride(1), params.dq_head = a.dq.stride(2);
  params.batch = static_cast<int32_t>(plan.batch), params.length = static_cast<int32_t>(plan.length);
  params.heads = static_cast<int32_t>(plan.heads);
  params.scale = attention_scale(a.scale, plan.head_dim);
  return params;
}

}  // namespace

std::function<void()> attention_backward_sm90(CudaDevice& device, const AttentionBackward& a) {
  const BackwardPlan plan(a);
  const AttentionBackwardPrepareParams before = prepare_params(a, plan);
  const AttentionBackwardSm90Params main = main_params(device, a, plan);
  const AttentionBackwardFinishParams after = finish_params(a, plan);
  const auto kernel = [&](const char* source, const char* entry, int64_t param_bytes, int64_t shared) {
    return device.kernel({.source = source,
                          .entry = entry,
                          .constants = {{"TANG_T", "bf16"}, {"TANG_HEAD_DIM", std::to_string(plan.head_dim)}},
                          .param_bytes = param_bytes,
                          .shared_bytes = shared});
  };
  const int64_t work = plan.batch * plan.kv_heads * tiles(plan.length);
  auto prepare = device.bind(
      kernel("attention_backward_rows_sm90.cu", "attention_backward_prepare_sm90", sizeof before, 0),
      {.grid = {(plan.pairs * plan.rows * plan.head_dim / 8 + 255) / 256}, .block = {256}}, before);
  auto run = device.bind(kernel(plan.kernel.source, plan.kernel.entry, sizeof main, plan.kernel.shared),
                         {.grid = {std::min<int64_t>(work, device.caps().multiprocessors)},
                          .block = {384},
                          .shared_bytes = plan.kernel.shared},
                         main);
  auto finish = device.bind(
      kernel("attention_backward_rows_sm90.cu", "attention_backward_finish_sm90", sizeof after, 0),
      {.grid = {plan.pairs * plan.blocks}, .block = {256}}, after);
  return [prepare, run, finish] {
    prepare();
    run();
    finish();
  };
}

}  // namespace tang
