// A sequence of prepared ops, run in order. Profiles read who they are and what they cost.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lib/ops/op.h"

namespace tang {

struct ListedOp {
  Prepared run;
  std::string_view phase;  // of the step: "forward"
  std::function<OpCall()> describe;
};

class OpList {
 public:
  void add(ListedOp op) { ops_.push_back(std::move(op)); }
  void add(const OpList& other) { ops_.insert(ops_.end(), other.ops_.begin(), other.ops_.end()); }
  std::span<const ListedOp> ops() const { return ops_; }

  /// Launches everything. On CUDA the first run goes op by op (kernels get loaded), the second is captured as
  /// a graph, and from then on the graph is replayed. TANG_GRAPHS=0 in the environment keeps it op by op.
  void run(Device& device);

 private:
  std::vector<ListedOp> ops_;
  std::unique_ptr<Graph> graph_;
  bool ran_ = false;
};

}  // namespace tang
