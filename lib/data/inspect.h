// tang-data inspect: what a file or dataset folder is.
#pragma once

#include "lib/base/file.h"
#include "lib/base/json.h"

namespace tang {

/// Figures of a file (token shard, safetensors, tokenizer, text, JSON lines) or of a dataset folder and each
/// of its shards. Shards are read whole: their largest id is checked against the tokenizer beside them.
/// Damaged files and kinds that tang does not read are input errors that say what the file is.
Json inspect(const fs::path& path);

/// The object as aligned "name value" lines, members of members as "outer.inner".
std::string describe_members(const Json& object);

}  // namespace tang
