#include "lib/ops/instance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "lib/base/error.h"

namespace tang {

namespace {

constexpr int64_t guard_bytes = 256;          // keeps the payload aligned
constexpr auto guard_fill = std::byte{0xff};  // a NaN in f32 and bf16: what is read past the end poisons

/// Elements from the first to the last, gaps included.
int64_t span_of(const View& view) {
  if (view.size() == 0) return 0;
  int64_t last = 0;
  for (int axis = 0; axis < view.rank; ++axis) last += (view.dims[axis] - 1) * view.strides[axis];
  return last + 1;
}

/// Calls body(first element's offset, width) for every run along the last dimension, in logical order.
template <class Body>
void for_each_row(const View& view, const Body& body) {
  if (view.size() == 0) return;
  std::array<int64_t, View::max_rank> at{};
  for (;;) {
    int64_t offset = 0;
    for (int axis = 0; axis + 1 < view.rank; ++axis) offset += at[axis] * view.strides[axis];
    body(offset, view.dim(-1));
    int axis = view.rank - 2;
    while (axis >= 0 && ++at[axis] == view.dims[axis]) at[axis--] = 0;
    if (axis < 0) return;
  }
}

void store_value(std::byte* place, double value, Dtype dtype) {
  if (dtype == Dtype::u32) {
    const auto word = static_cast<uint32_t>(value);
    std::memcpy(place, &word, sizeof word);
  } else if (dtype == Dtype::bf16) {
    const bf16 half(static_cast<float>(value));
    std::memcpy(place, &half, sizeof half);
  } else {
    const auto single = static_cast<float>(value);
    std::memcpy(place, &single, sizeof single);
  }
}

double load_value(const std::byte* place, Dtype dtype) {
  if (dtype == Dtype::bf16) {
    bf16 half;
    std::memcpy(&half, place, sizeof half);
    return static_cast<float>(half);
  }
  uint32_t word = 0;
  std::memcpy(&word, place, sizeof word);
  return dtype == Dtype::u32 ? word : std::bit_cast<float>(word);
}

/// Where the rows of a strided operand may lie apart: the row axis of [N, C] and [O, R, I], the position axis
/// of [B, T, H, D] (the heads of a packed QKV buffer stay side by side).
void pad_rows(View& view, int64_t padding) {
  const int padded = view.rank == 4 ? 1 : view.rank - 2;
  for (int axis = view.rank - 2; axis >= 0; --axis)
    view.strides[axis] = view.dims[axis + 1] * view.strides[axis + 1] + (axis == padded ? padding : 0);
}

/// `like`'s shape over packed memory.
View packed_like(const View& like, void* data) {
  View view = like;
  view.data = data;
  int64_t stride = 1;
  for (int axis = view.rank; axis-- > 0; stride *= view.dims[axis]) view.strides[axis] = stride;
  return view;
}

/// Copies between two views of one shape, each packed but for one stride between its rows (pad_rows).
void copy_rows(Device& device, const View& from, const View& to) {
  int axis = from.rank;  // dimensions from here on are packed in both
  int64_t width = 1;
  while (axis > 0 && from.strides[axis - 1] == width && to.strides[axis - 1] == width)
    width *= from.dims[--axis];
  if (axis == 0) return device.copy(to.data, from.data, from.bytes());
  const int64_t height = from.size() / width;
  const auto pitch = [&](const View& view) { return view.strides[axis - 1]; };
  device.copy_2d(
      to.data, from.data,
      plan_copy_2d({from.dtype, 0, pitch(from), 0, pitch(to), width, height}, span_of(from), span_of(to)));
}

}  // namespace

std::vector<double> Instance::values_of(std::span<const std::byte> bits, Dtype dtype) {
  std::vector<double> result(bits.size() / static_cast<size_t>(size_of(dtype)));
  for (size_t i = 0; i < result.size(); ++i) result[i] = load_value(bits.data() + i * size_of(dtype), dtype);
  return result;
}

Instance::Instance(Device& device, const Case& plan, const Placement& placement)
    : device_(device), case_(plan), placement_(placement), args_(plan.make_args(nullptr)) {
  if (placement_.in_place) {
    for (const auto& [input, output] : case_.op().spec().in_place) share(input, output);
  }
  for (size_t i = 0; i < case_.operands().size(); ++i) {
    const OperandPlan& operand = case_.operands()[i];
    if (operand.present && !shared_.contains(operand.operand->name)) place(i);
  }
  for (const auto& [output, input] : shared_) {
    case_.op().view(args_.get(), *case_.find(output)->operand) = slot_of(input)->view;
  }
  scratch_bytes_ = case_.op().scratch_bytes(args_.get());
  scratch_ = device_.allocate(scratch_bytes_ + 2 * guard_bytes);
  total_bytes_ += scratch_.bytes();
  case_.op().lend_scratch(args_.get(), static_cast<char*>(scratch_.data()) + guard_bytes);
}

bool Instance::has_shared() const { return !shared_.empty(); }

const Instance::Slot* Instance::slot_of(std::string_view name) const {
  for (const Slot& slot : slots_) {
    if (plan_of(slot).operand->name == name) return &slot;
  }
  return nullptr;
}

Instance::Slot* Instance::slot_of(std::string_view name) {
  return const_cast<Slot*>(std::as_const(*this).slot_of(name));
}

void Instance::place(size_t index) {
  const OperandPlan& plan = case_.operands()[index];
  const auto& strided = case_.op().spec().strided;
  Slot slot;
  slot.index = index;
  View& view = case_.op().view(args_.get(), *plan.operand);
  const bool may_pad = std::find(strided.begin(), strided.end(), plan.operand->name) != strided.end();
  const int64_t apart = case_.row_stride(plan.operand->name);
  const int64_t padding = apart > 0 ? apart - row_width(plan) : may_pad ? placement_.row_padding : 0;
  if (padding > 0 && view.rank >= 2) pad_rows(view, padding);
  slot.buffer = device_.allocate(2 * guard_bytes + span_of(view) * size_of(plan.dtype));
  view.data = static_cast<char*>(slot.buffer.data()) + guard_bytes;
  slot.view = view;
  total_bytes_ += slot.buffer.bytes();
  slots_.push_back(std::move(slot));
}

void Instance::share(const std::string& input, const std::string& output) {
  const OperandPlan *from = case_.find(input), *to = case_.find(output);
  if (from == nullptr || to == nullptr || from->dtype != to->dtype || from->dims != to->dims) return;
  const bool taken = std::any_of(shared_.begin(), shared_.end(), [&](const auto& pair) {
    return pair.first == output || pair.second == input;
  });
  if (!taken) shared_[output] = input;
}

std::vector<std::byte> Instance::image_of(const Slot& slot, const std::vector<double>* values) const {
  std::vector<std::byte> image(static_cast<size_t>(slot.buffer.bytes()), guard_fill);
  const int64_t width = size_of(slot.view.dtype);
  std::byte* payload = image.data() + guard_bytes;
  size_t next = 0;
  for_each_row(slot.view, [&](int64_t offset, int64_t count) {
    if (values == nullptr) {
      std::memset(payload + offset * width, placement_.garbage, static_cast<size_t>(count * width));
    } else {
      for (int64_t i = 0; i < count; ++i)
        store_value(payload + (offset + i) * width, (*values)[next++], slot.view.dtype);
    }
  });
  return image;
}

void Instance::refill_scratch() {
  device_.fill_bytes(scratch_.data(), std::to_integer<int>(guard_fill), scratch_.bytes());
  if (scratch_bytes_ > 0)
    device_.fill_bytes(static_cast<char*>(scratch_.data()) + guard_bytes, placement_.garbage, scratch_bytes_);
}

void Instance::load(const CaseInputs& inputs) {
  for (Slot& slot : slots_) {
    slot.image = image_of(slot, plan_of(slot).reads ? &inputs[slot.index] : nullptr);
    device_.upload(slot.buffer.data(), slot.image.data(), slot.buffer.bytes());
  }
  refill_scratch();
  device_.synchronize();
}

/// The block that load_repeated repeats, drawn once.
void Instance::draw_block(Slot& slot) const {
  constexpr int64_t most = int64_t{1} << 20;
  const OperandPlan& plan = plan_of(slot);
  if (!slot.block.empty()) return;
  const int64_t width = plan.dims.back(), rows = std::max<int64_t>(most / width, 1);
  const int64_t count = std::min(plan.size(), (rows - (rows + 1) % 2) * width);
  slot.block.resize(static_cast<size_t>(count * size_of(plan.dtype)));
  const std::vector<double> values = case_.draw(slot.index, count);
  for (int64_t i = 0; i < count; ++i)
    store_value(slot.block.data() + i * size_of(plan.dtype), values[i], plan.dtype);
}

void Instance::load_repeated() {
  for (Slot& slot : slots_) {
    const OperandPlan& plan = plan_of(slot);
    clear_slot(slot);
    if (!plan.reads || plan.size() == 0) continue;
    draw_block(slot);
    const int64_t total = plan.size() * size_of(plan.dtype);
    const Buffer elsewhere = slot.view.packed() ? Buffer() : device_.allocate(total);
    char* packed = static_cast<char*>(slot.view.packed() ? slot.view.data : elsewhere.data());
    device_.upload(packed, slot.block.data(), static_cast<int64_t>(slot.block.size()));
    for (int64_t done = static_cast<int64_t>(slot.block.size()); done < total; done *= 2)
      device_.copy(packed + done, packed, std::min(done, total - done));
    if (!slot.view.packed()) copy_rows(device_, packed_like(slot.view, packed), slot.view);
  }
  refill_scratch();
  device_.synchronize();
}

void Instance::load_from(const Instance& other) {
  for (Slot& slot : slots_) {
    clear_slot(slot);
    const OperandPlan& plan = plan_of(slot);
    if (plan.reads && plan.size() > 0) copy_rows(device_, other.slot_of(plan.operand->name)->view, slot.view);
  }
  refill_scratch();
  device_.synchronize();
}

/// Guard bands, and garbage between.
void Instance::clear_slot(const Slot& slot) {
  char* start = static_cast<char*>(slot.buffer.data());
  const int64_t payload = slot.buffer.bytes() - 2 * guard_bytes;
  device_.fill_bytes(start, std::to_integer<int>(guard_fill), slot.buffer.bytes());
  device_.fill_bytes(start + guard_bytes, placement_.garbage, payload);
}

std::vector<std::byte> Instance::read(std::string_view operand, std::span<const int64_t> which) const {
  const View whole = slot_of(operand)->view;
  const int64_t size = size_of(whole.dtype);
  std::vector<std::byte> packed, span;
  device_.synchronize();
  for (const int64_t entry : which) {
    const View part = whole.slice(0, entry, entry + 1);
    span.resize(static_cast<size_t>(span_of(part) * size));
    device_.download(span.data(), part.data, static_cast<int64_t>(span.size()));
    device_.synchronize();
    for_each_row(part, [&](int64_t offset, int64_t count) {
      packed.insert(packed.end(), span.begin() + offset * size, span.begin() + (offset + count) * size);
    });
  }
  return packed;
}

bool Instance::guards_intact() const {
  device_.synchronize();
  std::vector<std::byte> bytes(static_cast<size_t>(guard_bytes));
  const auto intact = [&](const Buffer& buffer, int64_t offset) {
    device_.download(bytes.data(), static_cast<const char*>(buffer.data()) + offset, guard_bytes);
    device_.synchronize();
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte value) { return value == guard_fill; });
  };
  const bool scratch = intact(scratch_, 0) && intact(scratch_, guard_bytes + scratch_bytes_);
  return scratch && std::all_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
           return intact(slot.buffer, 0) && intact(slot.buffer, slot.buffer.bytes() - guard_bytes);
         });
}

