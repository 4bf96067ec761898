// The shapes of a bench: one value, a list or a sweep for each dimension.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/ops/op.h"

namespace tang {

/// "512" · "512,1024" · "512:8192:*2" · "512:2048:+512" (both ends included). An input error names `flag`.
std::vector<int64_t> parse_sweep(const std::string& flag, const std::string& text);

/// One bench shape: the case's text, and the part of it that varies over the sweep.
struct SweepPoint {
  CaseText text, varying;
};

struct Sweep {
  std::string fixed;  // "B=32 H=16 …": the same at every point
  std::vector<SweepPoint> points;
};

/// Every combination of the flags' values for the op's dims, the last dim fastest; dims without a flag have
/// their bench default. On the CPU the first dims without a flag are halved until one run costs at most 2e10
/// operations and moves at most 1 GiB: defaults are meant for a GPU. `words` go into every case ("tf32=1").
Sweep make_sweep(const OpBase& op, const std::map<std::string, std::string>& flags, const std::string& words,
                 DeviceKind kind);

/// The same op and words with the leading dims halved until the reference is quick: what an implementation
/// must pass before it is timed. Falls back to `text` where nothing can be halved.
CaseText gate_case(const OpBase& op, const CaseText& text, Dtype mode);

}  // namespace tang
