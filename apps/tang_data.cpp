// tang-data: text to token shards, corpora of known entropy, and what a file is.
#include <fmt/format.h>

#include <cstdio>

#include "lib/base/cli.h"
#include "lib/base/run_main.h"
#include "lib/data/inspect.h"
#include "lib/data/prepare.h"
#include "lib/data/synth.h"

namespace {

using namespace tang;

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

struct Program {
  PrepareOptions prepare_options, train_options;
  SynthOptions synth_options;
  std::string path;
  bool json = false;
  Cli cli{"tang-data",
          "Turns text into token shards, makes corpora of known entropy, and says what a file is.",
          "tang-data prepare --input book.txt more/*.jsonl --out data/books\n"
          "tang-data synth --out data/synth --tokens 1000000 --seed 1\n"
          "tang-data inspect data/books"};

  Program() {
    declare_prepare();
    declare_synth();
    cli.subcommand("inspect", "says what a file or dataset folder is, with counts and the first ids decoded",
                   "tang-data inspect data/books/train_000000.bin\ntang-data inspect "
                   "runs/a/checkpoints/step-10/model.safetensors")
        .positional("PATH", path, "file or folder", Need::required)
        .flag("--json", json, "print JSON");
    declare_tokenizer();
  }

  void declare_prepare() {
    PrepareOptions& o = prepare_options;
    cli.subcommand(
           "prepare", "text files (each a document) and JSON lines (each line a document) to token shards",
           "tang-data prepare --input book.txt --out data/book\n"
           "tang-data prepare --input a.jsonl b.jsonl --text-key content --out data/ab --tokenizer byte\n"
           "tang-data prepare --input train/ --val val.txt --out data/t --tokenizer llama.model")
        .option("--input,-i", o.inputs, "text files, .jsonl files, globs or folders", Need::required)
        .option("--out,-o", o.out, "folder to write", Need::required)
        .option("--tokenizer", o.tokenizer, "byte, bpe (trained on the text), or a tokenizer file or folder")
        .option("--vocab-size", o.vocab_size, "size of the trained BPE vocabulary")
        .option("--val-fraction", o.val_fraction,
                "part held back for validation: whole documents, or the end of each when there are few")
        .option("--val", o.val, "validation text of its own, instead of --val-fraction")
        .option("--text-key", o.text_key, "member of a JSON line that holds the text")
        .option("--shard-tokens", o.shard_tokens, "most tokens of one shard")
        .option("--seed", o.seed, "draws the validation documents")
        .flag("--json", json, "print JSON");
  }

  void declare_synth() {
    SynthOptions& o = synth_options;
    cli.subcommand("synth", "a corpus from a random Markov source whose entropy per token is known",
                   "tang-data synth --out data/synth --tokens 1000000 --seed 1")
        .option("--out,-o", o.out, "folder to write", Need::required)
        .option("--tokens", o.tokens, "training tokens", Need::required)
        .option("--val-tokens", o.val_tokens, "validation tokens; -1: a tenth, at least 1000")
        .option("--order", o.order, "symbols that the next one depends on: 1 or 2")
        .option("--seed", o.seed, "draws the source and the text")
        .flag("--json", json, "print JSON");
  }

  void declare_tokenizer() {
    PrepareOptions& o = train_options;
    o.val_fraction = 0;
    cli.subcommand("tokenizer", "trains a SentencePiece BPE and writes it to a .model file",
                   "tang-data tokenizer --input book.txt --vocab-size 8192 --out book.model")
        .option("--input,-i", o.inputs, "text files, .jsonl files, globs or folders", Need::required)
        .option("--out,-o", o.out, "FILE.model to write", Need::required)
        .option("--vocab-size", o.vocab_size, "size of the vocabulary")
        .option("--text-key", o.text_key, "member of a JSON line that holds the text");
  }

  void show(const Json& dataset, const std::string& out) const {
    if (json) return print(dataset.dump(2) + "\n");
    print(describe_dataset(dataset));
    if (const Json* nats = dataset.find("entropy_nats")) {
      print(fmt::format("entropy of the source: {:.6f} nats = {:.6f} bits a token\n", nats->as_double(),
                        dataset.at("entropy_bits").as_double()));
      print(fmt::format("this val.txt costs the source itself {:.6f} ± {:.6f} nats a token\n",
                        dataset.at("val_nats").as_double(),
                        dataset.at("val_nats_standard_error").as_double()));
    }
    print("wrote " + out + "\n");
  }

  int run() {
    const std::string command = cli.chosen();
    if (command == "prepare") show(prepare(prepare_options), prepare_options.out);
    if (command == "synth") show(synthesize(synth_options), synth_options.out);
    if (command == "inspect") {
      const Json found = inspect(path);
      print(json ? found.dump(2) + "\n" : describe_members(found));
    }
    if (command == "tokenizer") {
      const std::unique_ptr<Tokenizer> tokenizer = train_tokenizer(train_options);
      tokenizer->save_as(train_options.out);
      print(fmt::format("wrote {}: {} ids\n", train_options.out, tokenizer->vocab_size()));
    }
    return 0;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return tang::run_main([&] {
    Program program;
    return program.cli.parse(argc, argv) ? program.run() : 0;
  });
}
