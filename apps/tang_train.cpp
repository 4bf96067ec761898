// tang-train: trains a model as a YAML file says.
#include <fmt/format.h>

#include "lib/base/cli.h"
#include "lib/base/error.h"
#include "lib/base/run_main.h"
#include "lib/train/run_config.h"
#include "lib/train/run_training.h"

namespace {

constexpr const char* examples =
    "tang-train --config configs/tiny.yaml\n"
    "tang-train --config configs/350m-gqa.yaml train.steps=200 optimizer.lr=1e-3\n"
    "tang-train --config configs/350m-gqa.yaml --plan\n"
    "tang-train --config configs/tiny.yaml run.dir=runs/a --resume auto\n"
    "docs/CONFIG.md lists every key.";

}  // namespace

int main(int argc, char** argv) {
  return tang::run_main([&] {
    tang::TrainRequest request;
    bool print_schema = false;
    tang::Cli cli("tang-train", "Trains a Llama-style model as a YAML file says.", examples);
    cli.option("--config", request.config, "the YAML file; docs/CONFIG.md lists its keys")
        .positional("override", request.overrides,
                    "key=value: sets a key by its dotted name; a later one wins")
        .option("--resume", request.resume, "go on: auto, a run folder, or a checkpoint folder")
        .repeated("--impl", request.impls,
                  "run this implementation of an op, as in attention_forward=cuda:simple")
        .flag("--plan", request.plan, "print memory by class, FLOPs and the largest micro-batch, and stop")
        .flag("--print-config", request.print_config, "print the whole configuration and stop")
        .flag("--start-up", request.tell_start_up, "print where the time to the end of the first step went")
        .flag("--print-schema", print_schema, "print docs/CONFIG.md and stop");
    if (!cli.parse(argc, argv)) return 0;
    if (print_schema) {
      fmt::print("{}", tang::config_reference());
      return 0;
    }
    if (request.config.empty()) {
      tang::fail_input("--config FILE is missing: try --config configs/tiny.yaml");
    }
    return tang::run_training(request);
  });
}
