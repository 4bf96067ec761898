#include "lib/base/cli.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>

#include "lib/base/error.h"
#include "lib/base/text.h"

namespace tang {

namespace {

constexpr size_t help_columns = 80, description_column = 36;

/// Spaces before the text of a help line's continuation: under a description where the line has one, else two
/// more than the line's own.
size_t continuation_of(std::string_view line) {
  const size_t own = line.find_first_not_of(' ');
  if (own == 0) return 0;
  const bool described = line.size() > description_column && line.find("  ", own) < description_column;
  return described ? description_column : own + 2;
}

/// The text with lines longer than help_columns broken at spaces. A command among the examples is broken
/// before an option, never inside its quotes, and says so with a backslash, as a shell wants it.
std::string folded(const std::string& text) {
  std::string result;
  bool examples = false;
  for (std::string line : split(text, '\n')) {
    examples = examples || line == "Examples:";
    const bool command = examples && line.starts_with("  tang-");
    const size_t indent = continuation_of(line);
    const std::string_view mark = command ? " \\" : "";
    while (line.size() > help_columns) {
      const size_t space = line.rfind(command ? " --" : " ", help_columns - mark.size());
      if (space == std::string::npos || space <= indent) break;  // one long word
      result += line.substr(0, space) + std::string(mark) + '\n';
      line = std::string(indent, ' ') + line.substr(space + 1);
    }
    result += line + '\n';
  }
  result.pop_back();  // `text` ends with a line's end of its own
  return result;
}

}  // namespace

std::string_view version() { return TANG_VERSION; }

struct Cli::Impl {
  std::string command;  // as typed: "tang-data prepare"
  std::shared_ptr<CLI::App> app;
  std::vector<std::unique_ptr<Cli>> children;

