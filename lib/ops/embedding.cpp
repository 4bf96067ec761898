#include "lib/ops/embedding.h"

namespace tang {

namespace {

OpSpec forward_spec() {
  using A = EmbeddingForward;
  return {
      .name = "embedding_forward",
      .about = "y = table[ids]",
      .dims = {{"N", "rows", 32768}, {"V", "vocab", 50304}, {"C", "dim", 1024}},
      .operands = {in("ids", &A::ids, "N", Rule::u32), in("table", &A::table, "V C"), out("y", &A::y, "N C")},
      .cases = {"N=1 V=1 C=1", "N=7 V=65 C=33", "N=63 V=127 C=8", "N=65 V=33 C=1024", "N=129 V=50257 C=7",
                "N=33 V=257 C=2056", "N=17 V=65 C=129 @strided"},
      .large = {"N=524289 V=129 C=4096"},
      .strided = {"table", "y"},
      .where = {"V >= 1"},
      .fill = {below("ids", "V")},
      .reference = embedding_forward_reference,
      .bytes = "N*4 + 2*N*C*element",
      .impls = {cpu("cpu", embedding_forward_cpu), cuda("cuda", embedding_forward_cuda)},
  };
}

OpSpec backward_spec() {
  using A = EmbeddingBackward;
  return {
      .name = "embedding_backward",
      .about = "d_table[v] = sum of dy over the rows whose id is v, in order of position",
      .dims = {{"N", "rows", 32768}, {"V", "vocab", 50304}, {"C", "dim", 1024}},
      .operands = {in("ids", &A::ids, "N", Rule::u32), in("dy", &A::dy, "N C"),
                   accumulate("d_table", &A::d_table, "V C"),
                   scratch("workspace", &A::workspace, embedding_workspace, Rule::u32)},
      .scalars = {scalar("accumulate", &A::accumulate, {0, 1})},
      .cases = {"N=1 V=1 C=1", "N=7 V=65 C=33", "N=1023 V=3 C=65", "N=1025 V=1 C=8", "N=2049 V=50257 C=7",
                "N=4097 V=127 C=16", "N=64 V=257 C=2056", "N=129 V=33 C=129 @strided"},
      .strided = {"dy", "d_table"},
      .where = {"V >= 1", "N < 4294967296", "V < 4294967295"},
      .fill = {below("ids", "V")},
      .reference = embedding_backward_reference,
      .flops = "N*C",
      .bytes = "N*4 + N*C*element + (1+accumulate)*V*C*4",
      .gradient_of = &embedding_forward,
      .impls = {cpu("cpu", embedding_backward_cpu), cuda("cuda", embedding_backward_cuda)},
  };
}

}  // namespace

const Op<EmbeddingForward> embedding_forward{forward_spec()};
const Op<EmbeddingBackward> embedding_backward{backward_spec()};

}  // namespace tang
