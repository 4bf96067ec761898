// One registration states everything about an op once; checks, benches, docs and profiles are derived from
// it. lib/ops/rmsnorm.{h,cpp} is the worked example; docs/ADDING_AN_OP.md walks through it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/device/cpu_device.h"
#include "lib/device/cuda_device.h"
#include "lib/ops/expression.h"
#include "lib/ops/reference.h"

namespace tang {

enum class Role {
  in,
  out,
  inout,
  accumulate,  // added to when the scalar `accumulate` is true, else overwritten (its content is then never
               // read)
  scratch,     // the caller lends it; its content means nothing before or after
};

/// What dtype an operand is stored in, given the op's mode (f32 or bf16).
enum class Rule {
  data,         // the mode itself: activations, working weights
  f32,          // always: statistics, weight gradients, optimizer state
  u32,          // token ids
  data_or_f32,  // the mode, or f32 where the caller wants it (a case says "c:f32")
  other,        // bf16 in f32 mode and f32 in bf16 mode: the far side of a cast
};

struct Operand {
  std::string name;
  std::string dims;  // "N C", "B T H D", "N 2*F": letters bind, expressions are checked
  Role role = Role::in;
  Rule rule = Rule::data;
  size_t offset = 0;  // of the View in the argument struct
  bool is_optional = false;
  bool is_rare = false;            // optional, and left out of a case that does not say "+name"
  std::string transposed_by = {};  // a bool scalar that reverses `dims`

  Operand optional() && { return is_optional = true, std::move(*this); }
  Operand rare() && { return is_optional = is_rare = true, std::move(*this); }
  Operand transposed_if(std::string scalar) && { return transposed_by = std::move(scalar), std::move(*this); }
};

struct Scalar {
  enum class Type { f32, i64, boolean };
  std::string name;
  Type type = Type::f32;
  size_t offset = 0;
  std::vector<double> values =
      {};  // the first is the default; each of the others is checked in one more case
};

/// A dimension: its letter in `dims`, its flag in tang-bench, its default there.
struct Dim {
  std::string letter, flag;
  int64_t bench_default = 1;
};

/// How parity fills an operand unless a case says otherwise ("x~ramp").
/// gaussian · ramp (sines, as system A's tests) · one_hot · large_mean (one channel of mean 30) ·
/// very_negative · positive (0.5 … 1.5) · small (gaussian / 64) · one · zero · below (ids drawn below
/// the expression `limit`) · last (each the largest id below it)
struct Fill {
  std::string operand, kind;
  std::string limit = {};
};
inline Fill below(std::string operand, std::string limit) {
  return {std::move(operand), "below", std::move(limit)};
}
inline Fill last(std::string operand, std::string limit) {
  return {std::move(operand), "last", std::move(limit)};
}

struct Impl {
  std::string name;  // "cpu", "cuda", "cuda:simple": the device's name first
  DeviceKind kind = DeviceKind::cpu;
  /// "" when it can run these arguments, else the reason.
  std::function<std::string(const DeviceCaps&, const void* args)> supports;
  std::function<std::function<void()>(Device&, const void* args)> prepare;
};

/// A case, in words: "N=7 C=33 eps=1e-6" sets dims and scalars, "c:f32" a dtype, "-residual" leaves an
/// operand out, "+start" takes a rare one in, "x~large_mean" chooses a fill, "@strided" pads the row strides
/// of the operands in `strided`, "x@9728" lays x's rows that many elements apart.
using CaseText = std::string;

class OpBase;

/// A call in words, with the work that the registration counts for it.
struct OpCall {
  CaseText text;  // the shapes, and what differs from the defaults; strides are not told
  Dtype mode = Dtype::f32;
  MathMode math = MathMode::strict;
  double flops = 0, bytes = 0;  // bytes: that one run must move
};

struct OpSpec {
  std::string name;   // family_direction
  std::string about;  // the formula in one line
  std::vector<Dim> dims;
  std::vector<Operand> operands;
  std::vector<Scalar> scalars;
  std::vector<CaseText> cases;       // ragged on purpose; run in both modes
  std::vector<CaseText> large = {};  // past 2^31 elements, for tang-check large: entries of the first
                                     // dimension do not depend on each other
  std::vector<std::string> strided;  // operands whose rows may lie apart
  std::vector<std::string> where;    // "H % Hkv == 0": refused at every call otherwise
  std::vector<Fill> fill;
  std::vector<std::pair<std::string, std::string>> in_place;  // (input, output) that may be the same memory
  std::function<void(Ref&)> reference;
  std::function<void(Ref&)> plain;      // the same formula in the op's own precision, for FA-RULE
  double plain_factor = 2;              // FA-RULE's k: 2 forward, 3 for gradients
  std::string flops = "0";              // expressions over dims and scalars
  std::string bytes = {};               // empty: every operand once (twice where it is read and written);
                                        // `element` is the size of one in the mode
  const OpBase* gradient_of = nullptr;  // its inputs named d<output>, outputs d<input>; same names are
                                        // shared. An op may be its own (cross_entropy): then the upstream
                                        // gradient is 1, or its operand `scale`.
  std::vector<Impl> impls;              // in order of preference
  std::vector<Dtype> modes = {Dtype::f32, Dtype::bf16};
  bool bitwise_across_strides = true;  // strided and packed operands give the same bits
};

/// The registry's view of an op, without its argument type.
class OpBase {
 public:
  const OpSpec& spec() const { return spec_; }
  const std::string& name() const { return spec_.name; }

  std::shared_ptr<void> make_args() const { return make_args_(); }  // value-initialised
  View& view(void* args, const Operand& operand) const;
  const View& view(const void* args, const Operand& operand) const;
  void set_scalar(void* args, const Scalar& scalar, double value) const;
  double scalar(const void* args, const Scalar& scalar) const;
  const Operand& operand(std::string_view name) const;

