// tang-bench: times the ops. One command per family and per op, one flag per dimension, all from the
// registry.
#include <algorithm>
#include <cstdio>
#include <map>

#include "lib/base/cli.h"
#include "lib/base/run_main.h"
#include "lib/bench/bench.h"
#include "lib/check/list.h"
#include "lib/ops/catalog.h"

namespace tang {
namespace {

constexpr const char* examples =
    "tang-bench attention --seq 512\n"
    "tang-bench rmsnorm --rows 32768 --dim 1024\n"
    "tang-bench attention --seq 512:8192:*2 --dtype bf16 --impl all\n"
    "tang-bench matmul --m 4096 --n 1024,4096 --k 1024 --case \"tf32=1\"\n"
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

int bench(int argc, char** argv) {
  Cli cli("tang-bench", "Times the ops against the roofs that this machine really reaches.", examples);
  std::map<std::string, BenchOptions> commands;  // the flags' targets stay where they are
  std::vector<const OpBase*> all(catalog().begin(), catalog().end());
  declare(cli, "all", "every op", all, commands["all"]);
  for (const OpBase* op : all) {
    const std::string family = family_of(op->name());
    if (family != op->name() && !commands.contains(family))
      declare(cli, family, family + ", forward and backward", find_family(family), commands[family]);
    declare(cli, op->name(), op->spec().about, {op}, commands[op->name()]);
  }
  std::string device = "auto";
  cli.subcommand("peaks", "the measured roofs: memory and matmul")
      .option("--device", device, "cpu, cuda, cuda:N, all or auto");
  cli.subcommand("list", "what is registered");
  if (!cli.parse(argc, argv)) return 0;
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
