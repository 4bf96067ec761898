#include "lib/ops/case.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <set>

#include "lib/base/error.h"
#include "lib/base/rng.h"
#include "lib/base/text.h"

namespace tang {

namespace {

double parse_number(const OpBase& op, const std::string& word, std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) {
    fail_input("{}: '{}' in a case needs a number at its end", op.name(), word);
  }
  return value;
}

int64_t whole_number(const OpBase& op, const std::string& what, double value) {
  constexpr double most = 0x1p53;  // beyond, a double skips whole numbers
  if (!(value >= 0 && value <= most && value == std::floor(value)))
    fail_input("{}: {} must be a whole number, found {:g}", op.name(), what, value);
  return static_cast<int64_t>(value);
}

uint64_t hash_text(std::string_view text) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

bool is_data(Rule rule) { return rule == Rule::data || rule == Rule::data_or_f32 || rule == Rule::other; }

Dtype stored(Rule rule, Dtype mode) {
  if (rule == Rule::u32) return Dtype::u32;
  if (rule == Rule::other) return mode == Dtype::f32 ? Dtype::bf16 : Dtype::f32;
  return is_data(rule) ? mode : Dtype::f32;
}

const std::vector<std::string>& fill_kinds() {
  static const std::vector<std::string> kinds = {"gaussian",      "ramp",     "one_hot", "large_mean",
                                                 "very_negative", "positive", "small",   "one",
                                                 "zero",          "below",    "last"};
  return kinds;
}

void require_fill(const OpBase& op, const std::string& kind) {
  const auto& kinds = fill_kinds();
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
    fail_input("{}: no fill is called '{}'{}", op.name(), kind, suggestion(kind, kinds));
}

}  // namespace

double rounded(double value, Dtype dtype) {
  if (dtype == Dtype::u32) return value;
  const auto single = static_cast<float>(value);
  return dtype == Dtype::bf16 ? static_cast<float>(bf16(single)) : single;
}

bool has_modes(const OpBase& op) {
  return std::any_of(op.spec().operands.begin(), op.spec().operands.end(),
                     [](const Operand& operand) { return is_data(operand.rule); });
}

int64_t OperandPlan::size() const {
  int64_t product = 1;
  for (const int64_t dim : dims) product = checked_product({product, dim}, operand->name.c_str());
  return product;
}

int64_t row_width(const OperandPlan& plan) {
  const size_t rank = plan.dims.size();
  return rank == 0 ? 1 : rank == 4 ? plan.dims[2] * plan.dims[3] : plan.dims.back();
}

Case::Case(const OpBase& op, const CaseText& text, Dtype mode) : op_(&op), text_(text), mode_(mode) {
  Bindings given;
  for (const Scalar& scalar : op.spec().scalars) {
    const auto args = op.make_args();
    given.set(scalar.name, scalar.values.empty() ? op.scalar(args.get(), scalar) : scalar.values.front());
  }
  parse(given);
  plan_operands(given);
  check_row_strides();
  values_ = given;  // make_args takes the scalars from here
  values_ = op.bind(make_args(reinterpret_cast<void*>(256)).get());
  for (const auto& [name, value] : given.items()) {
    if (values_.find(name) == nullptr) values_.set(name, value);
  }
}

void Case::parse(Bindings& given) {
  std::vector<std::string> letters, names, known;
  for (const Dim& dim : op_->spec().dims) letters.push_back(dim.letter);
  for (const Scalar& scalar : op_->spec().scalars) letters.push_back(scalar.name);
  for (const Operand& operand : op_->spec().operands) names.push_back(operand.name);
  const auto require = [this](const std::vector<std::string>& list, const std::string& name,
                              const char* what) {
    if (std::find(list.begin(), list.end(), name) == list.end())
      fail_input("{} has no {} '{}'{}", op_->name(), what, name, suggestion(name, list));
  };
  for (const std::string& word : words(text_)) {
    if (const size_t at = word.find('='); at != std::string::npos) {
      const std::string name = word.substr(0, at);
      require(letters, name, "dimension or scalar");
      given.set(name, parse_number(*op_, word, std::string_view(word).substr(at + 1)));
    } else if (const size_t colon = word.find(':'); colon != std::string::npos) {
      require(names, word.substr(0, colon), "operand");
      dtypes_[word.substr(0, colon)] = parse_dtype(word.substr(colon + 1));
    } else if (const size_t tilde = word.find('~'); tilde != std::string::npos) {
      require(names, word.substr(0, tilde), "operand");
      require_fill(*op_, fills_[word.substr(0, tilde)] = word.substr(tilde + 1));
    } else if (word[0] == '-') {
      require(names, word.substr(1), "operand");
      absent_.push_back(word.substr(1));
    } else if (word[0] == '+') {
      require(names, word.substr(1), "operand");
      taken_in_.push_back(word.substr(1));
    } else if (word == "@strided") {
      strided_ = true;
    } else if (const size_t mark = word.find('@'); mark != std::string::npos) {
      require(op_->spec().strided, word.substr(0, mark), "operand with rows that may lie apart called");
      row_strides_[word.substr(0, mark)] = whole_number(
          *op_, "the distance in " + word, parse_number(*op_, word, std::string_view(word).substr(mark + 1)));
    } else {
      fail_input(
          "{}: '{}' in a case is none of N=7, operand:f32, operand~ramp, operand@96, -operand, +operand and "
          "@strided",
          op_->name(), word);
    }
  }
}

