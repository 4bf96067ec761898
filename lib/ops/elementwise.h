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

// The implementations, registered in elementwise.cpp.
void cast_reference(Ref& r);
void cast_cpu(CpuDevice& device, const Cast& a);
std::function<void()> cast_cuda(CudaDevice& device, const Cast& a);
void add_reference(Ref& r);
void add_cpu(CpuDevice& device, const Add& a);
std::function<void()> add_cuda(CudaDevice& device, const Add& a);
void add_assign_reference(Ref& r);
void add_assign_cpu(CpuDevice& device, const AddAssign& a);
std::function<void()> add_assign_cuda(CudaDevice& device, const AddAssign& a);
void fill_reference(Ref& r);
void fill_cpu(CpuDevice& device, const FillOp& a);
std::function<void()> fill_cuda(CudaDevice& device, const FillOp& a);
void transpose_reference(Ref& r);
void transpose_cpu(CpuDevice& device, const Transpose& a);
std::function<void()> transpose_cuda(CudaDevice& device, const Transpose& a);

}  // namespace tang
