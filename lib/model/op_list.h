// A sequence of prepared ops, run in order.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lib/device/cuda_device.h"

namespace tang {

class OpList {
 public:
  void add(Prepared op) { ops_.push_back(std::move(op)); }
  void add(const OpList& other) { ops_.insert(ops_.end(), other.ops_.begin(), other.ops_.end()); }
  std::span<const Prepared> ops() const { return ops_; }

  /// Launches everything. On CUDA the first run goes op by op (kernels get loaded), the second is captured as
  /// a graph, and from then on the graph is replayed. TANG_GRAPHS=0 in the environment keeps it op by op.
  void run(Device& device);

 private:
  std::vector<Prepared> ops_;
  std::unique_ptr<Graph> graph_;
  bool ran_ = false;
};

}  // namespace tang
