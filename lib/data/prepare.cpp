#include "lib/data/prepare.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/rng.h"
#include "lib/data/dataset.h"
#include "lib/data/documents.h"

namespace tang {

namespace {

/// Runs body(0 … count-1) on all cores; the exception of the lowest index is thrown, whoever met it.
template <class Body>
void parallel(size_t count, const Body& body) {
  std::atomic<size_t> next = 0;
  std::vector<std::exception_ptr> errors(count);
  const auto work = [&] {
    for (size_t i; (i = next++) < count;) {
      try {
        body(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads(
      std::min<size_t>(count, std::max(1u, std::thread::hardware_concurrency())));
  for (std::thread& thread : threads) thread = std::thread(work);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// Encodes parts a batch of pieces at a time, so that memory stays bounded, and writes them in order.
class PartEncoder {
 public:
  PartEncoder(const Tokenizer& tokenizer, DatasetWriter& writer) : tokenizer_(tokenizer), writer_(writer) {}

  void add(const Part& part) {
    // Models that change text (a space before it, say) would do so at every piece: they get long ones.
    const size_t target = tokenizer_.lossless() ? 16384 : 1 << 20;
    bool first = true;
    for (const std::string_view text : cut_text(part.text, target)) {
      pieces_.push_back({std::string(text), part.split, std::exchange(first, false), {}});
      held_bytes_ += text.size();
      if (held_bytes_ >= batch_bytes) flush();
    }
    SplitCounts& counts = writer_.counts(part.split);
    counts.documents += 1;
    counts.bytes += static_cast<int64_t>(part.text.size());
  }

  void flush() {
    parallel(pieces_.size(), [&](size_t i) {
      if (pieces_[i].starts) pieces_[i].ids.push_back(tokenizer_.document_mark());
      tokenizer_.encode(pieces_[i].text, pieces_[i].ids);
    });
    for (const Piece& piece : pieces_) {
      writer_.append(piece.split, piece.ids);
      const int64_t unknown = tokenizer_.unknown_id();
      if (unknown >= 0)
        unknown_ += std::count(piece.ids.begin(), piece.ids.end(), static_cast<uint32_t>(unknown));
    }
    pieces_.clear();
    held_bytes_ = 0;
  }

  int64_t unknown() const { return unknown_; }

 private:
  static constexpr size_t batch_bytes = 8 << 20;
  struct Piece {
    std::string text;
    DataSplit split;
    bool starts;  // a document
    std::vector<uint32_t> ids;
  };

  const Tokenizer& tokenizer_;
  DatasetWriter& writer_;
  std::vector<Piece> pieces_;
  size_t held_bytes_ = 0;
  int64_t unknown_ = 0;
};

/// A BPE of the training parts. The trainer holds its text in memory, so of very large inputs it sees a
/// sample.
std::unique_ptr<Tokenizer> train_on(const std::vector<Source>& sources, const SplitRule& rule,
                                    const PrepareOptions& options) {
  constexpr double most_bytes = 256e6;
  double bytes = 0;
  for (const Source& source : sources) bytes += static_cast<double>(source.bytes);
  const Rng rng(static_cast<uint64_t>(options.seed), 1);
  PartReader reader(sources, options.text_key, rule);
  Part part;
  std::vector<std::string_view> pieces;
  size_t at = 0;
  uint64_t drawn = 0;
  return train_bpe(
      [&](std::string_view& text) {
        for (;;) {
          for (; at < pieces.size(); ++at) {
            if (bytes <= most_bytes || rng.uniform(drawn++) < most_bytes / bytes) {
              text = pieces[at++];
              return true;
            }
          }
          do {
            if (!reader.next(part)) return false;
          } while (part.split != DataSplit::train);
          pieces = cut_text(part.text);
          at = 0;
        }
      },
      options.vocab_size);
}

Json describe_sources(const std::vector<Source>& sources) {
  Json list = Json::array();
  for (const Source& source : sources) {
    list.push_back(Json::object({{"path", source.path.string()}, {"bytes", source.bytes}}));
  }
  return list;
}

void encode_all(PartReader& reader, PartEncoder& encoder, bool as_validation) {
  for (Part part; reader.next(part);) {
    if (as_validation) part.split = DataSplit::val;
    encoder.add(part);
  }
}

}  // namespace

std::unique_ptr<Tokenizer> train_tokenizer(const PrepareOptions& options) {
  const std::vector<Source> sources = find_sources(options.inputs);
  const SplitRule rule =
      choose_split(sources, options.text_key, options.val_fraction, static_cast<uint64_t>(options.seed));
  return train_on(sources, rule, options);
}

Json prepare(const PrepareOptions& options) {
  const std::vector<Source> sources = find_sources(options.inputs);
  const std::vector<Source> val = options.val.empty() ? std::vector<Source>() : find_sources(options.val);
  const SplitRule rule = choose_split(sources, options.text_key, val.empty() ? options.val_fraction : 0,
                                      static_cast<uint64_t>(options.seed));
  const std::unique_ptr<Tokenizer> tokenizer = options.tokenizer == "byte" ? byte_tokenizer()
                                               : options.tokenizer == "bpe"
                                                   ? train_on(sources, rule, options)
                                                   : load_tokenizer(options.tokenizer);
  DatasetWriter writer(options.out, tokenizer->vocab_size(), options.shard_tokens);
  PartEncoder encoder(*tokenizer, writer);
  PartReader train_reader(sources, options.text_key, rule), val_reader(val, options.text_key, SplitRule());
  encode_all(train_reader, encoder, false);
  encode_all(val_reader, encoder, true);
  encoder.flush();
  if (writer.counts(DataSplit::train).documents == 0) {
    fail_input("no text to train on: all {} documents are blank", train_reader.blank());
  }
  return writer.publish(
      *tokenizer, Json::object({{"blank_documents", train_reader.blank() + val_reader.blank()},
                                {"unknown_tokens", encoder.unknown()},
                                {"split", Json::object({{"rule", val.empty() ? name_of(rule.kind) : "given"},
                                                        {"fraction", rule.fraction},
                                                        {"seed", options.seed}})},
                                {"sources", describe_sources(sources)},
                                {"val_sources", describe_sources(val)}}));
}

std::string describe_dataset(const Json& dataset) {
  const Json& tokenizer = dataset.at("tokenizer");
  std::string text = fmt::format("{:<6} {:>10} {:>14} {:>14} {:>11} {:>7}\n", "", "documents", "bytes",
                                 "tokens", "bytes/token", "shards");
  for (const char* split : {"train", "val"}) {
    const Json& counts = dataset.at(split);
    const double tokens = counts.at("tokens").as_double(), bytes = counts.at("bytes").as_double();
    text +=
        fmt::format("{:<6} {:>10} {:>14} {:>14} {:>11.2f} {:>7}\n", split, counts.at("documents").as_int(),
                    counts.at("bytes").as_int(), counts.at("tokens").as_int(),
                    tokens > 0 ? bytes / tokens : 0, counts.at("shards").items().size());
  }
  text += fmt::format(
      "tokenizer: {}, vocabulary {}, document mark {}{}\n", tokenizer.at("kind").as_string(),
      tokenizer.at("vocab_size").as_int(), tokenizer.at("document_mark").as_int(),
      tokenizer.at("lossless").as_bool() ? "" : " (this model changes text: decoding is not exact)");
  const auto note = [&](const char* member, const char* sentence) {
    const Json* count = dataset.find(member);
    if (count != nullptr && count->as_int() > 0) text += fmt::format("{} {}\n", count->as_int(), sentence);
  };
  note("blank_documents", "blank documents skipped");
  note("unknown_tokens", "tokens are the unknown id: the vocabulary lacks their text");
  return text;
}

}  // namespace tang
