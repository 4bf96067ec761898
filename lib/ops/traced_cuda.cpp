#include <fmt/format.h>

#include "kernels/traced.h"
#include "lib/expr/emit.h"
#include "lib/ops/traced.h"

namespace tang {

namespace {

/// The generated source: the expressions, and the kernel around them.
std::string source_of(const TracedCall& call) {
  const auto inputs = static_cast<int64_t>(call.x.size());
  return fmt::format(
      "#include \"sigmoid.cuh\"\n\nconstexpr int traced_inputs = {}, traced_outputs = {};\n\n{}\n"
      "#include \"traced.cuh\"\n",
      inputs, call.y.size(), emit_cuda(call.expressions, inputs, "traced_values"));
}

}  // namespace

std::function<void()> traced_cuda(CudaDevice& device, const TracedCall& call, const TracedPlan& plan) {
  const int64_t width = group_width(call.y[0].dtype);
  const RowLaunch launch = launch_rows(plan.walk, width);
  TracedParams params{.length = plan.walk.length, .tiles = launch.tiles};
  bool vector = true;
  uint32_t scalars = 0;
  for (size_t k = 0; k < call.x.size(); ++k) {
    params.x[k] = call.x[k].data, params.x_row[k] = plan.x_row[k];
    if (plan.scalar[k]) scalars |= 1u << k;
    vector = vector && (plan.scalar[k] || vectorised({call.x[k]}, plan.walk, width));
  }
  for (size_t k = 0; k < call.y.size(); ++k) {
    params.y[k] = call.y[k].data, params.y_row[k] = plan.y_row[k];
    vector = vector && vectorised({call.y[k]}, plan.walk, width);
  }
  KernelConstants constants = row_constants(call.y[0].dtype, vector);
  constants.emplace_back("TANG_ENTRY", call.name);
  constants.emplace_back("TANG_SCALARS", std::to_string(scalars));
  return device.bind(device.kernel({.source = call.name + ".cu",
                                    .entry = call.name,
                                    .constants = constants,
                                    .param_bytes = sizeof params,
                                    .text = source_of(call)}),
                     launch.shape, params);
}

}  // namespace tang
