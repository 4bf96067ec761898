// Softmax, SwiGLU, RMSNorm and reduce_sum: values known from elsewhere, and inputs at the edges. Shapes are
// tang-check parity's.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "lib/base/rng.h"
#include "lib/ops/reduce.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/softmax.h"
#include "lib/ops/swiglu.h"

namespace tang {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

template <class T>
View matrix(std::vector<T>& values, int64_t rows) {
  return View(values.data(), dtype_of<T>, {rows, static_cast<int64_t>(values.size()) / rows});
}

std::vector<bf16> random(int64_t count, uint64_t stream) {
  std::vector<bf16> values(static_cast<size_t>(count));
  const Rng rng(9, stream);
  for (int64_t i = 0; i < count; ++i) values[i] = bf16(static_cast<float>(rng.normal(i)));
  return values;
}

std::vector<float> softmax(std::vector<float> x, int64_t rows, bool causal = false) {
  CpuDevice device(1);
  softmax_forward(device, {.x = matrix(x, rows), .y = matrix(x, rows), .causal = causal});
  return x;
}

bool same_bits(const bf16* a, const bf16* b, int64_t count) {
  return std::equal(a, a + count, b, [](bf16 x, bf16 y) { return x.bits == y.bits; });
}

/// The forward's output, and the one that the backward gives on its way.
std::pair<std::vector<bf16>, std::vector<bf16>> swiglu_twice(Device& device) {
  constexpr int64_t rows = 63, columns = 129, count = rows * columns;  // odd rows: no whole groups
  const auto uploaded = [&](uint64_t stream) {
    const std::vector<bf16> values = random(count, stream);
    Buffer buffer = device.allocate(count * 2);
    device.upload(buffer.data(), values.data(), buffer.bytes());
    device.synchronize();
    return buffer;
  };
  const Buffer dy = uploaded(1), gate = uploaded(2), up = uploaded(3), once = uploaded(4),
               again = uploaded(5);
  const auto view = [&](const Buffer& buffer) { return buffer.view(Dtype::bf16, {rows, columns}); };
  swiglu_forward(device, {.gate = view(gate), .up = view(up), .y = view(once)});
  swiglu_backward(device, {.dy = view(dy),
                           .gate = view(gate),
                           .up = view(up),
                           .d_gate = view(gate),
                           .d_up = view(up),
                           .y = view(again)});
  std::vector<bf16> first(count), second(count);
  device.download(first.data(), once.data(), once.bytes());
  device.download(second.data(), again.data(), again.bytes());
  device.synchronize();
  return {first, second};
}

}  // namespace

TEST_CASE("swiglu: the backward gives the forward's output again, bit for bit, and in place") {
  for (const char* name : {"cpu", "cuda"}) {
    if (std::string_view(name) == "cuda" && !cuda_available()) continue;
    CAPTURE(name);
    const auto device = open_device(name);
    const auto [first, second] = swiglu_twice(*device);
    CHECK(same_bits(first.data(), second.data(), static_cast<int64_t>(first.size())));
  }
}

TEST_CASE("softmax: known values, at any offset, without overflow") {
  for (const float offset : {0.0f, 1e4f, -1e4f}) {
    const std::vector<float> y = softmax({offset + 1, offset + 2, offset + 3}, 1);
    CHECK(y[0] == doctest::Approx(0.09003057).epsilon(1e-6));
    CHECK(y[1] == doctest::Approx(0.24472847).epsilon(1e-6));
    CHECK(y[2] == doctest::Approx(0.66524096).epsilon(1e-6));
  }
  const std::vector<float> masked = softmax({0, -inf, 0}, 1);
  CHECK(masked[1] == 0);
  CHECK(masked[2] == 0.5f);
}

TEST_CASE("softmax: causal rows see columns up to their own, the rest is exactly zero") {
  const std::vector<float> y = softmax(std::vector<float>(12, 7.0f), 3, true);
  CHECK(y == std::vector<float>{1, 0, 0, 0, 0.5f, 0.5f, 0, 0, y[8], y[8], y[8], 0});
  CHECK(y[8] == doctest::Approx(1.0 / 3));
  const std::vector<float> tall = softmax(std::vector<float>(6, 0.0f), 3, true);  // row 2 sees both columns
  CHECK(tall == std::vector<float>{1, 0, 0.5f, 0.5f, 0.5f, 0.5f});
}

TEST_CASE("softmax: a NaN makes its row NaN and no other") {
  const std::vector<float> y = softmax({0, std::nanf(""), 1, 0, 0, 0}, 2);
  for (int i = 0; i < 3; ++i) CHECK(std::isnan(y[i]));
  CHECK(y[3] == doctest::Approx(1.0 / 3));
}

