#include "lib/ops/cross_entropy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace tang {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Rows of `width` f32 logits in host memory, with everything around them.
struct Batch {
  CpuDevice device{1};
  std::vector<uint32_t> targets;
  std::vector<float> logits, d_logits, losses;
  float scale = 1;
  CrossEntropy args;

  Batch(std::vector<uint32_t> ids, int64_t width, float fill) : targets(std::move(ids)) {
    const auto rows = static_cast<int64_t>(targets.size());
    logits.assign(rows * width, fill);
    d_logits.assign(rows * width, nan);
    losses.assign(rows, nan);
    args.logits = View(logits.data(), Dtype::f32, {rows, width});
    args.d_logits = View(d_logits.data(), Dtype::f32, {rows, width});
    args.targets = View(targets.data(), Dtype::u32, {rows});
    args.scale = View(&scale, Dtype::f32, {1});
    args.losses = View(losses.data(), Dtype::f32, {rows});
  }
  void run() { cross_entropy(device, args); }
};

TEST_CASE("cross-entropy: padding columns take no probability, whatever they hold") {
  struct Vocabulary {
    int64_t vocab, width;
    double loss;
  };
  for (const auto& v : {Vocabulary{50257, 50304, 10.824905}, Vocabulary{101, 128, 4.615121}}) {
    Batch batch({7}, v.width, 0.0f);
    std::fill(batch.logits.begin() + v.vocab, batch.logits.end(), nan);
    batch.args.vocab = v.vocab;
    batch.run();
    CHECK(batch.losses[0] == doctest::Approx(v.loss).epsilon(1e-6));
    const auto& d = batch.d_logits;
    CHECK(std::all_of(d.begin() + v.vocab, d.end(), [](float g) { return g == 0; }));
    CHECK(d[7] == doctest::Approx(1.0 / static_cast<double>(v.vocab) - 1));
    CHECK(std::abs(std::accumulate(d.begin(), d.end(), 0.0)) < 1e-5);
  }
}

TEST_CASE("cross-entropy: a padded target costs nothing and pulls at nothing") {
  Batch batch({9, 9}, 12, 1.5f);
  batch.args.pad_id = 9;
  batch.logits[3] = nan;  // not even read
  batch.run();
  CHECK(batch.losses == std::vector<float>{0, 0});
  CHECK(batch.d_logits == std::vector<float>(24, 0.0f));
}

TEST_CASE("cross-entropy: a target that is no token gives a loss of NaN and touches no neighbour") {
  Batch batch({12, 4000000000u, 3}, 12, 0.0f);
  batch.run();
  CHECK(std::isnan(batch.losses[0]));
  CHECK(std::isnan(batch.losses[1]));
  CHECK(batch.losses[2] == doctest::Approx(std::log(12.0)));
}

TEST_CASE("cross-entropy: the gradient may overwrite the logits") {
  Batch apart({0, 40, 64}, 65, 0.0f), same({0, 40, 64}, 65, 0.0f);
  for (size_t i = 0; i < apart.logits.size(); ++i) {
    apart.logits[i] = same.logits[i] = 8 * std::sin(0.37f * static_cast<float>(i));
  }
  same.args.d_logits = same.args.logits;
  apart.run();
  same.run();
  CHECK(same.logits == apart.d_logits);
  CHECK(same.losses == apart.losses);
}

TEST_CASE("cross-entropy: gradients of micro-batches add up to the whole batch's mean over valid targets") {
  Batch whole({2, 5, 9, 1}, 10, 0.0f), first({2}, 10, 0.0f), rest({5, 9, 1}, 10, 0.0f);
  for (size_t i = 0; i < whole.logits.size(); ++i) {
    whole.logits[i] = std::cos(0.7f * static_cast<float>(i));
    (i < 10 ? first.logits[i] : rest.logits[i - 10]) = whole.logits[i];
  }
  for (Batch* batch : {&whole, &first, &rest}) {
    batch->args.pad_id = 9;
    batch->scale = 1.0f / 3.0f;  // the valid targets of the whole batch
    batch->run();
  }
  for (size_t i = 0; i < whole.d_logits.size(); ++i) {
    CHECK(whole.d_logits[i] == (i < 10 ? first.d_logits[i] : rest.d_logits[i - 10]));
  }
}

}  // namespace
}  // namespace tang