  Impl(std::string command, std::shared_ptr<CLI::App> node, const std::string& examples);
  void add(const std::string& names, const std::string& type, const std::string& shown, Need need,
           const std::string& help, std::function<void(const std::string&)> accept);
  CLI::Option* add_many(const std::string& names, std::vector<std::string>& target, Need need,
                        const std::string& help);
  std::vector<std::string> flags() const;
  void refuse_unknown_words() const;
  const Impl& active() const;
};

Cli::Impl::Impl(std::string command, std::shared_ptr<CLI::App> node, const std::string& examples)
    : command(std::move(command)), app(std::move(node)) {
  app->name(this->command.substr(this->command.rfind(' ') + 1));
  app->allow_extras();  // unknown words are refused here, with the nearest known one
  app->set_help_flag("--help,-h", "show this help and stop");
  app->get_formatter()->column_width(description_column);
  app->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  if (!examples.empty()) {
    std::string footer = "Examples:";
    for (const std::string& line : split(examples, '\n')) footer += "\n  " + std::string(trim(line));
    app->footer(footer);
  }
}

void Cli::Impl::add(const std::string& names, const std::string& type, const std::string& shown, Need need,
                    const std::string& help, std::function<void(const std::string&)> accept) {
  CLI::Option* option = app->add_option_function<std::string>(names, std::move(accept), help);
  option->type_name(type);
  if (need == Need::required) {
    option->required();
  } else if (!shown.empty()) {
    option->default_str(shown);
  }
}

CLI::Option* Cli::Impl::add_many(const std::string& names, std::vector<std::string>& target, Need need,
                                 const std::string& help) {
  CLI::Option* option = app->add_option(names, target, help);
  option->type_name("TEXT")->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  if (need == Need::required) option->required();
  return option;
}

std::vector<std::string> Cli::Impl::flags() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : app->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

void Cli::Impl::refuse_unknown_words() const {
  for (std::string word : app->remaining()) {
    if (word.size() > 1 && word[0] == '-') {
      word = word.substr(0, word.find('='));
      fail_input("unknown flag '{}'{}; see {} --help", word, suggestion(word, flags()), command);
    }
    if (!children.empty()) {
      std::vector<std::string> commands;
      for (const auto& child : children) commands.push_back(child->impl_->app->get_name());
      fail_input("unknown command '{}'{}; {} knows {}", word, suggestion(word, commands), command,
                 fmt::join(commands, ", "));
    }
    fail_input("unexpected word '{}'; see {} --help", word, command);
  }
}

const Cli::Impl& Cli::Impl::active() const {
  for (const auto& child : children) {
    if (child->impl_->app->parsed()) return child->impl_->active();
  }
  return *this;
}

Cli::Cli(std::string name, std::string about, std::string examples)
    : impl_(std::make_unique<Impl>(name, std::make_shared<CLI::App>(about), examples)) {
  impl_->app->set_version_flag("--version", fmt::format("{} {}", name, version()),
                               "show the version and stop");
}

Cli::Cli(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Cli::~Cli() = default;

Cli& Cli::flag(const std::string& names, bool& target, const std::string& help) {
  impl_->app->add_flag(names, target, help)->disable_flag_override();  // "--json=no" would be silently true
  return *this;
}

Cli& Cli::option(const std::string& names, std::string& target, const std::string& help, Need need) {
  impl_->add(names, "TEXT", target, need, help, [&target](const std::string& text) { target = text; });
  return *this;
}

namespace {

/// Reads the whole of `text` as a number or refuses it in the name of the option.
template <class T>
T parse_number(const std::string& names, const std::string& text, const char* kind) {
  const char* begin = text.data() + (text.size() > 1 && text[0] == '+' ? 1 : 0);
  const char* end = text.data() + text.size();
  T value{};
  const auto [stop, error] = std::from_chars(begin, end, value);
  const std::string name = names.substr(0, names.find(','));
  if (error == std::errc::result_out_of_range) {
    fail_input("{} takes {}; '{}' is out of range", name, kind, text);
  }
  if (error != std::errc() || stop != end) fail_input("{} takes {}, found '{}'", name, kind, text);
  return value;
}

}  // namespace

Cli& Cli::option(const std::string& names, int64_t& target, const std::string& help, Need need) {
  impl_->add(names, "INT", fmt::to_string(target), need, help, [&target, names](const std::string& text) {
    target = parse_number<int64_t>(names, text, "a whole number");
  });
  return *this;
}

Cli& Cli::option(const std::string& names, double& target, const std::string& help, Need need) {
  impl_->add(names, "NUM", fmt::to_string(target), need, help, [&target, names](const std::string& text) {
    target = parse_number<double>(names, text, "a number");
  });
  return *this;
}

Cli& Cli::option(const std::string& names, std::vector<std::string>& target, const std::string& help,
                 Need need) {
  impl_->add_many(names, target, need, help);
  return *this;
}

Cli& Cli::repeated(const std::string& names, std::vector<std::string>& target, const std::string& help) {
  impl_->add_many(names, target, Need::optional, help)->allow_extra_args(false);
  return *this;
}

Cli& Cli::positional(const std::string& name, std::string& target, const std::string& help, Need need) {
  return option(name, target, help, need);
}

Cli& Cli::positional(const std::string& name, std::vector<std::string>& target, const std::string& help,
                     Need need) {
  return option(name, target, help, need);
}

Cli& Cli::subcommand(const std::string& name, const std::string& about, const std::string& examples) {
  auto app = std::make_shared<CLI::App>(about, name);
  impl_->app->add_subcommand(app);
  impl_->children.emplace_back(new Cli(std::make_unique<Impl>(impl_->command + " " + name, app, examples)));
  return *impl_->children.back();
}

bool Cli::parse(int argc, const char* const* argv) {
  try {
    impl_->app->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(folded(impl_->app->help()).c_str(), stdout);
    return false;
  } catch (const CLI::CallForVersion& version) {
    std::printf("%s\n", version.what());
    return false;
  } catch (const CLI::ParseError& error) {
    const Impl& active = impl_->active();
    active.refuse_unknown_words();  // a mistyped flag is the cause, the missing one its effect
    std::string reason = error.what();
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
      const size_t overridden = reason.find(" was given a disallowed flag override");
      reason = overridden != std::string::npos ? "--" + reason.substr(0, overridden) + " takes no value"
                                               : reason.substr(0, reason.find(':')) + " needs a value";
    }
    fail_input("{}; see {} --help", reason, active.command);
  }
  impl_->refuse_unknown_words();
  const Impl& active = impl_->active();
  active.refuse_unknown_words();
  if (!active.children.empty()) {
    std::vector<std::string> commands;
    for (const auto& child : active.children) commands.push_back(child->impl_->app->get_name());
    fail_input("{} needs a command: {}; see {} --help", active.command, fmt::join(commands, ", "),
               active.command);
  }
  return true;
}

std::string Cli::chosen() const {
  for (const auto& child : impl_->children) {
    if (child->impl_->app->parsed()) return child->impl_->app->get_name();
  }
  return "";
}

bool Cli::given(std::string_view name) const {
  const CLI::Option* option = impl_->app->get_option_no_throw(std::string(name));
  if (option == nullptr) fail_check("{} has no option {}", impl_->command, name);
  return option->count() > 0;
}

}  // namespace tang
