// Small text helpers shared by configuration, flags and messages.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tang {

std::vector<std::string> split(std::string_view text, char separator);  // keeps empty pieces
std::vector<std::string> words(std::string_view text);                  // split at spaces, drops empty pieces
std::string_view trim(std::string_view text);

/// Bytes of the longest prefix that is valid UTF-8 (no overlong forms, surrogates or code points past
/// U+10FFFF).
size_t valid_utf8_prefix(std::string_view text);

/// The candidate with the smallest edit distance to `word`, or "" when none is near (more than a third of it
/// differs).
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// " (did you mean 'x'?)" or "".
std::string suggestion(std::string_view word, std::span<const std::string> candidates);

/// "1.5 GiB", "320 KiB".
std::string human_bytes(double bytes);
/// "12.3k", "4.56M".
std::string human_count(double count);
/// "1h 02m", "3m 20s", "45s".
std::string human_seconds(double seconds);

}  // namespace tang
