#include "lib/format/safetensors.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <limits>

#include "lib/base/error.h"
#include "lib/base/rng.h"
#include "tests/temporary_folder.h"

using namespace tang;

namespace {

/// A file with that header text and that many zero bytes of data.
std::string file_bytes(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, '\0');
}

std::string refusal_of(const std::string& bytes) {
  const TemporaryFolder folder;
  const fs::path path = folder / "x.safetensors";
  write_file_atomic(path, bytes);
  try {
    const SafetensorsFile file(path);
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    CHECK(std::string(error.what()).find("x.safetensors") != std::string::npos);
    return error.what();
  }
  return "accepted";
}

std::string refusal(const std::string& header, size_t data_bytes = 0) {
  return refusal_of(file_bytes(header, data_bytes));
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

}  // namespace

TEST_CASE("format: a written safetensors file has exactly the reference writer's bytes") {
  const TemporaryFolder folder;
  const fs::path path = folder / "m.safetensors";
  const float weights[2] = {1.0f, -2.0f};
  const uint16_t halves[1] = {0x3f80};
  const int64_t step[1] = {7};
  const std::vector<TensorSource> tensors = {{"l.2", "F32", {1}, &weights[0]},
                                             {"h", "BF16", {1, 1}, halves},
                                             {"l.10", "F32", {1}, nullptr, [&] { return &weights[1]; }},
                                             {"step", "I64", {}, step}};
  write_safetensors(path, tensors);
  std::string header = R"({"__metadata__": {"format": "pt"}, )"
                       R"("step": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]}, )"
                       R"("l.10": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}, )"
                       R"("l.2": {"dtype": "F32", "shape": [1], "data_offsets": [12, 16]}, )"
                       R"("h": {"dtype": "BF16", "shape": [1, 1], "data_offsets": [16, 18]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string bytes = file_bytes(header, 18);
  const size_t data = bytes.size() - 18;
  std::memcpy(bytes.data() + data, step, 8);
  std::memcpy(bytes.data() + data + 8, &weights[1], 4);
  std::memcpy(bytes.data() + data + 12, &weights[0], 4);
  std::memcpy(bytes.data() + data + 16, halves, 2);
  CHECK(read_file(path) == bytes);
}

TEST_CASE("format: safetensors round trips values, shapes, metadata and NaN bits") {
  const TemporaryFolder folder;
  const fs::path path = folder / "m.safetensors";
  const float values[6] = {0.1f, std::numeric_limits<float>::quiet_NaN(), -INFINITY, 4, 5, 6};
  write_safetensors(path, std::vector<TensorSource>{{"w", "F32", {2, 3}, values}},
                    {{"format", "pt"}, {"k", "\"v\""}});
  const SafetensorsFile file(path);
  const int64_t shape[] = {2, 3};
  const TensorInfo& info = file.expect("w", "F32", shape);
  REQUIRE(file.bytes(info).size() == sizeof values);
  CHECK(std::memcmp(file.bytes(info).data(), values, sizeof values) == 0);
  CHECK(file.metadata().at("k") == "\"v\"");
  CHECK(file.find("v") == nullptr);
  const int64_t other[] = {3, 2};
  CHECK_THROWS_WITH_AS(file.expect("w", "F32", other),
                       doctest::Contains("is F32 [2, 3], expected F32 [3, 2]"), Error);
  CHECK_THROWS_WITH_AS(file.expect("w", "BF16", shape), doctest::Contains("expected BF16"), Error);
  CHECK_THROWS_WITH_AS(file.expect("v", "F32", shape), doctest::Contains("no tensor 'v'"), Error);
}

