#include "lib/train/run_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "lib/base/error.h"
#include "lib/base/text.h"

namespace tang {

namespace {

template <class T>
bool is(const ConfigField& field) {
  return std::holds_alternative<ConfigField::Access<T>>(field.access);
}
template <class T>
T& at(const ConfigField& field, RunConfig& config) {
  return std::get<ConfigField::Access<T>>(field.access)(config);
}

/// A finite decimal number: 1e-4, 1E-4, .0001, +1e-4; nothing else may follow.
std::optional<double> number_in(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || stop != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool in_range(const ConfigField& field, double value) {
  return (field.above_low ? value > field.low : value >= field.low) &&
         (field.below_high ? value < field.high : value <= field.high);
}

[[noreturn]] void refuse(const ConfigField& field, const ConfigValue& value) {
  std::string found;
  for (const std::string& item : value.items) found += (found.empty() ? "'" : ", '") + item + "'";
  fail_input("{}: {}: expected {}, found {}{}", value.where, field.key, field.rule(),
             value.items.empty() ? "nothing" : found,
             value.items.size() == 1 ? suggestion(value.items[0], field.choices) : "");
}

double parse_number(const ConfigField& field, const ConfigValue& value) {
  if (!field.word.empty() && value.items[0] == field.word) return field.word_value;
  const std::optional<double> number = number_in(value.items[0]);
  if (!number || !in_range(field, *number)) refuse(field, value);
  return *number;
}

void assign(const ConfigField& field, const ConfigValue& value, RunConfig& config) {
  if (is<std::vector<std::string>>(field)) {
    at<std::vector<std::string>>(field, config) = value.items;
    return;
  }
  if (value.is_list || value.items.size() != 1) refuse(field, value);
  const std::string& text = value.items[0];
  if (is<std::string>(field)) {
    const auto& choices = field.choices;
    if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end()) {
      refuse(field, value);
    }
    at<std::string>(field, config) = text;
  } else if (is<bool>(field)) {
    if (text != "true" && text != "false") refuse(field, value);
    at<bool>(field, config) = text == "true";
  } else if (is<double>(field)) {
    at<double>(field, config) = parse_number(field, value);
  } else {
    const double number = parse_number(field, value);
    if (number != std::floor(number) || std::abs(number) > 0x1p53) refuse(field, value);
    at<int64_t>(field, config) = static_cast<int64_t>(number);
  }
}

[[noreturn]] void refuse_key(const ConfigValue& value) {
  const auto leaf = [](const std::string& key) { return key.substr(key.find('.') + 1); };
  std::vector<std::string> known;
  for (const ConfigField& field : schema()) {
    known.push_back(field.key);
    if (field.key.starts_with(value.key + ".")) {
      fail_input("{}: '{}' is a section: expected keys such as '{}' in it", value.where, value.key,
                 field.key);
    }
  }
  for (const std::string& key : known) {  // in the wrong section, or in none
    if (leaf(value.key) == leaf(key)) {
      fail_input("{}: unknown key '{}' (did you mean '{}'?)", value.where, value.key, key);
    }
  }
  fail_input("{}: unknown key '{}'{}", value.where, value.key, suggestion(value.key, known));
}

const ConfigField* find_field(const std::string& key) {
  for (const ConfigField& field : schema()) {
    if (field.key == key) return &field;
  }
  return nullptr;
}

/// Of the three ways to give a run's length, the command line's replaces the file's.
void replace_length(RunConfig& config, const std::string& key) {
  static const std::vector<std::string> lengths = {"train.steps", "train.tokens", "train.epochs"};
  if (std::find(lengths.begin(), lengths.end(), key) == lengths.end()) return;
  const RunConfig fresh;
  config.train.steps = fresh.train.steps;
  config.train.tokens = fresh.train.tokens;
  config.train.epochs = fresh.train.epochs;
  for (const std::string& length : lengths) config.origin.erase(length);
}

void apply(const ConfigValue& value, RunConfig& config) {
  const ConfigField* field = find_field(value.key);
  if (field == nullptr) refuse_key(value);
  assign(*field, value, config);
  config.origin[value.key] = value.where;
}

}  // namespace

/// The checks that involve more than one field, and what follows from several: run_config_check.cpp.
void complete_and_check(RunConfig& config, const std::string& name);

RunConfig parse_run_config(const std::string& text, const std::string& name,
                           const std::vector<std::string>& overrides) {
  RunConfig config;
  for (const ConfigValue& value : read_yaml(text, name)) apply(value, config);
  for (const std::string& override_text : overrides) {
    const ConfigValue value = read_override(override_text);
    replace_length(config, value.key);
    apply(value, config);
  }
  complete_and_check(config, name);
  return config;
}

RunConfig load_run_config(const fs::path& path, const std::vector<std::string>& overrides) {
  return parse_run_config(read_file(path), path.string(), overrides);
}

std::string ConfigField::rule() const {
  if (is<bool>(*this)) return "true or false";
  if (is<std::vector<std::string>>(*this)) return "a path or a list of paths";
  if (is<std::string>(*this)) return choices.empty() ? "a text" : fmt::format("{}", fmt::join(choices, ", "));
  std::string text = is<double>(*this) ? "a number" : "an integer";
  if (std::isfinite(low)) text += fmt::format(" {} {}", above_low ? ">" : ">=", low);
  if (std::isfinite(high)) text += fmt::format(" and {} {}", below_high ? "<" : "<=", high);
  return word.empty() ? text : text + ", or " + word;
}

namespace {

/// As it stands where YAML cannot take it for anything else, else in double quotes.
std::string yaml_text(const std::string& text) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '/' || c == '.' || c == '_' || c == '-';
  };
  if (!text.empty() && text[0] != '-' && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n' || c == '\t' || c == '\r') {  // YAML would fold them into spaces
      result += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r";
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string section_of(const ConfigField& field) { return field.key.substr(0, field.key.find('.')); }
std::string leaf_of(const ConfigField& field) { return field.key.substr(field.key.find('.') + 1); }

}  // namespace

std::string ConfigField::print(const RunConfig& config) const {
  auto& source = const_cast<RunConfig&>(config);  // accessors hand out references; nothing is written here
  if (is<bool>(*this)) return at<bool>(*this, source) ? "true" : "false";
  if (is<std::string>(*this)) return yaml_text(at<std::string>(*this, source));
  if (is<std::vector<std::string>>(*this)) {
    std::string text;
    for (const std::string& item : at<std::vector<std::string>>(*this, source)) {
      text += (text.empty() ? "" : ", ") + yaml_text(item);
    }
    return "[" + text + "]";
  }
  const double value =
      is<double>(*this) ? at<double>(*this, source) : static_cast<double>(at<int64_t>(*this, source));
  if (!word.empty() && value == word_value) return word;
  return is<double>(*this) ? fmt::format("{}", value) : fmt::format("{}", at<int64_t>(*this, source));
}

std::string print_config(const RunConfig& config) {
  std::string text, section;
  for (const ConfigField& field : schema()) {
    if (section_of(field) != section) text += (section = section_of(field)) + ":\n";
    text += fmt::format("  {}: {}\n", leaf_of(field), field.print(config));
  }
  return text;
}

std::string config_reference() {
  const RunConfig defaults;
  std::string text =
      "# Configuration\n\n"
      "`tang-train --config FILE [key=value ...]` reads a YAML file of sections. Any key can be set on the\n"
      "command line by its dotted name (`train.steps=200 optimizer.lr=1e-3`); a later one wins.\n"
      "Unknown, duplicate or misplaced keys and values outside of a rule are refused before anything is\n"
      "created. `--print-config` shows the result, which the run folder keeps as config.yaml.\n\n"
      "This page is written by `tang-train --print-schema`.\n";
  std::string section;
  for (const ConfigField& field : schema()) {
    if (section_of(field) != section) {
      section = section_of(field);
      text += fmt::format("\n## {}\n\n| key | value | default | meaning |\n|---|---|---|---|\n", section);
    }
    text += fmt::format("| `{}` | {} | {} | {} |\n", field.key, field.rule(),
                        field.required ? "required" : "`" + field.print(defaults) + "`", field.about);
  }
  return text;
}

}  // namespace tang
