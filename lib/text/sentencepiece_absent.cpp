#ifndef TANG_HAVE_SENTENCEPIECE
#include "lib/base/error.h"
#include "lib/text/sentencepiece.h"

namespace tang {

namespace {

[[noreturn]] void absent() {
  fail_machine(
      "this build has no SentencePiece: install libsentencepiece-dev and build again, or use --tokenizer "
      "byte");
}

}  // namespace

bool have_sentencepiece() { return false; }
std::unique_ptr<Tokenizer> load_sentencepiece(const fs::path&) { absent(); }
std::unique_ptr<Tokenizer> train_bpe(const NextText&, int64_t) { absent(); }

}  // namespace tang
#endif