  /// Checks every operand's presence, rank, dims, dtype and `where`, and returns the dims and scalars by
  /// name. An input error names the op, both operands and both numbers.
  Bindings bind(const void* args) const;
  /// Scratch that these arguments need (each operand aligned to 256 bytes), and the lending of it: sets the
  /// scratch views.
  int64_t scratch_bytes(const void* args) const;
  void lend_scratch(void* args, void* memory) const;
  /// These arguments (refused as bind refuses them) as a case; Case(op, text, mode) has the same shapes.
  OpCall describe(const void* args) const;
  /// f32 or bf16, from the first operand stored in the mode (f32 when there is none).
  Dtype mode(const void* args) const;

  /// The first implementation for this device that supports the arguments, or the one named (or overridden by
  /// override_impl). An input error lists every candidate's reason when none does.
  const Impl& choose(const Device& device, const void* args, std::string_view impl = {}) const;
  Prepared prepare_erased(Device& device, const void* args, std::string_view impl = {}) const;

 protected:
  OpBase(OpSpec spec, std::function<std::shared_ptr<void>()> make_args);
  ~OpBase() = default;

 private:
  std::vector<std::pair<const Operand*, View>> scratch_views(const void* args, void* memory,
                                                             int64_t* bytes) const;
  CaseText words_for(const void* args, const Bindings& values) const;
  double bytes_moved(const void* args, Bindings values) const;

  OpSpec spec_;
  std::function<std::shared_ptr<void>()> make_args_;
};

template <class A>
class Op final : public OpBase {
 public:
  using Args = A;
  explicit Op(OpSpec spec) : OpBase(std::move(spec), [] { return std::make_shared<A>(); }) {}

  /// Checks, picks an implementation, compiles, sizes: the result only launches. It borrows the views'
  /// memory.
  Prepared prepare(Device& device, const A& args, std::string_view impl = {}) const {
    return prepare_erased(device, &args, impl);
  }
  /// Prepare and run once, with scratch of its own.
  void operator()(Device& device, A args) const {
    const Buffer memory = device.allocate(scratch_bytes(&args));
    lend_scratch(&args, memory.data());
    prepare(device, args)();
  }
};

/// From now on `op` runs `impl` wherever it supports the arguments' device (tang-train --impl op=impl).
void override_impl(const std::string& op, const std::string& impl);

// ---- Registration helpers: A is deduced from the member ----

template <class A, class M>
size_t member_offset(M A::*member) {
  static const A probe{};
  return static_cast<size_t>(reinterpret_cast<const char*>(&(probe.*member)) -
                             reinterpret_cast<const char*>(&probe));
}

template <class A>
Operand operand_of(std::string name, View A::*member, std::string dims, Role role, Rule rule) {
  return Operand{std::move(name), std::move(dims), role, rule, member_offset(member)};
}
template <class A>
Operand in(std::string name, View A::*member, std::string dims, Rule rule = Rule::data) {
  return operand_of(std::move(name), member, std::move(dims), Role::in, rule);
}
template <class A>
Operand out(std::string name, View A::*member, std::string dims, Rule rule = Rule::data) {
  return operand_of(std::move(name), member, std::move(dims), Role::out, rule);
}
template <class A>
Operand inout(std::string name, View A::*member, std::string dims, Rule rule = Rule::data) {
  return operand_of(std::move(name), member, std::move(dims), Role::inout, rule);
}
/// A gradient in f32 that the scalar `accumulate` adds to.
template <class A>
Operand accumulate(std::string name, View A::*member, std::string dims, Rule rule = Rule::f32) {
  return operand_of(std::move(name), member, std::move(dims), Role::accumulate, rule);
}
template <class A>
Operand scratch(std::string name, View A::*member, std::string dims, Rule rule = Rule::f32) {
  return operand_of(std::move(name), member, std::move(dims), Role::scratch, rule);
}

template <class A>
Scalar scalar(std::string name, float A::*member, std::vector<double> values) {
  return {std::move(name), Scalar::Type::f32, member_offset(member), std::move(values)};
}
template <class A>
Scalar scalar(std::string name, int64_t A::*member, std::vector<double> values) {
  return {std::move(name), Scalar::Type::i64, member_offset(member), std::move(values)};
}
template <class A>
Scalar scalar(std::string name, bool A::*member, std::vector<double> values) {
  return {std::move(name), Scalar::Type::boolean, member_offset(member), std::move(values)};
}

/// A CPU implementation: called at every run.
template <class A>
Impl cpu(std::string name, void (*run)(CpuDevice&, const A&)) {
  return {std::move(name), DeviceKind::cpu, [](const DeviceCaps&, const void*) { return std::string(); },
          [run](Device& device, const void* args) -> std::function<void()> {
            auto& target = static_cast<CpuDevice&>(device);
            return [run, &target, args = *static_cast<const A*>(args)] { run(target, args); };
          }};
}

/// A CUDA implementation: `prepare` asks for kernels and returns the launches.
template <class A>
Impl cuda(std::string name, std::function<void()> (*prepare)(CudaDevice&, const A&),
          std::string (*supports)(const DeviceCaps&, const A&) = nullptr) {
  return {std::move(name), DeviceKind::cuda,
          [supports](const DeviceCaps& caps, const void* args) {
            return supports == nullptr ? std::string() : supports(caps, *static_cast<const A*>(args));
          },
          [prepare](Device& device, const void* args) {
            return prepare(static_cast<CudaDevice&>(device), *static_cast<const A*>(args));
          }};
}

/// "float" or "bf16": the TANG_T constant of a kernel for this dtype.
std::string kernel_type(Dtype dtype);

}  // namespace tang
