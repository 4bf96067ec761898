// Fixed-width integers for the parameter structs that a kernel (NVRTC, no standard headers) and its host side
// share. A FAMILY.h beside FAMILY.cu declares each kernel's one by-value parameter struct: pointers, int64_t
// strides in elements, floats. Both sides include it, so the layouts cannot drift apart.
#pragma once

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
#else
#include <cstdint>
#endif
