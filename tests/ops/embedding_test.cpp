#include "lib/ops/embedding.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tang {
namespace {

TEST_CASE("embedding: an id outside the table gives NaN, and its gradient goes nowhere") {
  CpuDevice device(1);
  std::vector<uint32_t> ids = {1, 2, 4000000000u};
  std::vector<float> table = {1, 2, 3, 4}, y(6, 0.0f), d_table(6, -7.0f);
  const View id_view(ids.data(), Dtype::u32, {3}), rows(y.data(), Dtype::f32, {3, 2});
  embedding_forward(device, {.ids = id_view, .table = View(table.data(), Dtype::f32, {2, 2}), .y = rows});
  CHECK(y[0] == 3);
  CHECK(y[1] == 4);
  CHECK(std::all_of(y.begin() + 2, y.end(), [](float value) { return std::isnan(value); }));

  std::vector<float> dy = {1, 2, 10, 20, 100, 200};
  embedding_backward(device, {.ids = id_view,
                              .dy = View(dy.data(), Dtype::f32, {3, 2}),
                              .d_table = View(d_table.data(), Dtype::f32, {2, 2})});
  CHECK(d_table == std::vector<float>{0, 0, 1, 2, -7, -7});
}

TEST_CASE("embedding: bf16 gradients of one id accumulate in f32") {
  // A bf16 sum would stay at 1: 2^-8 is below half its last place.
  CpuDevice device(2);
  std::vector<uint32_t> ids(256, 3);
  std::vector<bf16> dy(256, bf16(0x1p-8f));
  dy[0] = bf16(1.0f);
  std::vector<float> d_table(5, std::numeric_limits<float>::quiet_NaN());
  EmbeddingBackward args{.ids = View(ids.data(), Dtype::u32, {256}),
                         .dy = View(dy.data(), Dtype::bf16, {256, 1}),
                         .d_table = View(d_table.data(), Dtype::f32, {5, 1})};
  embedding_backward(device, args);
  CHECK(d_table == std::vector<float>{0, 0, 0, 1.99609375f, 0});
  args.accumulate = true;
  d_table[0] = 8;
  embedding_backward(device, args);
  CHECK(d_table == std::vector<float>{8, 0, 0, 3.9921875f, 0});
}

}  // namespace
}  // namespace tang
