#include "lib/infer/sampler.h"

#include <algorithm>
#include <cmath>

#include "lib/base/error.h"
#include "lib/base/rng.h"
#include "lib/device/simd.h"

namespace tang {

void check_sampling(const Sampling& s) {
  if (!(s.temperature >= 0) || std::isinf(s.temperature)) {
    fail_input("temperature must be 0 (greedy) or more, found {}", s.temperature);
  }
  if (s.top_k < 0) fail_input("top-k must be 0 (all) or more, found {}", s.top_k);
  if (!(s.top_p > 0 && s.top_p <= 1)) fail_input("top-p must be above 0 and at most 1, found {}", s.top_p);
}

Sampler::Sampler(const Sampling& sampling) : sampling_(sampling) { check_sampling(sampling); }

void Sampler::weigh(std::span<const float> logits) {
  const auto count = static_cast<int64_t>(logits.size());
  weights_.resize(logits.size());
  const float largest = *std::max_element(logits.begin(), logits.end());
  const float inverse = sampling_.greedy() ? 1.0f : static_cast<float>(1 / sampling_.temperature);
  float total = 0;
  simd([&] {
    total = sum_lanes(count, [&](int64_t i) {
      // Past -100 fast_exp is 0, and an infinite product is clamped there.
      return weights_[i] = fast_exp((logits[i] - largest) * inverse);
    });
  });
  if (!(total > 0) || std::isinf(largest)) {
    fail_check("the model's logits are not finite (largest {}): its weights are damaged", largest);
  }
}

namespace {

constexpr auto likelier = [](const auto& a, const auto& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
};

}  // namespace

void Sampler::keep_top_k() {
  const auto k = static_cast<size_t>(sampling_.top_k);
  if (k == 0 || k >= candidates_.size()) return;
  std::nth_element(candidates_.begin(), candidates_.begin() + sampling_.top_k - 1, candidates_.end(),
                   likelier);
  candidates_.resize(k);
}

void Sampler::keep_top_p() {
  if (sampling_.top_p >= 1) return;
  double total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  // All those below (1 - p) / V together are at most 1 - p: the nucleus never needs them, nor their sorting.
  const double floor = (1 - sampling_.top_p) * total / static_cast<double>(candidates_.size());
  std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < floor; });
  std::sort(candidates_.begin(), candidates_.end(), likelier);
  double sum = 0;
  size_t kept = 0;
  while (kept < candidates_.size() && sum < sampling_.top_p * total) sum += candidates_[kept++].weight;
  candidates_.resize(std::max<size_t>(kept, 1));
}

uint32_t Sampler::pick(std::span<const float> logits, uint64_t index) {
  if (logits.empty()) fail_input("no logits to choose from");
  weigh(logits);
  if (sampling_.greedy()) {
    return static_cast<uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  candidates_.clear();
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] > 0) candidates_.push_back({weights_[i], static_cast<uint32_t>(i)});
  }
  keep_top_k();
  keep_top_p();
  double total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  double left = Rng(sampling_.seed).uniform(index) * total;
  for (const Candidate& c : candidates_) {
    left -= c.weight;
    if (left < 0) return c.id;
  }
  return candidates_.back().id;
}

}  // namespace tang
