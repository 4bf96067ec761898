// Parameters of swiglu.cu. Rows of [N, F] tensors lie `…_row` elements apart; packed ones come as one row.
#pragma once

#include "types.h"

struct SwigluForwardParams {
  const void* gate;  // [N, F]
  const void* up;    // [N, F]
  void* y;           // [N, F]
  int64_t gate_row, up_row, y_row;
  int64_t length, tiles;  // of a row; blocks a row
};

struct SwigluBackwardParams {
  const void* dy;    // [N, F]
  const void* gate;  // [N, F]
  const void* up;    // [N, F]
  void* d_gate;      // [N, F]
  void* d_up;        // [N, F]
  void* y;           // [N, F] or nullptr
  int64_t dy_row, gate_row, up_row, d_gate_row, d_up_row, y_row;
  int64_t length, tiles;
};
