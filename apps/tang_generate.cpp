// tang-generate: writes text with a trained model.
#include "lib/base/cli.h"
#include "lib/base/run_main.h"
#include "lib/infer/run_generate.h"

namespace {

constexpr const char* examples =
    "tang-generate --model runs/tiny --prompt 'Once upon a time'\n"
    "tang-generate --model runs/tiny/checkpoints/step-200 --prompt 'The' --temperature 0 --max-tokens 50\n"
    "tang-generate --model runs/tiny --prompts prompts.txt --top-k 50 --top-p 0.95 --seed 7 --json";

}  // namespace

int main(int argc, char** argv) {
  return tang::run_main([&] {
    tang::GenerateRequest request;
    std::string prompt;
    tang::Cli cli("tang-generate", "Writes text with a trained model.", examples);
    cli.option("--model", request.model, "a run folder (its newest checkpoint) or a checkpoint folder",
               tang::Need::required)
        .option("--prompt", prompt, "the text to go on from; may be empty: a document's beginning")
        .option("--prompts", request.prompts, "a file of prompts, one a line, done side by side")
        .option("--max-tokens", request.max_tokens, "new tokens of each prompt, at most")
        .option("--temperature", request.temperature, "0: always the likeliest token")
        .option("--top-k", request.top_k, "only the k likeliest tokens; 0: all")
        .option("--top-p", request.top_p, "only the likeliest tokens that together reach p")
        .option("--seed", request.seed, "the same seed gives the same text")
        .option("--device", request.device, "auto, cpu, cuda or cuda:N")
        .option("--dtype", request.dtype, "of the weights: bf16, f32 or auto (bf16 on a GPU)")
        .flag("--json", request.json, "an object a text, then one of the figures, all on stdout");
    if (!cli.parse(argc, argv)) return 0;
    if (cli.given("--prompt")) request.prompt = prompt;
    return tang::run_generate(request);
  });
}
