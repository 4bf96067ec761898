// Cases with a dimension of zero: an op refuses them in words or gets them right; it never divides by them.
#pragma once

#include <doctest/doctest.h>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/check/devices.h"
#include "lib/ops/case.h"
#include "lib/ops/catalog.h"

namespace tang {
/// The op's first case with `letter` = 0.
inline CaseText without(const OpBase& op, const std::string& letter) {
  CaseText text = letter + "=0";
  for (const std::string& word : words(op.spec().cases.front())) {
    if (!word.starts_with(letter + "=")) text += " " + word;
  }
  return text;
}

/// Every op's first case with each of its dimensions at zero, but for those that it refuses as an input.
inline std::vector<Case> empty_cases() {
  std::vector<Case> cases;
  for (const OpBase* op : catalog()) {
    for (const Dtype mode : modes_of(*op, {Dtype::f32, Dtype::bf16})) {
      for (const Dim& dim : op->spec().dims) {
        try {
          cases.emplace_back(*op, without(*op, dim.letter), mode);
        } catch (const Error& error) {
          CHECK_MESSAGE(error.kind() == ErrorKind::input, op->name() << ": " << error.what());
        }
      }
    }
  }
  return cases;
}

}  // namespace tang
