#include "lib/infer/run_generate.h"

#include <algorithm>
#include <cstdio>

#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/infer/generator.h"
#include "lib/infer/loaded_model.h"
#include "lib/infer/text_stream.h"

namespace tang {

namespace {

constexpr size_t most_at_once = 32;  // prompts side by side

std::vector<std::string> read_prompts(const GenerateRequest& request) {
  if (request.prompt.has_value() != request.prompts.empty()) {
    fail_input("give exactly one of --prompt TEXT and --prompts FILE");
  }
  if (request.prompt) return {*request.prompt};
  std::vector<std::string> prompts;
  for (std::string& line : split(read_file(request.prompts), '\n')) {
    if (!line.empty()) prompts.push_back(std::move(line));
  }
  if (prompts.empty()) fail_input("{} has no prompt: expected one a line", request.prompts);
  return prompts;
}

Precision precision_of(const std::string& dtype, const Device& device) {
  if (dtype == "auto") return device.kind() == DeviceKind::cuda ? Precision::bf16 : Precision::f32;
  if (dtype != "bf16" && dtype != "f32") fail_input("--dtype: expected bf16, f32 or auto, found '{}'", dtype);
  return dtype == "bf16" ? Precision::bf16 : Precision::f32;
}

/// As in training: the document mark, then the text.
std::vector<uint32_t> encode_prompt(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<uint32_t> ids = {tokenizer.document_mark()};
  tokenizer.encode(text, ids);
  return ids;
}

void write_out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Prints texts in the order of their prompts: one as it comes, those after it once it is their turn.
class Printer {
 public:
  Printer(const GenerateRequest& request, const Tokenizer& tokenizer, std::span<const std::string> texts,
          std::span<const std::vector<uint32_t>> prompts, size_t number)
      : json_(request.json), texts_(texts), prompts_(prompts), number_(number), pages_(prompts.size()) {
    for (size_t i = 0; i < prompts.size(); ++i) streams_.emplace_back(tokenizer, prompts[i]);
    begin_page();
  }

  void add(size_t page, uint32_t id) {
    ++pages_[page].tokens;
    say(page, streams_[page].push(id));
  }

  void end(size_t page, bool stopped) {
    say(page, streams_[page].finish());
    pages_[page].ended = true;
    pages_[page].stopped = stopped;
    while (current_ < pages_.size() && pages_[current_].ended) {
      end_page();
      if (++current_ < pages_.size()) begin_page();
    }
  }

 private:
  struct Page {
    std::string text;
    int64_t tokens = 0;
    bool ended = false, stopped = false;
  };

  void say(size_t page, const std::string& text) {
    pages_[page].text += text;
    if (!json_ && page == current_ && !text.empty()) write_out(text);
  }
  void begin_page() {
    if (json_) return;
    if (several()) fmt::print("=== {}: {}\n", number_ + current_ + 1, texts_[current_]);
    write_out(pages_[current_].text);
  }
  void end_page() {
    const Page& page = pages_[current_];
    if (!json_) return write_out("\n");
    const Json row = Json::object({{"prompt", texts_[current_]},
                                   {"text", page.text},
                                   {"prompt_tokens", prompts_[current_].size()},
                                   {"tokens", page.tokens},
                                   {"finish", page.stopped ? "stop" : "length"}});
    write_out(row.dump() + "\n");
  }
  bool several() const { return number_ + texts_.size() > 1; }

  const bool json_;
  std::span<const std::string> texts_;
  std::span<const std::vector<uint32_t>> prompts_;
  const size_t number_;  // of prompts before these
  std::vector<Page> pages_;
  std::vector<TextStream> streams_;
  size_t current_ = 0;
};

struct Totals {
  GenerateTimes times;
  double later_s = 0;  // of the steps that are no prompt's first
  int64_t later_steps = 0;

  void add(const GenerateTimes& t) {
    if (times.steps == 0) times.first_token_s = t.first_token_s;
    times.total_s += t.total_s;
    times.tokens += t.tokens;
    times.steps += t.steps;
    later_s += t.total_s - t.first_token_s;
    later_steps += t.steps - 1;
  }
};

void report(const GenerateRequest& request, const Device& device, Precision precision, const Totals& totals) {
  const GenerateTimes& t = totals.times;
  const double rate = t.total_s > 0 ? static_cast<double>(t.tokens) / t.total_s : 0;
  const double step_ms =
      totals.later_steps > 0 ? 1e3 * totals.later_s / static_cast<double>(totals.later_steps) : 0;
  if (request.json) {
    const Json row = Json::object({{"device", device.caps().name},
                                   {"dtype", name_of(data_type(precision))},
                                   {"tokens", t.tokens},
                                   {"seconds", t.total_s},
                                   {"tokens_per_s", rate},
                                   {"time_to_first_token_ms", 1e3 * t.first_token_s},
                                   {"step_ms", totals.later_steps > 0 ? Json(step_ms) : Json()}});
    return write_out(row.dump() + "\n");
  }
  fmt::print(stderr, "{} tokens in {:.2f} s: {:.1f} tokens/s, first token after {:.1f} ms{} ({}, {})\n",
             t.tokens, t.total_s, rate, 1e3 * t.first_token_s,
             totals.later_steps > 0 ? fmt::format(", then {:.3f} ms a step", step_ms) : "",
             device.caps().name, name_of(data_type(precision)));
}

}  // namespace

int run_generate(const GenerateRequest& request) {
  const std::vector<std::string> texts = read_prompts(request);
  GenerateOptions options{.max_tokens = request.max_tokens,
                          .sampling = {.temperature = request.temperature,
                                       .top_k = request.top_k,
                                       .top_p = request.top_p,
                                       .seed = static_cast<uint64_t>(request.seed)}};
  check_sampling(options.sampling);
  if (options.max_tokens < 1) fail_input("--max-tokens must be 1 or more, found {}", options.max_tokens);
  const fs::path folder = find_checkpoint(request.model);
  const std::unique_ptr<Device> device = open_device(request.device);
  const Precision precision = precision_of(request.dtype, *device);
  const LoadedModel model = load_model(*device, folder, precision);
  options.stop_id = model.tokenizer->document_mark();
  std::vector<std::vector<uint32_t>> prompts;
  int64_t longest = 0;
  for (const std::string& text : texts) {
    prompts.push_back(encode_prompt(*model.tokenizer, text));
    longest = std::max(longest, static_cast<int64_t>(prompts.back().size()));
  }
  const int64_t capacity = longest + options.max_tokens - 1;
  if (model.context > 0 && capacity > model.context) {
    fmt::print(stderr, "note: {} positions, but the model was trained on {}: what comes later may be poor\n",
               capacity, model.context);
  }
  Generator generator(*device, model.config, model.weights,
                      {.precision = precision,
                       .batch = static_cast<int64_t>(std::min(most_at_once, prompts.size())),
                       .capacity = capacity,
                       .vocab = model.tokenizer->vocab_size()});
  generator.warm_up();
  Totals totals;
  for (size_t at = 0; at < prompts.size(); at += most_at_once) {
    const size_t count = std::min(most_at_once, prompts.size() - at);
    const std::span<const std::vector<uint32_t>> group(prompts.data() + at, count);
    Printer printer(request, *model.tokenizer, {texts.data() + at, count}, group, at);
    generator.run(
        group, options, [&](int64_t page, uint32_t id) { printer.add(static_cast<size_t>(page), id); },
        [&](int64_t page, bool stopped) { printer.end(static_cast<size_t>(page), stopped); });
    totals.add(generator.times());
  }
  report(request, *device, precision, totals);
  return 0;
}

}  // namespace tang
