#include "lib/base/json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "lib/base/error.h"
#include "lib/base/text.h"

namespace tang {

/// Builds a Json from nlohmann's parser events, which unlike its own values show repeated names.
class JsonBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonBuilder(Json& root, const std::string& name) : root_(root), name_(name) {}

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(number_integer_t value) override { return add(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(Json(value)); }
  bool number_float(number_float_t value, const string_t&) override { return add(Json(value)); }
  bool string(string_t& value) override { return add(Json(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    if (!open_.back().names.insert(value).second) {
      fail_input("{}: the name '{}' appears twice", name_, value);
    }
    key_ = std::move(value);
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    std::string reason = error.what();  // "[json.exception.parse_error.101] parse error at line 1, …"
    if (const size_t end = reason.find("] "); reason[0] == '[' && end != std::string::npos) {
      reason = reason.substr(end + 2);
    }
    fail_input("{}: not valid JSON: {}", name_, reason);
  }

 private:
  struct Container {
    Json* value;  // stable while open: only the innermost container grows
    std::unordered_set<std::string> names;
  };

  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back().value;
    if (auto* object = std::get_if<Json::Object>(&parent.value_)) {
      return &object->emplace_back(std::move(key_), std::move(value)).second;
    }
    return &std::get<Json::Array>(parent.value_).emplace_back(std::move(value));
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= max_depth) fail_input("{}: nested more than {} levels deep", name_, max_depth);
    open_.push_back({place(std::move(value)), {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  static constexpr size_t max_depth = 100;  // bounds the recursion of write() and of the destructor

  Json& root_;
  const std::string& name_;
  std::vector<Container> open_;
  std::string key_;
};

namespace {

void write_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const size_t valid = valid_utf8_prefix(text);
    for (const char c : text.substr(0, valid)) {
      if (c == '"' || c == '\\') {
        out += '\\';
        out += c;
      } else if (c == '\n') {
        out += "\\n";
      } else if (static_cast<unsigned char>(c) < 0x20) {
        out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      } else {
        out += c;
      }
    }
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += "\xEF\xBF\xBD";
    text.remove_prefix(1);
  }
  out += '"';
}

void write_double(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char digits[32];
  const auto result = std::to_chars(digits, digits + sizeof digits, value);  // shortest that reads back equal
  const std::string_view text(digits, static_cast<size_t>(result.ptr - digits));
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";  // "-0" would read back as an integer
}

}  // namespace

Json Json::object(std::initializer_list<Member> members) {
  Json result;
  result.value_ = Object();
  for (const Member& member : members) {
    if (result.find(member.first) != nullptr) fail_check("JSON member '{}' given twice", member.first);
    result[member.first] = member.second;
  }
  return result;
}

Json Json::array(std::initializer_list<Json> items) {
  Json result;
  result.value_ = Array(items);
  return result;
}

Json Json::parse(std::string_view text, const std::string& name) {
  // The parser takes a NUL for the end of the text and would ignore what follows.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    fail_input("{}: not valid JSON: NUL at byte {}", name, nul);
  }
  Json root;
  JsonBuilder builder(root, name);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return root;
}

bool Json::is_integer() const {
  return std::holds_alternative<int64_t>(value_) || std::holds_alternative<uint64_t>(value_);
}

std::string Json::describe() const {
  if (is_object()) return "an object";
  if (is_array()) return "an array";
  const std::string text = dump();
  return text.size() <= 60 ? text : "a long string";
}

bool Json::as_bool() const {
  if (!is_bool()) fail_input("expected true or false, found {}", describe());
  return std::get<bool>(value_);
}

int64_t Json::as_int() const {
  if (!std::holds_alternative<int64_t>(value_)) {
    fail_input("expected a whole number below 2^63, found {}", describe());
  }
  return std::get<int64_t>(value_);
}

uint64_t Json::as_uint() const {
  if (const auto* large = std::get_if<uint64_t>(&value_)) return *large;
  const auto* value = std::get_if<int64_t>(&value_);
  if (value == nullptr || *value < 0) fail_input("expected a whole number from 0, found {}", describe());
  return static_cast<uint64_t>(*value);
}

double Json::as_double() const {
  if (is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (const auto* value = std::get_if<double>(&value_)) return *value;
  if (!is_integer()) fail_input("expected a number, found {}", describe());
  if (const auto* value = std::get_if<int64_t>(&value_)) return static_cast<double>(*value);
  return static_cast<double>(std::get<uint64_t>(value_));
}

const std::string& Json::as_string() const {
  if (!is_string()) fail_input("expected a string, found {}", describe());
  return std::get<std::string>(value_);
}

const Json::Array& Json::items() const {
  if (!is_array()) fail_input("expected an array, found {}", describe());
  return std::get<Array>(value_);
}

const Json::Object& Json::members() const {
  if (!is_object()) fail_input("expected an object, found {}", describe());
  return std::get<Object>(value_);
}

const Json* Json::find(std::string_view name) const {
  if (const auto* object = std::get_if<Object>(&value_)) {
    for (const Member& member : *object) {
      if (member.first == name) return &member.second;
    }
  }
  return nullptr;
}

const Json& Json::at(std::string_view name) const {
  const Json* member = find(name);
  if (member == nullptr) fail_input("expected a member '{}' in {}", name, describe());
  return *member;
}

Json& Json::operator[](std::string_view name) {
  if (is_null()) value_ = Object();
  if (const Json* member = find(name)) return const_cast<Json&>(*member);
  members();  // refuses anything but an object
  return std::get<Object>(value_).emplace_back(std::string(name), Json()).second;
}

void Json::push_back(Json item) {
  if (is_null()) value_ = Array();
  items();  // refuses anything but an array
  std::get<Array>(value_).push_back(std::move(item));
}

std::string Json::dump(int indent) const {
  std::string out;
  write(out, indent, 0);
  return out;
}

void Json::write(std::string& out, int indent, int depth) const {
  const auto line = [&](int level) {
    if (indent >= 0) out += '\n' + std::string(static_cast<size_t>(indent * level), ' ');
  };
  const auto block = [&](char open, char close, const auto& entries, const auto& write_entry) {
    out += open;
    bool first = true;
    for (const auto& entry : entries) {
      if (!first) out += indent < 0 ? ", " : ",";
      first = false;
      line(depth + 1);
      write_entry(entry);
    }
    if (!first) line(depth);
    out += close;
  };
  if (is_null()) {
    out += "null";
  } else if (is_bool()) {
    out += std::get<bool>(value_) ? "true" : "false";
  } else if (const auto* value = std::get_if<int64_t>(&value_)) {
    out += fmt::to_string(*value);
  } else if (const auto* large = std::get_if<uint64_t>(&value_)) {
    out += fmt::to_string(*large);
  } else if (const auto* real = std::get_if<double>(&value_)) {
    write_double(out, *real);
  } else if (is_string()) {
    write_string(out, std::get<std::string>(value_));
  } else if (is_array()) {
    block('[', ']', std::get<Array>(value_), [&](const Json& item) { item.write(out, indent, depth + 1); });
  } else {
    block('{', '}', std::get<Object>(value_), [&](const Member& member) {
      write_string(out, member.first);
      out += ": ";
      member.second.write(out, indent, depth + 1);
    });
  }
}

}  // namespace tang
