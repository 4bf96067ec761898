// The registration of RoPE, and its tables.
#include "lib/ops/rope.h"

#include <cmath>

#include "lib/base/error.h"

namespace tang {

namespace {

const std::vector<Dim> rope_dims = {{"B", "batch", 32},       {"T", "seq", 1024},
                                    {"H", "heads", 16},       {"D", "head-dim", 64},
                                    {"P", "positions", 1024}, {"R2", "rotary-half", 32}};
const std::vector<std::string> rope_rules = {"2*R2 <= D", "position >= 0", "position + T <= P"};
const std::vector<CaseText> rope_cases = {
    "B=1 T=1 H=1 D=2 R2=1 P=1",
    "B=1 T=2 H=2 D=6 R2=2 P=2",
    "B=1 T=2 H=2 D=6 R2=2 P=5 position=3",
    "B=2 T=7 H=3 D=64 R2=32 P=7",
    "B=2 T=33 H=14 D=64 R2=32 P=40 position=7 @strided",
    "B=3 T=5 H=15 D=59 R2=29 P=5",
    "B=1 T=65 H=8 D=128 R2=64 P=65",
    "B=2 T=9 H=5 D=96 R2=32 P=9",
    "B=2 T=9 H=5 D=96 R2=32 P=9 @strided",
    "B=1 T=127 H=1 D=80 R2=40 P=127",
    "B=2 T=3 H=6 D=256 R2=128 P=1023 position=1020",
    "B=1 T=17 H=33 D=10 R2=4 P=17 @strided",
};

/// Decoding, besides: a position of its own for each sequence.
std::vector<CaseText> forward_cases() {
  std::vector<CaseText> cases = rope_cases;
  for (const char* text :
       {"B=1 T=1 H=2 D=6 R2=2 P=9 +start start~last", "B=7 T=1 H=16 D=64 R2=32 P=129 +start",
        "B=3 T=17 H=5 D=59 R2=29 P=65 +start @strided", "B=2 T=3 H=8 D=128 R2=64 P=40 position=7 +start",
        "B=65 T=1 H=2 D=80 R2=32 P=1000 +start @strided"})
    cases.push_back(text);
  return cases;
}

OpSpec forward_spec() {
  using A = RopeForward;
  return {
      .name = "rope_forward",
      .about =
          "pairs (x[i], x[i + R2]) turned by the angle of their position; dims from 2*R2 on pass through",
      .dims = rope_dims,
      .operands = {in("x", &A::x, "B T H D"), in("cos", &A::cos, "P R2", Rule::f32),
                   in("sin", &A::sin, "P R2", Rule::f32), in("start", &A::start, "B", Rule::u32).rare(),
                   out("y", &A::y, "B T H D")},
      .scalars = {scalar("position", &A::position, {0})},
      .cases = forward_cases(),
      .large = {"B=262145 T=2 H=64 D=64 R2=32 P=2"},
      .strided = {"x", "y"},
      .where = rope_rules,
      .fill = {below("start", "P-T-position+1")},
      .in_place = {{"x", "y"}},
      .reference = rope_forward_reference,
      .flops = "6*B*T*H*R2",
      .impls = {cpu("cpu", rope_forward_cpu), cuda("cuda", rope_forward_cuda)},
  };
}

OpSpec backward_spec() {
  using A = RopeBackward;
  return {
      .name = "rope_backward",
      .about = "the forward's turn, the other way",
      .dims = rope_dims,
      .operands = {in("dy", &A::dy, "B T H D"), in("cos", &A::cos, "P R2", Rule::f32),
                   in("sin", &A::sin, "P R2", Rule::f32), out("dx", &A::dx, "B T H D")},
      .scalars = {scalar("position", &A::position, {0})},
      .cases = rope_cases,
      .large = {"B=262145 T=2 H=64 D=64 R2=32 P=2"},
      .strided = {"dy", "dx"},
      .where = rope_rules,
      .in_place = {{"dy", "dx"}},
      .reference = rope_backward_reference,
      .flops = "6*B*T*H*R2",
      .gradient_of = &rope_forward,
      .impls = {cpu("cpu", rope_backward_cpu), cuda("cuda", rope_backward_cuda)},
  };
}

}  // namespace

const Op<RopeForward> rope_forward{forward_spec()};
const Op<RopeBackward> rope_backward{backward_spec()};

RopeTables rope_tables(int64_t positions, int64_t rotary_dims, double theta) {
  if (positions < 0) fail_input("RoPE tables for {} positions; give 0 or more", positions);
  if (rotary_dims < 0 || rotary_dims % 2 != 0)
    fail_input("rotary dims must be even (they turn in pairs), found {}", rotary_dims);
  if (!(theta > 0)) fail_input("RoPE's theta must be positive, found {}", theta);
  const int64_t half = rotary_dims / 2;
  RopeTables tables;
  tables.cos.resize(static_cast<size_t>(checked_product({positions, half}, "a RoPE table's size")));
  tables.sin.resize(tables.cos.size());
  for (int64_t i = 0; i < half; ++i) {
    const double frequency =
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dims));
    for (int64_t position = 0; position < positions; ++position) {
      const double angle = static_cast<double>(position) * frequency;
      tables.cos[position * half + i] = static_cast<float>(std::cos(angle));
      tables.sin[position * half + i] = static_cast<float>(std::sin(angle));
    }
  }
  return tables;
}

}  // namespace tang
