// SentencePiece models. sentencepiece.cpp holds the library, sentencepiece_absent.cpp stands in without it.
#pragma once

#include <memory>

#include "lib/text/tokenizer.h"

namespace tang {

inline constexpr const char* sentencepiece_file = "tokenizer.model";

std::unique_ptr<Tokenizer> load_sentencepiece(const fs::path& path);

}  // namespace tang
