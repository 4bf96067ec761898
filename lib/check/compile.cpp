#include "lib/check/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/check/devices.h"
#include "lib/check/exam.h"

namespace tang {

namespace {

/// Why ptxas made a kernel slow: wgmma serialised for a reason that the source can avoid.
bool serialises(const std::string& warning) {
  for (const char* code : {"C7510", "C7512", "C7514", "C7515", "C7520"}) {
    if (warning.find(code) != std::string::npos) return true;
  }
  return false;
}

/// "TANG_T=bf16 TANG_HEAD_DIM=64" without what every name has.
std::string shortened(std::string constants) {
  for (size_t at; (at = constants.find("TANG_")) != std::string::npos;) constants.erase(at, 5);
  return constants;
}

/// Asks for every kernel of one op; what was refused is a failure.
void ask(CompileOnlyDevice& device, const OpBase& op, void* memory, Counts& counts) {
  for (const Dtype mode : modes_of(op, {Dtype::f32, Dtype::bf16})) {
    std::vector<Case> cases = expand_cases(op, mode);
    cases.emplace_back(op, bench_case(op), mode);
    for (const CaseText& text : op.spec().large) cases.emplace_back(op, text, mode);
    for (const Case& plan : cases) {
      const auto args = plan.make_args(memory);
      for (const Impl& impl : op.spec().impls) {
        if (impl.kind != DeviceKind::cuda || !impl.supports(device.caps(), args.get()).empty()) continue;
        try {
          op.prepare_erased(device, args.get(), impl.name);
        } catch (const Error& error) {
          if (error.kind() == ErrorKind::machine) throw;
          ++counts.failed;
          fmt::print("  FAILED {} {} {} {}: {}\n", op.name(), impl.name, name_of(mode), plan.text(),
                     error.what());
        }
      }
    }
  }
}

Counts check_architecture(const std::string& architecture, const std::vector<const OpBase*>& ops) {
  Counts counts;
  const auto device = open_compile_only_device(architecture);
  const Buffer memory = device->allocate(4096);
  for (const OpBase* op : ops) ask(*device, *op, memory.data(), counts);
  fmt::print("{}: {:>4} {:>6} {:>6} {:>6} {:>5}  kernel\n", architecture, "regs", "spills", "stack", "shared",
             "s");
  std::vector<CompiledKernel> kernels;
  try {
    kernels = device->compiled();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::machine) throw;
    ++counts.failed;
    fmt::print("  FAILED {}: {}\n", architecture, error.what());
  }
  std::sort(kernels.begin(), kernels.end(), [](const CompiledKernel& a, const CompiledKernel& b) {
    return std::tie(a.source, a.entry, a.constants) < std::tie(b.source, b.entry, b.constants);
  });
  for (const CompiledKernel& kernel : kernels) {
    const bool slow = std::any_of(kernel.warnings.begin(), kernel.warnings.end(), serialises);
    const bool spills = kernel.spill_bytes > 0 && architecture == "sm_90a";
    slow || spills ? ++counts.failed : ++counts.passed;
    fmt::print("{:>{}} {:>6} {:>6} {:>6} {:>5.1f}  {} {}{}\n", kernel.registers, architecture.size() + 6,
               kernel.spill_bytes, kernel.stack_bytes, kernel.static_shared_bytes, kernel.seconds,
               kernel.entry, shortened(kernel.constants), slow || spills ? "  FAILED" : "");
    for (const std::string& warning : kernel.warnings) fmt::print("           {}\n", warning);
  }
  std::fflush(stdout);
  return counts;
}

}  // namespace

Counts check_compile(const CompileOptions& options) {
  const auto ops = select_ops(options.ops);
  Counts total;
  for (const std::string& architecture : split(options.architectures, ',')) {
    if (!architecture.starts_with("sm_"))
      fail_input("--arch needs names like sm_90a with commas between, found '{}'", options.architectures);
    total += check_architecture(architecture, ops);
  }
  return total;
}

}  // namespace tang
