// The checker is checked: each kind of fault, put into a small op of our own, must be found.
#include <doctest/doctest.h>

#include <cstring>
#include <limits>

#include "lib/check/exam.h"
#include "lib/check/grad.h"

namespace tang {
namespace {

struct Scaling {
  View x;  // [N, C]
  View y;  // [N, C] = factor · x; may be x's memory
  float factor = 2;
};

struct ScalingBackward {
  View dy, dx;  // [N, C]
  float factor = 2;
};

using Body = void (*)(CpuDevice&, const Scaling&);

void for_each(const Scaling& a, const std::function<void(const float*, float*, int64_t)>& row) {
  for (int64_t n = 0; n < a.x.dim(0); ++n)
    row(a.x.as<float>() + n * a.x.stride(0), a.y.as<float>() + n * a.y.stride(0), a.x.dim(1));
}

void right(CpuDevice&, const Scaling& a) {
  for_each(a, [&](const float* x, float* y, int64_t dim) {
    for (int64_t c = 0; c < dim; ++c) y[c] = a.factor * x[c];
  });
}

Op<Scaling> scaling(Body body, void (*plain)(Ref&) = nullptr) {
  using A = Scaling;
  return Op<Scaling>({.name = "scaling",
                      .about = "y = factor * x",
                      .dims = {{"N", "rows", 4}, {"C", "dim", 8}},
                      .operands = {in("x", &A::x, "N C"), out("y", &A::y, "N C")},
                      .scalars = {scalar("factor", &A::factor, {2, 3, 5})},
                      .cases = {"N=3 C=5", "N=2 C=8 factor=7"},
                      .strided = {"x", "y"},
                      .where = {"C > 0"},
                      .in_place = {{"x", "y"}},
                      .reference =
                          [](Ref& r) {
                            for (size_t i = 0; i < r.in("x").size(); ++i) {
                              r.out("y").value[i] = r.scalar("factor") * r.in("x")[i];
                              r.out("y").magnitude[i] = std::abs(r.out("y").value[i]);
                            }
                          },
                      .plain = plain,
                      .flops = "N*C",
                      .impls = {cpu("cpu", body)},
                      .modes = {Dtype::f32}});
}

/// The failure that examining `body` gives.
std::string failure_of(Body body, const CaseText& text = "N=3 C=5", void (*plain)(Ref&) = nullptr) {
  const Op<Scaling> op = scaling(body, plain);
  Exam exam{Case(op, text, Dtype::f32)};
  exam.compute();
  CpuDevice device;
  return examine(exam, device, op.spec().impls[0]).failure;
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("check: a right implementation passes packed, strided, in place and repeated") {
  CHECK(failure_of(right) == "");
  CHECK(failure_of(right, "N=3 C=5 @strided factor=0.3 x~large_mean") == "");
}

TEST_CASE("check: a wrong element is named with its values") {
  const std::string failure = failure_of([](CpuDevice& device, const Scaling& a) {
    right(device, a);
    a.y.as<float>()[a.y.stride(0) + 2] *= 1.0001f;
  });
  CHECK(contains(failure, "y[7]: got "));
  CHECK(contains(failure, "1 of 15 elements"));
}

TEST_CASE("check: an element that is not written is found") {
  CHECK(contains(failure_of([](CpuDevice&, const Scaling& a) {
                   for_each(a, [&](const float* x, float* y, int64_t dim) {
                     for (int64_t c = 0; c + 1 < dim; ++c) y[c] = a.factor * x[c];
                   });
                 }),
                 "nan, wanted"));
}

TEST_CASE("check: a write past the end, before the start or between rows is found") {
  CHECK(contains(failure_of([](CpuDevice& device, const Scaling& a) {
                   right(device, a);
                   a.y.as<float>()[(a.y.dim(0) - 1) * a.y.stride(0) + a.y.dim(1)] = 1;
                 }),
                 "past the end of y"));
  CHECK(contains(failure_of([](CpuDevice& device, const Scaling& a) {
                   right(device, a);
                   a.y.as<float>()[-1] = 1;
                 }),
                 "before the start of y"));
  CHECK(contains(failure_of(
                     [](CpuDevice& device, const Scaling& a) {
                       right(device, a);
                       if (a.y.stride(0) > a.y.dim(1)) a.y.as<float>()[a.y.dim(1)] = 1;
                     },
                     "N=3 C=5 @strided"),
                 "between the rows of y"));
}

TEST_CASE("check: a read past the end poisons the result") {
  CHECK(contains(failure_of([](CpuDevice&, const Scaling& a) {
                   for_each(a, [&](const float* x, float* y, int64_t dim) {
                     for (int64_t c = 0; c < dim; ++c) y[c] = a.factor * x[c] + 0 * x[dim * 3];
                   });
                 }),
                 "nan, wanted"));
}

TEST_CASE("check: a changed input is found") {
  CHECK(contains(failure_of([](CpuDevice& device, const Scaling& a) {
                   right(device, a);
                   if (a.x.data != a.y.data) a.x.as<float>()[3] = 9;
                 }),
                 "changed input x at element 3"));
}

TEST_CASE("check: runs that differ, ignored strides and a broken run in place are found") {
  static int calls = 0;
  calls = 0;
  CHECK(contains(failure_of([](CpuDevice&, const Scaling& a) {
                   ++calls;
                   for_each(a, [&](const float* x, float* y, int64_t dim) {
                     for (int64_t c = 0; c < dim; ++c) y[c] = a.factor * x[c] * (1 + (calls > 1) * 0x1p-23f);
                   });
                 }),
                 "a second run gives other bits: y[0]"));
  CHECK(contains(failure_of(
                     [](CpuDevice&, const Scaling& a) {
                       for (int64_t i = 0; i < a.x.size(); ++i)
                         a.y.as<float>()[i] = a.factor * a.x.as<float>()[i];
                     },
                     "N=3 C=5 @strided"),
                 "the run with rows 8 elements apart"));
  CHECK(contains(failure_of([](CpuDevice&, const Scaling& a) {
                   for_each(a, [&](const float* x, float* y, int64_t dim) {
                     for (int64_t c = 0; c < dim; ++c) y[c] = 0;
                     for (int64_t c = 0; c < dim; ++c) y[c] = a.factor * x[c];
                   });
                 }),
                 "the run in place gives other bits"));
}

TEST_CASE("check: FA-RULE holds an implementation against the plain version's error") {
  const Body rough = [](CpuDevice&, const Scaling& a) {
    for_each(a, [&](const float* x, float* y, int64_t dim) {
      for (int64_t c = 0; c < dim; ++c) y[c] = a.factor * x[c] * (1 + 0x1p-22f);
    });
  };
  const auto exact = [](Ref& r) {
    for (size_t i = 0; i < r.in("x").size(); ++i) r.out("y").value[i] = r.scalar("factor") * r.in("x")[i];
  };
  CHECK(failure_of(rough) == "");  // within the tolerance
  CHECK(contains(failure_of(rough, "N=3 C=5", exact), "but the plain version's is 0"));
  CHECK(failure_of(right, "N=3 C=5", exact) == "");
}

TEST_CASE("check: each further value of a scalar gets a case, unless the case sets it") {
  const Op<Scaling> op = scaling(right);
  std::vector<std::string> texts;
  for (const Case& plan : expand_cases(op, Dtype::f32)) texts.push_back(plan.text());
  CHECK(texts ==
        std::vector<std::string>{"N=3 C=5", "N=3 C=5 factor=3", "N=3 C=5 factor=5", "N=2 C=8 factor=7"});
}

TEST_CASE("check: tolerance is the documented formula") {
  RefOutput output;
  output.value = {3.0};
  output.magnitude = {2.0};
  output.terms = 60;
  output.extra_roundings = 2;
  output.product_roundoff = 0x1p-11;
  const double expected = 0x1p-8 * 3 + 4 * 0x1p-24 * 8 * 2 + 2 * 0x1p-8 * 2 + 0x1p-11 * 2;
  CHECK(tolerance(output, 0, Dtype::bf16, Dtype::bf16) == doctest::Approx(expected).epsilon(1e-12));
}

TEST_CASE("check: NaN and infinity agree only with themselves") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  RefOutput output;
  output.value = {nan, 1.0, inf, 1e39};
  output.magnitude.assign(4, 1.0);
  const auto wrong = [&](std::vector<double> got) {
    return compare(got, output, Dtype::f32, Dtype::f32).wrong;
  };
  CHECK(wrong({nan, 1.0, inf, inf}) == 0);
  CHECK(wrong({0.0, 1.0, inf, inf}) == 1);
  CHECK(wrong({nan, nan, -inf, 1.0}) == 3);
}

TEST_CASE("check: a run without cases fails") {
  CHECK(Counts{}.close() == 1);
  CHECK(Counts{.passed = 2, .skipped = 1}.close() == 0);
  CHECK(Counts{.passed = 2, .failed = 1}.close() == 1);
}

TEST_CASE("check: the gradient check tells a right backward from a wrong one") {
  static const Op<Scaling> forward = scaling(right);
  using A = ScalingBackward;
  const auto backward = [](double error) {
    return Op<ScalingBackward>({.name = "scaling_backward",
                                .about = "dx = factor * dy",
                                .dims = {{"N", "rows", 4}, {"C", "dim", 8}},
                                .operands = {in("dy", &A::dy, "N C"), out("dx", &A::dx, "N C")},
                                .scalars = {scalar("factor", &A::factor, {2})},
                                .cases = {"N=3 C=5"},
                                .reference =
                                    [error](Ref& r) {
                                      for (size_t i = 0; i < r.in("dy").size(); ++i)
                                        r.out("dx").value[i] =
                                            r.scalar("factor") * r.in("dy")[i] * (1 + error);
                                    },
                                .gradient_of = &forward});
  };
  CHECK(check_gradient(backward(0)).failed == 0);
  CHECK(check_gradient(backward(1e-5)).failed == 1);
}

}  // namespace tang
