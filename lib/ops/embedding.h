// Token embedding: a row of the table for each id. The backward sums rows in order of position: no atomics.
#pragma once

#include "lib/ops/op.h"

namespace tang {

struct EmbeddingForward {
  View ids;  // u32 [N], each below V; an id that is not gives a row of NaN (the loader refuses it earlier, by
             // name)
  View table;  // [V, C]
  View y;      // [N, C]
};

struct EmbeddingBackward {
  View ids;        // u32 [N]; rows whose id is not below V are left out
  View dy;         // [N, C]
  View d_table;    // f32 [V, C]
  View workspace;  // u32 scratch [embedding_workspace]: the ids sorted by (id, position), partial sums
  bool accumulate = false;  // d_table += instead of d_table = (rows without an id become 0)
};

extern const Op<EmbeddingForward> embedding_forward;
extern const Op<EmbeddingBackward> embedding_backward;

/// Elements of the workspace: the partial sums of each chunk of rows, two lists of (id, position), a
/// histogram of each tile of ids. kernels/embedding.h names the parts.
inline constexpr const char* embedding_workspace = "(N-N%32)/16*C+2*C+4*N+(N-N%1024)/4+512";

void embedding_forward_reference(Ref& r);
void embedding_backward_reference(Ref& r);
void embedding_forward_cpu(CpuDevice& device, const EmbeddingForward& a);
void embedding_backward_cpu(CpuDevice& device, const EmbeddingBackward& a);
std::function<void()> embedding_forward_cuda(CudaDevice& device, const EmbeddingForward& a);
std::function<void()> embedding_backward_cuda(CudaDevice& device, const EmbeddingBackward& a);

}  // namespace tang