void Case::plan_operands(const Bindings& given) {
  for (const Operand& operand : op_->spec().operands) {
    if (operand.role == Role::scratch) continue;
    OperandPlan plan;
    plan.operand = &operand;
    const auto& named = operand.is_rare ? taken_in_ : absent_;
    plan.present = (std::find(named.begin(), named.end(), operand.name) != named.end()) == operand.is_rare;
    plan.dtype = stored(operand.rule, mode_);
    if (const auto chosen = dtypes_.find(operand.name); chosen != dtypes_.end()) plan.dtype = chosen->second;
    std::vector<std::string> dims = words(operand.dims);
    if (!operand.transposed_by.empty() && given.number(operand.transposed_by) != 0)
      std::reverse(dims.begin(), dims.end());
    for (const std::string& dim : dims) {
      if (!bound(dim, given)) {
        if (!plan.present) break;  // it need not say what only an absent operand has
        fail_input("{}: the case '{}' gives no value for {}", op_->name(), text_, dim);
      }
      plan.dims.push_back(whole_number(*op_, dim + " of " + operand.name, evaluate(dim, given)));
    }
    plan.fill = operand.rule == Rule::u32 ? "zero" : "gaussian";
    for (const Fill& fill : op_->spec().fill) {
      if (fill.operand != operand.name) continue;
      plan.fill = fill.kind;
      plan.explicit_fill = true;
      if (fill.limit.empty() || !plan.present) continue;
      if (!bound(fill.limit, given))
        fail_input("{}: the case '{}' gives no value for {}", op_->name(), text_, fill.limit);
      plan.limit = evaluate(fill.limit, given);
    }
    if (const auto chosen = fills_.find(operand.name); chosen != fills_.end()) {
      plan.fill = chosen->second;
      plan.explicit_fill = true;
    }
    require_fill(*op_, plan.fill);
    const double* adds = given.find("accumulate");
    plan.reads = operand.role == Role::in || operand.role == Role::inout ||
                 (operand.role == Role::accumulate && adds != nullptr && *adds != 0);
    plan.writes = operand.role != Role::in;
    operands_.push_back(std::move(plan));
  }
}

void Case::check_row_strides() const {
  for (const auto& [name, stride] : row_strides_) {
    const OperandPlan* plan = find(name);
    if (plan == nullptr) fail_input("{}: the case '{}' leaves {} out", op_->name(), text_, name);
    const int64_t row = row_width(*plan);
    if (plan->dims.size() < 2 || stride < row)
      fail_input("{}: rows of {} have {} elements, they cannot lie {} apart", op_->name(), name, row, stride);
  }
}

int64_t Case::row_stride(const std::string& operand) const {
  const auto found = row_strides_.find(operand);
  return found == row_strides_.end() ? 0 : found->second;
}

const OperandPlan* Case::find(std::string_view name) const {
  for (const OperandPlan& plan : operands_) {
    if (plan.present && plan.operand->name == name) return &plan;
  }
  return nullptr;
}

double Case::bytes() const { return op_->describe(make_args(reinterpret_cast<void*>(256)).get()).bytes; }

std::shared_ptr<void> Case::make_args(void* memory) const {
  auto args = op_->make_args();
  for (const Scalar& scalar : op_->spec().scalars)
    op_->set_scalar(args.get(), scalar, values_.number(scalar.name));
  for (const OperandPlan& plan : operands_) {
    if (!plan.present) continue;
    View& view = op_->view(args.get(), *plan.operand);
    std::array<int64_t, View::max_rank> dims{1, 1, 1, 1};
    std::copy(plan.dims.begin(), plan.dims.end(), dims.end() - static_cast<int64_t>(plan.dims.size()));
    view = View(memory, plan.dtype, {dims[0], dims[1], dims[2], dims[3]});
    const int lead = View::max_rank - static_cast<int>(plan.dims.size());
    view.rank = static_cast<int>(plan.dims.size());
    std::rotate(view.dims.begin(), view.dims.begin() + lead, view.dims.end());
    std::rotate(view.strides.begin(), view.strides.begin() + lead, view.strides.end());
  }
  op_->lend_scratch(args.get(), memory);
  return args;
}

