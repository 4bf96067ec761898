#include "lib/check/training.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/train/fit.h"
#include "lib/train/run_training.h"

namespace tang {

namespace {

/// A folder for the runs; the kernel cache is in it until the end.
class Workplace {
 public:
  Workplace() {
    std::string name = (fs::temp_directory_path() / "tang-check-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      fail_machine("cannot make {}: {}; set TMPDIR to a folder with room", name, std::strerror(errno));
    folder_ = name;
    if (const char* before = std::getenv(variable)) before_ = before;
    ::setenv(variable, (folder_ / "kernels").c_str(), 1);
  }
  ~Workplace() {
    before_ ? ::setenv(variable, before_->c_str(), 1) : ::unsetenv(variable);
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  fs::path operator/(const char* name) const { return folder_ / name; }

 private:
  static constexpr const char* variable = "TANG_CACHE_DIR";
  fs::path folder_;
  std::optional<std::string> before_;
};

struct Step {
  double loss, grad_norm;  // NaN where the row has none
};

struct Trained {
  std::vector<Step> steps;
  std::string weights;
};

Trained read_run(const fs::path& folder) {
  Trained trained;
  const fs::path path = folder / "metrics.jsonl";
  const auto number = [](const Json& value) { return value.is_null() ? std::nan("") : value.as_double(); };
  for (const std::string& line : split(read_file(path), '\n')) {
    if (line.empty()) continue;
    const Json row = Json::parse(line, path.string());
    if (row.at("kind").as_string() == "train")
      trained.steps.push_back({number(row.at("loss")), number(row.at("grad_norm"))});
    if (row.at("kind").as_string() == "end") trained.weights = row.at("weights").as_string();
  }
  return trained;
}

Trained train(const TrainingCheckOptions& options, const fs::path& folder,
              const std::vector<std::string>& impls) {
  TrainRequest request{.config = options.config, .overrides = options.overrides, .impls = impls};
  for (const std::string& last : {fmt::format("train.steps={}", options.steps),
                                  std::string("checkpoint.every=0"), std::string("eval.every=0"),
                                  fmt::format("log.every={}", options.steps), "run.dir=" + folder.string()}) {
    request.overrides.push_back(last);
  }
  if (const int code = run_training(request); code != 0) fail_check("a run ended with exit code {}", code);
  Trained trained = read_run(folder);
  fs::remove_all(folder);
  if (static_cast<int64_t>(trained.steps.size()) != options.steps)
    fail_check("a run of {} steps has {} rows of metrics", options.steps, trained.steps.size());
  return trained;
}

bool same_bits(const Step& a, const Step& b) {
  const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  return same(a.loss, b.loss) && same(a.grad_norm, b.grad_norm);
}

Counts compare_bits(const Trained& first, const Trained& second) {
  Counts counts;
  for (size_t i = 0; i < first.steps.size(); ++i) {
    const Step &a = first.steps[i], &b = second.steps[i];
    const bool good = same_bits(a, b);
    (good ? counts.passed : counts.failed) += 1;
    if (!good && counts.failed == 1) {
      fmt::print("step {}: loss {} and {}, gradient norm {} and {}\n", i + 1, a.loss, b.loss, a.grad_norm,
                 b.grad_norm);
    }
  }
  const bool weights = first.weights == second.weights;
  (weights ? counts.passed : counts.failed) += 1;
  fmt::print("empty and warm kernel cache: {} of {} steps have the same bits\nweights {}{}\n",
             counts.passed - (weights ? 1 : 0), first.steps.size(), first.weights,
             weights ? " twice" : " and " + second.weights);
  return counts;
}

/// Relative. A step without a loss is near another such, and far from any other.
double distance_of(double own, double other) {
  if (own == other || (std::isnan(own) && std::isnan(other))) return 0;
  const double distance = std::abs(own / other - 1);
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
}

Counts compare_losses(const Trained& own, const Trained& other, const TrainingCheckOptions& options) {
  Counts counts;
  double worst = 0;
  size_t worst_step = 0;
  for (size_t i = 0; i < own.steps.size(); ++i) {
    const double distance = distance_of(own.steps[i].loss, other.steps[i].loss);
    (distance <= options.within ? counts.passed : counts.failed) += 1;
    if (distance > worst) worst = distance, worst_step = i + 1;
  }
  fmt::print("against {}:\n  the largest difference of a loss is {:.3f}% (step {}), allowed {:.3f}%\n",
             fmt::join(options.against, ", "), 100 * worst, worst_step, 100 * options.within);
  return counts;
}

/// What the device would pass over would be compared with itself.
void check_against(const TrainingCheckOptions& options) {
  if (options.against.empty()) return;
  const RunConfig config = load_run_config(options.config, options.overrides);
  check_implementations(options.against, *open_device(config.train.device, false));
}

}  // namespace

Counts check_training(const TrainingCheckOptions& options) {
  if (options.steps < 1) fail_input("--steps must be 1 or more, found {}", options.steps);
  if (!(options.within >= 0)) fail_input("--within must be 0 or more, found {}", options.within);
  check_against(options);  // now, not after two runs
  const Workplace workplace;
  const Trained cold = train(options, workplace / "cold", {});
  Counts counts = compare_bits(cold, train(options, workplace / "warm", {}));
  if (!options.against.empty())
    counts += compare_losses(cold, train(options, workplace / "against", options.against), options);
  return counts;
}

}  // namespace tang
