// What tang-generate as a program promises, and samples while training.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/text/tokenizer.h"
#include "tests/temporary_folder.h"

using namespace tang;

namespace {

struct Outcome {
  int exit_code = -1;
  std::string out, errors;
};

/// A model that learned one sentence by heart, its text cut into bytes.
class Trained {
 public:
  static constexpr const char* sentence = "the quick brown fox jumps over the lazy dog. ";

  Trained() {
    std::string text;
    for (int i = 0; i < 60; ++i) text += sentence;
    std::ofstream(folder_ / "text.txt") << text;
    CHECK(run("tang-data", "prepare --tokenizer byte --input " + path("text.txt") + " --out " + path("data"))
              .exit_code == 0);
    std::ofstream(folder_ / "c.yaml")
        << "model: {dim: 64, n_layers: 2, n_heads: 4, n_kv_heads: 2, ffn_dim: 128, vocab_size: 257}\n"
        << "data: {train: " << path("data") << ", seq_len: 64}\n"
        << "train: {device: cpu, precision: f32, steps: 60, batch_tokens: 512}\n"
        << "optimizer: {lr: 1e-2}\nschedule: {warmup_steps: 5}\ncheckpoint: {every: 50}\n";
  }

  Outcome run(const std::string& program, const std::string& arguments) const {
    const std::string command = "OMP_NUM_THREADS=1 " + (fs::path(TANG_BINARY_DIR) / program).string() + " " +
                                arguments + " > " + path("out") + " 2> " + path("errors");
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(folder_ / "out"),
            read_file(folder_ / "errors")};
  }
  Outcome train(const std::string& name, const std::string& overrides = "") const {
    return run("tang-train", "--config " + path("c.yaml") + " run.dir=" + path(name) + " " + overrides);
  }
  Outcome generate(const std::string& arguments) const {
    return run("tang-generate", "--device cpu --model " + path("run") + " " + arguments);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  TemporaryFolder folder_;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("programs: a trained model goes on with what it learned, one prompt or several") {
  const Trained bench;
  REQUIRE(bench.train("run").exit_code == 0);
  const Outcome text = bench.generate("--prompt 'the quick brown' --temperature 0 --max-tokens 24");
  CAPTURE(text.errors);
  CHECK(text.exit_code == 0);
  CHECK(text.out == " fox jumps over the lazy\n");
  CHECK(has(text.errors, "24 tokens in "));
  CHECK(has(text.errors, "first token after "));

  std::ofstream(bench.path("prompts")) << "the quick brown\n\nfox jumps\n";
  const Outcome several =
      bench.generate("--prompts " + bench.path("prompts") + " --temperature 0 --max-tokens 9 --json");
  CAPTURE(several.out);
  CHECK(several.exit_code == 0);
  const auto lines = split(several.out, '\n');
  REQUIRE(lines.size() >= 3);
  const Json first = Json::parse(lines[0], "out"), second = Json::parse(lines[1], "out");
  CHECK(first.at("text").as_string() == " fox jump");
  CHECK(first.at("finish").as_string() == "length");
  CHECK(first.at("prompt_tokens").as_int() == 16);  // the document mark and 15 bytes
  CHECK(second.at("prompt").as_string() == "fox jumps");
  CHECK(second.at("text").as_string() == " over the");
  CHECK(Json::parse(lines[2], "out").at("tokens").as_int() == 18);

  // The same seed gives the same text, from the run folder or from the checkpoint that it stands for.
  const std::string drawn = "--prompt the --temperature 1.5 --top-k 40 --top-p 0.99 --max-tokens 40 --seed ";
  const Outcome seed = bench.generate(drawn + "7");
  CHECK(bench.generate(drawn + "7").out == seed.out);
  CHECK(bench.generate(drawn + "8").out != seed.out);
  CHECK(bench
            .run("tang-generate",
                 "--device cpu --model " + bench.path("run/checkpoints/step-60") + " " + drawn + "7")
            .out == seed.out);
  CHECK(bench.generate("--dtype bf16 --prompt 'the quick brown' --temperature 0 --max-tokens 9").out ==
        " fox jump\n");
}

TEST_CASE("programs: tang-generate refuses bad input in one line") {
  const Trained bench;
  REQUIRE(bench.train("run", "train.steps=1 schedule.warmup_steps=0").exit_code == 0);
  std::ofstream(bench.path("empty")) << "\n\n";
  const std::pair<std::string, std::string> cases[] = {
      {"", "exactly one of --prompt TEXT and --prompts FILE"},
      {"--prompt a --prompts b", "exactly one of"},
      {"--prompts " + bench.path("empty"), "has no prompt"},
      {"--prompt a --model " + bench.path("nothing"), "there is no such folder"},
      {"--prompt a --model " + bench.path("data"), "neither a checkpoint"},
      {"--prompt a --temperature -1", "temperature must be 0"},
      {"--prompt a --top-p 0", "top-p must be above 0"},
      {"--prompt a --top-k -3", "top-k must be 0"},
      {"--prompt a --max-tokens 0", "--max-tokens must be 1 or more"},
      {"--prompt a --dtype f16", "expected bf16, f32 or auto"},
      {"--prompt a --tokens 3", "--tokens"}};
  for (const auto& [arguments, part] : cases) {
    const Outcome outcome = bench.generate(arguments);
    CAPTURE(outcome.errors);
    CHECK(outcome.exit_code == 2);
    CHECK(has(outcome.errors, part));
    CHECK(std::count(outcome.errors.begin(), outcome.errors.end(), '\n') == 1);
  }
  fs::remove(bench.path("run/checkpoints/step-1/tokenizer.json"));
  const Outcome without = bench.generate("--prompt a");
  CHECK(without.exit_code == 2);
  CHECK(has(without.errors, "holds no tokenizer"));
}

TEST_CASE("programs: samples change no bit of the training, and need a tokenizer") {
  const Trained bench;
  const std::string sampling = "eval.sample.every=2 eval.sample.tokens=12 eval.sample.prompt='the \"quick' ";
  for (const std::string precision : {"f32", "bf16"}) {
    const std::string common = "train.steps=5 train.precision=" + precision + " ";
    REQUIRE(bench.train(precision + "-without", common).exit_code == 0);
    const Outcome with = bench.train(precision + "-with", common + sampling);
    CAPTURE(with.errors);
    REQUIRE(with.exit_code == 0);
    for (const char* step : {"step 2: sample: ", "step 4: sample: ", "step 5: sample: "}) {
      CHECK(has(with.out, std::string(step) + "\"the \\\"quick"));
    }
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      CHECK(read_file(bench.path(precision + "-with/checkpoints/step-5/") + file) ==
            read_file(bench.path(precision + "-without/checkpoints/step-5/") + file));
    }
  }
  CHECK(has(bench.train("plan", sampling + "--plan").out, "eval.sample takes"));
  fs::remove(bench.path("data/dataset.json"));
  const Outcome refused = bench.train("refused", sampling);
  CHECK(refused.exit_code == 2);
  CHECK(has(refused.errors, "eval.sample needs a tokenizer"));
  CHECK(!fs::exists(bench.path("refused")));
}
