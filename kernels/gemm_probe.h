// Probes that tell whether two algorithms of one product give the same bits.
#pragma once

#include "types.h"

struct FillProbeParams {
  void* values;  // TANG_T [count]
  int64_t count;
  uint64_t seed;
};

struct DigestProbeParams {
  const uint32_t* words;  // [count]
  int64_t count;
  unsigned long long* sum;  // += the words' digests, each with its place: the same in any order
};
