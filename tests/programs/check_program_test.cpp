// What tang-check refuses before it computes: a check that could not fail is no check.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tests/run_program.h"

using namespace tang;

TEST_CASE("programs: a tang-check that would prove nothing is one input error") {
  for (const char* words :
       {"step --device cpu --steps 0", "repeat rope --device cpu --runs 0",
        "repeat rope --device cpu --runs 1", "repeat rope --device cpu --case N=3",
        "parity rope --device cpu --case N=3", "parity embedding --device cpu --case N=3",
        "large next_token --device cpu", "large swiglu --device cpu --case \"N=0 F=3\"",
        "large swiglu --device cpu --impl none", "grad nothing", "compile rope --arch \"\"",
        "parity --quiet=no", "parity rope --small --case \"B=1 T=1 H=1 D=2 R2=1 P=1\"",
        "list rope --markdown", "large transpose --device cpu --case \"R=9 C=7\"",
        "large embedding_backward --device cpu --case \"N=30 V=7 C=3\""}) {
    const Outcome outcome = run_program("tang-check", words);
    CHECK_MESSAGE(outcome.exit_code == 2, words << ": " << outcome.text);
    CHECK_MESSAGE(outcome.text.starts_with("tang-check: error: "), words << ": " << outcome.text);
    CHECK_MESSAGE(std::count(outcome.text.begin(), outcome.text.end(), '\n') == 1,
                  words << ": " << outcome.text);
  }
}
