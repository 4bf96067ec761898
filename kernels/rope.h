// Parameters of rope.cu. Element (b, t, h, d) of a tensor lies at base + b·batch + t·row + h·head + d.
#pragma once

#include "types.h"

struct RopeStrides {
  int64_t batch, row, head;  // elements
};

struct RopeParams {
  const void* x;          // [B, T, H, D]
  const float* cos;       // [P, R/2]
  const float* sin;       // [P, R/2]
  void* y;                // [B, T, H, D]; may be x
  const uint32_t* start;  // [B], read where TANG_START is 1
  RopeStrides x_strides, y_strides;
  int64_t cos_row, sin_row;  // of a position
  int64_t length, position;
  int64_t positions;                // P: later ones are taken as the last, where the device alone knows them
  int32_t tokens_per_block, tiles;  // tiles: blocks a sequence
  float sin_sign;                   // -1: the backward
};
