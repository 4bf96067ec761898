#include "lib/ops/op.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "lib/base/error.h"
#include "lib/base/text.h"

namespace tang {

namespace {

std::map<std::string, std::string>& overrides() {
  static std::map<std::string, std::string> chosen;
  return chosen;
}

/// Binds dimension letters operand by operand and remembers who bound each, for the message.
class Binder {
 public:
  Binder(const OpBase& op, const void* args) : op_(op), args_(args) {}

  /// Letters only: for sizing scratch before it is there.
  Bindings letters() {
    for (const Scalar& scalar : op_.spec().scalars) values_.set(scalar.name, op_.scalar(args_, scalar));
    for (const Operand& operand : op_.spec().operands) {
      if (operand.role == Role::scratch) continue;
      check_presence(operand);
      bind_letters(operand);
    }
    return values_;
  }

  Bindings run() {
    for (const Scalar& scalar : op_.spec().scalars) values_.set(scalar.name, op_.scalar(args_, scalar));
    for (const Operand& operand : op_.spec().operands) check_presence(operand);
    for (const Operand& operand : op_.spec().operands) bind_letters(operand);
    for (const Operand& operand : op_.spec().operands) check_expressions(operand), check_memory(operand);
    check_dtypes();
    for (const std::string& rule : op_.spec().where) check_rule(rule);
    return values_;
  }

 private:
  const View& view(const Operand& operand) const { return op_.view(args_, operand); }

  std::vector<std::string> dims_of(const Operand& operand) const {
    std::vector<std::string> dims = words(operand.dims);
    if (!operand.transposed_by.empty() && values_.number(operand.transposed_by) != 0) {
      std::reverse(dims.begin(), dims.end());
    }
    return dims;
  }

  void check_presence(const Operand& operand) const {
    const View& given = view(operand);
    if (!given.present()) {
      if (operand.is_optional) return;
      fail_input("{}: operand {} [{}] is missing", op_.name(), operand.name, operand.dims);
    }
    if (given.rank != static_cast<int>(words(operand.dims).size())) {
      fail_input("{}: {} must be [{}], found {}", op_.name(), operand.name, operand.dims, describe(given));
    }
    if (given.stride(-1) != 1 && given.dim(-1) > 1) {
      fail_input("{}: the last dimension of {} must be contiguous, found {}", op_.name(), operand.name,
                 describe(given));
    }
  }

  void bind_letters(const Operand& operand) {
    if (!view(operand).present()) return;
    const std::vector<std::string> dims = dims_of(operand);
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const bool is_name = std::isalpha(static_cast<unsigned char>(dims[axis][0])) &&
                           dims[axis].find_first_of("+-*/%()") == std::string::npos;
      if (!is_name || values_.find(dims[axis]) != nullptr) continue;
      values_.set(dims[axis], static_cast<double>(view(operand).dims[axis]));
      source_[dims[axis]] = &operand;
    }
  }

  void check_expressions(const Operand& operand) const {
    const View& given = view(operand);
    if (!given.present()) return;
    const std::vector<std::string> dims = dims_of(operand);
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const auto wanted = static_cast<int64_t>(evaluate(dims[axis], values_));
      if (given.dims[axis] == wanted) continue;
      const auto source = source_.find(dims[axis]);
      const std::string from = source == source_.end() || source->second == &operand
                                   ? fmt::format("{} = {}", dims[axis], wanted)
                                   : fmt::format("{} = {} in {} {}", dims[axis], wanted, source->second->name,
                                                 describe(view(*source->second)));
      fail_input("{}: dimension {} of {} is {}, but {} ({} is {})", op_.name(), axis, operand.name,
                 given.dims[axis], from, operand.name, describe(given));
    }
  }

  void check_memory(const Operand& operand) const {
    const View& given = view(operand);
    if (given.data != nullptr || given.size() == 0) return;
    fail_input("{}: {} is {} but has no memory", op_.name(), operand.name, describe(given));
  }

