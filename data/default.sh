#!/bin/sh
# The corpus of configs/tiny.yaml in data/kjv, once: the King James Bible where its package is installed, else a synthetic
# source of known entropy.
# Usage: data/default.sh BUILD_FOLDER
set -eu
build=${1:?usage: data/default.sh BUILD_FOLDER}
root=$(dirname "$0")
[ -e "$root/kjv/dataset.json" ] && exit 0
if command -v bible > /dev/null 2>&1; then
  sh "$root/kjv.sh" "$root/kjv/kjv.txt"
  code=0
  "$build/tang-data" prepare --input "$root/kjv/kjv.txt" --out "$root/kjv" --vocab-size 4096 || code=$?
  [ "$code" -eq 3 ] || exit "$code"
  echo "built without SentencePiece: bytes are the tokens instead"
  "$build/tang-data" prepare --input "$root/kjv/kjv.txt" --out "$root/kjv" --tokenizer byte
else
  echo "no package bible-kjv: training on a synthetic source instead"
  "$build/tang-data" synth --out "$root/kjv" --tokens 2000000 --seed 1
fi
