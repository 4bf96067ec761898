// The one source that sees yaml-cpp.
#include <yaml-cpp/yaml.h>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/train/run_config.h"

namespace tang {

namespace {

class Flattener {
 public:
  Flattener(const std::string& name, std::vector<ConfigValue>& values) : name_(name), values_(values) {}

  void map(const YAML::Node& node, const std::string& prefix) {
    std::map<std::string, int> lines;
    for (const auto& entry : node) {
      const int line = entry.first.Mark().line + 1;
      if (!entry.first.IsScalar()) fail_input("{}:{}: a key must be a word", name_, line);
      const std::string key = prefix + entry.first.Scalar();
      const auto [first, fresh] = lines.emplace(key, line);
      if (!fresh) {
        fail_input("{}:{}: duplicate key '{}' (it is also on line {}): keep one", name_, line, key,
                   first->second);
      }
      value(entry.second, key, line);
    }
  }

 private:
  void value(const YAML::Node& node, const std::string& key, int line) {
    const std::string where = fmt::format("{}:{}", name_, line);
    if (node.IsMap()) return map(node, key + ".");
    if (node.IsNull() && key.find('.') == std::string::npos) return;  // an empty section
    ConfigValue found{key, where};
    if (node.IsScalar()) found.items.push_back(node.Scalar());
    if (node.IsSequence()) {
      found.is_list = true;
      for (const YAML::Node& item : node) {
        if (!item.IsScalar()) fail_input("{}: {}: a list may hold only plain values", where, key);
        found.items.push_back(item.Scalar());
      }
    }
    values_.push_back(std::move(found));
  }

  const std::string& name_;
  std::vector<ConfigValue>& values_;
};

}  // namespace

std::vector<ConfigValue> read_yaml(const std::string& text, const std::string& name) {
  try {
    std::vector<ConfigValue> values;
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) return values;
    if (!root.IsMap()) fail_input("{}: expected sections of 'key: value' lines", name);
    Flattener(name, values).map(root, "");
    return values;
  } catch (const YAML::Exception& problem) {
    fail_input("{}:{}: not YAML: {}", name, problem.mark.line + 1, problem.msg);
  }
}

ConfigValue read_override(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    fail_input("'{}' is not an override: expected key=value, as in train.steps=200", text);
  }
  ConfigValue found{text.substr(0, equals), "command line"};
  const std::string value = text.substr(equals + 1);
  if (!value.starts_with('[')) {
    found.items.push_back(value);
    return found;
  }
  for (ConfigValue& list : read_yaml("list: " + value, "command line")) found.items = std::move(list.items);
  found.is_list = true;
  return found;
}

}  // namespace tang
