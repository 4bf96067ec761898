// Matrix fragments from shared memory, sm_75 and newer.
#pragma once

#include "common.cuh"

/// Four 8×8 matrices of 16-bit elements: lanes 8i … 8i + 7 give the addresses of the rows of matrix i, and
/// lane l receives elements 2(l % 4), 2(l % 4) + 1 of row l / 4 of each. Volatile: it reads memory that
/// others fill.
__device__ __forceinline__ void load_matrices(uint32_t (&m)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address));
}

/// The same matrices transposed: lane l receives elements l / 4 of rows 2(l % 4) and 2(l % 4) + 1.
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&m)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address));
}
