#include "lib/cuda/jit.h"

#include <doctest/doctest.h>

#include "lib/base/error.h"
#include "lib/cuda/cuda_open.h"
#include "lib/cuda/jit_log.h"
#include "lib/cuda/toolkit_library.h"
#include "lib/device/cuda_device.h"
#include "tests/temporary_folder.h"

namespace tang {
namespace {

SourceSet small_sources(const std::string& body) {
  return SourceSet({{"inner.cuh", "struct Params { float* x; int count; };\n"},
                    {"outer.cuh", "#pragma once\n#include \"inner.cuh\"\n"},
                    {"unused.cuh", "#error never included\n"},
                    {"small.cu", "#include \"outer.cuh\"\n" + body}});
}

const char* const scale_body =
    "extern \"C\" __global__ void scale(const __grid_constant__ Params p) {\n"
    "  __shared__ float tile[64];\n"
    "  tile[threadIdx.x] = p.x[threadIdx.x] * FACTOR;\n"
    "  __syncthreads();\n"
    "  p.x[threadIdx.x] = tile[63 - threadIdx.x];\n"
    "}\n"
    "extern \"C\" __global__ void two(float* x, int count) { x[count] = FACTOR; }\n";

std::string message_of(const std::function<void()>& action, ErrorKind kind) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
  FAIL("no error");
  return "";
}

}  // namespace

TEST_CASE("jit: a kernel with headers becomes a binary, its resources and its parameters") {
  const JitResult result = jit_compile(small_sources(scale_body), {"small.cu", {{"FACTOR", "2"}}, "sm_90a"},
                                       JitCache(std::nullopt));
  CHECK(result.cubin.substr(1, 3) == "ELF");
  CHECK(result.seconds > 0);
  REQUIRE(result.entries.size() == 2);
  for (const JitEntry& entry : result.entries) {
    CHECK(entry.registers > 0);
    CHECK(entry.spill_bytes == 0);
    CHECK(entry.parameters == (entry.name == "scale" ? 1 : 2));
    CHECK(entry.param_bytes == (entry.name == "scale" ? 16 : 12));
    CHECK(entry.static_shared_bytes >= (entry.name == "scale" ? 256 : 0));
  }
}

TEST_CASE("jit: a syntax error is one line with the place, and the log is kept") {
  const std::string message = message_of(
      [] {
        jit_compile(small_sources("extern \"C\" __global__ void broken(Params p) {\n  p.x[0] = ;\n}\n"),
                    {"small.cu", {{"FACTOR", "2"}}, "sm_80"}, JitCache(std::nullopt));
      },
      ErrorKind::check);
  CHECK(message.find("small.cu does not compile for sm_80 (FACTOR=2): small.cu(3): error") == 0);
  CHECK(message.find('\n') == std::string::npos);
  const size_t begin = message.find("[whole log: ") + 12;
  const fs::path log = message.substr(begin, message.size() - begin - 1);
  CHECK(read_file(log).find("expected an expression") != std::string::npos);
  fs::remove(log);
}

TEST_CASE("jit: a header that is missing is named") {
  using Files = std::vector<std::pair<std::string, std::string>>;
  const SourceSet sources(Files{{"a.cu", "#include \"nowhere.cuh\"\n"}});
  const std::string message = message_of(
      [&] {
        jit_compile(sources, {"a.cu", {}, "sm_80"}, JitCache(std::nullopt));
      },
      ErrorKind::check);
  CHECK(message.find("nowhere.cuh") != std::string::npos);
  CHECK_THROWS_WITH_AS(jit_compile(sources, {"b.cu", {}, "sm_80"}, JitCache(std::nullopt)),
                       doctest::Contains("no kernel source 'b.cu'"), Error);
}

TEST_CASE("jit: includes are followed to the end and nothing else is handed over") {
  const auto includes = small_sources("").includes_of("small.cu");
  REQUIRE(includes.size() == 2);
  CHECK(includes[0].first == "outer.cuh");
  CHECK(includes[1].first == "inner.cuh");
}

