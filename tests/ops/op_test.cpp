#include "lib/ops/op.h"

#include <doctest/doctest.h>

#include <vector>

#include "lib/base/error.h"
#include "lib/ops/catalog.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/rope.h"

namespace tang {
namespace {

/// An op that exists only here: y[n] = which implementation ran.
struct Probe {
  View x;      // [N, C], or [C, N] when flipped
  View extra;  // [2*N] optional
  View y;      // f32 [N]
  bool flipped = false;
};

void first(CpuDevice&, const Probe& a) { a.y.as<float>()[0] = 1; }
void second(CpuDevice&, const Probe& a) { a.y.as<float>()[0] = 2; }

Impl picky() {
  Impl impl = cpu("cpu:picky", first);
  impl.supports = [](const DeviceCaps&, const void* args) {
    return static_cast<const Probe*>(args)->x.packed() ? "rows must lie apart" : "";
  };
  return impl;
}

const Op<Probe> probe{OpSpec{
    .name = "probe",
    .operands = {in("x", &Probe::x, "N C").transposed_if("flipped"),
                 in("extra", &Probe::extra, "2*N", Rule::f32).optional(),
                 out("y", &Probe::y, "N", Rule::f32)},
    .scalars = {scalar("flipped", &Probe::flipped, {0, 1})},
    .where = {"C % 2 == 0"},
    .impls = {picky(), cpu("cpu", first), cpu("cpu:second", second)},
}};

std::vector<float>& memory() {
  static std::vector<float> floats(64);
  return floats;
}
View floats(std::initializer_list<int64_t> dims) { return View(memory().data(), Dtype::f32, dims); }

std::string refusal(const Probe& args) {
  try {
    probe.bind(&args);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("op: a mismatch names both operands and both numbers") {
  CHECK(refusal({.x = floats({3, 4}), .y = floats({3})}) == "");
  CHECK(refusal({.x = floats({3, 4}), .y = floats({5})}) ==
        "probe: dimension 0 of y is 5, but N = 3 in x f32 [3, 4] (y is f32 [5])");
  CHECK(refusal({.x = floats({3, 4}), .extra = floats({5}), .y = floats({3})}) ==
        "probe: dimension 0 of extra is 5, but 2*N = 6 (extra is f32 [5])");
  CHECK(refusal({.x = floats({3, 4}), .extra = floats({6}), .y = floats({3})}) == "");
}

TEST_CASE("op: absent operands, ranks, dtypes and gaps in the last dimension are refused") {
  CHECK(refusal({.y = floats({3})}) == "probe: operand x [N C] is missing");
  CHECK(refusal({.x = floats({12}), .y = floats({3})}) == "probe: x must be [N C], found f32 [12]");
  CHECK(refusal({.x = View(memory().data(), Dtype::u32, {3, 4}), .y = floats({3})}) ==
        "probe: data must be f32 or bf16, found u32");
  CHECK(refusal({.x = floats({3, 4}), .y = View(memory().data(), Dtype::bf16, {3})}) ==
        "probe: y must be f32 when the op runs in f32, found bf16 [3]");
  View gaps = floats({3, 4});
  gaps.strides = {8, 2};
  CHECK(refusal({.x = gaps, .y = floats({3})}) ==
        "probe: the last dimension of x must be contiguous, found f32 [3, 4] with strides [8, 2]");
}

TEST_CASE("op: a transposed operand binds its dims in reverse") {
  CHECK(refusal({.x = floats({4, 3}), .y = floats({3}), .flipped = true}) == "");
  CHECK(refusal({.x = floats({4, 3}), .y = floats({4}), .flipped = true}).find("N = 3 in x") !=
        std::string::npos);
}

TEST_CASE("op: rules are refused with the values they saw") {
  CHECK(refusal({.x = floats({2, 3}), .y = floats({2})}) == "probe: needs C % 2 == 0, found C = 3");
  const RopeForward past = {.x = floats({1, 4, 1, 2}),
                            .cos = floats({6, 1}),
                            .sin = floats({6, 1}),
                            .y = floats({1, 4, 1, 2}),
                            .position = 3};
  CHECK_THROWS_WITH_AS(rope_forward.bind(&past), doctest::Contains("needs position + T <= P"), Error);
}

TEST_CASE("op: the first implementation that supports the arguments runs, unless one is named or preferred") {
  CpuDevice device(1);
  float y = 0;
  Probe args{.x = floats({1, 4}), .y = View(&y, Dtype::f32, {1})};
  CHECK(probe.choose(device, &args).name == "cpu");
  CHECK(probe.choose(device, &args, "cpu:second").name == "cpu:second");
  probe(device, args);
  CHECK(y == 1);
  probe.prepare(device, args, "cpu:second")();
  CHECK(y == 2);
  CHECK_THROWS_WITH_AS(probe.choose(device, &args, "cpu:picky"), doctest::Contains("rows must lie apart"),
                       Error);
  CHECK_THROWS_WITH_AS(probe.choose(device, &args, "cuda"),
                       doctest::Contains("no implementation 'cuda' for cpu"), Error);
  View apart = floats({2, 4});
  apart.strides = {8, 1};
  const Probe strided{.x = apart, .y = floats({2})};
  CHECK(probe.choose(device, &strided).name == "cpu:picky");
  override_impl("probe", "cpu:second");
  CHECK(probe.choose(device, &args).name == "cpu:second");
  override_impl("probe", "cpu");
  CHECK(probe.choose(device, &args).name == "cpu");
}

TEST_CASE("op: an empty output runs nothing") {
  CpuDevice device(1);
  memory()[0] = 5;
  probe(device, {.x = floats({0, 4}), .y = floats({0})});
  CHECK(memory()[0] == 5);
}

TEST_CASE("op: scratch is sized from the shapes and lent in aligned pieces") {
  RmsNormBackward args{.dy = floats({3, 5}),
                       .x = floats({3, 5}),
                       .w = floats({5}),
                       .rstd = floats({3}),
                       .dx = floats({3, 5}),
                       .dw = floats({5})};
  CHECK(rmsnorm_backward.scratch_bytes(&args) == 384 * 5 * 4);
  rmsnorm_backward.lend_scratch(&args, memory().data());
  CHECK(describe(args.partials) == "f32 [384, 5]");
}

TEST_CASE("op: every op's own words are consistent") {
  for (const OpBase* op : catalog()) {
    CAPTURE(op->name());
    CHECK(&find_op(op->name()) == op);
    CHECK_FALSE(op->spec().about.empty());
    CHECK_FALSE(op->spec().cases.empty());
    CHECK(op->spec().reference != nullptr);
    for (const std::string& name : op->spec().strided) CHECK(op->operand(name).name == name);
    for (const auto& [input, output] : op->spec().in_place) {
      CHECK(op->operand(input).role == Role::in);
      CHECK(op->operand(output).role != Role::in);
    }
    for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda}) {
      const auto& impls = op->spec().impls;
      CHECK(std::any_of(impls.begin(), impls.end(), [&](const Impl& impl) { return impl.kind == kind; }));
    }
  }
  CHECK_THROWS_WITH_AS(find_op("rmsnorm"),
                       "'rmsnorm' is several ops: choose one of rmsnorm_forward, rmsnorm_backward", Error);
  CHECK_THROWS_WITH_AS(find_op("rmsnorm_forwrd"), doctest::Contains("did you mean 'rmsnorm_forward'"), Error);
  CHECK(find_family("softmax").size() == 2);
}

}  // namespace tang
