// JSON values: what metrics, checkpoints, configurations and safetensors headers need, no more.
// Objects keep the order in which members were added. Numbers keep every bit: doubles are written in the
// shortest form that reads back equal, integers stay integers. NaN and infinity have no JSON: they become
// null.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace tang {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Json(T value) {
    if (std::in_range<int64_t>(value)) {
      value_ = static_cast<int64_t>(value);
    } else {
      value_ = static_cast<uint64_t>(value);
    }
  }
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}

  /// {{"a", 1}, {"b", "text"}}; a repeated name is a check error.
  static Json object(std::initializer_list<Member> members = {});
  static Json array(std::initializer_list<Json> items = {});
  /// An array from any list of things that convert to Json.
  template <class List>
  static Json list(const List& items) {
    Json result = array();
    for (const auto& item : items) result.push_back(item);
    return result;
  }

  /// Parses exactly one JSON text. `name` (a file, "train.jsonl line 7") opens the message of the input error
  /// that anything else raises; so do repeated member names, nesting past 100 levels and raw NUL bytes.
  static Json parse(std::string_view text, const std::string& name);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const;  // written without fraction and exponent, within 64 bits
  bool is_number() const { return is_integer() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  /// The value as that type; any other is an input error "expected …, found …". as_double takes integers too,
  /// and null as NaN (which is how it was written).
  bool as_bool() const;
  int64_t as_int() const;
  uint64_t as_uint() const;
  double as_double() const;
  const std::string& as_string() const;
  const Array& items() const;
  const Object& members() const;

  /// The member of that name, or nullptr (also when this is no object).
  const Json* find(std::string_view name) const;
  /// The member of that name; an input error when there is none.
  const Json& at(std::string_view name) const;
  /// The member of that name, added as null when there is none. A null value becomes an object first.
  Json& operator[](std::string_view name);
  void push_back(Json item);

  /// One line (indent < 0) or one member a line, indented. Bytes of strings that are not UTF-8 become U+FFFD.
  std::string dump(int indent = -1) const;

 private:
  friend class JsonBuilder;
  void write(std::string& out, int indent, int depth) const;
  std::string describe() const;

  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Array, Object> value_;
};

}  // namespace tang
