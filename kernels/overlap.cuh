// Launches that overlap the kernel before them (LaunchShape::overlap_previous). Such a kernel calls
// wait_for_previous before it reads or writes anything that another kernel may write or read.
#pragma once

#include "common.cuh"

/// Whatever the kernels before wrote can be read from here on, and what they read be overwritten.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// The kernel after may take the room that this one leaves; it waits for our results itself.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
