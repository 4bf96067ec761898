// Writes a decoder's forward down as a list of prepared ops. Without a device it only measures scratch.
#pragma once

#include "lib/infer/decoder.h"
#include "lib/ops/op.h"

namespace tang {

/// The options with what follows from the device filled in: chunk, capacity in whole chunks, vocab, burst.
DecoderOptions complete(const ModelConfig& config, DecoderOptions options, DeviceKind kind);

DecoderBuffers lay_out(Workspace& workspace, const ModelConfig& config, const DecoderOptions& options);

class DecoderBuilder {
 public:
  DecoderBuilder(Device* device, const ModelConfig& config, const ParamLayout& layout,
                 const DecoderOptions& options, const DecoderBuffers& buffers, void* scratch = nullptr)
      : device_(device), c_(config), layout_(layout), o_(options), s_(buffers), scratch_(scratch) {}

  /// A chunk of every prompt into the caches; nothing past the last layer's keys and values is computed. The
  /// first one sees no older keys: it runs the training's attention, and gets its bits.
  void chunk(OpList& list, bool first_one);
  /// A step of every sequence is three parts: its input embedded, one position computed, which gives logits,
  /// and for a greedy one the likeliest token as the next input, embedded: another step's compute may follow.
  void begin(OpList& list);
  void compute(OpList& list);
  void choose(OpList& list);

  int64_t scratch_bytes() const { return scratch_bytes_; }

 private:
  /// Q positions of each sequence at once.
  struct Shape {
    int64_t length;          // Q
    View start;              // u32 [B]
    bool from_zero = false;  // every start is 0
  };

  template <class A>
  void add(OpList& list, const Op<A>& op, A args) {
    scratch_bytes_ = std::max(scratch_bytes_, op.scratch_bytes(&args));
    if (device_ == nullptr) return;
    op.lend_scratch(&args, scratch_);
    list.add({op.prepare(*device_, args), phase_, [&op, args] { return op.describe(&args); }});
  }

  void embed(OpList& list, const View& ids, const View& rows);
  void project(OpList& list, const View& x, const View& w, const View& y);
  void normalise(OpList& list, const View& x, int64_t weight, int64_t rows);
  /// Few rows: what stands around each product joins its launch.
  void layer_of_few(OpList& list, size_t layer, const Shape& shape);
  void layer_of_many(OpList& list, size_t layer, const Shape& shape, bool last_of_chunk);
  void append(OpList& list, size_t layer, const Shape& shape);
  void attend(OpList& list, size_t layer, const Shape& shape);
  void head(OpList& list);

  int64_t rows(const Shape& shape) const { return o_.batch * shape.length; }
  bool few() const;
  View first(const View& matrix, int64_t rows) const { return matrix.slice(0, 0, rows); }
  View weight(int64_t offset, int64_t rows, int64_t cols) const {
    return s_.weights.slice(0, offset, offset + rows * cols).reshape({rows, cols});
  }
  View embedding() const { return weight(layout_.embedding, c_.padded_vocab(), c_.dim); }
  View norm_weight(int64_t offset) const { return s_.weights.slice(0, offset, offset + c_.dim); }
  /// Heads [first, first + count) of packed rows as [B, Q, count, D].
  View heads(const View& rows, int64_t first, int64_t count, int64_t length) const;
  /// Heads of a layer's cache as [B, S, count, D].
  View cached(size_t layer, int64_t first, int64_t count) const;

  Device* device_;
  const ModelConfig& c_;
  const ParamLayout& layout_;
  const DecoderOptions& o_;
  const DecoderBuffers& s_;
  void* scratch_;
  int64_t scratch_bytes_ = 0;
  std::string_view phase_;
};

}  // namespace tang
