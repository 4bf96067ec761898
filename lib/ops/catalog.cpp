#include "lib/ops/catalog.h"

#include <fmt/ranges.h>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/ops/adamw.h"
#include "lib/ops/attention.h"
#include "lib/ops/cross_entropy.h"
#include "lib/ops/elementwise.h"
#include "lib/ops/embedding.h"
#include "lib/ops/glu.h"
#include "lib/ops/kv_attention.h"
#include "lib/ops/matmul.h"
#include "lib/ops/matvec.h"
#include "lib/ops/next_token.h"
#include "lib/ops/project_append.h"
#include "lib/ops/random_normal.h"
#include "lib/ops/reduce.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/rope.h"
#include "lib/ops/rope_append.h"
#include "lib/ops/softmax.h"
#include "lib/ops/swiglu.h"
#include "lib/ops/traced.h"

namespace tang {

std::span<const OpBase* const> catalog() {
  static const OpBase* const ops[] = {
      &embedding_forward,
      &embedding_backward,
      &matmul,
      &matvec,
      &project_append,
      &next_token,
      &rmsnorm_forward,
      &rmsnorm_backward,
      &rope_forward,
      &rope_backward,
      &rope_append,
      &swiglu_forward,
      &swiglu_backward,
      &gelu_glu_forward,
      &gelu_glu_backward,
      &gelu_tanh_glu_forward,
      &gelu_tanh_glu_backward,
      &relu2_glu_forward,
      &relu2_glu_backward,
      &attention_forward,
      &attention_backward,
      &softmax_forward,
      &softmax_backward,
      &cross_entropy,
      &global_norm,
      &finite_guard,
      &adamw,
      &reduce_sum,
      &cast,
      &add,
      &add_assign,
      &fill,
      &random_normal,
      &transpose,
      &kv_attention,
      &gather_heads,
      &cache_append,
      &cache_concat,
      &elementwise_1,
      &elementwise_2,
      &elementwise_3,
      &elementwise_4,
      &elementwise_broadcast,
  };
  return ops;
}

namespace {

[[noreturn]] void refuse(std::string_view name) {
  std::vector<std::string> known;
  for (const OpBase* op : catalog()) {
    known.push_back(op->name());
    known.push_back(op->name().substr(0, op->name().rfind('_')));  // the family's name
  }
  fail_input("no op is called '{}'{}; tang-check list names them all", name, suggestion(name, known));
}

}  // namespace

const OpBase& find_op(std::string_view name) {
  for (const OpBase* op : catalog()) {
    if (op->name() == name) return *op;
  }
  std::vector<std::string> members;
  for (const OpBase* op : find_family(name)) members.push_back(op->name());
  fail_input("'{}' is several ops: choose one of {}", name, fmt::join(members, ", "));
}

std::vector<const OpBase*> find_family(std::string_view name) {
  std::vector<const OpBase*> family;
  for (const OpBase* op : catalog()) {
    const bool member =
        op->name().starts_with(name) && op->name().size() > name.size() && op->name()[name.size()] == '_';
    if (op->name() == name || (member && op->name().find('_', name.size() + 1) == std::string::npos))
      family.push_back(op);
  }
  if (family.empty()) refuse(name);
  return family;
}

}  // namespace tang
