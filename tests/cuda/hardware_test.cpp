// What needs a GPU: skipped, and counted as skipped, elsewhere.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/scale_rows.h"
#include "lib/base/error.h"
#include "lib/base/rng.h"
#include "lib/device/cpu_device.h"
#include "lib/device/cuda_device.h"

namespace tang {
namespace {

#define TANG_ON_GPU *doctest::skip(!cuda_available())

std::vector<float> gaussian(int64_t count, uint64_t stream) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(Rng(3, stream).normal(i));
  return values;
}

template <class T>
Buffer uploaded(Device& device, const std::vector<T>& values) {
  Buffer buffer = device.allocate(static_cast<int64_t>(values.size() * sizeof(T)));
  device.upload(buffer.data(), values.data(), buffer.bytes());
  return buffer;
}

template <class T>
std::vector<T> downloaded(Device& device, const Buffer& buffer) {
  std::vector<T> values(buffer.bytes() / sizeof(T));
  device.download(values.data(), buffer.data(), buffer.bytes());
  return values;
}

/// C of the device's product and of the CPU's, over operands with padded rows.
struct Pair {
  std::vector<float> found, expected;
};
Pair multiply_both(CudaDevice& device, int64_t m, int64_t n, int64_t k, int form, float beta) {
  CpuGemm p = {(form & 1) != 0, (form & 2) != 0, m, n, k, 0.5f, beta};
  p.lda = (p.transpose_a ? m : k) + 1;
  p.ldb = (p.transpose_b ? k : n) + 2;
  p.ldc = n + 3;
  const auto a = gaussian((p.transpose_a ? k : m) * p.lda + 1, 1),
             b = gaussian((p.transpose_b ? n : k) * p.ldb + 1, 2);
  auto c = gaussian(m * p.ldc, 3);
  const Buffer device_a = uploaded(device, a), device_b = uploaded(device, b), device_c = uploaded(device, c);
  const auto run =
      device.gemm({p.transpose_a, p.transpose_b, m, n, k, p.alpha, beta, Dtype::f32, Dtype::f32,
                   MathMode::strict, device_a.data(), p.lda, device_b.data(), p.ldb, device_c.data(), p.ldc});
  run();
  p.a = a.data(), p.b = b.data(), p.c = c.data();
  CpuDevice().gemm(p);
  return {downloaded<float>(device, device_c), c};
}

}  // namespace

TEST_CASE("cuda: bytes go up, across, round in two dimensions, and come back" TANG_ON_GPU) {
  const auto owner = open_device("cuda");
  Device& device = *owner;
  const std::vector<float> source = gaussian(30, 1);
  const Buffer first = uploaded(device, source), second = device.allocate_zeroed(24 * 4);
  device.copy_2d(second.data(), first.data(), plan_copy_2d({Dtype::f32, 2, 5, 1, 4, 3, 6}, 30, 24));
  const auto target = downloaded<float>(device, second);
  for (int i = 0; i < 24; ++i) {
    const int row = (i - 1) / 4, column = (i - 1) % 4;
    CHECK(target[i] == (i >= 1 && column < 3 ? source[2 + 5 * row + column] : 0.0f));
  }
  const auto pinned = device.allocate_pinned(120);
  const Event begin = device.record();
  device.download(pinned.get(), first.data(), 120, StreamId::copy);
  const Event end = device.record(StreamId::copy);
  device.wait(end, StreamId::compute);
  device.synchronize(end);
  CHECK(std::memcmp(pinned.get(), source.data(), 120) == 0);
  device.synchronize();
  CHECK(device.elapsed_ms(begin, end) >= 0);
  CHECK(device.memory_in_use() > 0);
}

