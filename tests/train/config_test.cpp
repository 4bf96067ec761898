#include <doctest/doctest.h>

#include <filesystem>

#include "lib/base/error.h"
#include "lib/train/run_config.h"

using namespace tang;

namespace {

const char* const good =
    "model:\n"
    "  dim: 64\n"
    "  n_layers: 2\n"
    "  n_heads: 4\n"
    "  n_kv_heads: 2\n"
    "  ffn_dim: 96\n"
    "  vocab_size: 300\n"
    "data:\n"
    "  train: data/x\n"
    "  seq_len: 32\n"
    "train:\n"
    "  steps: 10\n"
    "  batch_tokens: 128\n";

RunConfig parse(const std::vector<std::string>& overrides, const std::string& text = good) {
  return parse_run_config(text, "run.yaml", overrides);
}

std::string refusal(const std::vector<std::string>& overrides, const std::string& text = good) {
  try {
    parse(overrides, text);
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    return error.what();
  }
  return "accepted";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("train: numbers are numbers in every spelling") {
  for (const char* lr : {"1e-4", "1E-4", "1.0e-4", ".0001", "+1e-4"}) {
    CHECK(parse({std::string("optimizer.lr=") + lr}).optimizer.lr == 1e-4);
    CHECK(parse({}, std::string(good) + "optimizer:\n  lr: " + lr + "\n").optimizer.lr == 1e-4);
  }
  CHECK(refusal({}, std::string(good) + "optimizer:\n  lr: abc\n") ==
        "run.yaml:15: optimizer.lr: expected a number >= 0, found 'abc'");
  CHECK(parse({"train.batch_tokens=1e6", "data.seq_len=100"}).train.batch_tokens == 1000000);
}

TEST_CASE("train: values outside of a rule are refused with key and rule") {
  const std::pair<const char*, const char*> cases[] = {
      {"train.batch_tokens=0", "an integer >= 1"},    {"train.micro_batch=0", "an integer >= 1, or auto"},
      {"data.seq_len=0", "an integer >= 1"},          {"model.n_layers=0", "an integer >= 1"},
      {"optimizer.lr=-1", "a number >= 0"},           {"optimizer.lr=nan", "a number >= 0"},
      {"train.steps=-1", "an integer >= 0"},          {"train.steps=1.5", "an integer >= 0"},
      {"optimizer.beta1=1", "a number >= 0 and < 1"}, {"optimizer.eps=0", "a number > 0"},
      {"model.dim=12x", "an integer >= 1"},           {"model.tie_embeddings=maybe", "true or false"},
      {"train.precision=f16", "bf16, f32, tf32"},     {"model.dim=[1, 2]", "an integer >= 1"},
      {"optimizer.lr=inf", "a number >= 0"},          {"model.dim=", "an integer >= 1"}};
  for (const auto& [text, rule] : cases) {
    const std::string override_text = text, key = override_text.substr(0, override_text.find('='));
    CAPTURE(override_text);
    CHECK(has(refusal({override_text}), "command line: " + key + ": expected " + rule));
  }
}

TEST_CASE("train: unknown, misplaced and duplicate keys are refused with place and nearest key") {
  CHECK(refusal({"optimiser.lr=1"}) ==
        "command line: unknown key 'optimiser.lr' (did you mean 'optimizer.lr'?)");
  CHECK(has(refusal({"train.lr=1"}), "did you mean 'optimizer.lr'?"));
  CHECK(has(refusal({"steps=1"}), "did you mean 'train.steps'?"));
  CHECK(has(refusal({"train=1"}), "'train' is a section"));
  CHECK(has(refusal({"zzzzzz=1"}), "unknown key 'zzzzzz'"));
  CHECK(has(refusal({"train.steps"}), "expected key=value"));
  CHECK(has(refusal({}, std::string(good) + "  steps: 12\n"), "run.yaml:14: duplicate key 'train.steps'"));
  CHECK(has(refusal({}, std::string(good) + "model:\n  dim: 1\n"), "run.yaml:14: duplicate key 'model'"));
  CHECK(has(refusal({}, std::string(good) + "  stepz: 12\n"), "run.yaml:14: unknown key 'train.stepz'"));
  CHECK(has(refusal({}, "model: [\n"), "not YAML"));
  CHECK(has(refusal({}, "model:\n  dim: 64\n"), "is missing"));
}

TEST_CASE("train: impossible combinations are refused, naming what would do") {
  CHECK(has(refusal({"model.n_kv_heads=3"}), "command line: model.n_kv_heads: n_heads 4 must be divisible"));
  CHECK(has(refusal({"model.head_dim=7"}), "it must be even"));
  CHECK(has(refusal({"train.batch_tokens=100"}), "the nearest are 96 and 128"));
  CHECK(has(refusal({"train.micro_batch=3"}), "3 x 32 = 96; the nearest are 96 and 192"));
  CHECK(has(refusal({"schedule.warmup_steps=20"}), "20 is more than the 10 steps"));
  CHECK(refusal({"schedule.warmup_steps=10"}) == "accepted");
  CHECK(has(refusal({"schedule.min_lr=1"}), "is above the peak"));
  CHECK(has(refusal({"eval.every=5"}), "needs data.val"));
  CHECK(has(refusal({"data.pad_id=300"}), "is not below model.vocab_size 300"));
  CHECK(has(refusal({"train.device=gpu"}), "expected auto, cpu, cuda or cuda:N"));
  CHECK(has(refusal({}, std::string(good) + "  tokens: 5\n"), "exactly one of train.steps"));
}

TEST_CASE("train: the command line's length of a run replaces the file's") {
  CHECK(parse({"train.tokens=1280"}).total_steps(0) == 10);
  CHECK(parse({"train.tokens=1281"}).total_steps(0) == 11);
  CHECK(parse({"train.epochs=1"}).total_steps(10) == 3);  // 4 sequences a step
  CHECK(parse({"train.epochs=2", "train.steps=7"}).total_steps(10) == 7);
  CHECK(parse({"train.steps=3", "train.steps=5"}).total_steps(0) == 5);
}

TEST_CASE("train: a printed configuration reads back equal") {
  const std::vector<std::string> overrides = {"data.train=[a b, \"c\"]", "optimizer.lr=1e-5",
                                              "data.pad_id=none", "run.dir=x: y", "train.micro_batch=2"};
  const std::string printed = print_config(parse(overrides));
  CHECK(has(printed, "head_dim: 16\n"));
  CHECK(print_config(parse({}, printed)) == printed);
  CHECK(parse({}, printed).data.train == std::vector<std::string>{"a b", "c"});
}

TEST_CASE("train: the shipped configurations are good and docs/CONFIG.md is fresh") {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(TANG_SOURCE_DIR) / "configs")) {
    load_run_config(entry.path(), {});
    ++count;
  }
  CHECK(count >= 5);
  CHECK(read_file(fs::path(TANG_SOURCE_DIR) / "docs/CONFIG.md") == config_reference());
}
