// Expressions on the CPU: a list of operations over tiles of f32 that stay in the first-level cache, each a
// vectorised loop.
#pragma once

#include <span>
#include <vector>

#include "lib/expr/expr.h"

namespace tang {

class TileProgram {
 public:
  static constexpr int64_t tile = 256;  // elements

  TileProgram(std::span<const Expr> outputs, int64_t inputs);

  int64_t inputs() const { return inputs_; }
  size_t outputs() const { return outputs_.size(); }
  /// Floats that `run` works in.
  int64_t scratch() const { return slots_ * tile; }

  /// Computes every output for the first `count` elements of tiles x[input] (the rest of a tile is read and
  /// ignored). y[output] is set to where its values are: in `scratch`, or an input's own tile.
  void run(int64_t count, const float* const* x, float* scratch, const float** y) const;

 private:
  struct Place {
    enum class Kind { slot, input, constant } kind = Kind::slot;
    int64_t index = 0;
  };
  struct Step {
    ExprOp op;
    Place operands[3];
    int64_t target;  // a slot; may be an operand's
  };
  const float* at(Place place, const float* const* x, const float* scratch) const {
    return place.kind == Place::Kind::input ? x[place.index] : scratch + place.index * tile;
  }

  int64_t inputs_ = 0, slots_ = 0;
  std::vector<std::pair<int64_t, float>> constants_;  // (slot, value): filled once a run
  std::vector<Step> steps_;
  std::vector<Place> outputs_;
};

// f32 functions of the tiles, branch-free so that they vectorise; NaN stays NaN.
float tile_tanh(float x);  // at most 3 ulp
float tile_erf(float x);   // the same

}  // namespace tang
