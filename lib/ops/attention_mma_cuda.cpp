#include <fmt/format.h>

#include <algorithm>

#include "lib/ops/attention_cuda.h"

namespace tang {

namespace {

int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

/// The constants of attention_tiles.cuh, and what follows from them.
struct Tiles {
  int64_t warps, row_tiles, stream_rows, slice_rows;
  bool keep_rows;

  int64_t own_rows() const { return warps * row_tiles * 16; }
};

enum class Pass { forward, dkdv, dq };

/// Dynamic shared memory of a pass, bytes: its own operands, and two buffers of two streamed ones.
int64_t shared_bytes(Pass pass, const Tiles& tiles, int64_t head_dim) {
  const int64_t pitch_bytes = (divide_up(head_dim, 16) * 16 + 8) * 2;
  const int64_t own = (pass == Pass::forward ? 1 : 2) * tiles.own_rows() * pitch_bytes;
  const int64_t stream = 4 * tiles.stream_rows * pitch_bytes;
  return own + stream + (pass == Pass::dkdv ? tiles.stream_rows * 16 : 0);  // with lse and delta
}

/// Large tiles where two CTAs of them fit a multiprocessor, else half the streamed (dQ: half the owned) rows.
/// None of these spills registers at head sizes 64 and 128 on sm_80, sm_90a or sm_100a.
Tiles choose_tiles(Pass pass, int64_t head_dim, const DeviceCaps& caps) {
  const bool narrow = head_dim <= 64;
  Tiles tiles{}, small{};
  switch (pass) {
    case Pass::forward:
      tiles = narrow ? Tiles{4, 2, 64, 64, true} : Tiles{4, 2, 64, 32, false};
      small = narrow ? Tiles{4, 2, 32, 32, true} : Tiles{4, 2, 32, 32, false};
      break;
    case Pass::dkdv:
      tiles = narrow ? Tiles{4, 2, 64, 32, false} : Tiles{4, 1, 64, 64, false};
      small = narrow ? Tiles{4, 2, 32, 32, false} : Tiles{4, 1, 32, 32, false};
      break;
    case Pass::dq:
      tiles = narrow ? Tiles{4, 2, 64, 32, true} : Tiles{4, 2, 32, 32, false};
      small = narrow ? Tiles{2, 2, 64, 32, true} : Tiles{2, 2, 32, 32, false};
      break;
  }
  return 2 * shared_bytes(pass, tiles, head_dim) <= caps.shared_bytes_per_block ? tiles : small;
}

/// x: the heads of one section, a group's heads adjacent, so that their keys and values stay in L2; y: blocks
/// of a head, which the kernel orders longest first; z: sections.
Dim3 grid_of(int64_t pairs, int64_t blocks, int64_t section) {
  const int64_t x = std::min(pairs, std::max(section, divide_up(pairs, 65535)));
  return {x, blocks, divide_up(pairs, x)};
}

template <class Params>
std::function<void()> bind_pass(CudaDevice& device, Pass pass, const Params& params) {
  const Tiles tiles = choose_tiles(pass, params.head_dim, device.caps());
  const int64_t shared = shared_bytes(pass, tiles, params.head_dim);
  constexpr std::pair<const char*, const char*> programs[] = {{"attention_mma.cu", "attention_forward_mma"},
                                                              {"attention_mma_dkdv.cu", "attention_dkdv_mma"},
                                                              {"attention_mma_dq.cu", "attention_dq_mma"}};
  const auto [source, entry] = programs[static_cast<int>(pass)];
  const Kernel kernel = device.kernel({.source = source,
                                       .entry = entry,
                                       .constants = {{"TANG_T", "bf16"},
                                                     {"TANG_HEAD_DIM", fmt::to_string(params.head_dim)},
                                                     {"TANG_WARPS", fmt::to_string(tiles.warps)},
                                                     {"TANG_ROW_TILES", fmt::to_string(tiles.row_tiles)},
                                                     {"TANG_STREAM_ROWS", fmt::to_string(tiles.stream_rows)},
                                                     {"TANG_SLICE_ROWS", fmt::to_string(tiles.slice_rows)},
                                                     {"TANG_KEEP_ROWS", tiles.keep_rows ? "1" : "0"},
                                                     {"TANG_MIN_CTAS", "2"}},
                                       .param_bytes = sizeof(Params),
                                       .shared_bytes = shared});
  // The pairs of 32 KV heads a section: 8 MiB of k and v at T = 1024, D = 64.
  const int64_t group = pass == Pass::dkdv ? 1 : params.heads / params.kv_heads;
  const Dim3 grid = grid_of(int64_t{params.batch} * params.kv_heads * group,
                            divide_up(params.length, tiles.own_rows()), 32 * group);
  return device.bind(kernel, {.grid = grid, .block = {tiles.warps * 32}, .shared_bytes = shared}, params);
}

std::function<void()> bind_delta(CudaDevice& device, const AttentionBackwardParams& params) {
  constexpr int64_t block = 256;
  const Kernel kernel =
      device.kernel({.source = "attention_mma_delta.cu",
                     .entry = "attention_delta_mma",
                     .constants = {{"TANG_T", "bf16"}, {"TANG_HEAD_DIM", fmt::to_string(params.head_dim)}},
                     .param_bytes = sizeof(params)});
  int64_t lanes = 1;  // a row's, as the kernel counts them
  while (lanes < params.head_dim / 8) lanes *= 2;
  const int64_t rows = int64_t{params.batch} * params.length * params.heads;
  return device.bind(kernel, {.grid = {divide_up(rows * lanes, block)}, .block = {block}}, params);
}

/// Positions that the smallest tiles of a pass own: 65535 blocks of them fit a grid.
constexpr int64_t fewest_rows = 64;

std::string refuse(const DeviceCaps& caps, const View& q) {
  if (q.dtype != Dtype::bf16) return "wants bf16";
  if (caps.compute_capability < 80) return "wants compute capability 8.0 or newer";
  const int64_t head_dim = q.dim(3);
  if (head_dim % 8 != 0 || head_dim > 128)
    return fmt::format("wants a head_dim that is a multiple of 8 up to 128, found {}", head_dim);
  return "";
}

}  // namespace

std::string attention_forward_mma_supports(const DeviceCaps& caps, const AttentionForward& a) {
  const std::string reason = refuse(caps, a.q);
  return reason.empty() ? attention_refusal(a, fewest_rows, true) : reason;
}

std::string attention_backward_mma_supports(const DeviceCaps& caps, const AttentionBackward& a) {
  const std::string reason = refuse(caps, a.q);
  return reason.empty() ? attention_refusal(a, fewest_rows, true) : reason;
}

std::function<void()> prepare_attention_forward_mma(CudaDevice& device, const AttentionForward& a) {
  return bind_pass(device, Pass::forward, attention_params(a));
}

std::function<void()> prepare_attention_backward_mma(CudaDevice& device, const AttentionBackward& a) {
  const AttentionBackwardParams params = attention_params(a);
  auto delta = bind_delta(device, params);
  auto dkdv = bind_pass(device, Pass::dkdv, params);
  auto dq = bind_pass(device, Pass::dq, params);
  return [delta, dkdv, dq] {
    delta();
    dkdv();
    dq();
  };
}

}  // namespace tang
