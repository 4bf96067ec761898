#include <doctest/doctest.h>

#include "kernels/scale_rows.h"
#include "lib/base/error.h"
#include "lib/device/cuda_device.h"

namespace tang {
namespace {

KernelSpec scale_spec(const char* type) {
  return {"scale_rows.cu", "scale_rows", {{"TANG_T", type}}, sizeof(ScaleRowsParams)};
}

}  // namespace

TEST_CASE("compile-only device: collects what was compiled; equal specs are one kernel") {
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    const auto device = open_compile_only_device(architecture);
    CHECK(device->caps().isa == architecture);
    const Kernel first = device->kernel(scale_spec("bf16"));
    CHECK(device->kernel(scale_spec("bf16")) == first);
    CHECK(device->kernel(scale_spec("float")) != first);
    const auto compiled = device->compiled();
    REQUIRE(compiled.size() == 2);
    CHECK(compiled[0].source == "scale_rows.cu");
    CHECK(compiled[0].entry == "scale_rows");
    CHECK(compiled[0].constants == "TANG_T=bf16");
    CHECK(compiled[1].constants == "TANG_T=float");
    CHECK(compiled[0].registers > 0);
    CHECK(compiled[0].cubin_bytes > 0);
    CHECK(compiled[0].spill_bytes == 0);
    CHECK(compiled[0].warnings.empty());
  }
}

TEST_CASE("compile-only device: memory is memory, launches and products do nothing") {
  const auto device = open_compile_only_device("sm_90a");
  Buffer buffer = device->allocate_zeroed(16);
  float value = 3;
  static_cast<Device&>(*device).upload(buffer.data(), &value, 4);
  const ScaleRowsParams params = {buffer.data(), 1, 4, 4, 2};
  device->launch(device->kernel(scale_spec("float")), {.grid = {1}, .block = {32}}, &params, sizeof params);
  device->gemm({.m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1})();
  device->capture([] {})->launch();
  CHECK(buffer.view(Dtype::f32, {4}).as<float>()[0] == 3);
}

TEST_CASE("cuda: a launch that no device or not this kernel could run is refused before the driver") {
  const auto device = open_compile_only_device("sm_90a");
  const Kernel kernel = device->kernel(scale_spec("float"));
  const ScaleRowsParams params = {};
  const auto launch = [&](const LaunchShape& shape, int64_t bytes = sizeof params) {
    device->launch(kernel, shape, &params, bytes);
  };
  CHECK_NOTHROW(launch({.grid = {0}, .block = {32}}));
  CHECK_THROWS_WITH_AS(launch({.grid = {1}, .block = {32}}, 8), doctest::Contains("8 parameter bytes"),
                       Error);
  CHECK_THROWS_WITH_AS(launch({.grid = {1}, .block = {32}, .shared_bytes = 4}), doctest::Contains("4 shared"),
                       Error);
  CHECK_THROWS_WITH_AS(launch({.grid = {1, 65536}, .block = {32}}), doctest::Contains("grid 1×65536×1"),
                       Error);
  CHECK_THROWS_WITH_AS(launch({.grid = {1}, .block = {32, 0}}), doctest::Contains("block 32×0×1"), Error);
  CHECK_THROWS_WITH_AS(launch({.grid = {1}, .block = {64, 32}}), doctest::Contains("1024 threads"), Error);
}

TEST_CASE("compile-only device: a kernel whose parameters differ from the host's struct is refused") {
  const auto device = open_compile_only_device("sm_80");
  KernelSpec spec = scale_spec("float");
  spec.param_bytes += 8;
  device->kernel(spec);
  CHECK_THROWS_WITH_AS(device->compiled(), doctest::Contains("the host passes one struct of 48"), Error);
}

TEST_CASE("compile-only device: an entry that the source lacks is refused with those it has") {
  const auto device = open_compile_only_device("sm_80");
  KernelSpec spec = scale_spec("float");
  spec.entry = "scale_columns";
  device->kernel(spec);
  CHECK_THROWS_WITH_AS(device->finish_compiling(), doctest::Contains("it has: scale_rows"), Error);
  spec.entry = "scale_planes";  // every fault is told, not the first alone
  device->kernel(spec);
  CHECK_THROWS_WITH_AS(device->compiled(), doctest::Contains("scale_columns"), Error);
  CHECK_THROWS_WITH_AS(device->compiled(), doctest::Contains("scale_planes"), Error);
}

TEST_CASE("compile-only device: more shared memory than the chip has is refused") {
  const auto device = open_compile_only_device("sm_80");
  KernelSpec spec = scale_spec("float");
  spec.shared_bytes = 200 << 10;
  device->kernel(spec);
  CHECK_THROWS_WITH_AS(device->compiled(), doctest::Contains("shared memory"), Error);
}

TEST_CASE("compile-only device: architectures that cannot be compiled for") {
  CHECK_THROWS_WITH_AS(open_compile_only_device("hopper"), doctest::Contains("sm_90a"), Error);
  CHECK_THROWS_WITH_AS(open_compile_only_device("sm_70"), doctest::Contains("sm_80"), Error);
  CHECK_THROWS_WITH_AS(open_compile_only_device("sm_999"), doctest::Contains("NVRTC"), Error);
}

TEST_CASE("cuda: a tensor map that the hardware cannot describe is refused by name") {
  const auto device = open_compile_only_device("sm_90a");
  const Buffer buffer = device->allocate(1 << 16);
  const TensorMapSpec good = {Dtype::bf16, buffer.data(), {128, 64}, {256}, {64, 64}, true};
  CHECK_NOTHROW(device->encode(good));
  const auto refused = [&](auto change, const char* says) {
    TensorMapSpec spec = good;
    change(spec);
    CHECK_THROWS_WITH_AS(device->encode(spec), doctest::Contains(says), Error);
  };
  refused([](TensorMapSpec& s) { s.base = static_cast<char*>(s.base) + 2; }, "base");
  refused([](TensorMapSpec& s) { s.strides_bytes[0] = 258; }, "stride of dim 1 is 258");
  refused([](TensorMapSpec& s) { s.box[1] = 257; }, "box[1] is 257");
  refused([](TensorMapSpec& s) { s.box[0] = 128; }, "swizzle");
  refused([](TensorMapSpec& s) { s.box[0] = 4; }, "multiple of 16");
  refused([](TensorMapSpec& s) { s.dims[1] = 0; }, "dims[1] is 0");
  refused([](TensorMapSpec& s) { s.strides_bytes.clear(); }, "0 strides");
}

TEST_CASE("cuda: a product with impossible sizes or types is refused by name") {
  const auto device = open_compile_only_device("sm_90a");
  CudaGemm problem = {.m = 4, .n = 5, .k = 6, .lda = 6, .ldb = 5, .ldc = 5};
  CHECK_NOTHROW(device->gemm(problem));
  problem.lda = 5;
  CHECK_THROWS_WITH_AS(device->gemm(problem), doctest::Contains("lda is 5"), Error);
  problem.lda = 6;
  problem.output = Dtype::bf16;
  CHECK_THROWS_WITH_AS(device->gemm(problem), doctest::Contains("f32 → bf16"), Error);
}

}  // namespace tang