TEST_CASE(
    "cuda: strict f32 products agree with the CPU's, whatever the transposes, and leave the "
    "gaps" TANG_ON_GPU) {
  const auto device = open_cuda_device(0);
  const int64_t shapes[][3] = {{1, 1, 1}, {5, 7, 3}, {64, 96, 128}, {33, 200, 1000}, {4, 6, 0}, {0, 4, 4}};
  for (const auto& [m, n, k] : shapes) {
    for (int form = 0; form < 4; ++form) {
      for (const float beta : {0.0f, 1.0f, -0.5f}) {
        const Pair pair = multiply_both(*device, m, n, k, form, beta);
        double worst = 0;
        for (size_t i = 0; i < pair.found.size(); ++i) {
          worst = std::max(worst, std::abs(double(pair.found[i]) - pair.expected[i]));
        }
        // Two f32 sums of k products of unit size; the rounding of TF32 is some sixteen times this.
        CHECK(worst <= 0x1p-22 * (k + 4.0));
      }
    }
  }
}

TEST_CASE("cuda: bf16 products are summed in f32, and into either type" TANG_ON_GPU) {
  const auto device = open_cuda_device(0);
  const int64_t n = 64, k = 4096;
  const std::vector<bf16> ones(n * k, bf16(1.0f));
  const Buffer a = uploaded(*device, ones), b = uploaded(*device, ones);
  const Buffer wide = device->allocate(n * n * 4), narrow = device->allocate(n * n * 2);
  CudaGemm problem = {false, true, n, n, k, 1, 0, Dtype::bf16, Dtype::f32};
  problem.a = a.data(), problem.b = b.data(), problem.c = wide.data();
  problem.lda = problem.ldb = k, problem.ldc = n;
  device->gemm(problem)();
  problem.c = narrow.data(), problem.output = Dtype::bf16;
  device->gemm(problem)();
  for (const float value : downloaded<float>(*device, wide)) CHECK(value == 4096);
  for (const bf16 value : downloaded<bf16>(*device, narrow)) CHECK(static_cast<float>(value) == 4096);
}

TEST_CASE("cuda: a captured graph runs when launched, not before, and may not allocate" TANG_ON_GPU) {
  const auto device = open_cuda_device(0);
  const Buffer buffer = uploaded(*device, std::vector<float>(100, 1.0f));
  const ScaleRowsParams params = {buffer.data(), 10, 10, 10, 2.0f};
  const Kernel kernel = device->kernel({"scale_rows.cu", "scale_rows", {{"TANG_T", "float"}}, sizeof params});
  const auto run = device->bind(kernel, {.grid = {4}, .block = {64}}, params);
  const auto graph = device->capture([&] { run(), run(); });
  CHECK(downloaded<float>(*device, buffer)[99] == 1);
  graph->launch();
  graph->launch();
  CHECK(downloaded<float>(*device, buffer)[99] == 16);
  CHECK_THROWS_WITH_AS(device->capture([&] { device->allocate(16); }),
                       doctest::Contains("inside a graph capture"), Error);
  run();
  CHECK(downloaded<float>(*device, buffer)[99] == 32);
}

TEST_CASE(
    "cuda: a launch that does not match its kernel, or more memory than there is, is refused" TANG_ON_GPU) {
  const auto device = open_cuda_device(0);
  const ScaleRowsParams params = {};
  const Kernel kernel = device->kernel({"scale_rows.cu", "scale_rows", {{"TANG_T", "float"}}, sizeof params});
  CHECK_THROWS_AS(device->launch(kernel, {.grid = {1}, .block = {32}}, &params, 8), Error);
  CHECK_THROWS_AS(device->launch(kernel, {.grid = {1}, .block = {2048}}, &params, sizeof params), Error);
  CHECK_THROWS_WITH_AS(device->allocate(int64_t{1} << 50), doctest::Contains("out of memory"), Error);
  CHECK_NOTHROW(device->launch(kernel, {.grid = {0}, .block = {32}}, &params, sizeof params));
  CHECK_NOTHROW(device->synchronize());
}

TEST_CASE("cuda: the driver takes the tensor maps that the checks let through" TANG_ON_GPU) {
  const auto device = open_cuda_device(0);
  if (device->caps().compute_capability < 90) return;
  const Buffer buffer = device->allocate(1 << 16);
  const TensorMap map = device->encode({Dtype::bf16, buffer.data(), {128, 64}, {256}, {64, 64}, true});
  CHECK(map.bytes != TensorMap{}.bytes);
}

}  // namespace tang
