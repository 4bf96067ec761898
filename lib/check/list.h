// What is registered, for people: tang-check list, and docs/OPS.md.
#pragma once

#include <string>
#include <vector>

namespace tang {

/// One line per op: dims, implementations, modes, number of cases.
std::string list_ops(const std::vector<std::string>& ops);

/// docs/OPS.md, whole. A test compares the file with this.
std::string ops_markdown();

}  // namespace tang
