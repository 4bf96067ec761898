#include "lib/check/devices.h"

#include <algorithm>
#include <array>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/ops/case.h"
#include "lib/ops/catalog.h"

namespace tang {

OpenDevices open_devices(const std::string& choice) {
  OpenDevices devices;
  if (choice != "all") {
    const std::array<std::string, 3> known = {"all", "cpu", "cuda"};
    if (choice != "cpu" && !choice.starts_with("cuda"))
      fail_input("--device must be all, cpu, cuda or cuda:N, found '{}'{}", choice,
                 suggestion(choice, known));
    devices.open.push_back(open_device(choice));
    return devices;
  }
  devices.open.push_back(open_device("cpu"));
  if (cuda_device_count() > 0) {
    devices.open.push_back(open_device("cuda"));
  } else {
    devices.absent = fmt::format("no GPU here ({})", cuda_summary());
  }
  return devices;
}

std::vector<Dtype> parse_modes(const std::string& choice) {
  if (choice == "all") return {Dtype::f32, Dtype::bf16};
  if (choice == "f32" || choice == "bf16") return {parse_dtype(choice)};
  fail_input("--dtype must be f32, bf16 or all, found '{}'", choice);
}

std::vector<const OpBase*> select_ops(const std::vector<std::string>& names) {
  if (names.empty()) return {catalog().begin(), catalog().end()};
  std::vector<const OpBase*> wanted, ops;
  for (const std::string& name : names) {
    const auto family = find_family(name);
    wanted.insert(wanted.end(), family.begin(), family.end());
  }
  for (const OpBase* op : catalog()) {
    if (std::find(wanted.begin(), wanted.end(), op) != wanted.end()) ops.push_back(op);
  }
  return ops;
}

void require_impl(const std::vector<const OpBase*>& ops, const std::string& impl) {
  if (impl == "all") return;
  std::vector<std::string> known;
  for (const OpBase* op : ops) {
    for (const Impl& candidate : op->spec().impls) known.push_back(candidate.name);
  }
  if (std::find(known.begin(), known.end(), impl) == known.end())
    fail_input("no implementation is called '{}'{}; tang-check list names them", impl,
               suggestion(impl, known));
}

std::vector<Dtype> modes_of(const OpBase& op, const std::vector<Dtype>& wanted) {
  std::vector<Dtype> modes;
  for (const Dtype mode : wanted) {
    const auto& known = op.spec().modes;
    const bool has = std::find(known.begin(), known.end(), mode) != known.end();
    if (has && (modes.empty() || has_modes(op))) modes.push_back(mode);
  }
  return modes;
}

}  // namespace tang