  void check_dtypes() const {
    const Dtype mode = op_.mode(args_);
    if (mode == Dtype::u32) fail_input("{}: data must be f32 or bf16, found u32", op_.name());
    for (const Operand& operand : op_.spec().operands) {
      const View& given = view(operand);
      if (!given.present()) continue;
      Dtype wanted = mode;
      if (operand.rule == Rule::f32) wanted = Dtype::f32;
      if (operand.rule == Rule::u32) wanted = Dtype::u32;
      if (operand.rule == Rule::other) wanted = mode == Dtype::f32 ? Dtype::bf16 : Dtype::f32;
      if (operand.rule == Rule::data_or_f32 && given.dtype == Dtype::f32) continue;
      if (given.dtype != wanted) {
        fail_input("{}: {} must be {} when the op runs in {}, found {}", op_.name(), operand.name,
                   name_of(wanted), name_of(mode), describe(given));
      }
    }
  }

  void check_rule(const std::string& rule) const {
    if (evaluate(rule, values_) != 0) return;
    std::string found;
    for (const auto& [name, value] : values_.items()) {
      if (bound(rule, values_) && rule.find(name) != std::string::npos)
        found += fmt::format(" {} = {:g}", name, value);
    }
    fail_input("{}: needs {}, found{}", op_.name(), rule, found);
  }

  const OpBase& op_;
  const void* args_;
  Bindings values_;
  std::map<std::string, const Operand*> source_;
};

}  // namespace

OpBase::OpBase(OpSpec spec, std::function<std::shared_ptr<void>()> make_args)
    : spec_(std::move(spec)), make_args_(std::move(make_args)) {}

View& OpBase::view(void* args, const Operand& operand) const {
  return *reinterpret_cast<View*>(static_cast<char*>(args) + operand.offset);
}

const View& OpBase::view(const void* args, const Operand& operand) const {
  return *reinterpret_cast<const View*>(static_cast<const char*>(args) + operand.offset);
}

void OpBase::set_scalar(void* args, const Scalar& scalar, double value) const {
  char* place = static_cast<char*>(args) + scalar.offset;
  switch (scalar.type) {
    case Scalar::Type::f32:
      *reinterpret_cast<float*>(place) = static_cast<float>(value);
      break;
    case Scalar::Type::i64:
      *reinterpret_cast<int64_t*>(place) = static_cast<int64_t>(value);
      break;
    case Scalar::Type::boolean:
      *reinterpret_cast<bool*>(place) = value != 0;
      break;
  }
}

double OpBase::scalar(const void* args, const Scalar& scalar) const {
  const char* place = static_cast<const char*>(args) + scalar.offset;
  switch (scalar.type) {
    case Scalar::Type::f32:
      return static_cast<double>(*reinterpret_cast<const float*>(place));
    case Scalar::Type::i64:
      return static_cast<double>(*reinterpret_cast<const int64_t*>(place));
    case Scalar::Type::boolean:
      return *reinterpret_cast<const bool*>(place) ? 1 : 0;
  }
  return 0;
}

const Operand& OpBase::operand(std::string_view name) const {
  for (const Operand& operand : spec_.operands) {
    if (operand.name == name) return operand;
  }
  fail_input("{} has no operand '{}'", spec_.name, name);
}

Bindings OpBase::bind(const void* args) const { return Binder(*this, args).run(); }

std::vector<std::pair<const Operand*, View>> OpBase::scratch_views(const void* args, void* memory,
                                                                   int64_t* bytes) const {
  constexpr int64_t alignment = 256;
  std::vector<std::pair<const Operand*, View>> views;
  *bytes = 0;
  const Bindings letters = Binder(*this, args).letters();
  for (const Operand& operand : spec_.operands) {
    if (operand.role != Role::scratch) continue;
    const std::vector<std::string> dims = words(operand.dims);
    std::array<int64_t, View::max_rank> extents{1, 1, 1, 1};
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      extents[axis] = static_cast<int64_t>(std::ceil(evaluate(dims[axis], letters)));
    }
    const Dtype dtype = operand.rule == Rule::u32   ? Dtype::u32
                        : operand.rule == Rule::f32 ? Dtype::f32
                                                    : mode(args);
    View view(static_cast<char*>(memory) + *bytes, dtype, {extents[0], extents[1], extents[2], extents[3]});
    view.rank = static_cast<int>(dims.size());  // the trailing ones were padding
    *bytes += (view.bytes() + alignment - 1) / alignment * alignment;
    views.emplace_back(&operand, view);
  }
  return views;
}

int64_t OpBase::scratch_bytes(const void* args) const {
  int64_t bytes = 0;
  scratch_views(args, nullptr, &bytes);
  return bytes;
}

