#include "lib/infer/sampler.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "lib/base/error.h"

namespace tang {
namespace {

/// How often each id comes in `draws` draws.
std::vector<int> counts(const Sampling& sampling, std::span<const float> logits, int draws) {
  Sampler sampler(sampling);
  std::vector<int> found(logits.size(), 0);
  for (int i = 0; i < draws; ++i) ++found[sampler.pick(logits, static_cast<uint64_t>(i))];
  return found;
}

/// Five standard deviations of a binomial count.
bool agrees(int count, double probability, int draws) {
  return std::abs(count - probability * draws) <= 5 * std::sqrt(draws * probability * (1 - probability)) + 1;
}

}  // namespace

TEST_CASE("sampler: counts follow softmax(logits / temperature), cut to top-k and then top-p") {
  const std::vector<float> logits = {1.0f, -0.5f, 2.0f, 2.0f, -9.0f, 0.25f};
  const int draws = 20000;
  struct Cut {
    Sampling sampling;
    std::vector<bool> stays;
  };
  const std::vector<Cut> cuts = {
      {{.temperature = 1, .seed = 1}, {true, true, true, true, true, true}},
      {{.temperature = 0.5, .seed = 2}, {true, true, true, true, true, true}},
      {{.temperature = 2, .top_k = 3, .seed = 3}, {true, false, true, true, false, false}},
      {{.temperature = 1, .top_k = 1, .seed = 3}, {false, false, true, false, false, false}},
      // Probabilities 0.381, 0.381, 0.140, 0.066, …: two reach 0.76, three are needed for 0.77.
      {{.temperature = 1, .top_p = 0.76, .seed = 4}, {false, false, true, true, false, false}},
      {{.temperature = 1, .top_p = 0.77, .seed = 5}, {true, false, true, true, false, false}},
      {{.temperature = 1, .top_p = 1e-9, .seed = 5}, {false, false, true, false, false, false}},
      {{.temperature = 1, .top_k = 3, .top_p = 0.9, .seed = 6}, {true, false, true, true, false, false}}};
  for (const Cut& cut : cuts) {
    CAPTURE(cut.sampling.seed);
    double total = 0;
    std::vector<double> weights;
    for (size_t i = 0; i < logits.size(); ++i) {
      weights.push_back(cut.stays[i] ? std::exp(logits[i] / cut.sampling.temperature) : 0);
      total += weights.back();
    }
    const std::vector<int> found = counts(cut.sampling, logits, draws);
    for (size_t i = 0; i < logits.size(); ++i) {
      CAPTURE(i);
      if (cut.stays[i]) CHECK(agrees(found[i], weights[i] / total, draws));
      if (!cut.stays[i]) CHECK(found[i] == 0);
    }
  }
}

TEST_CASE("sampler: a large vocabulary keeps its tail, and top-p finds its nucleus in it") {
  std::vector<float> logits(50000, -4.0f);  // 50,000 e^-4 = 916 against e^7 = 1097
  logits[12345] = 7.0f;
  const int draws = 200;
  const double head = std::exp(7.0) / (std::exp(7.0) + 49999 * std::exp(-4.0));
  CHECK(agrees(counts({.temperature = 1, .seed = 1}, logits, draws)[12345], head, draws));
  CHECK(counts({.temperature = 1, .top_p = 0.5, .seed = 1}, logits, draws)[12345] == draws);
  // Two stand out, and of the equals the first is the third.
  logits[12345] = logits[40000] = -3.0f;
  const std::vector<int> three = counts({.temperature = 1, .top_k = 3, .seed = 1}, logits, 1500);
  CHECK(three[12345] + three[40000] + three[0] == 1500);
  CHECK(agrees(three[12345], std::exp(1.0) / (2 * std::exp(1.0) + 1), 1500));
  CHECK(agrees(three[0], 1 / (2 * std::exp(1.0) + 1), 1500));
}

TEST_CASE("sampler: the same seed and index give the same token, others do not") {
  const std::vector<float> logits(1000, 0.0f);
  Sampler a({.temperature = 1, .seed = 1}), b({.temperature = 1, .seed = 1}),
      c({.temperature = 1, .seed = 2});
  int same = 0, other = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    const uint32_t first = a.pick(logits, 99 - i);
    same += first == b.pick(logits, 99 - i);
    other += first == c.pick(logits, 99 - i);
  }
  CHECK(same == 100);
  CHECK(other < 5);
}

TEST_CASE("sampler: temperature 0 is the first of the largest; damage and nonsense are refused") {
  CHECK(Sampler({}).pick(std::vector<float>{1, 3, 3, 2}, 0) == 1);
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const double temperature : {0.0, 1.0}) {
    Sampler sampler({.temperature = temperature});
    CHECK_THROWS_AS(sampler.pick(std::vector<float>{nan, nan}, 0), Error);
    CHECK_THROWS_AS(sampler.pick(std::vector<float>{1, nan, 2}, 0), Error);
    CHECK_THROWS_AS(sampler.pick(std::vector<float>{-inf, -inf}, 0), Error);
    CHECK(sampler.pick(std::vector<float>{-inf, -1}, 0) == 1);
  }
  CHECK_THROWS_AS(Sampler({.temperature = -1}), Error);
  CHECK_THROWS_AS(Sampler({.temperature = 1, .top_k = -1}), Error);
  CHECK_THROWS_AS(Sampler({.temperature = 1, .top_p = 0}), Error);
  CHECK_THROWS_AS(Sampler({.temperature = 1, .top_p = 1.5}), Error);
}

}  // namespace tang
