// Writes a training step down as lists of prepared ops. One block's forward is in llama_forward.cpp, its
// backward in llama_backward.cpp. Without a device it only measures scratch.
#pragma once

#include <algorithm>

#include "lib/model/activations.h"
#include "lib/model/op_list.h"
#include "lib/ops/op.h"

namespace tang {

class StepBuilder {
 public:
  StepBuilder(Device* device, const ModelConfig& config, const ParamLayout& layout,
              const StepOptions& options, const StepBuffers& buffers, void* scratch = nullptr)
      : device_(device), c_(config), layout_(layout), o_(options), s_(buffers), scratch_(scratch) {}

  /// Embedding, blocks, last norm: the result is in `stream`.
  void forward(OpList& list);
  /// Head and cross-entropy in chunks of rows: losses, and with gradients those of the head's weight and of
  /// its input (in `narrow`). `first`: of the step's micro-steps.
  void head(OpList& list, bool first, bool with_gradients);
  /// From `narrow` back to the embedding.
  void backward(OpList& list, bool first);
  /// Norm, guard, update.
  void optimizer(OpList& list);

  /// The largest scratch that any op so far wants; all of them share one.
  int64_t scratch_bytes() const { return scratch_bytes_; }

 private:
  template <class A>
  void add(OpList& list, const Op<A>& op, A args) {
    scratch_bytes_ = std::max(scratch_bytes_, op.scratch_bytes(&args));
    if (device_ == nullptr) return;
    op.lend_scratch(&args, scratch_);
    list.add({op.prepare(*device_, args), phase_, [&op, args] { return op.describe(&args); }});
  }

  /// y[N, out] = x[N, in] · w[out, in]ᵀ.
  void project(OpList& list, const View& x, const View& w, const View& y);
  /// dx[N, in] = dy[N, out] · w[out, in].
  void project_back(OpList& list, const View& dy, const View& w, const View& dx);
  /// dw[out, in] (+)= dyᵀ · x.
  void weight_gradient(OpList& list, const View& dy, const View& x, const View& dw, bool accumulate);
  /// y = norm(x) without a residual: the first norm, and recomputation.
  void normalise(OpList& list, const View& x, int64_t weight, const View& y, const View& rstd);

  void block_forward(OpList& list, size_t layer);
  void block_inside(OpList& list, size_t layer);
  /// swiglu = act(gate) · up, from the halves of gate_up; and its gradient, in gate_up's memory, with the
  /// output once more in `y` where that is present.
  void activate(OpList& list, const BlockBuffers& b);
  void activate_back(OpList& list, const View& dy, const BlockBuffers& b, const View& y);
  void feed_forward_backward(OpList& list, size_t layer, bool first);
  void attention_backward_part(OpList& list, size_t layer, bool first);

  View matrix(const View& arena, int64_t offset, int64_t rows, int64_t cols) const {
    return arena.slice(0, offset, offset + rows * cols).reshape({rows, cols});
  }
  View weight(int64_t offset, int64_t rows, int64_t cols) const {
    return matrix(s_.weights, offset, rows, cols);
  }
  View gradient(int64_t offset, int64_t rows, int64_t cols) const {
    return matrix(s_.gradients, offset, rows, cols);
  }
  View norm_weight(int64_t offset) const { return s_.weights.slice(0, offset, offset + c_.dim); }
  View norm_gradient(int64_t offset) const { return s_.gradients.slice(0, offset, offset + c_.dim); }

  /// Heads [first, first + count) of packed rows [N, ·] as [B, T, count, D].
  View heads(const View& rows, int64_t first, int64_t count) const {
    return rows.slice(1, first * c_.head_dim, (first + count) * c_.head_dim)
        .reshape({o_.micro_batch, o_.seq_len, count, c_.head_dim});
  }

  Device* device_;
  const ModelConfig& c_;
  const ParamLayout& layout_;
  const StepOptions& o_;
  const StepBuffers& s_;
  void* scratch_;
  std::string_view phase_;
  int64_t scratch_bytes_ = 0;
};

}  // namespace tang
