// A View is a typed, strided window onto memory that somebody else owns: pointer, dtype, up to four dims.
// Packed QKV, caches and halves of a buffer are views; every op honours the strides.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "lib/base/dtype.h"

namespace tang {

struct View {
  static constexpr int max_rank = 4;

  void* data = nullptr;
  Dtype dtype = Dtype::f32;
  int rank = 0;                             // 0: absent (an optional operand that was left out)
  std::array<int64_t, max_rank> dims{};     // outermost first
  std::array<int64_t, max_rank> strides{};  // in elements; the last dimension's is always 1

  View() = default;
  /// A packed row-major view of `dims`.
  View(void* data, Dtype dtype, std::initializer_list<int64_t> dims);

  bool present() const { return rank > 0; }
  int64_t size() const;  // elements
  int64_t bytes() const { return size() * size_of(dtype); }
  bool packed() const;  // row-major without gaps
  int64_t dim(int axis) const { return dims[axis < 0 ? axis + rank : axis]; }
  int64_t stride(int axis) const { return strides[axis < 0 ? axis + rank : axis]; }

  /// Entries [begin, end) of one axis; the rest unchanged.
  View slice(int axis, int64_t begin, int64_t end) const;
  /// The same elements under new dims. Axes may be merged only where the strides allow it, and split
  /// anywhere.
  View reshape(std::initializer_list<int64_t> dims) const;
  /// Rows × last dimension, for ops that do not care about the outer axes.
  View rows() const;

  /// The data pointer as T, after checking that the dtype is T's.
  template <class T>
  T* as() const {
    require_dtype(dtype_of<T>);
    return static_cast<T*>(data);
  }

 private:
  void require_dtype(Dtype wanted) const;
};

/// "f32 [32, 1024]", with strides when not packed.
std::string describe(const View& view);

/// Product of non-negative numbers; an input error naming `what` when it passes 2^63.
int64_t checked_product(std::initializer_list<int64_t> factors, const char* what);

}  // namespace tang
