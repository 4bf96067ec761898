// tang-bench: times the ops and the training step. One command per family and per op, one flag per dimension,
// all from the registry.
#include <algorithm>
#include <cstdio>
#include <map>

#include "lib/base/cli.h"
#include "lib/base/error.h"
#include "lib/base/run_main.h"
#include "lib/bench/bench.h"
#include "lib/bench/step.h"
#include "lib/check/list.h"
#include "lib/ops/catalog.h"

namespace tang {
namespace {

constexpr const char* examples =
    "tang-bench attention --seq 512\n"
    "tang-bench rmsnorm --rows 32768 --dim 1024\n"
    "tang-bench attention --seq 512:8192:*2 --dtype bf16 --impl all\n"
    "tang-bench matmul --m 4096 --n 1024,4096 --k 1024 --case \"tf32=1\"\n"
    "tang-bench step --config configs/tiny.yaml\n"
    "tang-bench all --json";

/// The name that a forward and its backward share, or the op's own.
std::string family_of(const std::string& op) {
  const size_t end = op.rfind('_');
  const bool direction = op.ends_with("_forward") || op.ends_with("_backward");
  return direction ? op.substr(0, end) : op;
}

void declare(Cli& cli, const std::string& name, const std::string& about,
             const std::vector<const OpBase*>& ops, BenchOptions& options) {
  if (name != "all") options.ops = {name};
  Cli& command = cli.subcommand(name, about);
  for (const OpBase* op : ops) {
    for (const Dim& dim : op->spec().dims) {
      const auto [place, is_new] = options.flags.emplace(dim.flag, "");
      if (!is_new) continue;
      command.option("--" + dim.flag, place->second,
                     "dimension " + dim.letter + ": a value, a list or a sweep (default " +
                         std::to_string(dim.bench_default) + ")");
    }
  }
  command.option("--device", options.device, "cpu, cuda, cuda:N, all, or auto: CUDA where there is a GPU")
      .option("--dtype", options.dtype, "f32, bf16 or all")
      .option("--impl", options.impl, "a name, or all (default: the one that training runs)")
      .option("--case", options.words, "scalars and operand words of a case, such as \"tf32=1 c:f32\"")
      .flag("--json", options.json, "print JSON lines");
}

struct StepWords {
  StepBenchOptions options;
  std::string from;
};

void declare_step(Cli& cli, StepWords& words) {
  StepBenchOptions& options = words.options;
  cli.subcommand("step", "a whole training step: tokens/s, MFU, memory, time by phase, op and shape",
                 "tang-bench step --config configs/tiny.yaml\n"
                 "tang-bench step --config configs/350m-gqa.yaml data.seq_len=512 --json\n"
                 "tang-bench step --from configs/350m-gqa.yaml train.precision=f32")
      .option("--config", options.config, "a configuration as tang-train takes it; its data is not read")
      .option("--from", words.from, "bench each op and shape that a step of this configuration uses instead")
      .positional("override", options.overrides, "key=value: sets a key by its dotted name")
      .option("--steps", options.steps, "steps to time")
      .repeated("--impl", options.impls, "with --config: run this implementation, as in adamw=cuda")
      .flag("--json", options.json, "print JSON");
}

int bench_step(StepWords& words) {
  StepBenchOptions& options = words.options;
  if (options.config.empty() == words.from.empty())
    fail_input("give --config FILE (the step) or --from FILE (its shapes): try --config configs/tiny.yaml");
  if (words.from.empty()) return run_bench_step(options);
  if (!options.impls.empty()) fail_input("--impl goes with --config: shapes run what training would");
  options.config = words.from;
  return run_bench_step_shapes(options);
}

int bench(int argc, char** argv) {
  Cli cli("tang-bench",
          "Times the ops and the training step against the roofs that this machine really reaches.",
          examples);
  std::map<std::string, BenchOptions> commands;  // the flags' targets stay where they are
  std::vector<const OpBase*> all(catalog().begin(), catalog().end());
  declare(cli, "all", "every op", all, commands["all"]);
  for (const OpBase* op : all) {
    const std::string family = family_of(op->name());
    if (family != op->name() && !commands.contains(family))
      declare(cli, family, family + ", forward and backward", find_family(family), commands[family]);
    declare(cli, op->name(), op->spec().about, {op}, commands[op->name()]);
  }
  StepWords step;
  declare_step(cli, step);
  std::string device = "auto";
  cli.subcommand("peaks", "the measured roofs: memory and matmul")
      .option("--device", device, "cpu, cuda, cuda:N, all or auto");
  cli.subcommand("list", "what is registered");
  if (!cli.parse(argc, argv)) return 0;
  if (cli.chosen() == "step") return bench_step(step);
  if (cli.chosen() == "peaks") return print_peaks(device);
  if (cli.chosen() != "list") return run_bench(commands.at(cli.chosen()));
  std::fputs(list_ops({}).c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace tang

int main(int argc, char** argv) {
  return tang::run_main([&] { return tang::bench(argc, argv); });
}
