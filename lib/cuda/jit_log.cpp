#include "lib/cuda/jit_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lib/base/error.h"
#include "lib/base/text.h"

namespace tang {

namespace {

/// The text between two marks, or "".
std::string_view between(std::string_view text, std::string_view before, std::string_view after) {
  const auto at = text.find(before);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + before.size());
  return text.substr(0, text.find(after));
}

int64_t to_number(std::string_view digits) {
  int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

/// The number right before `unit`: 128 in "2 barriers, 128 bytes smem" for " bytes smem".
int64_t number_before(std::string_view text, std::string_view unit) {
  const auto end = text.find(unit);
  if (end == std::string_view::npos) return 0;
  auto begin = end;
  while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
  return to_number(text.substr(begin, end - begin));
}

/// Bytes of ".param .align 8 .b8 f_param_0[48]" or ".param .u64 f_param_1".
int64_t parameter_bytes(std::string_view declaration) {
  const std::vector<std::string> parts = words(declaration);
  int64_t element = 0;
  for (const std::string& part : parts) {
    if (part.size() > 2 && part[0] == '.' && part[2] >= '0' && part[2] <= '9')
      element = to_number(part.substr(2)) / 8;
  }
  const std::string_view count = between(declaration, "[", "]");
  return element * (count.empty() ? 1 : to_number(count));
}

void read_parameters(std::string_view ptx, JitEntry& entry) {
  const std::string_view list = between(ptx, fmt::format(".entry {}(", entry.name), ")");
  for (size_t at = 0; (at = list.find(".param ", at)) != std::string_view::npos; ++at) {
    const std::string_view declaration = list.substr(at, list.find_first_of(",\n", at) - at);
    entry.parameters += 1;
    entry.param_bytes += parameter_bytes(declaration);
  }
}

}  // namespace

std::vector<JitEntry> parse_entries(std::string_view log, std::string_view ptx) {
  std::vector<JitEntry> entries;
  for (const std::string& line : split(log, '\n')) {
    if (const auto name = between(line, "Compiling entry function '", "'"); !name.empty()) {
      entries.emplace_back();
      entries.back().name = name;
      read_parameters(ptx, entries.back());
    }
    if (entries.empty()) continue;
    JitEntry& entry = entries.back();
    if (const int64_t registers = number_before(between(line, "Used ", ","), " registers")) {
      entry.registers = static_cast<int>(registers);
    }
    entry.static_shared_bytes = std::max(entry.static_shared_bytes, number_before(line, " bytes smem"));
    entry.stack_bytes = std::max(entry.stack_bytes, number_before(line, " bytes stack frame"));
    entry.spill_bytes +=
        number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
  }
  return entries;
}

std::vector<std::string> parse_warnings(std::string_view log) {
  std::vector<std::string> warnings;
  for (const std::string& line : split(log, '\n')) {
    if (line.find("(C75") != std::string::npos) warnings.emplace_back(trim(line));
  }
  return warnings;
}

std::string first_error(std::string_view log) {
  for (const std::string& line : split(log, '\n')) {
    if (line.find("error") != std::string::npos || line.find("fatal") != std::string::npos) {
      return std::string(trim(line));
    }
  }
  return std::string(trim(log.substr(0, log.find('\n'))));
}

// The record: lines "entry NAME registers spill stack shared parameters bytes" and "warning TEXT", an empty
// line, the binary.
std::string pack_result(const JitResult& result) {
  std::string text;
  for (const JitEntry& e : result.entries) {
    text += fmt::format("entry {} {} {} {} {} {} {}\n", e.name, e.registers, e.spill_bytes, e.stack_bytes,
                        e.static_shared_bytes, e.parameters, e.param_bytes);
  }
  for (const std::string& warning : result.warnings) text += fmt::format("warning {}\n", warning);
  return text + '\n' + result.cubin;
}

JitResult unpack_result(std::string_view payload) {
  JitResult result;
  for (size_t end; (end = payload.find('\n')) != 0 && end != std::string_view::npos;
       payload.remove_prefix(end + 1)) {
    const std::string_view line = payload.substr(0, end);
    if (line.starts_with("warning ")) {
      result.warnings.emplace_back(line.substr(8));
      continue;
    }
    const std::vector<std::string> parts = words(line);
    if (parts.size() != 8) fail_check("a kernel cache entry has the line '{}'", line);
    JitEntry& entry = result.entries.emplace_back();
    entry.name = parts[1];
    entry.registers = static_cast<int>(to_number(parts[2]));
    entry.spill_bytes = to_number(parts[3]);
    entry.stack_bytes = to_number(parts[4]);
    entry.static_shared_bytes = to_number(parts[5]);
    entry.parameters = static_cast<int>(to_number(parts[6]));
    entry.param_bytes = to_number(parts[7]);
  }
  if (!payload.empty()) result.cubin = payload.substr(1);
  return result;
}

}  // namespace tang
