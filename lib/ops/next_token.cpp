// The registration of the greedy choice, its CPU and its CUDA implementation.
#include "lib/ops/next_token.h"

#include <algorithm>
#include <cstring>

#include "kernels/next_token.h"
#include "lib/base/error.h"

namespace tang {

namespace {

OpSpec spec() {
  using A = NextToken;
  return {
      .name = "next_token",
      .about =
          "ids = argmax(logits), y = table[ids], ring[b, (start[b] + 1) % R] = ids[b], "
          "start = min(start + 1, last)",
      .dims = {{"B", "batch", 32}, {"W", "vocab", 50304}, {"R", "ring", 8}, {"C", "dim", 1024}},
      .operands = {in("logits", &A::logits, "B W", Rule::f32), out("ids", &A::ids, "B", Rule::u32),
                   inout("start", &A::start, "B", Rule::u32),
                   inout("ring", &A::ring, "B R", Rule::u32).rare(), in("table", &A::table, "W C").rare(),
                   out("y", &A::y, "B C").rare()},
      .scalars = {scalar("vocab", &A::vocab, {0}), scalar("last", &A::last, {5, 4096})},
      .cases = {"B=1 W=1", "B=3 W=33", "B=7 W=1024 vocab=1000", "B=2 W=50304 vocab=50257",
                "B=9 W=4097 @strided", "B=5 W=65 logits~zero", "B=4 W=129 logits~one_hot",
                "B=3 W=33 R=1 +ring", "B=17 W=1030 R=4 +ring", "B=9 W=129 R=8 +ring @strided",
                "B=5 W=65 R=3 +ring start~last", "B=7 W=130 C=1024 +table +y",
                "B=3 W=1000 C=33 R=8 +ring +table +y", "B=9 W=67 C=40 +table +y @strided"},
      .strided = {"logits", "ring", "table", "y"},
      .where = {"W >= 1", "vocab >= 0", "vocab <= W", "W < 2147483648", "last >= 0"},
      .fill = {below("start", "9"), below("ring", "77")},
      .reference = next_token_reference,
      .flops = "B*W",
      .impls = {cpu("cpu", next_token_cpu), cuda("cuda", next_token_cuda)},
  };
}

bool has_ring(const NextToken& a) { return a.ring.present() && a.ring.dim(1) > 0; }

bool embeds(const NextToken& a) {
  if (a.table.present() != a.y.present())
    fail_input("next_token: table and y come together, found {} alone", a.y.present() ? "y" : "table");
  return a.y.present();
}

int64_t columns_of(const NextToken& a) { return a.vocab > 0 ? a.vocab : a.logits.dim(1); }

}  // namespace

const Op<NextToken> next_token{spec()};

void next_token_cpu(CpuDevice&, const NextToken& a) {
  const bool embedded = embeds(a);
  for (int64_t b = 0; b < a.logits.dim(0); ++b) {
    const float* row = a.logits.as<float>() + b * a.logits.stride(0);
    int64_t best = -1;
    for (int64_t i = 0; i < columns_of(a); ++i) {
      if (row[i] == row[i] && (best < 0 || row[i] > row[best])) best = i;
    }
    const auto chosen = static_cast<uint32_t>(std::max<int64_t>(best, 0));
    uint32_t& start = a.start.as<uint32_t>()[b];
    const int64_t position = int64_t{start} + 1;
    a.ids.as<uint32_t>()[b] = chosen;
    if (embedded) {
      const int64_t element = size_of(a.y.dtype);
      std::memcpy(static_cast<char*>(a.y.data) + b * a.y.stride(0) * element,
                  static_cast<const char*>(a.table.data) + chosen * a.table.stride(0) * element,
                  static_cast<size_t>(a.y.dim(1) * element));
    }
    if (has_ring(a)) a.ring.as<uint32_t>()[b * a.ring.stride(0) + position % a.ring.dim(1)] = chosen;
    start = static_cast<uint32_t>(std::min(position, a.last));
  }
}

std::function<void()> next_token_cuda(CudaDevice& device, const NextToken& a) {
  NextTokenParams params{.logits = a.logits.as<float>(),
                         .ids = a.ids.as<uint32_t>(),
                         .start = a.start.as<uint32_t>(),
                         .ring = has_ring(a) ? a.ring.as<uint32_t>() : nullptr,
                         .logits_row = a.logits.stride(0),
                         .ring_row = has_ring(a) ? a.ring.stride(0) : 0,
                         .last = a.last,
                         .ring_length = has_ring(a) ? static_cast<uint32_t>(a.ring.dim(1)) : 0,
                         .columns = static_cast<int32_t>(columns_of(a))};
  if (embeds(a)) {
    const int64_t element = size_of(a.y.dtype);
    params.table = a.table.data, params.y = a.y.data;
    params.table_row = a.table.stride(0) * element, params.y_row = a.y.stride(0) * element;
    params.y_bytes = a.y.dim(1) * element;
  }
  return device.bind(
      device.kernel({.source = "next_token.cu", .entry = "next_token", .param_bytes = sizeof params}),
      {.grid = {a.logits.dim(0)}, .block = {1024}, .overlap_previous = true}, params);
}

}  // namespace tang
