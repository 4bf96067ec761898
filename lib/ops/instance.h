// A case on a device: every buffer between guard bands, outputs and scratch full of garbage before a run.
#pragma once

#include "lib/ops/case.h"

namespace tang {

/// How an instance lies in memory.
struct Placement {
  int64_t row_padding = 0;  // elements between the rows of the operands that may be strided
  bool in_place = false;    // outputs take their inputs' memory wherever the op allows it
  uint8_t garbage = 0xff;   // every byte of outputs and scratch before a run; 0xff is NaN in f32 and bf16
};

class Instance {
 public:
  /// Allocates and lends everything; call `load` before the first run.
  Instance(Device& device, const Case& plan, const Placement& placement);

  const void* args() const { return args_.get(); }
  int64_t bytes() const { return total_bytes_; }
  /// False when the op has no pair, or none whose shapes and dtypes agree.
  bool has_shared() const;

  /// Uploads the inputs and refills outputs, scratch and guard bands.
  void load(const CaseInputs& inputs);
  /// The same for sizes too large to draw whole: a drawn block of 2^20 elements, repeated on the device. Its
  /// rows are odd in number, so that an offset that wrapped at a power of two finds other values.
  void load_repeated();
  /// The same with the inputs of `other`, an instance of the same shapes on this device, whatever its
  /// strides.
  void load_from(const Instance& other);
  /// Waits and reads entries `which` of an operand's first dimension, packed.
  std::vector<std::byte> read(std::string_view operand, std::span<const int64_t> which) const;
  /// Waits; false when a byte beside an operand or the scratch has changed.
  bool guards_intact() const;

  struct Output {
    std::string name;
    Dtype dtype;
    std::vector<std::byte> bits;  // packed
    std::vector<double> values() const { return values_of(bits, dtype); }
  };
  static std::vector<double> values_of(std::span<const std::byte> bits, Dtype dtype);
  /// Waits and fetches every output. `damage` becomes the first thing found changed that should not be: an
  /// input, a guard band, a gap between rows, a byte beside the scratch.
  std::vector<Output> fetch(std::string& damage);
  /// Waits and reads every output as if packed: a hash of its bits, and whether its numbers are finite. Of an
  /// output longer than `most_bytes` only that many bytes at each end are read.
  struct Digest {
    uint64_t hash = 0;
    bool finite = true;
  };
  Digest digest(int64_t most_bytes = int64_t{1} << 62);

 private:
  struct Slot {
    size_t index = 0;  // in the case's operands
    Buffer buffer;     // guard, payload, guard; empty for an output in its input's memory
    View view;
    std::vector<std::byte> image;  // as loaded, guards included
    std::vector<std::byte> block;  // what load_repeated repeats, drawn at its first call
  };
  const OperandPlan& plan_of(const Slot& slot) const { return case_.operands()[slot.index]; }
  Slot* slot_of(std::string_view name);
  const Slot* slot_of(std::string_view name) const;
  void place(size_t index);
  void share(const std::string& input, const std::string& output);
  void refill_scratch();
  void clear_slot(const Slot& slot);
  void draw_block(Slot& slot) const;
  std::vector<std::byte> image_of(const Slot& slot, const std::vector<double>* values) const;
  void fetch_slot(const Slot& slot, std::vector<Output>& outputs, std::string& damage) const;

  Device& device_;
  const Case& case_;
  Placement placement_;
  std::shared_ptr<void> args_;
  std::vector<Slot> slots_;
  std::map<std::string, std::string> shared_;  // output -> input whose memory it has
  Buffer scratch_;
  int64_t scratch_bytes_ = 0, total_bytes_ = 0;
};

}  // namespace tang
