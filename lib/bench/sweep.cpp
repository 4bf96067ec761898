#include "lib/bench/sweep.h"

#include <algorithm>
#include <charconv>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/ops/case.h"

namespace tang {

namespace {

int64_t parse_count(const std::string& flag, std::string_view text, std::string_view whole) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || value < 0) {
    fail_input("--{} needs a number, a list 512,1024 or a sweep 512:8192:*2 or 512:2048:+512, found '{}'",
               flag, whole);
  }
  return value;
}

std::string words_of(const OpBase& op, const std::vector<int64_t>& values, const std::vector<bool>& include) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    if (include[i])
      text += fmt::format("{}{}={}", text.empty() ? "" : " ", op.spec().dims[i].letter, values[i]);
  }
  return text;
}

/// Halves values[i], in order and where `free`, until `small_enough`; each that the op refuses is put back.
template <class Small>
void shrink(const OpBase& op, std::vector<int64_t>& values, const std::vector<bool>& free,
            const std::string& words, Dtype mode, const Small& small_enough) {
  const std::vector<bool> all(values.size(), true);
  for (size_t i = 0; i < values.size(); ++i) {
    while (free[i] && values[i] > 1) {
      try {
        if (small_enough(Case(op, words_of(op, values, all) + " " + words, mode))) return;
      } catch (const Error&) {
        return;  // the op refuses the shape itself: leave it to the caller's message
      }
      const int64_t before = values[i];
      values[i] = (values[i] + 1) / 2;
      try {
        Case(op, words_of(op, values, all) + " " + words, mode);
      } catch (const Error&) {
        values[i] = before;
        break;
      }
    }
  }
}

}  // namespace

std::vector<int64_t> parse_sweep(const std::string& flag, const std::string& text) {
  std::vector<int64_t> values;
  for (const std::string& piece : split(text, ',')) {
    const std::vector<std::string> parts = split(piece, ':');
    if (parts.size() == 1) {
      values.push_back(parse_count(flag, piece, text));
      continue;
    }
    if (parts.size() != 3 || parts[2].size() < 2 || (parts[2][0] != '*' && parts[2][0] != '+'))
      parse_count(flag, "", text);  // refuses with the forms that are known
    const int64_t first = parse_count(flag, parts[0], text), last = parse_count(flag, parts[1], text);
    const int64_t step = parse_count(flag, std::string_view(parts[2]).substr(1), text);
    const bool grows = parts[2][0] == '*' ? step >= 2 && first >= 1 : step >= 1;
    if (!grows || last < first) fail_input("--{}: the sweep '{}' does not grow to its end", flag, text);
    for (int64_t value = first; value <= last; value = parts[2][0] == '*' ? value * step : value + step)
      values.push_back(value);
  }
  return values;
}

Sweep make_sweep(const OpBase& op, const std::map<std::string, std::string>& flags, const std::string& words,
                 DeviceKind kind) {
  const auto& dims = op.spec().dims;
  std::vector<std::vector<int64_t>> lists;
  std::vector<bool> is_free, varies, same;
  std::vector<int64_t> first;
  for (const Dim& dim : dims) {
    const auto flag = flags.find(dim.flag);
    const bool given = flag != flags.end() && !flag->second.empty();
    lists.push_back(given ? parse_sweep(dim.flag, flag->second) : std::vector<int64_t>{dim.bench_default});
    is_free.push_back(!given);
    varies.push_back(lists.back().size() > 1);
    same.push_back(!varies.back());
    first.push_back(lists.back().back());  // the largest shape decides what fits
  }
  if (kind == DeviceKind::cpu) {
    shrink(op, first, is_free, words, Dtype::f32,
           [](const Case& plan) { return plan.flops() <= 2e10 && plan.bytes() <= 0x1p30; });
    for (size_t i = 0; i < dims.size(); ++i) {
      if (is_free[i]) lists[i] = {first[i]};
    }
  }
  Sweep sweep;
  std::vector<size_t> at(dims.size(), 0);
  const std::vector<bool> all(dims.size(), true);
  for (;;) {
    std::vector<int64_t> values;
    for (size_t i = 0; i < dims.size(); ++i) values.push_back(lists[i][at[i]]);
    if (sweep.points.empty()) sweep.fixed = trim(words_of(op, values, same) + " " + words);
    sweep.points.push_back(
        {std::string(trim(words_of(op, values, all) + " " + words)), words_of(op, values, varies)});
    size_t i = dims.size();
    while (i > 0 && ++at[i - 1] == lists[i - 1].size()) at[--i] = 0;
    if (i == 0) return sweep;
  }
}

CaseText gate_case(const OpBase& op, const CaseText& text, Dtype mode) {
  const Case plan(op, text, mode);
  std::vector<int64_t> values;
  for (const Dim& dim : op.spec().dims) values.push_back(plan.values()[dim.letter]);
  std::string rest;
  for (const std::string& word : words(text)) {
    const std::string name = word.substr(0, word.find('='));
    const bool is_dim = std::any_of(op.spec().dims.begin(), op.spec().dims.end(),
                                    [&](const Dim& dim) { return dim.letter == name; });
    if (!is_dim) rest += " " + word;
  }
  shrink(op, values, std::vector<bool>(values.size(), true), rest, mode,
         [](const Case& candidate) { return candidate.flops() <= 3e7 && candidate.bytes() <= 0x1p24; });
  return std::string(trim(words_of(op, values, std::vector<bool>(values.size(), true)) + rest));
}

}  // namespace tang