void Instance::fetch_slot(const Slot& slot, std::vector<Output>& outputs, std::string& damage) const {
  std::vector<std::byte> after(slot.image.size());
  device_.download(after.data(), slot.buffer.data(), slot.buffer.bytes());
  device_.synchronize();
  std::string writer = plan_of(slot).writes ? plan_of(slot).operand->name : "";
  for (const auto& [output, input] : shared_) {
    if (input == plan_of(slot).operand->name) writer = output;
  }
  std::vector<std::byte> expected = slot.image;
  const int64_t width = size_of(slot.view.dtype);
  if (!writer.empty()) {  // its rows may change, and nothing else
    Output output{writer, slot.view.dtype, {}};
    output.bits.reserve(static_cast<size_t>(slot.view.size() * width));
    for_each_row(slot.view, [&](int64_t offset, int64_t count) {
      const auto begin = after.begin() + guard_bytes + offset * width, end = begin + count * width;
      output.bits.insert(output.bits.end(), begin, end);
      std::copy(begin, end, expected.begin() + guard_bytes + offset * width);
    });
    outputs.push_back(std::move(output));
  }
  const auto difference = std::mismatch(after.begin(), after.end(), expected.begin());
  if (difference.first == after.end() || !damage.empty()) return;
  const int64_t at = (difference.first - after.begin()) - guard_bytes;
  const int64_t payload = slot.buffer.bytes() - 2 * guard_bytes;
  const std::string name = plan_of(slot).operand->name;
  damage = at < 0           ? fmt::format("wrote {} bytes before the start of {}", -at, name)
           : at >= payload  ? fmt::format("wrote {} bytes past the end of {}", at - payload + 1, name)
           : writer.empty() ? fmt::format("changed input {} at element {}", name, at / width)
                            : fmt::format("wrote between the rows of {} at element {}", name, at / width);
}

