// Copies from global to shared memory that pass no register, sm_80 and newer.
#pragma once

/// 16 bytes, both ends aligned; zeros when not `inside`. `source` must be a valid address even then: a source
/// size of 0 reads nothing, but the address is still translated.
__device__ __forceinline__ void copy_16_async(uint32_t target, const void* source, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source),
               "r"(inside ? 16 : 0)
               : "memory");
}

/// 4 bytes, on the same terms.
__device__ __forceinline__ void copy_4_async(uint32_t target, const void* source, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(source), "r"(inside ? 4 : 0)
               : "memory");
}

/// Closes this thread's group of copies.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until all but the newest `pending` groups of this thread have landed. Other threads see them after a
/// barrier.
template <int pending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}
