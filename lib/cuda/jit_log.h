// What the compiler's texts say: the assembler's log, the intermediate PTX, and our own record of both.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/cuda/jit.h"

namespace tang {

/// Resources from the verbose log, parameters from the PTX declarations.
std::vector<JitEntry> parse_entries(std::string_view log, std::string_view ptx);

/// Lines that tell of lost speed or serialised code ("(C7510)" and its kin).
std::vector<std::string> parse_warnings(std::string_view log);

/// The first error of a failed compilation, on one line.
std::string first_error(std::string_view log);

/// A result as bytes for the cache, and back. Unpacking trusts the cache's checksum.
std::string pack_result(const JitResult& result);
JitResult unpack_result(std::string_view payload);

}  // namespace tang
