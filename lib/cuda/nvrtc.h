// NVIDIA's run-time compiler behind one call.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tang {

struct NvrtcProgram {
  std::string name, text;                                     // "rmsnorm.cu" and its source
  std::vector<std::pair<std::string, std::string>> includes;  // every header it may include: name, text
  std::vector<std::string> options;
};

struct NvrtcOutput {
  bool compiled = false;
  std::string log, cubin, ptx;
};

/// The compiler's version, such as "13.0". A machine error when NVRTC is not installed, as in all of these.
std::string nvrtc_version();
std::string nvrtc_path();

/// True when it can compile for `architecture` ("sm_90a").
bool nvrtc_supports(const std::string& architecture);

/// Any thread may call this, at the same time as others.
NvrtcOutput nvrtc_compile(const NvrtcProgram& program);

}  // namespace tang
