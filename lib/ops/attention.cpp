// The registration of attention.
#include "lib/ops/attention.h"

#include "lib/ops/attention_cuda.h"

namespace tang {

namespace {

/// Shapes both directions are checked on: the systems that tang replaces, ragged lengths, groups of
/// every kind, head sizes from 1 to 256, and inputs that once broke others.
const std::vector<CaseText> shared_cases = {
    "B=1 T=16 H=4 Hkv=2 D=8 q~ramp k~ramp v~ramp", "B=1 T=4 H=2 Hkv=1 D=4 q~ramp k~ramp v~ramp",
    "B=1 T=8 H=4 Hkv=4 D=8 q~ramp k~ramp v~ramp", "B=1 T=128 H=16 Hkv=8 D=64 q~ramp k~ramp v~ramp",
    "B=2 T=33 H=14 Hkv=2 D=16", "B=1 T=65 H=15 Hkv=5 D=32 @strided", "B=2 T=63 H=8 Hkv=1 D=64 @strided",
    "B=1 T=129 H=9 Hkv=3 D=64", "B=3 T=257 H=2 Hkv=1 D=64", "B=1 T=1023 H=2 Hkv=1 D=32",
    "B=8 T=1 H=2 Hkv=1 D=64", "B=3 T=7 H=2 Hkv=2 D=128 @strided",
    "B=2 T=127 H=4 Hkv=2 D=64 scale=0.3 @strided",
    // around the tiles of head size 128
    "B=8 T=1 H=2 Hkv=1 D=128", "B=1 T=63 H=7 Hkv=1 D=128 @strided", "B=3 T=65 H=2 Hkv=2 D=128",
    "B=2 T=127 H=4 Hkv=2 D=128 scale=0.3 @strided", "B=1 T=129 H=14 Hkv=2 D=128 @strided",
    "B=1 T=1023 H=2 Hkv=1 D=128", "B=1 T=129 H=2 Hkv=1 D=128", "B=2 T=65 H=6 Hkv=2 D=64",
    "B=1 T=33 H=8 Hkv=8 D=32",
    // more work items than a Hopper chip has multiprocessors (132): blocks stay and take the next
    "B=48 T=9 H=3 Hkv=3 D=128", "B=36 T=65 H=4 Hkv=4 D=128 @strided", "B=35 T=129 H=4 Hkv=4 D=64",
    // lengths on both sides of the tiles (S08)
    "B=33 T=2 H=8 Hkv=4 D=64", "B=1 T=255 H=2 Hkv=1 D=64", "B=1 T=511 H=2 Hkv=1 D=32",
    "B=1 T=513 H=1 Hkv=1 D=64",
    // head sizes
    "B=2 T=33 H=2 Hkv=1 D=1", "B=1 T=65 H=2 Hkv=1 D=2", "B=2 T=63 H=2 Hkv=1 D=6",
    "B=1 T=65 H=2 Hkv=1 D=59 @strided", "B=1 T=65 H=2 Hkv=1 D=80", "B=1 T=129 H=2 Hkv=1 D=96 @strided",
    "B=2 T=65 H=2 Hkv=1 D=112", "B=1 T=257 H=2 Hkv=1 D=128", "B=1 T=97 H=2 Hkv=1 D=160",
    "B=2 T=33 H=16 Hkv=2 D=256 k~large_mean", "B=1 T=65 H=16 Hkv=2 D=256",
    // one channel of mean 30 (S04); scores near -120 at a length 64 past a multiple of 128, and at one
    // (S07)
    "B=2 T=65 H=4 Hkv=2 D=64 k~large_mean scale=0.01",
    "B=1 T=704 H=1 Hkv=1 D=64 q~very_negative k~positive scale=0.015625",
    "B=1 T=640 H=1 Hkv=1 D=64 q~very_negative k~positive scale=0.015625",
    "B=1 T=192 H=1 Hkv=1 D=64 q~very_negative k~positive scale=0.015625",
    "B=1 T=128 H=1 Hkv=1 D=64 q~very_negative k~positive scale=0.015625"};

const std::vector<Dim> dims = {{"B", "batch", 32},
                               {"T", "seq", 1024},
                               {"H", "heads", 16},
                               {"Hkv", "kv-heads", 8},
                               {"D", "head-dim", 64}};
const std::vector<std::string> where = {"H >= 1", "Hkv >= 1", "H % Hkv == 0", "D <= 256"};

OpSpec forward_spec() {
  using A = AttentionForward;
  return {
      .name = "attention_forward",
      .about = "o = softmax(scale * q k^T, causal) v; lse = log of the sum of exp(scale * q k^T)",
      .dims = dims,
      .operands = {in("q", &A::q, "B T H D"), in("k", &A::k, "B T Hkv D"), in("v", &A::v, "B T Hkv D"),
                   out("o", &A::o, "B T H D"), out("lse", &A::lse, "B H T", Rule::f32)},
      .scalars = {scalar("scale", &A::scale, {0})},
      .cases = shared_cases,
      // an operand of more than 2^31 elements; a length of which cuda:sm90 cuts tiles in another way
      .large = {"B=1747 T=129 H=2 Hkv=1 D=64 q@9728", "B=1 T=4224 H=2 Hkv=1 D=64"},
      .strided = {"q", "k", "v", "o"},
      .where = where,
      .reference = attention_forward_reference,
      .plain = attention_forward_plain,
      .flops = "2*B*H*T*T*D",
      .impls = {cpu("cpu", attention_forward_cpu),
                cuda("cuda:sm90", attention_forward_sm90, attention_forward_sm90_supports),
                cuda("cuda:mma", prepare_attention_forward_mma, attention_forward_mma_supports),
                cuda("cuda:simt", attention_forward_simt, attention_forward_simt_supports),
                cuda("cuda:simple", attention_forward_simple, attention_forward_simple_supports)},
  };
}

OpSpec backward_spec() {
  using A = AttentionBackward;
  return {
      .name = "attention_backward",
      .about =
          "p = exp(scale * q k^T - lse); dv = p^T do; dS = p * (do v^T - sum(o * do)); dq = scale * dS k; "
          "dk = scale * dS^T q",
      .dims = dims,
      .operands = {in("q", &A::q, "B T H D"), in("k", &A::k, "B T Hkv D"), in("v", &A::v, "B T Hkv D"),
                   in("o", &A::o, "B T H D"), in("d_o", &A::d_o, "B T H D"),
                   in("lse", &A::lse, "B H T", Rule::f32), out("dq", &A::dq, "B T H D"),
                   out("dk", &A::dk, "B T Hkv D"), out("dv", &A::dv, "B T Hkv D"),
                   scratch("delta", &A::delta, "B H T"),
                   scratch("workspace", &A::workspace, "B*H*((T+127-(T+127)%128)*(D+2)+T)+1")},
      .scalars = {scalar("scale", &A::scale, {0})},
      .cases = shared_cases,
      // A gradient that is a slice of a wider buffer (S18): 225363 rows of 9728.
      .large = {"B=1747 T=129 H=2 Hkv=1 D=64 d_o@9728", "B=1747 T=129 H=2 Hkv=1 D=128 d_o@9728"},
      .strided = {"q", "k", "v", "o", "d_o", "dq", "dk", "dv"},
      .where = where,
      .reference = attention_backward_reference,
      .plain = attention_backward_plain,
      .plain_factor = 3,
      .flops = "5*B*H*T*T*D",
      .gradient_of = &attention_forward,
      .impls = {cpu("cpu", attention_backward_cpu),
                cuda("cuda:sm90", attention_backward_sm90, attention_backward_sm90_supports),
                cuda("cuda:mma", prepare_attention_backward_mma, attention_backward_mma_supports),
                cuda("cuda:simt", attention_backward_simt, attention_backward_simt_supports),
                cuda("cuda:simple", attention_backward_simple, attention_backward_simple_supports)},
  };
}

}  // namespace

const Op<AttentionForward> attention_forward{forward_spec()};
const Op<AttentionBackward> attention_backward{backward_spec()};

}  // namespace tang
