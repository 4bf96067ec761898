#include "lib/ops/cross_entropy.h"

namespace tang {

namespace {

OpSpec spec() {
  using A = CrossEntropy;
  return {
      .name = "cross_entropy",
      .about = "losses = log(sum exp(logits)) - logits[target], d_logits = scale * (softmax - one_hot)",
      .dims = {{"N", "rows", 8192}, {"W", "vocab", 50304}},
      .operands = {in("logits", &A::logits, "N W"), in("targets", &A::targets, "N", Rule::u32),
                   in("scale", &A::scale, "1", Rule::f32), out("losses", &A::losses, "N", Rule::f32),
                   out("d_logits", &A::d_logits, "N W").optional()},
      .scalars = {scalar("vocab", &A::vocab, {0}), scalar("pad_id", &A::pad_id, {-1, 3})},
      .cases = {"N=1 W=1", "N=7 W=8", "N=63 W=65", "N=65 W=65 pad_id=3", "N=33 W=64 vocab=33",
                "N=9 W=1024 vocab=1023", "N=5 W=257 vocab=129 pad_id=200", "N=17 W=127 -d_logits",
                "N=7 W=1023 @strided", "N=3 W=32001", "N=4 W=50304 vocab=50257", "N=2 W=150000",
                "N=9 W=65 logits~very_negative", "N=9 W=129 logits~large_mean", "N=3 W=96 logits~zero"},
      .large = {"N=42730 W=50257", "N=42731 W=50257", "N=65536 W=50257",
                "N=65536 W=50304 vocab=50257 -d_logits"},
      .strided = {"logits", "d_logits"},
      .where = {"W >= 1", "vocab >= 0", "vocab <= W", "W < 2147483648"},
      .fill = {below("targets", "vocab+(vocab==0)*W"), {"scale", "positive"}},
      .in_place = {{"logits", "d_logits"}},
      .reference = cross_entropy_reference,
      .flops = "7*N*W",
      .gradient_of = &cross_entropy,
      .impls = {cpu("cpu", cross_entropy_cpu), cuda("cuda", cross_entropy_cuda)},
      .bitwise_across_strides = false,  // a row's alignment decides which columns one thread sums
  };
}

}  // namespace

const Op<CrossEntropy> cross_entropy{spec()};

}  // namespace tang