TEST_CASE("format: no tensors, empty tensors and scalars are legal safetensors (F11)") {
  const TemporaryFolder folder;
  const fs::path path = folder / "m.safetensors";
  write_safetensors(path, {}, {{"only", "metadata"}});
  CHECK(SafetensorsFile(path).tensors().empty());
  CHECK(SafetensorsFile(path).metadata().at("only") == "metadata");
  const float scalar = 3;
  write_safetensors(path, std::vector<TensorSource>{{"e", "F32", {0, 4}}, {"s", "F32", {}, &scalar}});
  const SafetensorsFile file(path);
  CHECK(file.find("e")->shape == std::vector<int64_t>{0, 4});
  CHECK(file.bytes(*file.find("e")).empty());
  CHECK(file.find("s")->shape.empty());
  CHECK(file.bytes(*file.find("s")).size() == 4);
  CHECK(refusal("{}      ") == "accepted");  // the smallest legal file
}

TEST_CASE("format: a tensor given twice or of no known dtype is never written") {
  const TemporaryFolder folder;
  const float x = 1;
  const std::vector<TensorSource> twice = {{"w", "F32", {1}, &x}, {"w", "F32", {1}, &x}};
  CHECK_THROWS_WITH_AS(write_safetensors(folder / "m", twice), doctest::Contains("'w' given twice"), Error);
  CHECK_THROWS_AS(write_safetensors(folder / "m", std::vector<TensorSource>{{"w", "F33", {1}, &x}}), Error);
  CHECK_FALSE(fs::exists(folder / "m"));
}

TEST_CASE("format: safetensors cut or grown by some bytes are refused with both sizes (F07, F08)") {
  const TemporaryFolder folder;
  const fs::path path = folder / "m.safetensors";
  const std::vector<float> values(4096, 1.0f);
  write_safetensors(path, std::vector<TensorSource>{{"w", "F32", {4096}, values.data()}});
  const std::string whole = read_file(path);
  for (const size_t cut : {size_t{1}, size_t{4096}, whole.size() / 2, whole.size() - 20}) {
    const std::string message = refusal_of(whole.substr(0, whole.size() - cut));
    CHECK(has(message, "is cut short"));
    CHECK(has(message, fmt::to_string(whole.size() - cut)));
  }
  CHECK(has(refusal_of(whole + "x"), "has bytes that belong to no tensor"));
  CHECK(has(refusal_of("1234567"), "at least 8 bytes expected, found 7"));
  CHECK(has(refusal_of(""), "found 0"));
}

TEST_CASE("format: safetensors headers of any padding load whole (F10)") {
  const TemporaryFolder folder;
  const fs::path path = folder / "m.safetensors";
  for (const size_t length : {4088u, 4096u, 65528u, 65536u, 99994u, 100000u}) {
    std::string header = one("\"F32\"", "[1]", "[0,4]");
    header.resize(length, ' ');
    std::string bytes = file_bytes(header, 4);
    bytes[8 + length] = '\x42';
    write_file_atomic(path, bytes);
    const SafetensorsFile file(path);
    CHECK(file.bytes(*file.find("a"))[0] == std::byte{0x42});
  }
  CHECK(refusal("\n\t " + one("\"U8\"", "[1]", "[0,1]") + "\r\n", 1) == "accepted");
}

TEST_CASE("format: malformed safetensors headers are refused") {
  std::string huge(8, '\0');
  const uint64_t length = 100'000'001;
  std::memcpy(huge.data(), &length, 8);
  CHECK(has(refusal_of(huge), "at most 100000000 bytes, this one says 100000001"));
  CHECK(has(refusal_of(std::string(8, '\xFF')), "at most 100000000"));
  for (const char* text : {"", "[]", "3", "\xEF\xBB\xBF{}"})
    CHECK(has(refusal(text), "must be a JSON object"));
  for (const char* text : {"{", "{} {}", "{\"\xFF\":1}"}) CHECK(has(refusal(text), "not valid JSON"));
  CHECK(has(refusal(std::string("{}\0\0", 4)), "NUL at byte 2"));
  CHECK(has(refusal(R"({"a":3})"), "tensor 'a': expected a member 'dtype'"));
  CHECK(has(refusal(R"({"a":{"shape":[],"data_offsets":[0,4]}})"), "'dtype'"));
  CHECK(has(refusal(R"({"__metadata__":{"k":1}})"), "'k' must be a string"));
  CHECK(has(refusal(R"({"__metadata__":"x"})"), "must be an object"));
  const std::string tensor = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  CHECK(has(refusal("{" + tensor + "," + tensor + "}", 1), "the name 'a' appears twice"));
}

