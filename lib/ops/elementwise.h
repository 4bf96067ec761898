// The plain elementwise ops and the transpose.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct Cast {
  View x;  // [N, C] f32 or bf16
  View y;  // [N, C] the other one; f32 to bf16 rounds to nearest even, NaN stays NaN
};

struct Add {
  View a, b;  // [N, C]
  View y;     // [N, C]; may be a's memory
};

struct AddAssign {
  View x;  // [N, C]
  View y;  // f32 [N, C]: y += x
};

struct FillOp {
  View y;  // [N, C] in either dtype
  float value = 0;
};

struct Transpose {
  View x;  // [R, C]
  View y;  // [C, R]
};

extern const Op<Cast> cast;
extern const Op<Add> add;
extern const Op<AddAssign> add_assign;
extern const Op<FillOp> fill;
extern const Op<Transpose> transpose;

}  // namespace tang