std::vector<Instance::Output> Instance::fetch(std::string& damage) {
  device_.synchronize();
  std::vector<Output> outputs;
  for (const Slot& slot : slots_) fetch_slot(slot, outputs, damage);
  std::vector<std::byte> guards(2 * guard_bytes);
  device_.download(guards.data(), scratch_.data(), guard_bytes);
  device_.download(guards.data() + guard_bytes,
                   static_cast<char*>(scratch_.data()) + guard_bytes + scratch_bytes_, guard_bytes);
  device_.synchronize();
  const bool intact =
      std::all_of(guards.begin(), guards.end(), [](std::byte value) { return value == guard_fill; });
  if (!intact && damage.empty()) damage = "wrote outside its scratch";
  std::sort(outputs.begin(), outputs.end(), [](const Output& a, const Output& b) { return a.name < b.name; });
  return outputs;
}

namespace {

template <class Word>
bool all_finite(std::span<const std::byte> bytes, Word exponent) {
  bool finite = true;
  for (size_t i = 0; i + sizeof(Word) <= bytes.size(); i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    finite &= (word & exponent) != exponent;
  }
  return finite;
}

/// Eight independent lanes, so that the multiplications overlap: the outputs are gigabytes.
void digest_bytes(std::span<const std::byte> bytes, Dtype dtype, Instance::Digest& digest) {
  constexpr size_t lanes = 8;
  const auto mix = [](uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
  };
  uint64_t hash[lanes], words[lanes];
  for (size_t k = 0; k < lanes; ++k) hash[k] = digest.hash + k;
  for (size_t i = 0; i < bytes.size(); i += sizeof words) {
    std::fill_n(words, lanes, 0);
    std::memcpy(words, bytes.data() + i, std::min(sizeof words, bytes.size() - i));
    for (size_t k = 0; k < lanes; ++k) hash[k] = mix(hash[k], words[k]);
  }
  for (const uint64_t lane : hash) digest.hash = mix(digest.hash, lane);
  if (dtype == Dtype::bf16) digest.finite &= all_finite<uint16_t>(bytes, 0x7f80);
  if (dtype == Dtype::f32) digest.finite &= all_finite<uint32_t>(bytes, 0x7f800000);
}

}  // namespace

Instance::Digest Instance::digest(int64_t most_bytes) {
  constexpr int64_t block = int64_t{1} << 26;
  device_.synchronize();
  Digest digest{0xcbf29ce484222325u, true};
  std::vector<std::byte> bytes;
  for (const Slot& slot : slots_) {
    if (!plan_of(slot).writes) continue;
    const int64_t total = slot.view.size() * size_of(slot.view.dtype);
    const Buffer elsewhere = slot.view.packed() ? Buffer() : device_.allocate(total);
    const char* packed = static_cast<const char*>(slot.view.packed() ? slot.view.data : elsewhere.data());
    if (!slot.view.packed()) copy_rows(device_, slot.view, packed_like(slot.view, elsewhere.data()));
    for (int64_t begin = 0; begin < total;) {
      bytes.resize(static_cast<size_t>(std::min({block, total - begin, most_bytes})));
      device_.download(bytes.data(), packed + begin, static_cast<int64_t>(bytes.size()));
      device_.synchronize();
      digest_bytes(bytes, slot.view.dtype, digest);
      begin += static_cast<int64_t>(bytes.size());
      if (begin >= most_bytes) begin = std::max(begin, total - most_bytes);
    }
  }
  return digest;
}

}  // namespace tang
