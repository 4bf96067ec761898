# Writes OUTPUT: a table of (path below ROOT, text) for every file in FILES. Run by CMakeLists.txt with cmake -P.
set(table "")
foreach(file IN LISTS FILES)
  file(READ ${file} text)
  file(RELATIVE_PATH name ${ROOT} ${file})
  string(APPEND table "    {\"${name}\", R\"kernel_text(${text})kernel_text\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Generated from kernels/ by cmake/embed_kernels.cmake.
#include \"lib/cuda/kernel_sources.h\"

namespace tang {

const std::vector<KernelSource>& embedded_kernel_sources() {
  static const std::vector<KernelSource> sources = {
${table}  };
  return sources;
}

}  // namespace tang
")
