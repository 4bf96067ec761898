// tang-bench OP: proves an implementation at a small shape, times it at the shapes asked for, and reports
// against the measured roofs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/ops/op.h"

namespace tang {

struct BenchOptions {
  std::vector<std::string> ops;  // op or family names; empty: all
  std::map<std::string, std::string>
      flags;                    // dimension flag ("seq") -> value, list or sweep; "" is not given
  std::string device = "auto";  // auto, cpu, cuda, cuda:N, all
  std::string dtype = "all";    // f32, bf16, all
  std::string impl;             // "": the one the model would run; a name; all
  std::string words;            // scalars and operand words as in a case: "tf32=1 c:f32"
  bool json = false;            // one object per line instead of the table
};

/// Prints a row per shape, dtype and implementation. A row that fails (wrong result, refused shape, out of
/// memory) gives its reason instead of a time, and the sweep goes on. Returns the exit code: 1 when a row
/// failed. Shapes that the op refuses altogether are an input error.
int run_bench(const BenchOptions& options);

/// One op at one shape, as something uses it.
struct BenchShape {
  const OpBase* op = nullptr;
  CaseText text;
  Dtype mode = Dtype::f32;
  int64_t calls = 0;  // a step
};

/// The same rows for these shapes, each below the command that times it alone.
int bench_shapes(Device& device, const std::vector<BenchShape>& shapes, bool json);

/// "tang-bench matmul --m 64 --n 32 --k 16 --dtype f32 --case=\"transpose_b=1\"".
std::string bench_command(const BenchShape& shape);

/// The measured roofs of the devices.
int print_peaks(const std::string& device);

}  // namespace tang
