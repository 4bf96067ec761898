#include "lib/ops/reference.h"

#include "lib/base/error.h"

namespace tang {

bool Ref::has(std::string_view name) const { return inputs_.contains(name) || outputs_.contains(name); }

const std::vector<double>& Ref::in(std::string_view name) const {
  const auto found = inputs_.find(name);
  if (found == inputs_.end()) fail_check("a reference asked for input '{}', which it was not given", name);
  return found->second;
}

RefOutput& Ref::out(std::string_view name) {
  const auto found = outputs_.find(name);
  if (found == outputs_.end()) fail_check("a reference asked for output '{}', which it was not given", name);
  return found->second;
}

const RefOutput& Ref::out(std::string_view name) const { return const_cast<Ref*>(this)->out(name); }

double Ref::round(double value) const {
  const auto single = static_cast<float>(value);
  return mode_ == Dtype::bf16 ? static_cast<double>(static_cast<float>(bf16(single))) : single;
}

void Ref::add_output(std::string name, int64_t size) {
  RefOutput output;
  output.value.assign(static_cast<size_t>(size), 0.0);
  output.magnitude.assign(static_cast<size_t>(size), 0.0);
  outputs_[std::move(name)] = std::move(output);
}

}  // namespace tang
