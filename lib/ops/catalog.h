// Every registered op, listed by hand: the linker drops self-registering objects of a static library.
#pragma once

#include "lib/ops/op.h"

namespace tang {

std::span<const OpBase* const> catalog();

/// The op of that name; an input error with the nearest name otherwise.
const OpBase& find_op(std::string_view name);

/// Ops of a family ("attention" gives attention_forward and attention_backward) or the one op of that name.
std::vector<const OpBase*> find_family(std::string_view name);

}  // namespace tang
