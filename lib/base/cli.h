// Command lines. The one wrapper around CLI11 (which costs 5 s a source file): declare, parse, done.
//
//   Cli cli("tang-data", "Turns text into token shards.", "tang-data synth --out d --tokens 1000");
//   Cli& synth = cli.subcommand("synth", "a corpus of known entropy", "…");
//   synth.option("--out", out, "folder to write", Need::required).flag("--json", json, "print JSON");
//   if (!cli.parse(argc, argv)) return 0;  // --help or --version was printed
//   if (cli.chosen() == "synth") …
//
// Every mistake on the command line is one input error (exit 2): unknown flags and commands name the nearest
// known one. `--x V` and `--x=V` are the same, and of a repeated single-valued option the last one wins.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tang {

enum class Need { optional, required };

class Cli {
 public:
  /// `examples`: lines of whole commands shown at the end of --help, which breaks every text at 80 columns.
  Cli(std::string name, std::string about, std::string examples = "");
  ~Cli();
  Cli(const Cli&) = delete;
  Cli& operator=(const Cli&) = delete;

  /// A switch. `names` as typed, dashes included, the long one first: "--json" or "--output,-o".
  Cli& flag(const std::string& names, bool& target, const std::string& help);

  /// A value after the name. What `target` holds is shown as the default unless empty or required. A vector
  /// takes one or more words at a time and may be repeated.
  Cli& option(const std::string& names, std::string& target, const std::string& help, Need = Need::optional);
  Cli& option(const std::string& names, int64_t& target, const std::string& help, Need = Need::optional);
  Cli& option(const std::string& names, double& target, const std::string& help, Need = Need::optional);
  Cli& option(const std::string& names, std::vector<std::string>& target, const std::string& help,
              Need = Need::optional);

  /// One word after the name, which is given again for each further one: what follows stays positional, so
  /// that "--impl a=b train.steps=5" sets a key.
  Cli& repeated(const std::string& names, std::vector<std::string>& target, const std::string& help);

  /// A word without a flag, in the order declared; a vector takes all that are left (tang-train's key=value).
  Cli& positional(const std::string& name, std::string& target, const std::string& help,
                  Need = Need::optional);
  Cli& positional(const std::string& name, std::vector<std::string>& target, const std::string& help,
                  Need = Need::optional);

  /// A command below this one, to be filled by the caller; lives as long as its parent. A program that has
  /// commands requires one.
  Cli& subcommand(const std::string& name, const std::string& about, const std::string& examples = "");

  /// Reads the command line into the targets. False: --help or --version was printed and the program is done.
  [[nodiscard]] bool parse(int argc, const char* const* argv);

  /// The subcommand that was typed, or "".
  std::string chosen() const;

  /// Whether the option, flag or positional of that name ("--seed") was typed.
  bool given(std::string_view name) const;

 private:
  struct Impl;
  explicit Cli(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The version of this build, such as "0.1.0".
std::string_view version();

}  // namespace tang
