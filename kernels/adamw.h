// Parameters of adamw.cu. All arrays are flat.
#pragma once

#include "types.h"

constexpr int norm_threads = 256;
constexpr int norm_blocks = 1024;  // at most; one thread each in the second stage

struct GlobalNormParams {
  const float* x;   // [P]
  float* partials;  // [blocks]: each block's sum of squares
  float* norm;      // [1]
  int64_t count;
  int32_t blocks;
  int32_t vectors;  // nonzero: x allows 16-byte accesses
};

struct FiniteGuardParams {
  const float* values;  // [K]
  uint32_t* halted;     // [1]
  int64_t count;
};

struct AdamWParams {
  const float* grad;       // [P]
  const float* norm;       // [1]
  const float* control;    // [3]: learning rate, 1 - beta1^t, 1 - beta2^t
  const uint32_t* halted;  // [1]
  float* master;           // [P]
  float* m;                // [P]
  float* v;                // [P]
  void* weights;           // [P] or null
  int64_t count, decayed;
  float beta1, beta2, eps, weight_decay, clip_norm;
  int32_t vectors;  // nonzero: every array allows vector accesses of four elements
};
