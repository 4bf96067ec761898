#include "lib/infer/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>

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

namespace {

/// Large vocabularies are looked at by blocks first: most hold nothing that could be drawn.
constexpr int64_t block_size = 256;

}  // namespace

void Sampler::weigh(std::span<const float> logits) {
  const auto count = static_cast<int64_t>(logits.size());
  weights_.resize(logits.size());
  blocks_.clear();
  total_ = 0;
  const float inverse = sampling_.greedy() ? 1.0f : static_cast<float>(1 / sampling_.temperature);
  float largest = logits[0];
  simd([&] {
    largest = max_lanes(count, largest, [&](int64_t i) { return logits[i]; });
    for (int64_t begin = 0; begin < count; begin += block_size) {
      float* weights = weights_.data() + begin;
      const float* values = logits.data() + begin;
      const int64_t size = std::min(block_size, count - begin);
      // fast_exp is 0 past -104, and an infinite product is clamped there.
      const float sum =
          sum_lanes(size, [&](int64_t i) { return weights[i] = fast_exp((values[i] - largest) * inverse); });
      blocks_.push_back({sum, max_lanes(size, 0.0f, [&](int64_t i) { return weights[i]; })});
      total_ += sum;
    }
  });
  if (!(total_ > 0) || std::isinf(largest)) {
    fail_check("the model's logits are not finite (largest {}): its weights are damaged", largest);
  }
}

uint32_t Sampler::draw_from_all(double random) const {
  double left = random * total_;
  size_t block = 0;
  while (block + 1 < blocks_.size() && left >= blocks_[block].sum) left -= blocks_[block++].sum;
  const size_t begin = block * block_size, end = std::min(begin + block_size, weights_.size());
  size_t last = begin;  // that has a weight at all
  for (size_t i = begin; i < end; ++i) {
    if (weights_[i] > 0) last = i;
    left -= weights_[i];
    if (left < 0) return static_cast<uint32_t>(i);
  }
  return static_cast<uint32_t>(last);  // rounding: the sums were of another order
}

/// A weight that every token of use reaches.
float Sampler::least_of_use() {
  const auto k = static_cast<size_t>(sampling_.top_k);
  if (k > 0 && k <= blocks_.size()) {
    // Each of the k blocks with the largest ones has a token that reaches this.
    largest_.clear();
    for (const Block& block : blocks_) largest_.push_back(block.largest);
    std::nth_element(largest_.begin(), largest_.begin() + sampling_.top_k - 1, largest_.end(),
                     std::greater<>());
    return largest_[k - 1];
  }
  // All those below (1 - p) / V together are at most 1 - p: the nucleus does not need them.
  return k > 0 ? 0.0f
               : static_cast<float>((1 - sampling_.top_p) * total_ / static_cast<double>(weights_.size()));
}

void Sampler::collect(float least) {
  candidates_.clear();
  for (size_t block = 0; block < blocks_.size(); ++block) {
    if (blocks_[block].largest < least) continue;
    const size_t begin = block * block_size, end = std::min(begin + block_size, weights_.size());
    for (size_t i = begin; i < end; ++i) {
      if (weights_[i] >= least && weights_[i] > 0) {
        candidates_.push_back({weights_[i], static_cast<uint32_t>(i)});
      }
    }
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
  double total = total_;  // of what top_k left
  if (sampling_.top_k > 0) {
    total = 0;
    for (const Candidate& c : candidates_) total += c.weight;
  }
  // The likeliest are put in order, ever more of them, until they reach p: a nucleus is mostly small.
  const auto wanted = sampling_.top_p * total;
  double sum = 0;
  size_t kept = 0;
  for (size_t sorted = 0; kept < candidates_.size() && sum < wanted;) {
    if (kept == sorted) {
      sorted = std::min(candidates_.size(), std::max<size_t>(64, 4 * sorted));
      const auto begin = candidates_.begin() + static_cast<ptrdiff_t>(kept);
      const auto end = candidates_.begin() + static_cast<ptrdiff_t>(sorted);
      if (end != candidates_.end()) std::nth_element(begin, end, candidates_.end(), likelier);
      std::sort(begin, end, likelier);
    }
    sum += candidates_[kept++].weight;
  }
  candidates_.resize(std::max<size_t>(kept, 1));
}

uint32_t Sampler::pick(std::span<const float> logits, uint64_t index) {
  if (logits.empty()) fail_input("no logits to choose from");
  weigh(logits);
  if (sampling_.greedy()) {
    return static_cast<uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  const double random = Rng(sampling_.seed).uniform(index);
  if (sampling_.top_k == 0 && sampling_.top_p >= 1) return draw_from_all(random);
  collect(least_of_use());
  keep_top_k();
  keep_top_p();
  double total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  double left = random * total;
  for (const Candidate& c : candidates_) {
    left -= c.weight;
    if (left < 0) return c.id;
  }
  return candidates_.back().id;
}

}  // namespace tang
