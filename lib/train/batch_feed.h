// Host memory for the batches of the steps in flight, pinned so that copies to the device do not wait.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/data/loader.h"
#include "lib/device/device.h"

namespace tang {

class BatchFeed {
 public:
  /// `sequences` a batch; `slots` batches stay valid at the same time.
  BatchFeed(Device& device, TokenLoader& loader, int64_t sequences, int64_t pad_id, int slots);

  struct Batch {
    const uint32_t* ids = nullptr;      // [sequences, T]
    const uint32_t* targets = nullptr;  // [sequences, T]
    int64_t valid = 0;                  // targets that are not pad_id
  };
  /// Sequences [first, first + sequences) of the run, over the oldest slot.
  Batch load(int64_t first);

 private:
  TokenLoader& loader_;
  int64_t sequences_, pad_id_, slots_, next_ = 0;
  std::shared_ptr<void> memory_;
};

}  // namespace tang