void OpBase::lend_scratch(void* args, void* memory) const {
  int64_t bytes = 0;
  for (const auto& [operand, lent] : scratch_views(args, memory, &bytes)) view(args, *operand) = lent;
}

CaseText OpBase::words_for(const void* args, const Bindings& values) const {
  CaseText text;
  const auto say = [&text](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  for (const Dim& dim : spec_.dims) {
    if (values.find(dim.letter) != nullptr) say(fmt::format("{}={}", dim.letter, values[dim.letter]));
  }
  for (const Operand& operand : spec_.operands) {
    const View& given = view(args, operand);
    if (operand.role != Role::scratch && given.present() == operand.is_rare)
      say((operand.is_rare ? "+" : "-") + operand.name);
    if (given.present() && operand.rule == Rule::data_or_f32 && given.dtype != mode(args)) {
      say(operand.name + ":f32");
    }
  }
  const auto defaults = make_args();
  for (const Scalar& item : spec_.scalars) {
    if (!item.values.empty()) set_scalar(defaults.get(), item, item.values.front());
    const double value = scalar(args, item);
    if (value == scalar(defaults.get(), item)) continue;
    say(item.type == Scalar::Type::f32 ? fmt::format("{}={}", item.name, static_cast<float>(value))
                                       : fmt::format("{}={}", item.name, static_cast<int64_t>(value)));
  }
  return text;
}

double OpBase::bytes_moved(const void* args, Bindings values) const {
  if (!spec_.bytes.empty()) {
    values.set("element", static_cast<double>(size_of(mode(args))));
    return evaluate(spec_.bytes, values);
  }
  const double* adds = values.find("accumulate");
  double total = 0;
  for (const Operand& operand : spec_.operands) {
    if (!view(args, operand).present() || operand.role == Role::scratch) continue;
    const bool adds_to = operand.role == Role::accumulate && adds != nullptr && *adds != 0;
    const int directions = operand.role == Role::inout || adds_to ? 2 : 1;
    total += static_cast<double>(view(args, operand).bytes()) * directions;
  }
  return total;
}

OpCall OpBase::describe(const void* args) const {
  const Bindings values = bind(args);
  const double* tf32 = values.find("tf32");
  return {.text = words_for(args, values),
          .mode = mode(args),
          .math = tf32 != nullptr && *tf32 != 0 ? MathMode::tf32 : MathMode::strict,
          .flops = evaluate(spec_.flops, values),
          .bytes = bytes_moved(args, values)};
}

Dtype OpBase::mode(const void* args) const {
  for (const Operand& operand : spec_.operands) {
    if (operand.rule == Rule::data && view(args, operand).present()) return view(args, operand).dtype;
  }
  return Dtype::f32;
}

const Impl& OpBase::choose(const Device& device, const void* args, std::string_view impl) const {
  const auto forced = overrides().find(spec_.name);
  std::string reasons;
  for (const Impl& candidate : spec_.impls) {
    if (candidate.kind != device.kind()) continue;
    if (!impl.empty() && candidate.name != impl) continue;
    const bool passed_over = impl.empty() && forced != overrides().end() &&
                             candidate.name != forced->second &&
                             forced->second.starts_with(name_of(device.kind()));
    const std::string reason = passed_over ? "overridden" : candidate.supports(device.caps(), args);
    if (reason.empty()) return candidate;
    reasons += fmt::format("; {}: {}", candidate.name, reason);
  }
  if (!impl.empty() && reasons.empty())
    fail_input("{} has no implementation '{}' for {}", spec_.name, impl, name_of(device.kind()));
  fail_input("{}: no implementation runs these arguments on {}{}", spec_.name, name_of(device.kind()),
             reasons);
}

Prepared OpBase::prepare_erased(Device& device, const void* args, std::string_view impl) const {
  bind(args);
  int64_t written = 0;
  for (const Operand& operand : spec_.operands) {
    if (operand.role != Role::in && operand.role != Role::scratch) written += view(args, operand).size();
  }
  if (written == 0) return Prepared(spec_.name, [] {});
  return Prepared(spec_.name, choose(device, args, impl).prepare(device, args));
}

void override_impl(const std::string& op, const std::string& impl) { overrides()[op] = impl; }

std::string kernel_type(Dtype dtype) { return dtype == Dtype::bf16 ? "bf16" : "float"; }

}  // namespace tang
