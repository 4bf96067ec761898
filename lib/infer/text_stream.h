// Tokens to text as they come: a character appears when all of its bytes have.
#pragma once

#include <string>
#include <vector>

#include "lib/text/tokenizer.h"

namespace tang {

class TextStream {
 public:
  /// `before`: the ids that the text goes on from; they give no output, but some tokenizers spell a token
  /// differently at a text's beginning.
  TextStream(const Tokenizer& tokenizer, std::vector<uint32_t> before);

  /// What can be shown now that `id` is there.
  std::string push(uint32_t id);
  /// What is left: the bytes of a character that never became whole.
  std::string finish();

 private:
  std::string fresh() const;

  const Tokenizer& tokenizer_;
  std::vector<uint32_t> ids_;  // [0, shown_): context that has been shown, then what has not
  size_t shown_;
};

/// Bytes at the end of `text` that begin a UTF-8 character without completing it: 0 to 3.
size_t incomplete_utf8(std::string_view text);

}  // namespace tang