TEST_CASE("swiglu: known values, and gates so large that exp overflows") {
  CpuDevice device(1);
  std::vector<float> gate = {0, 1, -1, 1000, -1000}, up = {3, 2, 2, 2, 2}, y(5), dy(5, 1.0f);
  swiglu_forward(device, {.gate = matrix(gate, 1), .up = matrix(up, 1), .y = matrix(y, 1)});
  CHECK(y[0] == 0);
  CHECK(y[1] == doctest::Approx(2 * 0.73105858).epsilon(1e-6));
  CHECK(y[2] == doctest::Approx(-2 * 0.26894142).epsilon(1e-6));
  CHECK(y[3] == 2000);
  CHECK(std::abs(y[4]) < 1e-30);
  const View d_gate = matrix(gate, 1), d_up = matrix(up, 1);
  swiglu_backward(device, {.dy = matrix(dy, 1), .gate = d_gate, .up = d_up, .d_gate = d_gate, .d_up = d_up});
  CHECK(gate[0] == 1.5f);
  CHECK(gate[3] == 2);
  CHECK(std::abs(gate[4]) < 1e-30);
  CHECK(up[3] == 1000);
  CHECK(std::abs(up[4]) < 1e-30);
}

TEST_CASE("swiglu and rmsnorm: a row does not depend on where it stands") {
  CpuDevice device(2);
  const int64_t rows = 9, dim = 100;
  std::vector<bf16> a = random(rows * dim, 0), b = random(rows * dim, 1), y(a.size()), alone(dim);
  std::vector<float> rstd(rows);
  const View last_a = matrix(a, rows).slice(0, rows - 1, rows),
             last_b = matrix(b, rows).slice(0, rows - 1, rows);
  swiglu_forward(device, {.gate = matrix(a, rows), .up = matrix(b, rows), .y = matrix(y, rows)});
  swiglu_forward(device, {.gate = last_a, .up = last_b, .y = matrix(alone, 1)});
  CHECK(same_bits(alone.data(), &y[(rows - 1) * dim], dim));
  const View w = View(b.data(), Dtype::bf16, {dim});
  rmsnorm_forward(
      device,
      {.x = matrix(a, rows), .w = w, .y = matrix(y, rows), .rstd = View(rstd.data(), Dtype::f32, {rows})});
  rmsnorm_forward(device,
                  {.x = last_a, .w = w, .y = matrix(alone, 1), .rstd = View(rstd.data(), Dtype::f32, {1})});
  CHECK(same_bits(alone.data(), &y[(rows - 1) * dim], dim));
  CHECK(rstd[0] == rstd[rows - 1]);
}

TEST_CASE("rmsnorm: known values; a row of zeros stays zero") {
  CpuDevice device(1);
  std::vector<float> x = {3, 4, 0, 0}, w = {1, 2}, y(4), rstd(2);
  rmsnorm_forward(device, {.x = matrix(x, 2),
                           .w = View(w.data(), Dtype::f32, {2}),
                           .y = matrix(y, 2),
                           .rstd = View(rstd.data(), Dtype::f32, {2}),
                           .eps = 0.01f});
  CHECK(rstd[0] == doctest::Approx(1 / std::sqrt(12.51)).epsilon(1e-6));
  CHECK(y[0] == doctest::Approx(3 / std::sqrt(12.51)).epsilon(1e-6));
  CHECK(y[1] == doctest::Approx(8 / std::sqrt(12.51)).epsilon(1e-6));
  CHECK(y[2] == 0);
  CHECK(rstd[1] == doctest::Approx(10));
}

TEST_CASE("reduce_sum: an axis of length 0 gives zeros, and adds nothing when accumulating") {
  CpuDevice device(1);
  std::vector<float> x(1), y = {5, 6, 7};
  ReduceSum args{.x = View(x.data(), Dtype::f32, {1, 0, 3}), .y = matrix(y, 1), .accumulate = true};
  reduce_sum(device, args);
  CHECK(y == std::vector<float>{5, 6, 7});
  args.accumulate = false;
  reduce_sum(device, args);
  CHECK(y == std::vector<float>{0, 0, 0});
}

TEST_CASE("reduce_sum: each axis of a cube, and a long sum that f32 alone would get wrong") {
  CpuDevice device(2);
  std::vector<float> cube = {1, 2, 3, 4, 5, 6, 7, 8}, y(4);
  const View sums(y.data(), Dtype::f32, {1, 4});
  reduce_sum(device, {.x = View(cube.data(), Dtype::f32, {1, 2, 4}), .y = sums});
  CHECK(y == std::vector<float>{6, 8, 10, 12});
  reduce_sum(device, {.x = View(cube.data(), Dtype::f32, {2, 2, 2}), .y = sums.reshape({2, 2})});
  CHECK(y == std::vector<float>{4, 6, 12, 14});
  reduce_sum(device, {.x = View(cube.data(), Dtype::f32, {4, 2, 1}), .y = sums.reshape({4, 1})});
  CHECK(y == std::vector<float>{3, 7, 11, 15});
  const int64_t count = 1 << 20;
  std::vector<float> many(count, 0.1f);
  reduce_sum(device,
             {.x = View(many.data(), Dtype::f32, {1, count, 1}), .y = View(y.data(), Dtype::f32, {1, 1})});
  CHECK(y[0] == doctest::Approx(0.1f * static_cast<double>(count)).epsilon(3e-6));
}

}  // namespace tang
