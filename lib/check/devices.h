// The devices that a check or a bench was asked for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/device/device.h"
#include "lib/ops/op.h"

namespace tang {

struct OpenDevices {
  std::vector<std::unique_ptr<Device>> open;
  std::string absent;  // why a kind that "all" would include is not here, or ""
};

/// "cpu", "cuda", "cuda:N", or "all": what this machine has. Asking by name for what it lacks is a machine
/// error.
OpenDevices open_devices(const std::string& choice);

/// "f32", "bf16" or "all".
std::vector<Dtype> parse_modes(const std::string& choice);

/// Ops by op or family name, in the catalogue's order and once each; all of them for no name.
std::vector<const OpBase*> select_ops(const std::vector<std::string>& names);

/// An input error unless `impl` is "all" or the name of an implementation of one of `ops`.
void require_impl(const std::vector<const OpBase*>& ops, const std::string& impl);

/// The modes of `wanted` that `op` has: one of them when it stores nothing in its mode's dtype.
std::vector<Dtype> modes_of(const OpBase& op, const std::vector<Dtype>& wanted);

}  // namespace tang
