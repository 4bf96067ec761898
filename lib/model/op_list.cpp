#include "lib/model/op_list.h"

#include <cstdlib>
#include <string_view>

namespace tang {

namespace {

bool graphs_wanted() {
  static const bool wanted = [] {
    const char* value = std::getenv("TANG_GRAPHS");
    return value == nullptr || std::string_view(value) != "0";
  }();
  return wanted;
}

}  // namespace

void OpList::run(Device& device) {
  const auto launch_each = [this] {
    for (const ListedOp& op : ops_) op.run();
  };
  if (device.kind() != DeviceKind::cuda || !ran_ || !graphs_wanted()) {
    launch_each();
    ran_ = true;
    return;
  }
  if (!graph_) graph_ = static_cast<CudaDevice&>(device).capture(launch_each);
  graph_->launch();
}

}  // namespace tang
