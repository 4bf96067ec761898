#include "lib/base/cli.h"

#include <doctest/doctest.h>

#include "lib/base/error.h"

using namespace tang;

namespace {

struct Example {
  std::string out, shards = "8";
  int64_t tokens = 7;
  double fraction = 0.5;
  bool json = false;
  std::vector<std::string> inputs, impls, overrides;
  Cli cli{"tang-x", "An example.", "tang-x make --out d"};
  Cli& make = cli.subcommand("make", "makes");
  Cli& list = cli.subcommand("list", "lists");

  Example() {
    make.option("--out,-o", out, "folder", Need::required)
        .option("--shards", shards, "text")
        .option("--tokens", tokens, "count")
        .option("--fraction", fraction, "part")
        .option("--input", inputs, "files")
        .repeated("--impl", impls, "op=implementation")
        .flag("--json", json, "as JSON")
        .positional("OVERRIDES", overrides, "key=value");
  }

  bool parse(std::vector<const char*> words) {
    words.insert(words.begin(), "tang-x");
    return cli.parse(static_cast<int>(words.size()), words.data());
  }

  std::string refusal(std::vector<const char*> words) {
    try {
      (void)parse(std::move(words));
    } catch (const Error& error) {
      CHECK(error.exit_code() == 2);
      return error.what();
    }
    return "accepted";
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("base: flags, numbers, lists and overrides arrive where they were declared") {
  Example e;
  REQUIRE(e.parse({"make", "--out", "d", "--tokens=-12", "--fraction", "1e-3", "--input", "a", "b", "--json",
                   "train.steps=3", "x.y=z"}));
  CHECK(e.cli.chosen() == "make");
  CHECK(e.out == "d");
  CHECK(e.tokens == -12);
  CHECK(e.fraction == 1e-3);
  CHECK(e.json);
  CHECK(e.shards == "8");
  CHECK(e.inputs == std::vector<std::string>{"a", "b"});
  CHECK(e.overrides == std::vector<std::string>{"train.steps=3", "x.y=z"});
  CHECK(e.make.given("--tokens"));
  CHECK_FALSE(e.make.given("--shards"));
}

TEST_CASE("base: of a repeated option the last one wins, and lists add up") {
  Example e;
  REQUIRE(e.parse({"make", "--out", "a", "-o", "b", "--input", "1", "--tokens", "-5", "--input", "2"}));
  CHECK(e.out == "b");
  CHECK(e.tokens == -5);
  CHECK(e.inputs == std::vector<std::string>{"1", "2"});
}

TEST_CASE("base: a repeated option takes one word each time, and leaves the others where they belong") {
  Example e;
  REQUIRE(e.parse({"make", "--out", "d", "--impl", "a=1", "x.y=z", "--impl=b=2", "w=3"}));
  CHECK(e.impls == std::vector<std::string>{"a=1", "b=2"});
  CHECK(e.overrides == std::vector<std::string>{"x.y=z", "w=3"});
}

TEST_CASE("base: a wrong command line is one input error that names the nearest known word") {
  CHECK(has(Example().refusal({"make", "--otu", "d"}), "unknown flag '--otu' (did you mean '--out'?)"));
  CHECK(has(Example().refusal({"make", "--out", "d", "--tokns=3"}), "'--tokns' (did you mean '--tokens'?)"));
  CHECK(has(Example().refusal({"mkae", "--out", "d"}), "unknown command 'mkae' (did you mean 'make'?)"));
  CHECK(has(Example().refusal({"--jsno"}), "unknown flag '--jsno'"));
  CHECK(has(Example().refusal({}), "needs a command: make, list"));
  CHECK(has(Example().refusal({"make"}), "--out is required"));
  CHECK(has(Example().refusal({"make", "--out"}), "--out needs a value"));
  CHECK(has(Example().refusal({"make", "--out", "d", "--tokens", "3x"}),
            "--tokens takes a whole number, found '3x'"));
  CHECK(has(Example().refusal({"make", "--out", "d", "--tokens", "99999999999999999999"}), "out of range"));
  CHECK(has(Example().refusal({"make", "--out", "d", "--fraction", ""}), "--fraction takes a number"));
  CHECK(has(Example().refusal({"make", "--out", "d", "--json=no"}), "--json takes no value; see"));
  CHECK(has(Example().refusal({"list", "extra"}), "unexpected word 'extra'"));
}
