// tang-check: proves the ops, from their registrations alone.
#include "lib/base/cli.h"
#include "lib/base/run_main.h"
#include "lib/check/parity.h"

namespace tang {
namespace {

int check(int argc, char** argv) {
  ParityOptions parity;
  Cli cli("tang-check", "Proves every implementation of every op.", "tang-check parity rmsnorm\n");
  cli.subcommand("parity", "each implementation x dtype x shape against the f64 reference",
                 "tang-check parity\n"
                 "tang-check parity attention --device cuda --dtype bf16\n"
                 "tang-check parity rmsnorm_forward --case \"N=7 C=33 -residual -sum\"")
      .positional("op", parity.ops, "ops or families (default: all)")
      .option("--device", parity.device, "cpu, cuda, cuda:N, or all that this machine has")
      .option("--dtype", parity.dtype, "f32, bf16 or all")
      .option("--impl", parity.impl, "one implementation's name, or all")
      .option("--case", parity.only_case, "one case of your own instead of the registered ones")
      .flag("--quiet", parity.quiet, "print failures only");
  if (!cli.parse(argc, argv)) return 0;
  return check_parity(parity).close();
}

}  // namespace
}  // namespace tang

int main(int argc, char** argv) {
  return tang::run_main([&] { return tang::check(argc, argv); });
}