TEST_CASE("jit: the second compilation comes from the cache; another constant, header or target does not") {
  const TemporaryFolder folder;
  const JitCache cache(folder.path());
  const JitRequest request = {"small.cu", {{"FACTOR", "2"}}, "sm_90a"};
  const SourceSet sources = small_sources(scale_body);
  const JitResult first = jit_compile(sources, request, cache), second = jit_compile(sources, request, cache);
  CHECK(second.seconds == 0);
  CHECK(second.cubin == first.cubin);
  REQUIRE(second.entries.size() == first.entries.size());
  CHECK(second.entries[0].param_bytes == first.entries[0].param_bytes);
  CHECK(second.entries[0].registers == first.entries[0].registers);

  CHECK(jit_compile(sources, {"small.cu", {{"FACTOR", "3"}}, "sm_90a"}, cache).seconds > 0);
  CHECK(jit_compile(sources, {"small.cu", {{"FACTOR", "2"}}, "sm_80"}, cache).seconds > 0);
  const SourceSet changed({{"inner.cuh", "struct Params { float* x; long count; };\n"},
                           {"outer.cuh", "#pragma once\n#include \"inner.cuh\"\n"},
                           {"small.cu", "#include \"outer.cuh\"\n" + std::string(scale_body)}});
  CHECK(jit_compile(changed, request, cache).seconds > 0);
}

TEST_CASE("jit: the assembler's log is read per entry") {
  const std::string log =
      "ptxas info    : Compiling entry function 'first' for 'sm_90a'\n"
      "ptxas info    : Function properties for first\n"
      "ptxas         .     96 bytes stack frame, 24 bytes spill stores, 40 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 9 barriers, 96 bytes cumulative stack size, 1024 bytes smem\n"
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"
      "ptxas info    : Compiling entry function 'second' for 'sm_90a'\n"
      "ptxas info    : Used 32 registers, used 0 barriers\n";
  const auto entries =
      parse_entries(log, ".visible .entry first(\n\t.param .align 64 .b8 first_param_0[192]\n)\n");
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].registers == 168);
  CHECK(entries[0].stack_bytes == 96);
  CHECK(entries[0].spill_bytes == 64);
  CHECK(entries[0].static_shared_bytes == 1024);
  CHECK(entries[0].parameters == 1);
  CHECK(entries[0].param_bytes == 192);
  CHECK(entries[1].registers == 32);
  CHECK(entries[1].parameters == 0);
  REQUIRE(parse_warnings(log).size() == 1);
  CHECK(parse_warnings(log)[0].find("C7510") != std::string::npos);

  JitResult result;
  result.cubin = std::string("\n\0binary", 8);
  result.entries = entries;
  result.warnings = parse_warnings(log);
  const JitResult copy = unpack_result(pack_result(result));
  CHECK(copy.cubin == result.cubin);
  CHECK(copy.warnings == result.warnings);
  CHECK(copy.entries[0].spill_bytes == 64);
  CHECK(copy.entries[1].name == "second");
}

TEST_CASE("jit: architectures") {
  CHECK(architecture_of(80) == "sm_80");
  CHECK(architecture_of(90) == "sm_90a");
  CHECK(architecture_of(100) == "sm_100a");
  CHECK(architecture_of(120) == "sm_120");
}

TEST_CASE("cuda: a library that is nowhere is one sentence with the folders searched") {
  const std::string message = message_of(
      [] {
        ToolkitLibrary("the library", {"libtang-nowhere.so.1"}, {"/first", "", "/second"});
      },
      ErrorKind::machine);
  CHECK(message.find("libtang-nowhere.so.1") != std::string::npos);
  CHECK(message.find("/first, the loader's path, /second") != std::string::npos);
  CHECK(message.find("CUDA_HOME") != std::string::npos);
}

TEST_CASE("cuda: a driver that is too old is refused with both versions; minor versions may differ") {
  CHECK_NOTHROW(require_driver(0, 13000));
  CHECK_NOTHROW(require_driver(13000, 13010));
  CHECK_NOTHROW(require_driver(14000, 13000));
  const std::string message = message_of([] { require_driver(12080, 13000); }, ErrorKind::machine);
  CHECK(message.find("supports CUDA 12.8") != std::string::npos);
  CHECK(message.find("needs CUDA 13.0") != std::string::npos);
}

}  // namespace tang
