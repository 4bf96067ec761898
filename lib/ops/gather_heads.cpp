// The registration of gather_heads, and the copies that it and the caches come down to.
#include "lib/ops/gather_heads.h"

namespace tang {

namespace {

/// A view with these dims and strides over the same memory.
View restrided(const View& view, std::array<int64_t, 4> dims, std::array<int64_t, 4> strides) {
  View result = view;
  result.rank = 4;
  result.dims = dims;
  result.strides = strides;
  return result;
}

/// [H, N, D] as [1, N, H, D].
View tokens_first(const View& heads_first) {
  const View& v = heads_first;
  return restrided(v, {1, v.dim(1), v.dim(0), v.dim(2)}, {0, v.stride(1), v.stride(0), 1});
}

OpSpec gather_spec() {
  using A = GatherHeads;
  return {
      .name = "gather_heads",
      .about =
          "y[h, n] = the D elements at comp_offset + h * head_stride of x[n]; head_stride 0 stands for D",
      .dims = {{"N", "rows", 32768}, {"W", "row-width", 3072}, {"H", "heads", 16}, {"D", "head-dim", 64}},
      .operands = {in("x", &A::x, "N W"), out("y", &A::y, "H N D")},
      .scalars = {scalar("comp_offset", &A::comp_offset, {0}), scalar("head_stride", &A::head_stride, {0})},
      .cases = {"N=1 W=1 H=1 D=1",
                "N=3 W=4 H=2 D=2",                               // hidden 4, 2 heads: one projection
                "N=3 W=12 H=2 D=2 comp_offset=4",                // GPT-2: q | k | v, each all heads
                "N=3 W=12 H=2 D=2 comp_offset=4 head_stride=6",  // GPT-NeoX: q, k, v of a head together
                "N=65 W=1024 H=4 D=64 comp_offset=256 head_stride=192",
                "N=65 W=1024 H=4 D=64 comp_offset=256 head_stride=192 @strided",
                "N=33 W=189 H=3 D=59 comp_offset=8 @strided",
                "N=129 W=400 H=5 D=80 comp_offset=0 head_stride=0 @strided",
                "N=17 W=4100 H=33 D=122 comp_offset=3 head_stride=124",
                "N=7 W=1024 H=3 D=256 comp_offset=256", "N=1023 W=24 H=1 D=8 comp_offset=16"},
      .strided = {"x", "y"},
      .where = {"comp_offset >= 0", "head_stride >= 0",
                "comp_offset + (H-1)*(head_stride + (head_stride == 0)*D) + D <= W", "N < 2147483648",
                "W < 2147483648", "H*D < 2147483648"},
      .reference = gather_heads_reference,
      .bytes = "2*N*H*D*element",
      .impls = {cpu("cpu", gather_heads_cpu), cuda("cuda", gather_heads_cuda)},
  };
}

}  // namespace

const Op<GatherHeads> gather_heads{gather_spec()};

HeadCopy head_copy_of(const GatherHeads& a) {
  const int64_t dim = a.y.dim(2), head_stride = a.head_stride != 0 ? a.head_stride : dim;
  View x = restrided(a.x, {1, a.x.dim(0), a.y.dim(0), dim}, {0, a.x.stride(0), head_stride, 1});
  x.data = static_cast<char*>(a.x.data) + a.comp_offset * size_of(a.x.dtype);
  return {.x = x, .y = tokens_first(a.y), .start = {}};
}

std::array<HeadCopy, 2> head_copies_of(const CacheConcat& a) {
  const View y = tokens_first(a.y), old = tokens_first(a.old), fresh = tokens_first(a.fresh);
  const int64_t rows = old.dim(1);
  return {HeadCopy{.x = old, .y = y.slice(1, 0, rows), .start = {}},
          HeadCopy{.x = fresh, .y = y.slice(1, rows, y.dim(1)), .start = {}}};
}

}  // namespace tang
