// The large check at sizes that a test can afford: offsets that wrap sooner, strides that are not read.
#include "lib/check/large.h"

#include <doctest/doctest.h>

#include "lib/base/error.h"
#include "lib/ops/attention.h"
#include "lib/ops/cross_entropy.h"
#include "lib/ops/elementwise.h"
#include "lib/ops/embedding.h"
#include "lib/ops/rmsnorm.h"

namespace tang {
namespace {

struct Doubling {
  View x, y;  // [N, C]
};

/// y = 2 x, with the row's offset cut to `bits` bits, and x's rows `apart` elements apart (0: as they are).
template <int bits, int64_t apart>
void twice(CpuDevice&, const Doubling& a) {
  const int64_t from = apart == 0 ? a.x.stride(0) : apart;
  for (int64_t n = 0; n < a.x.dim(0); ++n) {
    const float* x = a.x.as<float>() + (n * from & ((int64_t{1} << bits) - 1));
    for (int64_t c = 0; c < a.x.dim(1); ++c) a.y.as<float>()[n * a.y.stride(0) + c] = 2 * x[c];
  }
}

Op<Doubling> doubling(void (*body)(CpuDevice&, const Doubling&)) {
  using A = Doubling;
  return Op<Doubling>({.name = "doubling",
                       .about = "y = 2 x",
                       .dims = {{"N", "rows", 4}, {"C", "dim", 8}},
                       .operands = {in("x", &A::x, "N C"), out("y", &A::y, "N C")},
                       .strided = {"x", "y"},
                       .reference =
                           [](Ref& r) {
                             for (size_t i = 0; i < r.in("x").size(); ++i)
                               r.out("y").value[i] = 2 * r.in("x")[i];
                           },
                       .impls = {cpu("cpu", body)},
                       .modes = {Dtype::f32}});
}

LargeVerdict verdict(const OpBase& op, const CaseText& text, Dtype mode = Dtype::f32) {
  CpuDevice device(1);
  return examine_large(device, Case(op, text, mode), op.spec().impls.front());
}

}  // namespace

TEST_CASE("check: an offset that wraps is found, one that does not passes") {
  const Op<Doubling> wide = doubling(twice<40, 0>), narrow = doubling(twice<13, 0>);
  CHECK(verdict(wide, "N=4099 C=8").failure.empty());
  CHECK(verdict(wide, "N=4099 C=8").looked_at >= 11);  // the first eight and the last three
  CHECK(verdict(narrow, "N=1024 C=8").failure.empty());
  CHECK(verdict(narrow, "N=4099 C=8").failure.find("y: entry ") == 0);
  // Drawn blocks repeat, and not at a power of two: 2^20 elements on, there are other values.
  const Op<Doubling> wrapping = doubling(twice<20, 0>);
  CHECK(verdict(wrapping, "N=300000 C=8").failure.find("other bits than by themselves") != std::string::npos);
}

TEST_CASE("check: rows that lie apart are read as they lie") {
  const Op<Doubling> right = doubling(twice<40, 0>), packed_only = doubling(twice<40, 8>);
  CHECK(verdict(right, "N=100 C=8 x@24").failure.empty());
  CHECK(verdict(right, "N=100 C=8 y@24").failure.empty());  // what lies between an output's rows is no result
  CHECK(verdict(right, "N=100 C=8 x@9 y@24").failure.empty());
  CHECK(verdict(packed_only, "N=100 C=8").failure.empty());
  CHECK(verdict(packed_only, "N=100 C=8 x@24").failure == "a packed copy gives other bits");
  CHECK_THROWS_WITH_AS(verdict(right, "N=100 C=8 x@7"), doctest::Contains("rows of x have 8 elements"),
                       Error);
  CHECK_THROWS_WITH_AS(verdict(right, "N=100 C=8 z@24"), doctest::Contains("no operand with rows"), Error);
}

TEST_CASE("check: a large case that does not fit the machine is skipped") {
  const Op<Doubling> op = doubling(twice<40, 0>);
  const LargeVerdict found = verdict(op, "N=1000000000000 C=8");
  CHECK(found.skipped.find("out of memory") != std::string::npos);
  CHECK(found.failure.empty());
  // Each operand alone would fit, and the system would promise both.
  const auto rows = static_cast<int64_t>(0.6 * static_cast<double>(CpuDevice(1).caps().memory_bytes) / 32);
  CHECK(verdict(op, "N=" + std::to_string(rows) + " C=8").skipped.find("out of memory") == 0);
  const std::string few = std::to_string(rows / 20);
  CHECK(verdict(op, "N=" + few + " C=8 x@260").skipped.find("out of memory") == 0);
}

TEST_CASE("check: a large check that would look at nothing is refused") {
  const Op<Doubling> op = doubling(twice<40, 0>);
  CHECK_THROWS_WITH_AS(verdict(op, "N=0 C=8"), "doubling: the case 'N=0 C=8' has N = 0: no entry to look at",
                       Error);
  CHECK_THROWS_WITH_AS(verdict(embedding_backward, "N=30 V=7 C=3"),
                       "embedding_backward: no output has a row for each N, so there is nothing to look at",
                       Error);
  CHECK_THROWS_AS(verdict(transpose, "R=9 C=7"), Error);  // an output has R inside
  CHECK_THROWS_WITH_AS(check_large({.ops = {"next_token", "transpose"}, .device = "cpu"}),
                       "next_token, transpose registers no large case: give one with --case", Error);
}

TEST_CASE("check: the registered ops pass the large check at small sizes") {
  for (const Dtype mode : {Dtype::f32, Dtype::bf16}) {
    CHECK(verdict(rmsnorm_forward, "N=1001 C=64", mode).failure.empty());
    CHECK(verdict(rmsnorm_backward, "N=1001 C=64", mode).failure.empty());
    CHECK(verdict(cross_entropy, "N=301 W=257", mode)
              .failure.empty());  // odd rows: bits depend on 16-byte borders
    CHECK(verdict(attention_backward, "B=33 T=9 H=2 Hkv=1 D=8 d_o@40", mode).failure.empty());
  }
}

}  // namespace tang
