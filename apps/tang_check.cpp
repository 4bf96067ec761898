// tang-check: proves the ops, from their registrations alone.
#include <cstdio>

#include "lib/base/cli.h"
#include "lib/base/error.h"
#include "lib/base/run_main.h"
#include "lib/check/compile.h"
#include "lib/check/grad.h"
#include "lib/check/large.h"
#include "lib/check/list.h"
#include "lib/check/parity.h"
#include "lib/check/repeat.h"
#include "lib/check/step.h"
#include "lib/check/training.h"

namespace tang {
namespace {

/// What a check of single ops is asked: which, where, in which mode, on which case.
template <class Options>
Cli& declare_choice(Cli& command, Options& options) {
  return command.positional("op", options.ops, "ops or families (default: all)")
      .option("--device", options.device, "cpu, cuda, cuda:N, or all that this machine has")
      .option("--dtype", options.dtype, "f32, bf16 or all")
      .option("--case", options.only_case, "one case of your own instead of the op's");
}

void declare_parity(Cli& cli, ParityOptions& options) {
  Cli& command = cli.subcommand("parity", "each implementation x dtype x shape against the f64 reference",
                                "tang-check parity\n"
                                "tang-check parity attention --device cuda --dtype bf16\n"
                                "tang-check parity rmsnorm_forward --case \"N=7 C=33 -residual -sum\"\n"
                                "compute-sanitizer --tool racecheck tang-check parity --small --device cuda");
  declare_choice(command, options)
      .option("--impl", options.impl, "one implementation's name, or all")
      .flag("--small", options.small, "small cases only, for compute-sanitizer")
      .flag("--quiet", options.quiet, "print failures only");
}

void declare_repeat(Cli& cli, RepeatOptions& options) {
  Cli& command = cli.subcommand("repeat", "runs with the same inputs give the same bits, at full size",
                                "tang-check repeat --device cuda\n"
                                "tang-check repeat attention --case \"B=32 T=1024 H=16 Hkv=8 D=128\"");
  declare_choice(command, options).option("--runs", options.runs, "runs to compare");
}

void declare_large(Cli& cli, LargeOptions& options) {
  Cli& command = cli.subcommand(
      "large", "what an op does past 2^31 elements; takes tens of GiB, skips what does not fit",
      "tang-check large\ntang-check large swiglu_forward --dtype bf16 --case \"N=524289 F=4096\"");
  declare_choice(command, options).option("--impl", options.impl, "one implementation's name, or all");
}

void declare_training(Cli& cli, TrainingCheckOptions& options) {
  cli.subcommand("training", "a run twice, from an empty and a warm kernel cache, has the same bits",
                 "tang-check training --config configs/350m-gqa.yaml schedule.steps=1000\n"
                 "tang-check training --config configs/350m-gqa.yaml schedule.steps=1000 --steps 200 "
                 "--against attention_forward=cuda:mma --against attention_backward=cuda:mma")
      .option("--config", options.config, "a configuration as tang-train takes it", Need::required)
      .positional("override", options.overrides, "key=value: sets a key by its dotted name")
      .option("--steps", options.steps, "steps of each run")
      .repeated("--against", options.against,
                "op=implementation of a third run, whose losses must be near; once for each")
      .option("--within", options.within, "how near those must be, relative");
}

int check(int argc, char** argv) {
  ParityOptions parity;
  CompileOptions compile;
  LargeOptions large;
  RepeatOptions repeat;
  TrainingCheckOptions training;
  StepCheckOptions step;
  std::vector<std::string> ops;
  bool markdown = false;
  Cli cli("tang-check", "Proves every implementation of every op from its registration.",
          "tang-check parity\ntang-check grad\ntang-check compile --arch sm_90a");
  declare_parity(cli, parity);
  declare_repeat(cli, repeat);
  declare_large(cli, large);
  declare_training(cli, training);
  cli.subcommand("step", "a whole model's gradients and losses against the CPU's f32",
                 "tang-check step --device cuda")
      .option("--device", step.device, "cpu, cuda, cuda:N, or all that this machine has")
      .option("--steps", step.steps, "steps of the loss curve");
  cli.subcommand("grad", "the references' gradients against central differences", "tang-check grad swiglu")
      .positional("op", ops, "ops or families (default: all)");
  cli.subcommand("compile", "every CUDA kernel for any architecture; needs no GPU",
                 "tang-check compile --arch sm_80,sm_90a")
      .positional("op", compile.ops, "ops or families (default: all)")
      .option("--arch", compile.architectures, "architectures, commas between");
  cli.subcommand("list", "what is registered", "tang-check list\ntang-check list --markdown > docs/OPS.md")
      .positional("op", ops, "ops or families (default: all)")
      .flag("--markdown", markdown, "print docs/OPS.md");
  if (!cli.parse(argc, argv)) return 0;
  if (cli.chosen() == "parity") return check_parity(parity).close();
  if (cli.chosen() == "grad") return check_gradients(ops).close();
  if (cli.chosen() == "compile") return check_compile(compile).close();
  if (cli.chosen() == "training") return check_training(training).close();
  if (cli.chosen() == "large") return check_large(large).close();
  if (cli.chosen() == "repeat") return check_repeat(repeat).close();
  if (cli.chosen() == "step") return check_step(step).close();
  if (markdown && !ops.empty()) fail_input("--markdown prints every op: name none");
  std::fputs((markdown ? ops_markdown() : list_ops(ops)).c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace tang

int main(int argc, char** argv) {
  return tang::run_main([&] { return tang::check(argc, argv); });
}
