#include "lib/cuda/call_check.h"

#include "lib/base/error.h"
#include "lib/cuda/jit.h"
#include "lib/device/gemm_check.h"

namespace tang {

namespace {
void check_within(const Dim3& dim, const Dim3& most, const KernelSpec& spec, const char* what) {
  if (dim.x < 1 || dim.y < 1 || dim.z < 1 || dim.x > most.x || dim.y > most.y || dim.z > most.z) {
    fail_check("{}: {} {} is not within {}", title(spec), what, describe(dim), describe(most));
  }
}
}  // namespace

std::string title(const KernelSpec& spec) {
  return fmt::format("kernel {} of {} ({})", spec.entry, spec.source, describe(spec.constants));
}

std::string describe(const Dim3& dim) { return fmt::format("{}×{}×{}", dim.x, dim.y, dim.z); }

bool check_launch(const KernelSpec& spec, const LaunchShape& shape, int64_t param_bytes) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return false;
  if (param_bytes != spec.param_bytes || shape.shared_bytes > spec.shared_bytes) {
    fail_check("{}: launched with {} parameter bytes and {} shared bytes; prepared for {} and {}",
               title(spec), param_bytes, shape.shared_bytes, spec.param_bytes, spec.shared_bytes);
  }
  check_within(shape.grid, {0x7fffffff, 65535, 65535}, spec, "grid");
  check_within(shape.block, {1024, 1024, 64}, spec, "block");
  check_within(shape.cluster, {8, 8, 8}, spec, "cluster");
  if (shape.block.x * shape.block.y * shape.block.z > 1024) {
    fail_check("{}: block {} has more than 1024 threads", title(spec), describe(shape.block));
  }
  return true;
}

void check_shared(const KernelSpec& spec, int64_t static_bytes, const DeviceCaps& caps) {
  if (spec.shared_bytes + static_bytes <= caps.shared_bytes_per_block) return;
  fail_check("{} wants {} bytes of shared memory a block; {} has {}", title(spec),
             spec.shared_bytes + static_bytes, caps.name, caps.shared_bytes_per_block);
}

void check_gemm(const CudaGemm& p) {
  const bool floats = p.input == Dtype::f32 && p.output == Dtype::f32;
  const bool halves = p.input == Dtype::bf16 && p.output != Dtype::u32;
  if (!floats && !halves) {
    fail_input("gemm: {} → {} is not among f32 → f32, bf16 → bf16, bf16 → f32", name_of(p.input),
               name_of(p.output));
  }
  check_gemm_sizes(p);
}

}  // namespace tang
