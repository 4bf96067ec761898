#include "lib/base/dtype.h"

#include "lib/base/error.h"

namespace tang {

Dtype parse_dtype(std::string_view text) {
  for (Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::u32}) {
    if (text == name_of(dtype)) return dtype;
  }
  fail_input("dtype must be f32 or bf16, found '{}'", text);
}

}  // namespace tang
