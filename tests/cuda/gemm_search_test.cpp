// The search for a product's algorithm, on a GPU: the cache may change the time of a product, never a bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "lib/cuda/gemm_choice.h"
#include "lib/device/cuda_device.h"
#include "tests/environment.h"
#include "tests/temporary_folder.h"

namespace tang {
namespace {

#define TANG_ON_GPU *doctest::skip(!cuda_available())

constexpr int64_t rows = 1024, columns = 1024, depth = 5120;  // few tiles of a long sum: splits are offered

template <class T>
Buffer operand(Device& device, int64_t count, int64_t factor) {
  constexpr int64_t period = 1009;
  std::vector<T> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = i < period ? T(static_cast<float>(i * factor % period - 504) / 504.0f) : values[i - period];
  Buffer buffer = device.allocate(count * static_cast<int64_t>(sizeof(T)));
  device.upload(buffer.data(), values.data(), buffer.bytes());
  return buffer;
}

/// A weight gradient's product through a device of its own.
template <class T>
std::vector<float> multiply(MathMode math) {
  const auto device = open_cuda_device(0);
  const Buffer a = operand<T>(*device, depth * rows, 7919), b = operand<T>(*device, depth * columns, 6007);
  const Buffer c = device->allocate_zeroed(rows * columns * 4);
  CudaGemm problem = {.transpose_a = true, .m = rows, .n = columns, .k = depth};
  problem.input = dtype_of<T>, problem.output = Dtype::f32, problem.math = math;
  problem.a = a.data(), problem.b = b.data(), problem.c = c.data();
  problem.lda = rows, problem.ldb = problem.ldc = columns;
  REQUIRE(worth_searching(problem));
  device->gemm(problem)();
  std::vector<float> values(rows * columns);
  device->download(values.data(), c.data(), c.bytes());
  return values;
}

/// The kept choices: entries whose payload is one algorithm.
std::vector<fs::path> choices(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (fs::file_size(entry.path()) == 8 + 16 + sizeof(GemmAlgorithm) + 16) found.push_back(entry.path());
  }
  return found;
}

}  // namespace

TEST_CASE("gemm search: searched, kept, unsearched and uncached products have the same bits" TANG_ON_GPU) {
  for (const MathMode math : {MathMode::strict, MathMode::tf32}) {
    const auto run = [&] { return math == MathMode::tf32 ? multiply<float>(math) : multiply<bf16>(math); };
    const TemporaryFolder folder;
    const Environment cache("TANG_CACHE_DIR", folder.path().c_str());
    const std::vector<float> searched = run();
    CHECK(std::any_of(searched.begin(), searched.end(), [](float value) { return value != 0; }));
    REQUIRE(choices(folder).size() == 1);
    const std::string entry = read_file(choices(folder)[0]);
    CHECK(run() == searched);
    CHECK(read_file(choices(folder)[0]) == entry);  // found, not searched anew
    const Environment no_cache("TANG_CACHE_DIR", "off");
    CHECK(run() == searched);
    const Environment no_search("TANG_GEMM_SEARCH", "0");
    CHECK(run() == searched);
  }
}

TEST_CASE("gemm search: a kept choice that is none is searched anew" TANG_ON_GPU) {
  const TemporaryFolder folder;
  const Environment cache("TANG_CACHE_DIR", folder.path().c_str());
  const std::vector<float> searched = multiply<bf16>(MathMode::strict);
  REQUIRE(choices(folder).size() == 1);
  const fs::path path = choices(folder)[0];
  const std::string good = read_file(path);
  std::string foreign = good.substr(0, 8 + 16) + "something else";
  foreign += Digest().add(foreign).bytes();  // whole by its checksum
  for (const std::string& bad : {foreign, good.substr(0, 50)}) {
    write_file_atomic(path, bad);
    CHECK(multiply<bf16>(MathMode::strict) == searched);
    CHECK(choices(folder).size() == 1);
  }
}

}  // namespace tang
