#include "lib/device/simd.h"

#include <cstdlib>
#include <string_view>

#include "lib/base/error.h"

namespace tang {

namespace {

Isa widest_isa() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::baseline;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return wide ? Isa::avx512 : Isa::avx2;
#else
  return Isa::baseline;
#endif
}

Isa allowed_isa() {
  const char* wanted = std::getenv("TANG_ISA");
  if (wanted == nullptr || *wanted == '\0') return widest_isa();
  for (Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (wanted == name_of(isa)) return std::min(isa, widest_isa());
  }
  fail_input("TANG_ISA is '{}'; it may be baseline, avx2 or avx512", wanted);
}

}  // namespace

Isa detect_isa() {
  static const Isa isa = allowed_isa();
  return isa;
}

}  // namespace tang
