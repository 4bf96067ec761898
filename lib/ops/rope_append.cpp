// The registration of RoPE into a cache.
#include "lib/ops/rope_append.h"

namespace tang {

namespace {

OpSpec spec() {
  using A = RopeAppend;
  return {
      .name = "rope_append",
      .about = "y = rope(q); k_cache[b, start[b] + i] = rope(k)[b, i]; v_cache likewise = v, unturned",
      .dims = {{"B", "batch", 1},
               {"Q", "queries", 1},
               {"H", "heads", 16},
               {"Hkv", "kv-heads", 8},
               {"D", "head-dim", 64},
               {"S", "capacity", 4096},
               {"P", "positions", 4096},
               {"R2", "rotary-half", 32}},
      .operands = {in("q", &A::q, "B Q H D"), in("k", &A::k, "B Q Hkv D"), in("v", &A::v, "B Q Hkv D"),
                   in("cos", &A::cos, "P R2", Rule::f32), in("sin", &A::sin, "P R2", Rule::f32),
                   in("start", &A::start, "B", Rule::u32), out("y", &A::y, "B Q H D"),
                   inout("k_cache", &A::k_cache, "B S Hkv D"), inout("v_cache", &A::v_cache, "B S Hkv D")},
      .cases = {"B=1 Q=1 H=1 Hkv=1 D=2 R2=1 S=1 P=1", "B=1 Q=1 H=4 Hkv=2 D=64 R2=32 S=7 P=9",
                "B=3 Q=1 H=15 Hkv=5 D=64 R2=32 S=33 P=33 @strided", "B=2 Q=5 H=3 Hkv=3 D=6 R2=3 S=17 P=20",
                "B=2 Q=3 H=8 Hkv=4 D=128 R2=64 S=40 P=40 @strided", "B=1 Q=2 H=7 Hkv=1 D=80 R2=40 S=5 P=5",
                "B=4 Q=1 H=2 Hkv=1 D=256 R2=128 S=9 P=9"},
      .strided = {"q", "k", "v", "y", "k_cache", "v_cache"},
      .where = {"2*R2 == D", "Q >= 1", "Q <= S", "S <= P", "B*Q < 2147483648", "S < 2147483648",
                "(H+2*Hkv)*D < 2147483648"},
      .fill = {last("start", "S-Q+1")},
      .in_place = {{"q", "y"}},
      .reference = rope_append_reference,
      .flops = "6*B*Q*(H+Hkv)*R2",
      .bytes = "2*B*Q*(H+2*Hkv)*D*element + 4*B + 8*B*Q*R2",
      .impls = {cpu("cpu", rope_append_cpu), cuda("cuda", rope_append_cuda)},
  };
}

}  // namespace

const Op<RopeAppend> rope_append{spec()};

}  // namespace tang
