// One of the built programs as a user runs it.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "lib/base/file.h"

namespace tang {

struct Outcome {
  int exit_code = -1;  // 128 + the signal, for a program that died of one
  std::string text;    // stdout and stderr
};

/// On one thread; `arguments` as a shell reads them.
inline Outcome run_program(const std::string& program, const std::string& arguments) {
  const std::string command =
      "OMP_NUM_THREADS=1 " + (fs::path(TANG_BINARY_DIR) / program).string() + " " + arguments + " 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  Outcome outcome;
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> chunk;
  for (size_t count; (count = std::fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) {
    outcome.text.append(chunk.data(), count);
  }
  const int status = ::pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace tang
