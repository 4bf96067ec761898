#include "lib/cuda/tensor_map.h"

#include <cuda.h>
#include <fmt/ranges.h>

#include <cstring>

#include "lib/base/error.h"
#include "lib/cuda/cuda_try.h"

namespace tang {

namespace {

CUtensorMapDataType data_type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case Dtype::bf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case Dtype::u32:
      return CU_TENSOR_MAP_DATA_TYPE_UINT32;
  }
  return CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                            CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/// The driver's function, found without linking libcuda.
Encode encode_function() {
  static const Encode encode = [] {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found{};
    CUDA_TRY(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &address, 12000, cudaEnableDefault,
                                              &found));
    if (found != cudaDriverEntryPointSuccess || address == nullptr) {
      fail_machine("the CUDA driver has no cuTensorMapEncodeTiled: update it");
    }
    return reinterpret_cast<Encode>(address);
  }();
  return encode;
}

void check_box(const TensorMapSpec& spec) {
  for (size_t i = 0; i < spec.box.size(); ++i) {
    if (spec.box[i] < 1 || spec.box[i] > 256)
      fail_input("tensor map: box[{}] is {}, not 1 to 256", i, spec.box[i]);
  }
  const int64_t inner = spec.box[0] * size_of(spec.dtype);
  if (inner % 16 != 0) fail_input("tensor map: the box's inner {} bytes are no multiple of 16", inner);
  if (spec.swizzle_128b && inner > 128) {
    fail_input("tensor map: the box's inner {} bytes pass the 128 of the swizzle", inner);
  }
}

}  // namespace

void check_tensor_map(const TensorMapSpec& spec) {
  const size_t rank = spec.dims.size();
  if (rank < 1 || rank > 5 || spec.box.size() != rank || spec.strides_bytes.size() != rank - 1) {
    fail_input(
        "tensor map: {} dims, {} box sizes and {} strides; 1 to 5 dims, as many box sizes, one stride less",
        rank, spec.box.size(), spec.strides_bytes.size());
  }
  if (reinterpret_cast<uintptr_t>(spec.base) % 16 != 0)
    fail_input("tensor map: the base is not 16-byte aligned");
  for (size_t i = 0; i < rank; ++i) {
    if (spec.dims[i] < 1 || spec.dims[i] > (int64_t{1} << 32)) {
      fail_input("tensor map: dims[{}] is {}, not 1 to 2^32", i, spec.dims[i]);
    }
  }
  for (size_t i = 0; i + 1 < rank; ++i) {
    const int64_t stride = spec.strides_bytes[i];
    if (stride <= 0 || stride % 16 != 0 || stride >= (int64_t{1} << 40)) {
      fail_input("tensor map: the stride of dim {} is {} bytes, not a multiple of 16 below 2^40", i + 1,
                 stride);
    }
  }
  check_box(spec);
}

TensorMap encode_tensor_map(const TensorMapSpec& spec) {
  check_tensor_map(spec);
  const auto rank = static_cast<cuuint32_t>(spec.dims.size());
  const std::vector<cuuint64_t> dims(spec.dims.begin(), spec.dims.end());
  const std::vector<cuuint64_t> strides(spec.strides_bytes.begin(), spec.strides_bytes.end());
  const std::vector<cuuint32_t> box(spec.box.begin(), spec.box.end());
  const std::vector<cuuint32_t> steps(rank, 1);
  CUtensorMap native;
  const CUresult code =
      encode_function()(&native, data_type_of(spec.dtype), rank, spec.base, dims.data(), strides.data(),
                        box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                        spec.swizzle_128b ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
                        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS) {
    fail_machine("the driver refused a tensor map (error {}): {} dims [{}], strides [{}] bytes, box [{}]",
                 static_cast<int>(code), name_of(spec.dtype), fmt::join(spec.dims, ", "),
                 fmt::join(spec.strides_bytes, ", "), fmt::join(spec.box, ", "));
  }
  TensorMap map;
  static_assert(sizeof native == sizeof map);
  std::memcpy(&map, &native, sizeof map);
  return map;
}

}  // namespace tang
