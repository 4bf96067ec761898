#include "lib/check/list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/check/devices.h"
#include "lib/check/exam.h"

namespace tang {

namespace {

std::string impl_names(const OpBase& op) {
  std::vector<std::string> names;
  for (const Impl& impl : op.spec().impls) names.push_back(impl.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string mode_names(const OpBase& op) {
  std::vector<std::string_view> names;
  for (const Dtype mode : modes_of(op, {Dtype::f32, Dtype::bf16})) names.push_back(name_of(mode));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string_view name_of_role(const Operand& operand) {
  switch (operand.role) {
    case Role::in:
      return "in";
    case Role::out:
      return "out";
    case Role::inout:
      return "in and out";
    case Role::accumulate:
      return "out, or added to";
    case Role::scratch:
      return "scratch";
  }
  return "";
}

std::string_view name_of_rule(Rule rule) {
  switch (rule) {
    case Rule::data:
      return "mode";
    case Rule::f32:
      return "f32";
    case Rule::u32:
      return "u32";
    case Rule::data_or_f32:
      return "mode or f32";
    case Rule::other:
      return "the other of f32 and bf16";
  }
  return "";
}

std::string section(const OpBase& op) {
  const OpSpec& spec = op.spec();
  std::string text =
      fmt::format("\n## {}\n\n`{}`\n\n| operand | shape | role | stored in |\n|---|---|---|---|\n", spec.name,
                  spec.about);
  for (const Operand& operand : spec.operands) {
    std::string shape = operand.dims;
    if (!operand.transposed_by.empty()) shape += ", reversed when " + operand.transposed_by;
    text += fmt::format("| {} | {} | {}{} | {} |\n", operand.name, shape, name_of_role(operand),
                        operand.is_optional ? ", optional" : "", name_of_rule(operand.rule));
  }
  std::vector<std::string> dims, scalars, pairs;
  for (const Dim& dim : spec.dims)
    dims.push_back(fmt::format("{} `--{}` {}", dim.letter, dim.flag, dim.bench_default));
  for (const Scalar& scalar : spec.scalars)
    scalars.push_back(fmt::format("{} ({})", scalar.name, fmt::join(scalar.values, ", ")));
  for (const auto& [input, output] : spec.in_place) pairs.push_back(fmt::format("{} in {}", output, input));
  const auto line = [&text](const char* title, const std::string& value) {
    if (!value.empty()) text += fmt::format("- {}: {}\n", title, value);
  };
  text += "\n";
  line("dimensions, flags and bench defaults", fmt::format("{}", fmt::join(dims, ", ")));
  line("scalars and the values checked", fmt::format("{}", fmt::join(scalars, ", ")));
  line("refused unless", fmt::format("{}", fmt::join(spec.where, ", ")));
  line("rows may lie apart", fmt::format("{}", fmt::join(spec.strided, ", ")));
  line("may run in place", fmt::format("{}", fmt::join(pairs, ", ")));
  line("gradient of", spec.gradient_of == nullptr ? "" : spec.gradient_of->name());
  line("operations", "`" + spec.flops + "`");
  line("modes", mode_names(op));
  line("implementations", impl_names(op));
  line("registered cases", std::to_string(spec.cases.size()));
  line("large cases", fmt::format("{}", fmt::join(spec.large, "; ")));
  return text;
}

}  // namespace

std::string list_ops(const std::vector<std::string>& ops) {
  std::string text =
      fmt::format("{:<22} {:<16} {:<30} {:<10} {:>5}\n", "op", "dims", "implementations", "modes", "cases");
  for (const OpBase* op : select_ops(ops)) {
    std::vector<std::string> letters;
    for (const Dim& dim : op->spec().dims) letters.push_back(dim.letter);
    text += fmt::format("{:<22} {:<16} {:<30} {:<10} {:>5}\n", op->name(),
                        fmt::format("{}", fmt::join(letters, " ")), impl_names(*op), mode_names(*op),
                        op->spec().cases.size());
  }
  return text;
}

std::string ops_markdown() {
  std::string text =
      "# Ops\n\nEvery registered op, from the registrations themselves. Written by `tang-check list "
      "--markdown > "
      "docs/OPS.md`; do not edit: a test compares.\n";
  for (const OpBase* op : select_ops({})) text += section(*op);
  return text;
}

}  // namespace tang
