#include <doctest/doctest.h>

#include "lib/base/error.h"
#include "lib/bench/bench.h"
#include "lib/bench/report.h"
#include "lib/bench/sweep.h"
#include "lib/device/gpu_peaks.h"
#include "lib/ops/rmsnorm.h"

namespace tang {

TEST_CASE("bench: values, lists and sweeps") {
  using List = std::vector<int64_t>;
  CHECK(parse_sweep("seq", "512") == List{512});
  CHECK(parse_sweep("seq", "512,1024") == List{512, 1024});
  CHECK(parse_sweep("seq", "512:4096:*2") == List{512, 1024, 2048, 4096});
  CHECK(parse_sweep("seq", "512:2048:+512") == List{512, 1024, 1536, 2048});
  CHECK(parse_sweep("seq", "1,10:30:+10") == List{1, 10, 20, 30});
  for (const char* bad :
       {"", "x", "1,", "-5", "1:2", "1:2:3", "1:8:*1", "0:8:*2", "8:1:+1", "1:8:+0", "1:8:-1"}) {
    CHECK_THROWS_WITH_AS(parse_sweep("seq", bad), doctest::Contains("--seq"), Error);
  }
}

TEST_CASE("bench: a sweep is every combination, with what is fixed said once") {
  const Sweep sweep =
      make_sweep(rmsnorm_forward, {{"rows", "8,16"}, {"dim", "32"}}, "eps=1e-6", DeviceKind::cuda);
  REQUIRE(sweep.points.size() == 2);
  CHECK(sweep.fixed == "C=32 eps=1e-6");
  CHECK(sweep.points[1].text == "N=16 C=32 eps=1e-6");
  CHECK(sweep.points[1].varying == "N=16");
}

TEST_CASE("bench: only defaults shrink on the CPU, never what was asked for") {
  const Sweep asked = make_sweep(rmsnorm_forward, {{"rows", "4000000"}}, "", DeviceKind::cpu);
  CHECK(asked.points[0].text.starts_with("N=4000000 "));
  const Case plan(rmsnorm_forward, make_sweep(rmsnorm_forward, {}, "", DeviceKind::cpu).points[0].text,
                  Dtype::f32);
  CHECK(plan.bytes() <= 0x1p30);
}

TEST_CASE("bench: the gate keeps the last dims and the words, and is small") {
  const CaseText gate = gate_case(rmsnorm_forward, "N=32768 C=1024 -residual -sum", Dtype::f32);
  CHECK(gate.ends_with(" C=1024 -residual -sum"));
  CHECK(Case(rmsnorm_forward, gate, Dtype::f32).flops() <= 3e7);
}

TEST_CASE("bench: a shape that the op refuses, or an unknown op, is an input error before any time") {
  BenchOptions options;
  options.device = "cpu";
  options.ops = {"rmsnorn"};
  CHECK_THROWS_AS(run_bench(options), Error);
  options.ops = {"rmsnorm"};
  options.flags = {{"rows", "a"}};
  CHECK_THROWS_AS(run_bench(options), Error);
}

TEST_CASE("bench: a row that failed has its reason and no time") {
  BenchRow row;
  row.op = "op", row.impl = "cuda", row.failure = "out of memory";
  CHECK(table_row(row).find("FAILED: out of memory") != std::string::npos);
  CHECK(json_row(row).find("\"ms\"") == std::string::npos);
}

TEST_CASE("bench: datasheet peaks are by exact name, and never guessed") {
  CHECK(gpu_peak("NVIDIA H200")->bf16 == 989.4);
  CHECK(gpu_peak("NVIDIA A100-SXM4-80GB")->bf16 == 312);
  CHECK(!gpu_peak("NVIDIA H200 MIG 1g.18gb"));
  CHECK(!gpu_peak("NVIDIA GeForce GT 710"));
}

}  // namespace tang
