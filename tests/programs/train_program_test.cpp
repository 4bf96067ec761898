// What tang-train as a program promises: exit codes, one line of reason, runs that resume bit for bit.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "lib/base/json.h"
#include "lib/base/rng.h"
#include "lib/format/token_shard.h"
#include "tests/run_program.h"
#include "tests/temporary_folder.h"

using namespace tang;

namespace {

Outcome run(const std::string& arguments, const std::string& program = "tang-train") {
  return run_program(program, arguments);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A folder with shards of 40 sequences and a configuration of a model that trains in milliseconds.
class Bench {
 public:
  Bench() {
    write("train_000000.bin", 16 * 25 + 1, 1);
    write("train_000001.bin", 16 * 15 + 1, 2);
    write("val_000000.bin", 16 * 8 + 1, 3);
    std::ofstream(folder_ / "c.yaml")
        << "model: {dim: 32, n_layers: 2, n_heads: 4, n_kv_heads: 2, ffn_dim: 48, "
           "vocab_size: 61}\n"
        << "data: {train: " << folder_.path().string() << ", val: " << folder_.path().string()
        << ", seq_len: 16}\n"
        << "train: {device: cpu, precision: f32, steps: 10, batch_tokens: 192, "
           "micro_batch: 4}\n"
        << "optimizer: {lr: 1e-2}\nschedule: {warmup_steps: 1}\n"
        << "checkpoint: {every: 5}\n";
  }

  void write(const std::string& name, int64_t tokens, uint64_t seed, uint32_t at_777 = 0) {
    std::vector<uint32_t> ids(static_cast<size_t>(tokens));
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<uint32_t>(Rng(seed).below(i, 61));
    if (at_777 > 0) ids[77] = at_777;
    TokenShardWriter writer(folder_ / name, 100);
    writer.append(ids);
    writer.commit();
  }
  std::string config() const { return "--config " + (folder_ / "c.yaml").string() + " "; }
  fs::path operator/(const std::string& name) const { return folder_ / name; }
  std::string run_dir(const std::string& name) const { return " run.dir=" + (folder_ / name).string() + " "; }
  std::string bytes(const std::string& run, const std::string& file) const {
    return read_file(folder_ / run / "checkpoints" / file);
  }
  /// "step loss norm" of the training rows, as written.
  std::string training_rows(const std::string& run) const {
    std::ifstream file(folder_ / run / "metrics.jsonl");
    std::string rows;
    for (std::string line; std::getline(file, line);) {
      const Json row = Json::parse(line, "metrics");
      if (row.at("kind").as_string() != "train") continue;
      rows += row.at("step").dump() + " " + row.at("loss").dump() + " " + row.at("grad_norm").dump() + " " +
              row.at("lr").dump() + "\n";
    }
    return rows;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("programs: 5 + 5 steps are 10, bit for bit, over an epoch's border and accumulation") {
  for (const std::string precision : {"f32", "bf16"}) {
    const Bench bench;
    const std::string common = bench.config() + "train.precision=" + precision + " ";
    CHECK(run(common + bench.run_dir("whole")).exit_code == 0);
    const Outcome first = run(common + bench.run_dir("halves") + "train.steps=5 schedule.steps=10");
    CHECK(first.exit_code == 0);
    const Outcome second = run(common + bench.run_dir("halves") + "schedule.steps=10 --resume auto");
    CHECK(second.exit_code == 0);
    CHECK(has(second.text, "going on from"));
    CHECK(bench.training_rows("whole") == bench.training_rows("halves"));
    for (const char* file : {"step-10/model.safetensors", "step-10/optimizer.safetensors"}) {
      CHECK(bench.bytes("whole", file) == bench.bytes("halves", file));
    }
    // A third leg from the middle of the whole run, in a folder of its own.
    const std::string middle = (bench / "whole" / "checkpoints" / "step-5").string();
    CHECK(run(common + bench.run_dir("third") + "--resume " + middle).exit_code == 0);
    CHECK(bench.bytes("third", "step-10/model.safetensors") ==
          bench.bytes("whole", "step-10/model.safetensors"));
  }
}

TEST_CASE("programs: the weights of two equal runs have the same checksum on the console, in both files") {
  const Bench bench;
  const Outcome one = run(bench.config() + bench.run_dir("one")),
                two = run(bench.config() + bench.run_dir("two"));
  const auto weights = [](const Outcome& outcome) {
    return outcome.text.substr(outcome.text.rfind("weights "));
  };
  CHECK(weights(one).size() == 8 + 16 + 1);
  CHECK(weights(one) == weights(two));
  const Outcome other = run(bench.config() + bench.run_dir("other") + "train.seed=9");
  CHECK(weights(one) != weights(other));
  const std::string digest = "\"" + weights(one).substr(8, 16) + "\"";
  CHECK(has(read_file(bench / "one" / "metrics.jsonl"), "\"weights\": " + digest));
  CHECK(has(bench.bytes("one", "step-10/state.json"), "\"model.safetensors\": " + digest));
}

TEST_CASE("programs: tang-check training repeats a run and holds it against other implementations") {
  const Bench bench;
  const Outcome good = run(
      "training " + bench.config() + "--steps 4 --against attention_forward=cpu train.seed=3", "tang-check");
  CHECK(good.exit_code == 0);
  CHECK(has(good.text, "4 of 4 steps have the same bits\nweights "));
  CHECK(has(good.text, "difference of a loss is 0.000% (step 0), allowed 1.000%"));
  CHECK(has(good.text, "\n9 passed, 0 failed, 0 skipped"));
}

TEST_CASE("programs: tang-check training refuses what is wrong before its first run") {
  const Bench bench;
  for (const char* wrong : {"--against attention_forward=gpu", "--against attention_forward",
                            "--against atention=cpu", "--against attention_forward=cuda:mma",
                            "--within nan --against attention_forward=cpu", "--within -1", "--steps 0"}) {
    const Outcome outcome = run("training " + bench.config() + wrong, "tang-check");
    CHECK_MESSAGE(outcome.exit_code == 2, wrong);
    CHECK_MESSAGE(outcome.text.starts_with("tang-check: error: "), outcome.text);
    CHECK_MESSAGE(std::count(outcome.text.begin(), outcome.text.end(), '\n') == 1, outcome.text);
  }
}

TEST_CASE("programs: --start-up says where the time to the first step went") {
  const Bench bench;
  const Outcome outcome = run(bench.config() + bench.run_dir("timed") + "train.steps=2 --start-up");
  CHECK(outcome.exit_code == 0);
  for (const char* span : {"\ndevice ", "\ndata ", "\nmodel ", "\n  ops of the step ", "\ninitial weights ",
                           "\nfirst step ", "\nend of the first step "}) {
    CHECK_MESSAGE(has(outcome.text, span), span);
  }
}

TEST_CASE("programs: evaluating changes no training loss") {
  const Bench bench;
  CHECK(run(bench.config() + bench.run_dir("without")).exit_code == 0);
  const Outcome with = run(bench.config() + bench.run_dir("with") + "eval.every=2 eval.batches=2");
  CHECK(with.exit_code == 0);
  CHECK(has(with.text, "validation loss"));
  CHECK(bench.training_rows("with") == bench.training_rows("without"));
}

TEST_CASE("programs: no steps write the initial checkpoint, and model.init starts from it") {
  const Bench bench;
  CHECK(run(bench.config() + bench.run_dir("zero") + "train.steps=0").exit_code == 0);
  const std::string zero = (bench / "zero" / "checkpoints" / "step-0").string();
  CHECK(run(bench.config() + bench.run_dir("a")).exit_code == 0);
  CHECK(run(bench.config() + bench.run_dir("b") + "train.seed=0 model.init=" + zero).exit_code == 0);
  CHECK(bench.bytes("a", "step-10/model.safetensors") == bench.bytes("b", "step-10/model.safetensors"));
  const Outcome other = run(bench.config() + bench.run_dir("c") + "model.rope_theta=5e5 model.init=" + zero);
  CHECK(other.exit_code == 2);
  CHECK(has(other.text, "rope_theta is 10000.0 there, 5e+05 in this configuration"));
}

TEST_CASE("programs: a damaged newest checkpoint is set aside and the one before it is used") {
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json", "config.json"}) {
    const Bench bench;
    CHECK(run(bench.config() + bench.run_dir("r")).exit_code == 0);
    const fs::path path = bench / "r" / "checkpoints" / "step-10" / file;
    std::string bytes = read_file(path);
    bytes[bytes.size() / 2] ^= 1;
    std::ofstream(path, std::ios::binary) << bytes;
    const Outcome resumed = run(bench.config() + bench.run_dir("r") + "--resume auto");
    CAPTURE(resumed.text);
    CHECK(resumed.exit_code == 0);
    CHECK(has(resumed.text, std::string(file)));
    CHECK(has(resumed.text, "step-5"));
    fs::remove(bench / "r" / "checkpoints" / "step-10" / file);
    const Outcome refused =
        run(bench.config() + "--resume " + (bench / "r" / "checkpoints" / "step-10").string());
    CHECK(refused.exit_code == 2);
    CHECK(has(refused.text, file));
  }
}

TEST_CASE("programs: a new run does not touch a folder with checkpoints; keep removes the oldest") {
  const Bench bench;
  CHECK(run(bench.config() + bench.run_dir("r") + "checkpoint.every=2 checkpoint.keep=2").exit_code == 0);
  CHECK(fs::exists(bench / "r" / "checkpoints" / "step-10"));
  CHECK(fs::exists(bench / "r" / "checkpoints" / "step-8"));
  CHECK(!fs::exists(bench / "r" / "checkpoints" / "step-6"));
  const Outcome again = run(bench.config() + bench.run_dir("r"));
  CHECK(again.exit_code == 2);
  CHECK(has(again.text, "--resume auto"));
  const Outcome fresh = run(bench.config() + bench.run_dir("new") + "--resume auto train.steps=1");
  CHECK(fresh.exit_code == 0);
  CHECK(has(fresh.text, "starting afresh"));
}

TEST_CASE("programs: resuming with other data, seed or shape is refused, with another rate it is said") {
  Bench bench;
  CHECK(run(bench.config() + bench.run_dir("r") + "train.steps=1").exit_code == 0);
  const std::string resume = bench.config() + bench.run_dir("r") + "--resume auto train.steps=2 ";
  CHECK(has(run(resume + "train.seed=1").text, "train.seed was 0"));
  CHECK(run(resume + "train.seed=1").exit_code == 2);
  CHECK(run(resume + "model.ffn_dim=64").exit_code == 2);
  const Outcome rate = run(resume + "optimizer.beta2=0.99");
  CHECK(rate.exit_code == 0);
  CHECK(has(rate.text, "optimizer.beta2 was 0.95, from here on it is 0.99"));
  bench.write("train_000000.bin", 16 * 25 + 1, 9);
  CHECK(has(run(resume).text, "data.train is not what the checkpoint was trained on"));
}

TEST_CASE("programs: bad input is one line and exit code 2, before anything is created") {
  Bench bench;
  const std::pair<std::string, std::string> cases[] = {
      {bench.config() + bench.run_dir("r") + "train.lr=1", "did you mean 'optimizer.lr'"},
      {bench.config() + bench.run_dir("r") + "data.train=" + (bench / "nothing").string(), "nothing"},
      {bench.config() + bench.run_dir("r") + "data.seq_len=192", "tokens"},  // longer than the second shard
      {bench.config() + bench.run_dir("r") + "--frobnicate", "frobnicate"},
      {"--config /nonexistent.yaml", "/nonexistent.yaml"},
      {"", "--config"}};
  bench.write("train_000001.bin", 100, 2);
  for (const auto& [arguments, part] : cases) {
    const Outcome outcome = run(arguments);
    CAPTURE(outcome.text);
    CHECK(outcome.exit_code == 2);
    CHECK(has(outcome.text, part));
    CHECK(std::count(outcome.text.begin(), outcome.text.end(), '\n') == 1);
    CHECK(!fs::exists(bench / "r"));
  }
  bench.write("train_000001.bin", 16 * 15 + 1, 2, 61);
  const Outcome id = run(bench.config() + bench.run_dir("id"));
  CHECK(id.exit_code == 2);
  CHECK(has(id.text, "train_000001.bin"));
  CHECK(has(id.text, "77"));
}

TEST_CASE("programs: a plan and a printed configuration create nothing") {
  const Bench bench;
  const Outcome plan = run(bench.config() + bench.run_dir("r") + "--plan");
  CHECK(plan.exit_code == 0);
  CHECK(has(plan.text, "activations"));
  CHECK(has(plan.text, "largest micro-batch"));
  const Outcome printed = run(bench.config() + bench.run_dir("r") + "--print-config train.steps=3");
  CHECK(has(printed.text, "  steps: 3\n"));
  CHECK(!fs::exists(bench / "r"));
}

TEST_CASE("programs: an interrupt finishes the step, saves and says so in the exit code") {
  const Bench bench;
  const std::string run_dir = bench.run_dir("r");
  // Three signals once it trains, while it saves at every third step; the run itself would take hours. One
  // kind: of two that wait, the kernel hands over the lower number first.
  const std::string command =
      "OMP_NUM_THREADS=1 " + (fs::path(TANG_BINARY_DIR) / "tang-train").string() + " " + bench.config() +
      run_dir +
      "train.steps=100000000 checkpoint.every=3 log.every=1000000 > /dev/null & p=$!; i=0; "
      "while ! [ -s " +
      (bench / "r").string() +
      "/metrics.jsonl ] && [ $i -lt 500 ]; do sleep 0.02; i=$((i+1)); done; sleep 0.1; "
      "kill -TERM $p; kill -TERM $p; kill -TERM $p; wait $p";
  const int status = std::system(command.c_str());
  CHECK(WEXITSTATUS(status) == 143);
  const Outcome resumed = run(bench.config() + run_dir + "--resume auto train.steps=1");
  CHECK(resumed.exit_code == 0);  // nothing left to do, and the checkpoint is whole
  CHECK(!has(resumed.text, "set aside"));
}

TEST_CASE("programs: on text of known entropy the validation loss comes down to the entropy and not below") {
  const TemporaryFolder folder;
  const std::string data = (folder / "data").string();
  CHECK(run("synth --out " + data + " --tokens 200000 --val-tokens 20001 --seed 4", "tang-data").exit_code ==
        0);
  std::ofstream(folder / "c.yaml")
      << "model: {dim: 48, n_layers: 1, n_heads: 2, n_kv_heads: 1, head_dim: 16, "
         "ffn_dim: 96, vocab_size: 256}\n"
      << "data: {train: " << data << ", val: " << data << ", seq_len: 50}\n"
      << "train: {device: cpu, precision: f32, steps: 250, batch_tokens: 800}\n"
      << "optimizer: {lr: 1e-2}\nschedule: {warmup_steps: 10}\n"
      << "eval: {every: 250, batches: 1000}\n";
  const Outcome outcome =
      run("--config " + (folder / "c.yaml").string() + " run.dir=" + (folder / "run").string());
  CAPTURE(outcome.text);
  CHECK(outcome.exit_code == 0);
  double loss = 0;
  std::ifstream file(folder / "run" / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const Json row = Json::parse(line, "metrics");
    if (row.at("kind").as_string() == "val") loss = row.at("loss").as_double();
  }
  const Json dataset = Json::parse(read_file(folder / "data" / "dataset.json"), "dataset.json");
  const double entropy = dataset.at("entropy_nats").as_double();
  CHECK(loss < 1.05 * entropy);
  // 20,000 symbols whose cost deviates by about a nat: three standard errors.
  CHECK(loss > entropy - 3 / std::sqrt(20000.0));
}
