// The registrations of the cache's upkeep. gather_heads.h has what moves the rows.
#include "lib/ops/gather_heads.h"

namespace tang {

namespace {

OpSpec append_spec() {
  using A = CacheAppend;
  return {
      .name = "cache_append",
      .about = "cache[b, start[b] + i] = x[b, i]; the other rows are left alone",
      .dims = {{"B", "batch", 32},
               {"Q", "queries", 1},
               {"S", "capacity", 4096},
               {"Hkv", "kv-heads", 8},
               {"D", "head-dim", 64}},
      .operands = {in("x", &A::x, "B Q Hkv D"), in("start", &A::start, "B", Rule::u32),
                   inout("cache", &A::cache, "B S Hkv D")},
      .cases = {"B=1 Q=1 S=1 Hkv=1 D=1", "B=1 Q=1 S=3 Hkv=2 D=2 start~zero", "B=2 Q=3 S=5 Hkv=2 D=64",
                "B=3 Q=17 S=64 Hkv=5 D=59 start~below @strided",
                "B=5 Q=1 S=129 Hkv=8 D=64 start~below @strided", "B=2 Q=65 S=129 Hkv=1 D=80 start~below",
                "B=2 Q=3 S=33 Hkv=5 D=128 start~below @strided", "B=1 Q=3 S=3 Hkv=2 D=256 start~zero"},
      .strided = {"x", "cache"},
      .where = {"Q <= S", "B < 2147483648", "S < 2147483648", "Hkv*D < 2147483648"},
      .fill = {last("start", "S-Q+1")},
      .reference = cache_append_reference,
      .bytes = "2*B*Q*Hkv*D*element + 4*B",
      .impls = {cpu("cpu", cache_append_cpu), cuda("cuda", cache_append_cuda)},
  };
}

OpSpec concat_spec() {
  using A = CacheConcat;
  return {
      .name = "cache_concat",
      .about = "y[h] = the rows of old[h], then those of fresh[h]",
      .dims = {{"Hkv", "kv-heads", 8}, {"P", "old-rows", 4095}, {"Q", "queries", 1}, {"D", "head-dim", 64}},
      .operands = {in("old", &A::old, "Hkv P D"), in("fresh", &A::fresh, "Hkv Q D"),
                   out("y", &A::y, "Hkv P+Q D")},
      .cases = {"Hkv=1 P=0 Q=1 D=1", "Hkv=2 P=2 Q=1 D=2", "Hkv=2 P=0 Q=3 D=2", "Hkv=5 P=3 Q=0 D=8",
                "Hkv=8 P=129 Q=1 D=64 @strided", "Hkv=3 P=64 Q=17 D=59 @strided", "Hkv=1 P=5 Q=65 D=80",
                "Hkv=2 P=1000 Q=3 D=128", "Hkv=5 P=33 Q=1 D=256 @strided"},
      .strided = {"old", "fresh", "y"},
      .where = {"P + Q < 2147483648", "Hkv*D < 2147483648"},
      .reference = cache_concat_reference,
      .impls = {cpu("cpu", cache_concat_cpu), cuda("cuda", cache_concat_cuda)},
  };
}

}  // namespace

const Op<CacheAppend> cache_append{append_spec()};
const Op<CacheConcat> cache_concat{concat_spec()};

}  // namespace tang
