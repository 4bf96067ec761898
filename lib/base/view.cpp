#include "lib/base/view.h"

#include <fmt/ranges.h>

#include <vector>

#include "lib/base/error.h"

namespace tang {

namespace {

void set_packed_strides(View& view) {
  int64_t stride = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    view.strides[axis] = stride;
    stride *= view.dims[axis];
  }
}

}  // namespace

View::View(void* data, Dtype dtype, std::initializer_list<int64_t> shape)
    : data(data), dtype(dtype), rank(static_cast<int>(shape.size())) {
  if (rank < 1 || rank > max_rank) fail_input("a view has 1 to {} dimensions, found {}", max_rank, rank);
  int axis = 0;
  for (int64_t dim : shape) {
    if (dim < 0) fail_input("dimension {} of a view is {}; it must not be negative", axis, dim);
    dims[axis++] = dim;
  }
  checked_product(shape, "a view's size");
  set_packed_strides(*this);
}

int64_t View::size() const {
  int64_t count = rank > 0 ? 1 : 0;
  for (int axis = 0; axis < rank; ++axis) count *= dims[axis];
  return count;
}

bool View::packed() const {
  int64_t stride = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    if (dims[axis] != 1 && strides[axis] != stride) return false;
    stride *= dims[axis];
  }
  return true;
}

View View::slice(int axis, int64_t begin, int64_t end) const {
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank || begin < 0 || begin > end || end > dims[axis]) {
    fail_input("slice [{}, {}) of axis {} does not fit {}", begin, end, axis, describe(*this));
  }
  View part = *this;
  part.dims[axis] = end - begin;
  part.data = static_cast<char*>(data) + begin * strides[axis] * size_of(dtype);
  return part;
}

View View::reshape(std::initializer_list<int64_t> shape) const {
  View result(data, dtype, shape);
  if (result.size() != size()) fail_input("{} cannot be reshaped to {}", describe(*this), describe(result));
  // Walk both shapes from the inside: each run of result axes must cover source axes that are one linear run.
  int source = rank - 1;
  int64_t left = 1, stride = 1;
  for (int axis = result.rank - 1; axis >= 0; --axis) {
    while (left == 1 && source >= 0) {
      left = dims[source];
      stride = strides[source];
      --source;
    }
    int64_t want = result.dims[axis];
    result.strides[axis] = stride;
    while (want > left && left > 0) {
      const bool joins =
          source >= 0 && want % left == 0 && (dims[source] == 1 || strides[source] == stride * left);
      if (!joins)
        fail_input("{} cannot be viewed as {}: its strides do not merge", describe(*this), describe(result));
      left *= dims[source];
      --source;
    }
    if (want == 0 || left == 0) break;
    if (left % want != 0) fail_input("{} cannot be viewed as {}", describe(*this), describe(result));
    left /= want;
    stride *= want;
  }
  return result;
}

View View::rows() const {
  if (rank == 0) fail_input("an absent view has no rows");
  return reshape({dims[rank - 1] == 0 ? 0 : size() / dims[rank - 1], dims[rank - 1]});
}

void View::require_dtype(Dtype wanted) const {
  if (dtype != wanted) fail_input("expected {} data, found {}", name_of(wanted), describe(*this));
}

std::string describe(const View& view) {
  if (!view.present()) return "absent";
  const std::vector<int64_t> dims(view.dims.begin(), view.dims.begin() + view.rank);
  const std::vector<int64_t> strides(view.strides.begin(), view.strides.begin() + view.rank);
  std::string text = fmt::format("{} {}", name_of(view.dtype), dims);
  return view.packed() ? text : text + fmt::format(" with strides {}", strides);
}

int64_t checked_product(std::initializer_list<int64_t> factors, const char* what) {
  int64_t product = 1;
  for (int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) {
      fail_input("{} passes 2^63: {}", what, fmt::join(factors, " x "));
    }
  }
  return product;
}

}  // namespace tang
