// The choice of a token from logits, on the host. The random number is a pure function of seed and index, so
// the same seed gives the same text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tang {

struct Sampling {
  double temperature = 0;  // 0: always the likeliest token
  int64_t top_k = 0;       // only the k likeliest; 0: all
  double top_p = 1;        // only the fewest likeliest ones whose probabilities reach p
  uint64_t seed = 0;

  bool greedy() const { return temperature == 0 || top_k == 1; }
};

/// An input error for what cannot be: a negative temperature, top_p outside (0, 1].
void check_sampling(const Sampling& sampling);

class Sampler {
 public:
  explicit Sampler(const Sampling& sampling);

  /// A token drawn from softmax(logits / temperature), cut to top_k and then to top_p, with random number
  /// `index`. Equal logits stand in the order of their ids. A check error when a logit is NaN or all are
  /// -inf.
  uint32_t pick(std::span<const float> logits, uint64_t index);

 private:
  struct Candidate {
    float weight;  // exp((logit - largest) / temperature)
    uint32_t id;
  };
  /// Of `block_size` weights side by side.
  struct Block {
    float sum, largest;
  };

  void weigh(std::span<const float> logits);
  uint32_t draw_from_all(double random) const;
  float least_of_use();
  void collect(float least);
  void keep_top_k();
  void keep_top_p();

  Sampling sampling_;
  double total_ = 0;            // of weights_
  std::vector<float> weights_;  // [V]
  std::vector<Block> blocks_;
  std::vector<float> largest_;
  std::vector<Candidate> candidates_;
};

}  // namespace tang
