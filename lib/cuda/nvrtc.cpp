#include "lib/cuda/nvrtc.h"

#include <fmt/format.h>
#include <nvrtc.h>

#include <algorithm>
#include <cstdlib>

#include "lib/base/error.h"
#include "lib/base/spans.h"
#include "lib/cuda/toolkit_library.h"

namespace tang {

namespace {

struct Nvrtc {
  ToolkitLibrary library{
      "NVIDIA's run-time compiler NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12"}, library_folders()};
#define TANG_NVRTC(call) decltype(&nvrtc##call) call = library.function<decltype(&nvrtc##call)>("nvrtc" #call)
  TANG_NVRTC(Version);
  TANG_NVRTC(GetErrorString);
  TANG_NVRTC(GetNumSupportedArchs);
  TANG_NVRTC(GetSupportedArchs);
  TANG_NVRTC(CreateProgram);
  TANG_NVRTC(CompileProgram);
  TANG_NVRTC(DestroyProgram);
  TANG_NVRTC(GetProgramLogSize);
  TANG_NVRTC(GetProgramLog);
  TANG_NVRTC(GetCUBINSize);
  TANG_NVRTC(GetCUBIN);
  TANG_NVRTC(GetPTXSize);
  TANG_NVRTC(GetPTX);
#undef TANG_NVRTC
  std::string version;

  Nvrtc() {  // pip's copy does not look beside itself
    int major = 0, minor = 0;
    require(Version(&major, &minor), "nvrtcVersion");
    version = fmt::format("{}.{}", major, minor);
    library.open_companion("libnvrtc-builtins.so." + version);
  }

  void require(nvrtcResult code, const char* call) const {
    if (code != NVRTC_SUCCESS)
      fail_machine("NVRTC: {} from {} ({})", GetErrorString(code), call, library.path());
  }
};

const Nvrtc& nvrtc() {
  static const Nvrtc instance = [] {
    const Span span("NVRTC");
    return Nvrtc();
  }();
  return instance;
}

/// A text of the program: its size comes with the closing zero.
template <class Size, class Get>
std::string fetch(nvrtcProgram program, Size size_of_text, Get get, const char* call) {
  size_t size = 0;
  nvrtc().require(size_of_text(program, &size), call);
  std::string text(size, '\0');
  if (size > 0) nvrtc().require(get(program, text.data()), call);
  return text;
}

void drop_closing_zero(std::string& text) {
  if (!text.empty() && text.back() == '\0') text.pop_back();
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> result;
  for (const std::string& text : texts) result.push_back(text.c_str());
  return result;
}

}  // namespace

std::string nvrtc_version() { return nvrtc().version; }
std::string nvrtc_path() { return nvrtc().library.path(); }

bool nvrtc_supports(const std::string& architecture) {
  int count = 0;
  nvrtc().require(nvrtc().GetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs");
  std::vector<int> numbers(count);
  nvrtc().require(nvrtc().GetSupportedArchs(numbers.data()), "nvrtcGetSupportedArchs");
  return architecture.starts_with("sm_") &&
         std::count(numbers.begin(), numbers.end(), std::atoi(architecture.c_str() + 3)) > 0;
}

NvrtcOutput nvrtc_compile(const NvrtcProgram& input) {
  std::vector<std::string> names, texts;
  for (const auto& [name, text] : input.includes) {
    names.push_back(name);
    texts.push_back(text);
  }
  const auto name_pointers = pointers(names), text_pointers = pointers(texts);
  const auto options = pointers(input.options);
  nvrtcProgram program = nullptr;
  nvrtc().require(
      nvrtc().CreateProgram(&program, input.text.c_str(), input.name.c_str(), static_cast<int>(names.size()),
                            text_pointers.data(), name_pointers.data()),
      "nvrtcCreateProgram");
  const struct Guard {
    nvrtcProgram& program;
    ~Guard() { nvrtc().DestroyProgram(&program); }
  } guard{program};
  NvrtcOutput output;
  const nvrtcResult code = nvrtc().CompileProgram(program, static_cast<int>(options.size()), options.data());
  output.log = fetch(program, nvrtc().GetProgramLogSize, nvrtc().GetProgramLog, "nvrtcGetProgramLog");
  drop_closing_zero(output.log);
  if (code != NVRTC_SUCCESS) {
    if (output.log.empty()) output.log = fmt::format("error: {}", nvrtc().GetErrorString(code));
    return output;
  }
  output.compiled = true;
  output.cubin = fetch(program, nvrtc().GetCUBINSize, nvrtc().GetCUBIN, "nvrtcGetCUBIN");
  output.ptx = fetch(program, nvrtc().GetPTXSize, nvrtc().GetPTX, "nvrtcGetPTX");
  drop_closing_zero(output.ptx);
  return output;
}

}  // namespace tang
