// XXH64 (Yann Collet), seed 0: what `xxhsum -H64` prints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/file.h"

namespace tang {

uint64_t xxh64(std::span<const std::byte> bytes);

/// 16 hex digits.
std::string checksum(std::string_view text);
std::string checksum_of_file(const fs::path& path);

}  // namespace tang
