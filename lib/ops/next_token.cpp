// The registration of the greedy choice, its CPU and its CUDA implementation.
#include "lib/ops/next_token.h"

#include "kernels/next_token.h"

namespace tang {

namespace {

OpSpec spec() {
  using A = NextToken;
  return {
      .name = "next_token",
      .about = "ids = argmax(logits), start = min(start + 1, last)",
      .dims = {{"B", "batch", 32}, {"W", "vocab", 50304}},
      .operands = {in("logits", &A::logits, "B W", Rule::f32), out("ids", &A::ids, "B", Rule::u32),
                   inout("start", &A::start, "B", Rule::u32)},
      .scalars = {scalar("vocab", &A::vocab, {0}), scalar("last", &A::last, {5, 4096})},
      .cases = {"B=1 W=1", "B=3 W=33", "B=7 W=1024 vocab=1000", "B=2 W=50304 vocab=50257",
                "B=9 W=4097 @strided", "B=5 W=65 logits~zero", "B=4 W=129 logits~one_hot"},
      .strided = {"logits"},
      .where = {"W >= 1", "vocab >= 0", "vocab <= W", "W < 2147483648", "last >= 0"},
      .fill = {below("start", "9")},
      .reference = next_token_reference,
      .flops = "B*W",
      .impls = {cpu("cpu", next_token_cpu), cuda("cuda", next_token_cuda)},
      .modes = {Dtype::f32},
  };
}

int64_t columns_of(const NextToken& a) { return a.vocab > 0 ? a.vocab : a.logits.dim(1); }

}  // namespace

const Op<NextToken> next_token{spec()};

void next_token_cpu(CpuDevice&, const NextToken& a) {
  for (int64_t b = 0; b < a.logits.dim(0); ++b) {
    const float* row = a.logits.as<float>() + b * a.logits.stride(0);
    int64_t best = -1;
    for (int64_t i = 0; i < columns_of(a); ++i) {
      if (row[i] == row[i] && (best < 0 || row[i] > row[best])) best = i;
    }
    a.ids.as<uint32_t>()[b] = static_cast<uint32_t>(std::max<int64_t>(best, 0));
    uint32_t& start = a.start.as<uint32_t>()[b];
    start = static_cast<uint32_t>(std::min<int64_t>(int64_t{start} + 1, a.last));
  }
}

std::function<void()> next_token_cuda(CudaDevice& device, const NextToken& a) {
  const NextTokenParams params{.logits = a.logits.as<float>(),
                               .ids = a.ids.as<uint32_t>(),
                               .start = a.start.as<uint32_t>(),
                               .logits_row = a.logits.stride(0),
                               .last = a.last,
                               .columns = static_cast<int32_t>(columns_of(a))};
  return device.bind(
      device.kernel({.source = "next_token.cu", .entry = "next_token", .param_bytes = sizeof params}),
      {.grid = {a.logits.dim(0)}, .block = {1024}, .overlap_previous = true}, params);
}

}  // namespace tang
