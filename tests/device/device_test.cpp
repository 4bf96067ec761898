#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "lib/base/error.h"
#include "lib/device/cpu_device.h"
#include "lib/device/cuda_device.h"
#include "lib/device/simd.h"

namespace tang {
namespace {

ErrorKind kind_of_opening(const std::string& name) {
  try {
    open_device(name, false);
  } catch (const Error& error) {
    return error.kind();
  }
  FAIL("opened");
  return ErrorKind::check;
}

}  // namespace

TEST_CASE("device: plan_copy_2d refuses each bad dimension by name") {
  const int64_t huge = std::numeric_limits<int64_t>::max() / 2;
  const Copy2d good = {Dtype::f32, 2, 5, 1, 4, 3, 6};  // source: 2 + 5·5 + 3 = 30, target: 1 + 5·4 + 3 = 24
  CHECK_NOTHROW(plan_copy_2d(good, 30, 24));
  struct Bad {
    int64_t Copy2d::*field;
    int64_t value;
    const char* says;
  };
  const Bad cases[] = {{&Copy2d::width, 0, "width is 0"},
                       {&Copy2d::height, 0, "height is 0"},
                       {&Copy2d::height, -1, "height is -1"},
                       {&Copy2d::source_offset, -1, "source_offset is -1"},
                       {&Copy2d::target_offset, -1, "target_offset is -1"},
                       {&Copy2d::source_pitch, 2, "source_pitch 2 is below width 3"},
                       {&Copy2d::target_pitch, 2, "target_pitch 2 is below width 3"},
                       {&Copy2d::source_offset, 3, "source region ends at element 31 of 30"},
                       {&Copy2d::target_offset, 2, "target region ends at element 25 of 24"},
                       {&Copy2d::source_pitch, huge, "source_pitch"},
                       {&Copy2d::target_pitch, huge, "target_pitch"}};
  for (const Bad& bad : cases) {
    Copy2d plan = good;
    plan.*bad.field = bad.value;
    CHECK_THROWS_WITH_AS(plan_copy_2d(plan, 30, 24), doctest::Contains(bad.says), Error);
  }
  CHECK_THROWS_WITH_AS(plan_copy_2d(good, 29, 24), doctest::Contains("source region"), Error);
  CHECK_THROWS_WITH_AS(plan_copy_2d(good, 30, 23), doctest::Contains("target region"), Error);
}

TEST_CASE("device: a 2-D copy moves the region and nothing else") {
  CpuDevice cpu;
  Device& device = cpu;
  std::vector<float> source(30), target(24, -1.0f), expected = target;
  for (int i = 0; i < 30; ++i) source[i] = static_cast<float>(i);
  for (int row = 0; row < 6; ++row) {
    for (int column = 0; column < 3; ++column) {
      expected[1 + 4 * row + column] = static_cast<float>(2 + 5 * row + column);
    }
  }
  device.copy_2d(target.data(), source.data(), plan_copy_2d({Dtype::f32, 2, 5, 1, 4, 3, 6}, 30, 24));
  CHECK(target == expected);
}

TEST_CASE("device: names that open") {
  CHECK(open_device("cpu")->kind() == DeviceKind::cpu);
  CHECK(kind_of_opening("gpu") == ErrorKind::input);
  CHECK(kind_of_opening("cuda:x") == ErrorKind::input);
  CHECK(kind_of_opening("cuda:") == ErrorKind::input);
  CHECK(kind_of_opening("cuda:-1") == ErrorKind::input);
  CHECK(kind_of_opening("cuda:99999") == ErrorKind::machine);
  CHECK_THROWS_WITH_AS(open_device("cudda"), doctest::Contains("did you mean 'cuda'"), Error);
}

TEST_CASE("device: without a GPU, auto is the CPU and cuda is a machine error" *
          doctest::skip(cuda_available())) {
  CHECK(open_device("auto", false)->kind() == DeviceKind::cpu);
  CHECK(kind_of_opening("cuda") == ErrorKind::machine);
  CHECK(cuda_device_count() == 0);
}

TEST_CASE("device: buffers move, free once, and lend only what they hold") {
  CpuDevice device;
  Buffer first = device.allocate_zeroed(40);
  CHECK(reinterpret_cast<uintptr_t>(first.data()) % 256 == 0);
  CHECK(first.view(Dtype::f32, {2, 5}).as<float>()[9] == 0);
  void* data = first.data();
  Buffer second = std::move(first);
  CHECK(second.data() == data);
  CHECK(first.data() == nullptr);
  CHECK(first.bytes() == 0);
  second = device.allocate(8);
  CHECK(second.bytes() == 8);
  CHECK(second.view(Dtype::bf16, {2}, 4).data == static_cast<char*>(second.data()) + 4);
  CHECK_THROWS_AS(second.view(Dtype::f32, {3}), Error);
  CHECK_THROWS_AS(second.view(Dtype::f32, {1}, 2), Error);
  CHECK_THROWS_AS(second.view(Dtype::f32, {1}, 8), Error);
  CHECK(device.allocate(0).bytes() == 0);
}

TEST_CASE("device: more memory than the machine has is a machine error") {
  CpuDevice device;
  try {
    device.allocate(int64_t{1} << 60);
    FAIL("allocated");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::machine);
  }
}

TEST_CASE("device: parallel_for covers every item once, in ranges of at least the grain") {
  const CpuDevice device(3);
  for (int64_t count : {0, 1, 2, 7, 100}) {
    for (int64_t grain : {1, 4, 1000}) {
      std::vector<std::atomic<int>> seen(count);
      device.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
        CHECK((end - begin >= grain || end == count));
        for (int64_t i = begin; i < end; ++i) ++seen[i];
      });
      for (const auto& times : seen) CHECK(times == 1);
    }
  }
}

TEST_CASE("device: an exception in a parallel body reaches the caller") {
  const CpuDevice device(2);
  CHECK_THROWS_AS(device.parallel_for(10, 1, [](int64_t, int64_t) { fail_check("inside"); }), Error);
}

TEST_CASE("device: TANG_ISA's sets are ordered and the device names the one in use") {
  CHECK(CpuDevice().caps().isa == name_of(detect_isa()));
  CHECK(Isa::baseline < Isa::avx2);
  CHECK(Isa::avx2 < Isa::avx512);
}

}  // namespace tang
