// The registration of decoding's q|k|v product with RoPE and the cache's new rows, and its CPU
// implementation.
#include "lib/ops/project_append.h"

#include "lib/ops/matvec.h"
#include "lib/ops/rope_append.h"

namespace tang {

namespace {

OpSpec spec() {
  using A = ProjectAppend;
  return {
      .name = "project_append",
      .about =
          "q|k|v = rmsnorm(x, norm) * w^T; q = rope(q); k_cache[b, start[b]] = rope(k); v_cache likewise = v",
      .dims = {{"B", "batch", 1},
               {"K", "k", 1024},
               {"H", "heads", 16},
               {"Hkv", "kv-heads", 8},
               {"D", "head-dim", 64},
               {"S", "capacity", 4096},
               {"P", "positions", 4096},
               {"R2", "rotary-half", 32}},
      .operands = {in("x", &A::x, "B K"), in("w", &A::w, "(H+2*Hkv)*D K"), in("norm", &A::norm, "K"),
                   in("cos", &A::cos, "P R2", Rule::f32), in("sin", &A::sin, "P R2", Rule::f32),
                   in("start", &A::start, "B", Rule::u32), out("q", &A::q, "B H D"),
                   inout("k_cache", &A::k_cache, "B S Hkv D"), inout("v_cache", &A::v_cache, "B S Hkv D")},
      .scalars = {scalar("eps", &A::eps, {1e-5, 1e-2})},
      .cases = {"B=1 K=1 H=1 Hkv=1 D=2 R2=1 S=1 P=1", "B=1 K=1024 H=4 Hkv=2 D=64 R2=32 S=7 P=9",
                "B=2 K=1000 H=3 Hkv=1 D=64 R2=32 S=33 P=33", "B=3 K=264 H=15 Hkv=5 D=6 R2=3 S=17 P=20",
                "B=1 K=2816 H=2 Hkv=2 D=80 R2=40 S=5 P=5", "B=5 K=127 H=2 Hkv=1 D=128 R2=64 S=9 P=9",
                "B=8 K=512 H=4 Hkv=4 D=64 R2=32 S=9 P=12", "B=1 K=72 H=40 Hkv=8 D=128 R2=64 S=3 P=3",
                "B=2 K=256 H=4 Hkv=2 D=64 R2=32 S=12 P=16 @strided",
                "B=4 K=65 H=3 Hkv=3 D=16 R2=8 S=6 P=6 @strided",
                "B=1 K=512 H=2 Hkv=1 D=64 R2=32 S=4 P=4 x~large_mean"},
      .strided = {"x", "w", "q", "k_cache", "v_cache"},
      .where = {"2*R2 == D", "B >= 1", "K >= 1", "S >= 1", "S <= P", "S < 2147483648",
                "(H+2*Hkv)*D < 2147483648"},
      .fill = {last("start", "S")},
      .reference = project_append_reference,
      .flops = "2*B*(H+2*Hkv)*D*K",
      .bytes = "((H+2*Hkv)*D*(K+B)+B*K+K)*element + 4*B + 8*B*R2",
      .impls = {cpu("cpu", project_append_cpu),
                cuda("cuda", project_append_cuda, project_append_cuda_supports)},
  };
}

}  // namespace

const Op<ProjectAppend> project_append{spec()};

void project_append_cpu(CpuDevice& device, const ProjectAppend& a) {
  static thread_local std::vector<float> memory;  // [B, (H + 2 Hkv) D]; grows to the largest one asked for
  const int64_t batch = a.x.dim(0), width = a.w.dim(0), heads = a.q.dim(1), dim = a.q.dim(2);
  const int64_t kv_heads = a.k_cache.dim(2);
  if (static_cast<int64_t>(memory.size()) < batch * width) memory.resize(static_cast<size_t>(batch * width));
  const View rows(memory.data(), a.x.dtype, {batch, width});
  matvec_cpu(device, {.x = a.x, .w = a.w, .norm = a.norm, .y = rows, .eps = a.eps});
  const auto part = [&](int64_t first, int64_t count) {
    return rows.slice(1, first * dim, (first + count) * dim).reshape({batch, 1, count, dim});
  };
  rope_append_cpu(device, {.q = part(0, heads),
                           .k = part(heads, kv_heads),
                           .v = part(heads + kv_heads, kv_heads),
                           .cos = a.cos,
                           .sin = a.sin,
                           .start = a.start,
                           .y = a.q.reshape({batch, 1, heads, dim}),
                           .k_cache = a.k_cache,
                           .v_cache = a.v_cache});
}

}  // namespace tang