TEST_CASE("format: malformed safetensors entries are refused") {
  CHECK(has(refusal(one("\"F31\"", "[1]", "[0,4]"), 4), "unknown dtype 'F31'"));
  CHECK(has(refusal(one("7", "[1]", "[0,4]"), 4), "expected a string"));
  for (const char* shape : {"[-1]", "[1.0]", "[1e0]", "[\"1\"]", "[null]", "[true]", "1"}) {
    CHECK(has(refusal(one("\"F32\"", shape, "[0,4]"), 4), "tensor 'a': expected"));
  }
  for (const char* offsets : {"[-4,0]", "[0.0,4]", "[0]", "[0,4,8]", "null"}) {
    CHECK(has(refusal(one("\"F32\"", "[1]", offsets), 4), "tensor 'a': expected"));
  }
  CHECK(has(refusal(one("\"F32\"", "[18446744073709551615]", "[0,4]"), 4), "passes 2^63"));
  CHECK(has(refusal(one("\"F32\"", "[4294967296,4294967296]", "[0,4]"), 4), "passes 2^64"));
  CHECK(has(refusal(one("\"F32\"", "[1]", "[4,0]"), 4), "has 4 bytes, its data_offsets are [4, 0]"));
  CHECK(has(refusal(one("\"F32\"", "[2]", "[0,4]"), 4), "has 8 bytes"));
  CHECK(has(refusal(one("\"F4\"", "[3]", "[0,2]"), 2), "not a whole number of bytes"));
  CHECK(refusal(one("\"F4\"", "[4]", "[0,2]"), 2) == "accepted");
}

TEST_CASE("format: safetensors data must be tiled without gap or overlap") {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  CHECK(refusal(two("[4,8]", "[0,4]"), 8) == "accepted");  // any order of names
  CHECK(has(refusal(two("[0,4]", "[5,9]"), 9), "belong to no tensor"));
  CHECK(has(refusal(two("[1,5]", "[5,9]"), 9), "starts at byte 1"));
  CHECK(has(refusal(two("[0,4]", "[2,6]"), 6), "overlap"));
  CHECK(has(refusal(two("[0,4]", "[0,4]"), 4), "overlap"));
}

TEST_CASE("format: a safetensors file with damaged bytes loads or is refused, never worse") {
  const TemporaryFolder folder;
  const fs::path path = folder / "m.safetensors";
  const std::vector<float> values(8, 1.0f);
  write_safetensors(path, std::vector<TensorSource>{{"w", "F32", {2, 4}, values.data()}, {"e", "BF16", {0}}});
  const std::string whole = read_file(path);
  const Rng rng(11);
  int refused = 0;
  for (uint64_t i = 0; i < 300; ++i) {
    std::string bytes = whole;
    for (uint64_t k = 0; k < 1 + i % 3; ++k) {
      bytes[rng.below(8 * i + 2 * k, bytes.size() - 32)] =
          static_cast<char>(rng.below(8 * i + 2 * k + 1, 256));
    }
    std::ofstream(path, std::ios::binary) << bytes;  // 300 durable writes would take seconds
    try {
      const SafetensorsFile loaded(path);
      for (const TensorInfo& tensor : loaded.tensors()) {
        CHECK(loaded.bytes(tensor).size() == tensor.end - tensor.begin);
      }
    } catch (const Error& error) {
      CHECK(error.exit_code() == 2);
      ++refused;
    }
  }
  CHECK(refused > 150);
}
