// The registration of cached attention, and how its keys are split.
#include "lib/ops/kv_attention.h"

#include <algorithm>

namespace tang {

namespace {

// CTAs that fill a large chip (five on each of 132 multiprocessors) twice, and hardly a third time; none with
// too few keys to be worth its start and its merge.
constexpr int64_t most_rows = 8, most_ctas = 1280, fewest_keys = 128, most_splits = 256, key_step = 64;
constexpr int64_t few_owners = 64, most_alone = 1024;  // (batch, KV head) pairs; keys

/// min(most_ctas * most_rows, query rows * ceil(S / fewest_keys)) partial results: split_keys stays below
/// both.
const std::string row_bound = "B*Q*H*(S+127-(S+127)%128)/128";
const std::string workspace =
    "(10240*(10240<=" + row_bound + ")+" + row_bound + "*(" + row_bound + "<10240))*(D+2)";
static_assert(most_ctas * most_rows == 10240 && fewest_keys == 128, "the workspace's expression");

constexpr int64_t divide_up(int64_t count, int64_t each) { return (count + each - 1) / each; }

OpSpec attention_spec() {
  using A = KvAttention;
  return {
      .name = "kv_attention",
      .about = "o[b, i] = softmax(scale * q[b, i] k[b]^T over keys 0 ... start[b] + i) v[b]",
      .dims = {{"B", "batch", 32},
               {"Q", "queries", 1},
               {"S", "capacity", 4096},
               {"H", "heads", 16},
               {"Hkv", "kv-heads", 8},
               {"D", "head-dim", 64}},
      .operands = {in("q", &A::q, "B Q H D"), in("k", &A::k, "B S Hkv D"), in("v", &A::v, "B S Hkv D"),
                   in("start", &A::start, "B", Rule::u32), out("o", &A::o, "B Q H D"),
                   scratch("workspace", &A::workspace, workspace)},
      .scalars = {scalar("scale", &A::scale, {0})},
      .cases = {"B=1 Q=3 S=3 H=2 Hkv=2 D=2 q~ramp k~ramp v~ramp",
                "B=1 Q=1 S=3 H=2 Hkv=2 D=2 q~ramp k~ramp v~ramp",
                "B=1 Q=1 S=1 H=1 Hkv=1 D=1",
                "B=2 Q=1 S=129 H=16 Hkv=8 D=64",
                "B=3 Q=1 S=1000 H=4 Hkv=2 D=64 start~below @strided",
                "B=2 Q=3 S=129 H=14 Hkv=2 D=64 start~below @strided",
                "B=1 Q=17 S=64 H=15 Hkv=5 D=64 start~below",
                "B=2 Q=65 S=129 H=4 Hkv=2 D=64 start~below @strided",
                "B=1 Q=65 S=65 H=2 Hkv=1 D=64 start~zero",
                "B=2 Q=1 S=129 H=8 Hkv=1 D=80 start~below",
                "B=2 Q=3 S=5 H=8 Hkv=1 D=59 start~below @strided",
                "B=1 Q=1 S=1000 H=3 Hkv=1 D=59 @strided",
                "B=2 Q=1 S=257 H=15 Hkv=5 D=128 start~below @strided",
                "B=1 Q=17 S=300 H=2 Hkv=1 D=128 start~below",
                "B=1 Q=1 S=513 H=8 Hkv=1 D=256",
                "B=2 Q=3 S=64 H=4 Hkv=2 D=256 start~below @strided",
                "B=40 Q=1 S=129 H=2 Hkv=1 D=6 start~below",
                "B=2 Q=1 S=1000 H=2 Hkv=1 D=132 start~below",
                "B=2 Q=1 S=700 H=2 Hkv=1 D=64 start~zero",
                "B=1 Q=1 S=2049 H=2 Hkv=1 D=64 scale=0.3",
                "B=2 Q=3 S=129 H=4 Hkv=2 D=64 k~large_mean scale=0.01 start~below",
                "B=1 Q=1 S=192 H=2 Hkv=1 D=64 q~very_negative k~positive scale=0.015625"},
      .strided = {"q", "k", "v", "o"},
      .where = {"H >= 1", "Hkv >= 1", "H % Hkv == 0", "D <= 256", "Q <= S", "S < 2147483648",
                "B*Q*H < 2147483648"},
      .fill = {last("start", "S-Q+1")},
      .reference = kv_attention_reference,
      .plain = kv_attention_plain,
      .flops = "2*B*H*Q*(2*S-Q+1)*D",
      .bytes = "2*B*S*Hkv*D*element + 2*B*Q*H*D*element + 4*B",
      .impls = {cpu("cpu", kv_attention_cpu), cuda("cuda", kv_attention_cuda)},
  };
}

}  // namespace

const Op<KvAttention> kv_attention{attention_spec()};

KvSplits split_keys(int64_t batch, int64_t queries, int64_t capacity, int64_t heads, int64_t kv_heads,
                    int64_t head_dim) {
  const int64_t query_rows = heads / kv_heads * queries, chunks = divide_up(query_rows, most_rows);
  const int64_t rows = divide_up(query_rows, chunks);
  const int64_t owners = batch * kv_heads * chunks;
  // Few sequences and a short cache: one wide CTA takes all of it, which saves the merge.
  if (owners <= few_owners && capacity <= most_alone && rows <= 2 && head_dim <= 128 && head_dim % 8 == 0)
    return {.rows = rows, .chunks = chunks, .splits = 1, .split_keys = capacity, .warps = 8};
  const int64_t wanted =
      std::max<int64_t>(1, std::min({most_ctas / owners, divide_up(capacity, fewest_keys), most_splits}));
  const int64_t keys = divide_up(divide_up(capacity, wanted), key_step) * key_step;
  return {
      .rows = rows, .chunks = chunks, .splits = divide_up(capacity, keys), .split_keys = keys, .warps = 4};
}

}  // namespace tang
