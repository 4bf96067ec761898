#include "lib/cuda/jit.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>

#include "lib/base/error.h"
#include "lib/base/spans.h"
#include "lib/cuda/jit_log.h"
#include "lib/cuda/kernel_sources.h"
#include "lib/cuda/nvrtc.h"

namespace tang {

namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;

Texts read_kernel_folder(const fs::path& folder) {
  Texts files;
  if (!fs::is_directory(folder)) fail_input("TANG_KERNEL_DIR {} is not a folder", folder.string());
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string kind = entry.path().extension().string();
    if (kind != ".cu" && kind != ".cuh" && kind != ".h") continue;
    files.emplace_back(fs::relative(entry.path(), folder).generic_string(), read_file(entry.path()));
  }
  return files;
}

Texts embedded_files() {
  Texts files;
  for (const KernelSource& source : embedded_kernel_sources()) files.emplace_back(source.name, source.text);
  return files;
}

/// Names between the quotes of #include lines.
std::vector<std::string> included_names(const std::string& text) {
  std::vector<std::string> names;
  constexpr std::string_view directive = "#include \"";
  for (size_t at = 0; (at = text.find(directive, at)) != std::string::npos;) {
    at += directive.size();
    names.push_back(text.substr(at, text.find('"', at) - at));
  }
  return names;
}

std::vector<std::string> compile_options(const JitRequest& request) {
  std::vector<std::string> options = {"-std=c++20", "-default-device",
                                      "--gpu-architecture=" + request.architecture,
                                      "--ptxas-options=--verbose"};
  // NVRTC 13 asks the driver's cache, and a hit gives no log to read registers from. jit_cache.h is our
  // cache.
  if (nvrtc_version() >= "13") options.push_back("--no-cache");
  if (std::getenv("TANG_LINEINFO") != nullptr) options.push_back("-lineinfo");
  for (const auto& [name, value] : request.constants) options.push_back(fmt::format("-D{}={}", name, value));
  return options;
}

Digest key_of(const NvrtcProgram& program) {
  Digest key;
  key.add(nvrtc_version()).add(program.name).add(program.text);
  for (const auto& [name, text] : program.includes) key.add(name).add(text);
  for (const std::string& option : program.options) key.add(option);
  return key;
}

[[noreturn]] void fail_compilation(const JitRequest& request, const Digest& key, const std::string& log) {
  const fs::path path = fs::temp_directory_path() / fmt::format("tang-{}.log", key.hex());
  std::string kept = path.string();
  try {
    write_file_atomic(path, log);
  } catch (const std::exception& error) {
    kept = error.what();
  }
  fail_check("{} does not compile for {} ({}): {} [whole log: {}]", request.source, request.architecture,
             describe(request.constants), first_error(log), kept);
}

}  // namespace

const SourceSet& SourceSet::installed() {
  static const SourceSet sources = [] {
    const char* folder = std::getenv("TANG_KERNEL_DIR");
    return SourceSet(folder != nullptr && *folder != '\0' ? read_kernel_folder(folder) : embedded_files());
  }();
  return sources;
}

const std::string* SourceSet::find(const std::string& name) const {
  for (const auto& [file, text] : files_) {
    if (file == name) return &text;
  }
  return nullptr;
}

const std::string& SourceSet::text(const std::string& name) const {
  const std::string* text = find(name);
  if (text == nullptr) fail_check("there is no kernel source '{}'", name);
  return *text;
}

std::vector<std::pair<std::string, std::string>> SourceSet::includes_in(const std::string& text) const {
  Texts found;
  std::vector<std::string> waiting = included_names(text);
  for (size_t next = 0; next < waiting.size(); ++next) {
    const std::string wanted = waiting[next];
    const bool known =
        std::any_of(found.begin(), found.end(), [&](const auto& file) { return file.first == wanted; });
    const std::string* content = known ? nullptr : find(wanted);  // the compiler names what is missing
    if (content == nullptr) continue;
    found.emplace_back(wanted, *content);
    for (std::string& deeper : included_names(*content)) waiting.push_back(std::move(deeper));
  }
  return found;
}

std::string architecture_of(int compute_capability) {
  const bool specific = compute_capability == 90 || compute_capability == 100 || compute_capability == 103;
  return fmt::format("sm_{}{}", compute_capability, specific ? "a" : "");
}

std::string describe(const std::vector<std::pair<std::string, std::string>>& constants) {
  std::vector<std::string> words;
  for (const auto& [name, value] : constants) words.push_back(fmt::format("{}={}", name, value));
  return fmt::format("{}", fmt::join(words, " "));
}

JitResult jit_compile(const SourceSet& sources, const JitRequest& request, const JitCache& cache) {
  const std::string& text = request.text.empty() ? sources.text(request.source) : request.text;
  const NvrtcProgram program = {request.source, text, sources.includes_in(text), compile_options(request)};
  const Digest key = key_of(program);
  {
    const Span span("kernel cache");
    if (const auto payload = cache.find(key)) return unpack_result(*payload);
  }
  const Span span("compilation");
  const auto begin = std::chrono::steady_clock::now();
  NvrtcOutput output = nvrtc_compile(program);
  if (!output.compiled) fail_compilation(request, key, output.log);
  JitResult result;
  result.entries = parse_entries(output.log, output.ptx);
  result.warnings = parse_warnings(output.log);
  result.cubin = std::move(output.cubin);
  cache.store(key, pack_result(result));
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace tang
