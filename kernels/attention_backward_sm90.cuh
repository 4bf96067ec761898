// What both Hopper attention backwards use: small accesses to shared memory, bulk copies, and the turns in
// which dQ tiles are added; dQ's product and its way to shared memory.
#pragma once

#include "common.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"

struct BackwardItem {
  int n, kv_head, batch;  // key block, …; n < 0: no more work
};

__device__ __forceinline__ int load_shared(uint32_t address) {
  int value;
  asm volatile("ld.shared.s32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
__device__ __forceinline__ void store_shared(uint32_t address, int value) {
  asm volatile("st.shared.s32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
__device__ __forceinline__ BackwardItem load_item(uint32_t address) {
  return {load_shared(address), load_shared(address + 4), load_shared(address + 8)};
}
__device__ __forceinline__ void store_item(uint32_t address, const BackwardItem& item) {
  store_shared(address, item.n);
  store_shared(address + 4, item.kv_head);
  store_shared(address + 8, item.batch);
}
__device__ __forceinline__ float2 load_pair(uint32_t address) {
  float2 value;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(value.x), "=f"(value.y) : "r"(address));
  return value;
}

__device__ __forceinline__ void bulk_load(uint32_t target, const void* source, uint32_t bytes,
                                          uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(target),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void bulk_store(float* target, uint32_t source, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(target), "r"(source),
               "r"(bytes)
               : "memory");
}
/// target += source, in f32.
__device__ __forceinline__ void bulk_add(float* target, uint32_t source, uint32_t bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(target),
               "r"(source), "r"(bytes)
               : "memory");
}

/// Waits until `turns` additions have been made to a tile.
__device__ __forceinline__ void await_turn(const uint32_t* turn, int turns) {
  uint32_t seen;
  do {
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(turn) : "memory");
  } while (seen != static_cast<uint32_t>(turns));
}
/// Makes this thread's completed bulk copies visible and passes the turn on.
__device__ __forceinline__ void pass_turn(uint32_t* turn) {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(turn) : "memory");
}

/// d = dS · K over 128 keys, both read transposed in place: 64 queries × 64 columns.
__device__ __forceinline__ void issue_dq(float (&d)[32], uint32_t ds, uint32_t k_slab) {
  wgmma_hold(d);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    wgmma_k16<1, 1>(d, wgmma_descriptor(ds + k * 2048, 0), wgmma_descriptor(k_slab + k * 2048, 0), k > 0);
  }
  wgmma_commit();
}

/// A warpgroup's part of a dQ tile to `home`, chunk i of thread t at (i · 128 + t) · 16, for a bulk copy.
__device__ __forceinline__ void stage_dq(const float (&dq)[32], uint32_t home) {
  home += (threadIdx.x % 128) * 16;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(home + i * 2048), "f"(dq[4 * i]),
                 "f"(dq[4 * i + 1]), "f"(dq[4 * i + 2]), "f"(dq[4 * i + 3])
                 : "memory");
  }
  fence_async_proxy();
}

/// Accumulators of `steps` times 16 columns as A operands.
template <int steps>
__device__ __forceinline__ void pack(const float (&s)[8 * steps], uint32_t (&packed)[steps][4]) {
#pragma unroll
  for (int k = 0; k < steps; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) packed[k][i] = pack_bf16(s[8 * k + 2 * i], s[8 * k + 2 * i + 1]);
  }
}
