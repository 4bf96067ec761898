#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/bench/bench.h"
#include "lib/bench/step_driver.h"
#include "lib/bench/step_report.h"
#include "lib/ops/case.h"
#include "lib/ops/catalog.h"
#include "lib/ops/matmul.h"
#include "tests/temporary_folder.h"

namespace tang {
namespace {

constexpr const char* tiny =
    "model: {dim: 32, n_layers: 2, n_heads: 4, n_kv_heads: 2, ffn_dim: 48, vocab_size: 61}\n"
    "data: {train: /nowhere, seq_len: 16, pad_id: 3}\n"
    "train: {device: cpu, precision: bf16, steps: 10, batch_tokens: 192, micro_batch: 4}\n";

struct TinyStep {
  RunConfig config = parse_run_config(tiny, "tiny.yaml", {});
  CpuDevice device;
  Llama model{device, config.model, config.step_options()};
  StepDriver driver{model, config};
};

StepReport made_up_report() {
  StepReport report;
  report.config = "c.yaml", report.device = "NVIDIA H200", report.precision = "bf16";
  report.attention = "cuda:sm90";
  report.parameters = 335'000'000, report.micro_steps = 2, report.micro_batch = 4, report.seq_len = 1024;
  report.vocab_size = 50304, report.loss = 10.9, report.grad_norm = 1.5, report.first_step_seconds = 4;
  report.timing = {.median_ms = 100, .p10_ms = 99, .p90_ms = 101, .best_ms = 98, .samples = 20};
  report.flops_per_token = 2e9, report.peak_flops = 989.4e12;
  report.planned_bytes = int64_t{27} << 30, report.driver_bytes = int64_t{29} << 30;
  report.rows = {
      {"forward", "matmul", {"M=32768 N=5632 K=1024 transpose_b=1", Dtype::bf16}, 24, 60, 30},
      {"backward",
       "matmul",
       {"M=5632 N=1024 K=32768 c:f32 transpose_a=1 accumulate=1", Dtype::bf16, MathMode::strict, 1e12, 1e9},
       24,
       30,
       15},
      {"optimizer", "adamw", {"P=335000000 decayed=334000000", Dtype::bf16}, 1, 5, 4.5}};
  return report;
}

}  // namespace

TEST_CASE("ops: arguments described in words are a case of the same shapes and work") {
  for (const OpBase* op : catalog()) {
    for (const CaseText& text : op->spec().cases) {
      for (const Dtype mode : op->spec().modes) {
        const Case plan(*op, text, mode);
        const OpCall call = op->describe(plan.make_args(reinterpret_cast<void*>(256)).get());
        INFO(op->name() << " " << text << " -> " << call.text);
        const Case again(*op, call.text, mode);
        CHECK(again.bytes() == call.bytes);
        CHECK(again.flops() == call.flops);
        CHECK(op->describe(again.make_args(reinterpret_cast<void*>(256)).get()).text == call.text);
        for (size_t i = 0; i < plan.operands().size(); ++i) {
          CHECK(again.operands()[i].present == plan.operands()[i].present);
          if (plan.operands()[i].present) CHECK(again.operands()[i].dims == plan.operands()[i].dims);
        }
      }
    }
  }
}

TEST_CASE("ops: the bytes of a call count what is read and written, twice where both") {
  const double added = Case(matmul, "M=4 N=8 K=16 accumulate=1 c:f32", Dtype::bf16).bytes();
  CHECK(added == 2 * (4 * 16 + 16 * 8) + 2 * 4 * 4 * 8);
  CHECK(Case(matmul, "M=4 N=8 K=16", Dtype::bf16).bytes() == 2 * (4 * 16 + 16 * 8 + 4 * 8));
}

TEST_CASE("bench step: the first step repeats bit for bit, after others too") {
  TinyStep tiny_step;
  const StepResults first = tiny_step.driver.first_step();
  CHECK(tiny_step.driver.time_steps(4).samples == 4);
  CHECK(tiny_step.model.results().loss_sum != first.loss_sum);
  const StepResults again = tiny_step.driver.first_step();
  CHECK(again.loss_sum == first.loss_sum);
  CHECK(again.grad_norm == first.grad_norm);
  CHECK(first.loss_sum / 192 == doctest::Approx(std::log(61.0)).epsilon(0.1));
}

TEST_CASE("bench step: the profile holds every op of the step, in its phases") {
  TinyStep tiny_step;
  tiny_step.driver.first_step();
  const int64_t micro_steps = tiny_step.driver.micro_steps();
  CHECK(micro_steps == 3);
  const std::vector<ProfileRow> rows = profile_step(tiny_step.model, micro_steps, 2);
  int64_t calls = 0;
  std::vector<std::string_view> phases;
  double matmul_flops = 0;
  for (const ProfileRow& row : rows) {
    calls += row.calls;
    CHECK(std::isfinite(row.ms));
    CHECK(row.ms >= 0);
    if (std::find(phases.begin(), phases.end(), row.phase) == phases.end()) phases.push_back(row.phase);
    if (row.op == "matmul") matmul_flops += static_cast<double>(row.calls) * row.call.flops;
    CHECK_NOTHROW(Case(find_op(row.op), row.call.text, row.call.mode));
  }
  const auto size = [](const OpList& list) { return static_cast<int64_t>(list.ops().size()); };
  CHECK(calls == size(tiny_step.model.first_ops()) + 2 * size(tiny_step.model.further_ops()) +
                     size(tiny_step.model.optimizer_ops()));
  CHECK(phases == std::vector<std::string_view>{"forward", "head + loss", "backward", "optimizer"});
  // 6 FLOPs a parameter and token; the head in memory has whole tiles of 128 rows.
  const double padded = static_cast<double>(matmul_parameters(tiny_step.config.model) + (128 - 61) * 32);
  CHECK(matmul_flops == 6 * padded * 192);
  CHECK(std::isfinite(tiny_step.model.results().loss_sum));
}

TEST_CASE("bench step: tables keep to 80 columns and say how much of the step the ops explain") {
  const std::string text = step_tables(made_up_report());
  for (const std::string& line : split(text, '\n')) CHECK_MESSAGE(line.size() <= 80, line);
  CHECK(text.find("the ops sum to 95.0% of the step") != std::string::npos);
  CHECK(text.find("81920 tokens/s") != std::string::npos);
  CHECK(text.find("MFU          16.6%") != std::string::npos);
  StepReport unknown = made_up_report();
  unknown.peak_flops = 0;
  CHECK(step_tables(unknown).find("MFU          unknown") != std::string::npos);
}

TEST_CASE("bench step: the JSON has the same figures, and null where nothing is known") {
  StepReport report = made_up_report();
  const Json json = Json::parse(step_json(report), "step");
  CHECK(json.at("tokens_per_s").as_double() == doctest::Approx(81920));
  CHECK(json.at("ops_ms").as_double() == 95);
  double phases = 0, ops = 0;
  for (const Json& phase : json.at("phases").items()) phases += phase.at("ms").as_double();
  for (const Json& op : json.at("ops").items()) ops += op.at("ms").as_double();
  CHECK(phases == doctest::Approx(95));
  CHECK(ops == doctest::Approx(95));
  CHECK(json.at("ops").items()[1].at("tflops").as_double() == doctest::Approx(800));
  CHECK(json.at("ops").items()[1].at("roof_fraction").as_double() == doctest::Approx(0.5));
  report.peak_flops = 0, report.driver_bytes = 0;
  CHECK(Json::parse(step_json(report), "step").at("mfu").is_null());
}

TEST_CASE("bench step: a shape becomes the command that times it") {
  CHECK(bench_command({&matmul, "M=64 N=32 K=16 c:f32 transpose_a=1", Dtype::bf16, 1}) ==
        "tang-bench matmul --m 64 --n 32 --k 16 --dtype bf16 --case=\"c:f32 transpose_a=1\"");
}

namespace {

/// Exit code of tang-bench step, its standard output in `output`.
int bench_step_program(const std::string& arguments, const fs::path& output) {
  const std::string command = "OMP_NUM_THREADS=1 " + (fs::path(TANG_BINARY_DIR) / "tang-bench").string() +
                              " step " + arguments + " > " + output.string() + " 2>/dev/null";
  return WEXITSTATUS(std::system(command.c_str()));
}

}  // namespace

TEST_CASE("programs: tang-bench step times a configuration without its data, and refuses bad ones") {
  const TemporaryFolder folder;
  const fs::path output = folder / "out";
  std::ofstream(folder / "c.yaml") << tiny;
  const std::string config = "--config " + (folder / "c.yaml").string();
  REQUIRE(bench_step_program(config + " --steps 3 --json", output) == 0);
  const Json json = Json::parse(read_file(output), "output");
  CHECK(json.at("samples").as_int() == 3);
  CHECK(json.at("tokens").as_int() == 192);
  CHECK(json.at("ops_ms").as_double() > 0);
  CHECK(bench_step_program("", output) == 2);
  CHECK(bench_step_program(config + " train.lr=1", output) == 2);
  CHECK(bench_step_program(config + " --steps 0", output) == 2);
  CHECK(bench_step_program("--config /nowhere.yaml", output) == 2);
  // Weights so large that the first loss is not finite: no time is printed.
  CHECK(bench_step_program(config + " model.init_std=1e38", output) == 1);
  CHECK(read_file(output).empty());
}

}  // namespace tang