std::vector<double> Case::draw(size_t index, int64_t count) const {
  const OperandPlan& plan = operands_[index];
  const Rng rng(hash_text(op_->name() + " " + text_), hash_text(plan.operand->name));
  const int64_t width = plan.dims.empty() || plan.dims.back() == 0 ? 1 : plan.dims.back();
  const auto value = [&](int64_t i) -> double {
    const auto u = static_cast<uint64_t>(i);
    if (plan.fill == "below") return static_cast<double>(rng.below(u, static_cast<uint64_t>(plan.limit)));
    if (plan.fill == "last") return plan.limit - 1;
    if (plan.fill == "zero") return 0;
    if (plan.fill == "one") return 1;
    if (plan.fill == "ramp") return std::sin(0.37 * static_cast<double>(i % 8191) + 1);
    if (plan.fill == "one_hot")
      return static_cast<int64_t>(rng.below(static_cast<uint64_t>(i / width), width)) == i % width ? 1 : 0;
    if (plan.fill == "positive") return 0.5 + rng.uniform(u);
    const double normal = rng.normal(u);
    if (plan.fill == "large_mean") return i % width == width / 3 ? 30 + normal : normal;
    if (plan.fill == "very_negative") return normal - 120;
    return plan.fill == "small" ? normal / 64 : normal;
  };
  std::vector<double> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[i] = rounded(value(i), plan.dtype);
  return values;
}

CaseInputs Case::draw_inputs() const {
  CaseInputs inputs(operands_.size());
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i].present && operands_[i].reads) inputs[i] = draw(i, operands_[i].size());
  }
  const OpBase* forward = op_->spec().gradient_of;
  if (forward == nullptr || forward == op_) return inputs;
  const auto wanted = [&](const OperandPlan& plan) {
    if (!plan.present || !plan.reads || plan.explicit_fill) return false;
    return std::any_of(forward->spec().operands.begin(), forward->spec().operands.end(),
                       [&](const Operand& o) { return o.role == Role::out && o.name == plan.operand->name; });
  };
  if (std::none_of(operands_.begin(), operands_.end(), wanted)) return inputs;
  const std::optional<Case> before = forward_case(*this);
  if (!before) return inputs;
  CaseInputs shared = before->draw_inputs();
  for (size_t i = 0; i < shared.size(); ++i) {
    for (size_t j = 0; j < operands_.size(); ++j) {
      if (operands_[j].operand->name == before->operands_[i].operand->name && !shared[i].empty() &&
          inputs[j].size() == shared[i].size())
        shared[i] = inputs[j];
    }
  }
  Ref ref = before->make_ref(shared);
  forward->spec().reference(ref);
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (!wanted(operands_[i])) continue;
    const auto found = ref.outputs().find(operands_[i].operand->name);
    if (found == ref.outputs().end() || found->second.value.size() != inputs[i].size()) continue;
    for (size_t k = 0; k < inputs[i].size(); ++k)
      inputs[i][k] = rounded(found->second.value[k], operands_[i].dtype);
  }
  return inputs;
}

Ref Case::make_ref(const CaseInputs& inputs) const {
  Ref ref(values_, mode_);
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (!operands_[i].present) continue;
    if (operands_[i].reads) ref.add_input(operands_[i].operand->name, inputs[i]);
    if (operands_[i].writes) ref.add_output(operands_[i].operand->name, operands_[i].size());
  }
  return ref;
}

std::optional<Case> forward_case(const Case& backward) {
  const OpBase* forward = backward.op().spec().gradient_of;
  if (forward == nullptr) return std::nullopt;
  std::string text;
  for (const Dim& dim : forward->spec().dims) {
    const double* value = backward.values().find(dim.letter);
    if (value == nullptr) return std::nullopt;
    text += fmt::format("{}={} ", dim.letter, *value);
  }
  for (const Scalar& scalar : forward->spec().scalars) {
    if (const double* value = backward.values().find(scalar.name); value != nullptr)
      text += fmt::format("{}={} ", scalar.name, *value);
  }
  for (const Operand& operand : forward->spec().operands) {
    const OperandPlan* same = backward.find(operand.name);
    if (operand.is_optional && same == nullptr) text += "-" + operand.name + " ";
    if (operand.is_rare && same != nullptr) text += "+" + operand.name + " ";
    if (same != nullptr && same->explicit_fill && same->reads)
      text += fmt::format("{}~{} ", operand.name, same->fill);
  }
  return Case(*forward, text, backward.mode());
}

std::string gradient_target(const OpBase& forward, std::string_view gradient) {
  for (const Operand& operand : forward.spec().operands) {
    if (gradient == "d" + operand.name || gradient == "d_" + operand.name) return operand.name;
  }
  return "";
}

}  // namespace tang
