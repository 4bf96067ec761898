#include <doctest/doctest.h>

#include "lib/ops/attention_cuda.h"

namespace tang {

namespace {

/// Packed views over made-up addresses: `supports` looks at them and reads nothing.
AttentionForward arguments(int64_t head_dim, uintptr_t base = 4096, Dtype dtype = Dtype::bf16) {
  void* const data = reinterpret_cast<void*>(base);
  const View queries(data, dtype, {2, 33, 4, head_dim}), keys(data, dtype, {2, 33, 2, head_dim});
  return {.q = queries, .k = keys, .v = keys, .o = queries, .lse = View(data, Dtype::f32, {2, 4, 33})};
}

DeviceCaps hopper() {
  DeviceCaps caps;
  caps.kind = DeviceKind::cuda;
  caps.compute_capability = 90;
  caps.shared_bytes_per_block = 232448;
  return caps;
}

bool refused_for(const AttentionForward& args, const char* word, const DeviceCaps& caps = hopper()) {
  return attention_forward_mma_supports(caps, args).find(word) != std::string::npos;
}

}  // namespace

TEST_CASE("ops: tensor-core attention takes every head size that is a multiple of 8 up to 128") {
  for (int64_t head_dim = 1; head_dim <= 136; ++head_dim) {
    CAPTURE(head_dim);
    const bool taken = attention_forward_mma_supports(hopper(), arguments(head_dim)).empty();
    CHECK(taken == (head_dim % 8 == 0 && head_dim <= 128));
  }
}

TEST_CASE("ops: tensor-core attention names why it cannot run") {
  CHECK(refused_for(arguments(64, 4096, Dtype::f32), "bf16"));
  CHECK(refused_for(arguments(64, 4096 + 8), "aligned"));
  DeviceCaps turing = hopper();
  turing.compute_capability = 75;
  CHECK(refused_for(arguments(64), "8.0", turing));
  AttentionForward args = arguments(64);
  args.scale = -1;
  CHECK(refused_for(args, "scale"));
}

TEST_CASE("ops: tensor-core attention takes strided rows that are aligned, and refuses the others") {
  AttentionForward args = arguments(64);
  args.q.strides[1] += 24;
  args.q.strides[0] = 33 * args.q.strides[1];
  CHECK(attention_forward_mma_supports(hopper(), args).empty());
  args.q.strides[1] += 4;
  CHECK(refused_for(args, "q with rows aligned"));
}

}  // namespace tang
