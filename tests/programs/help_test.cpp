// What every program's --help looks like.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/text.h"
#include "tests/run_program.h"

using namespace tang;

namespace {

/// The lines that `tang-PROGRAM WORDS --help` prints.
std::vector<std::string> help_of(const std::string& words) {
  const Outcome outcome = run_program("tang-" + words, "--help");
  CHECK_MESSAGE(outcome.exit_code == 0, words);
  return split(outcome.text, '\n');
}

/// The commands that a help lists.
std::vector<std::string> commands_in(const std::vector<std::string>& help) {
  std::vector<std::string> commands;
  auto line = std::find(help.begin(), help.end(), "Subcommands:");
  while (line != help.end() && ++line != help.end() && line->starts_with("  ")) {
    if ((*line)[2] != ' ') commands.push_back(words(*line).front());  // else the line before goes on
  }
  return commands;
}

void check_width(const std::vector<std::string>& help) {
  for (const std::string& line : help) CHECK_MESSAGE(line.size() <= 80, line);
}

}  // namespace

TEST_CASE("programs: every help fits 80 columns, the commands' too") {
  for (const std::string program : {"train", "check", "bench", "generate", "data"}) {
    const std::vector<std::string> help = help_of(program);
    check_width(help);
    const std::vector<std::string> commands = commands_in(help);
    CHECK(commands.empty() == (program == "train" || program == "generate"));
    for (const std::string& command : commands) {
      const bool is_op = program == "bench" && command != "step" && command != "peaks";
      if (!is_op || command == "project_append") check_width(help_of(program + " " + command));
    }
  }
}
