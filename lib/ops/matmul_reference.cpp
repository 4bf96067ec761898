#include <cmath>

#include "lib/ops/matmul.h"

namespace tang {

void matmul_reference(Ref& r) {
  const int64_t rows = r["M"], columns = r["N"], depth = r["K"];
  const auto &a = r.in("a"), &b = r.in("b");
  const bool transpose_a = r.flag("transpose_a"), transpose_b = r.flag("transpose_b");
  RefOutput& c = r.out("c");
  c.terms = static_cast<double>(depth + (r.flag("accumulate") ? 1 : 0));
  // cuBLASLt may round a product to c's dtype before it adds what was there.
  c.stored_roundings = r.flag("accumulate") ? 1 : 0;
  // The tensor cores cut f32 inputs to 10 fraction bits, they do not round: a product loses 0 … 2^-9 of
  // itself, 1.1·2^-10 in the mean square. Four standard deviations of such a sum:
  c.product_roundoff = r.flag("tf32") && r.mode() == Dtype::f32 ? 4.5 * 0x1p-10 : 0;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      double sum = r.flag("accumulate") ? r.in("c")[i * columns + j] : 0;
      double squares = sum * sum;
      for (int64_t k = 0; k < depth; ++k) {
        const double term =
            a[transpose_a ? k * rows + i : i * depth + k] * b[transpose_b ? j * depth + k : k * columns + j];
        sum += term;
        squares += term * term;
      }
      c.value[i * columns + j] = sum;
      c.magnitude[i * columns + j] = std::sqrt(squares);
    }
  }
}

}  // namespace tang
