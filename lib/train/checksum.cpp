#include "lib/train/checksum.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace tang {

namespace {

constexpr uint64_t prime1 = 0x9E3779B185EBCA87u, prime2 = 0xC2B2AE3D27D4EB4Fu, prime3 = 0x165667B19E3779F9u,
                   prime4 = 0x85EBCA77C2B2AE63u, prime5 = 0x27D4EB2F165667C5u;

template <class T>
uint64_t word_at(const std::byte* at) {
  T word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

uint64_t mix(uint64_t lane, uint64_t word) { return std::rotl(lane + word * prime2, 31) * prime1; }

uint64_t hash_stripes(const std::byte*& at, const std::byte* end) {
  uint64_t lanes[4] = {prime1 + prime2, prime2, 0, 0 - prime1};
  for (; end - at >= 32; at += 32) {
    for (int i = 0; i < 4; ++i) lanes[i] = mix(lanes[i], word_at<uint64_t>(at + 8 * i));
  }
  uint64_t hash =
      std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
  for (uint64_t lane : lanes) hash = (hash ^ mix(0, lane)) * prime1 + prime4;
  return hash;
}

}  // namespace

uint64_t xxh64(std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  const std::byte* end = at + bytes.size();
  uint64_t hash = bytes.size() >= 32 ? hash_stripes(at, end) : prime5;
  hash += bytes.size();
  for (; end - at >= 8; at += 8) {
    hash = std::rotl(hash ^ mix(0, word_at<uint64_t>(at)), 27) * prime1 + prime4;
  }
  if (end - at >= 4) {
    hash = std::rotl(hash ^ word_at<uint32_t>(at) * prime1, 23) * prime2 + prime3;
    at += 4;
  }
  for (; at != end; ++at) hash = std::rotl(hash ^ static_cast<uint64_t>(*at) * prime5, 11) * prime1;
  hash = (hash ^ (hash >> 33)) * prime2;
  hash = (hash ^ (hash >> 29)) * prime3;
  return hash ^ (hash >> 32);
}

std::string checksum(std::string_view text) {
  return fmt::format("{:016x}", xxh64(std::as_bytes(std::span(text))));
}

std::string checksum_of_file(const fs::path& path) {
  const MappedFile file(path);
  return fmt::format("{:016x}", xxh64(file.bytes()));
}

}  // namespace tang
