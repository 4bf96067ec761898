#include "lib/train/batch_feed.h"

#include <algorithm>

namespace tang {

BatchFeed::BatchFeed(Device& device, TokenLoader& loader, int64_t sequences, int64_t pad_id, int slots)
    : loader_(loader), sequences_(sequences), pad_id_(pad_id), slots_(slots) {
  const int64_t words = checked_product({slots, 2, sequences, loader.seq_len()}, "the batches in flight");
  memory_ = device.allocate_pinned(words * size_of(Dtype::u32));
}

BatchFeed::Batch BatchFeed::load(int64_t first) {
  const int64_t count = sequences_ * loader_.seq_len();
  uint32_t* ids = static_cast<uint32_t*>(memory_.get()) + 2 * count * next_;
  uint32_t* targets = ids + count;
  next_ = (next_ + 1) % slots_;
  loader_.batch(first, sequences_, ids, targets);
  Batch batch{ids, targets, count};
  if (pad_id_ >= 0) batch.valid -= std::count(targets, targets + count, static_cast<uint32_t>(pad_id_));
  return batch;
}

}  // namespace tang
