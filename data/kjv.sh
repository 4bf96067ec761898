#!/bin/sh
# The default corpus: the King James Bible (public domain, 4.1 MB of English, one verse a line) as plain text, from
# Debian's and Ubuntu's packages bible-kjv and bible-kjv-text.
# Usage: data/kjv.sh OUT.txt
set -eu
out=${1:?usage: data/kjv.sh OUT.txt}
if ! command -v bible >/dev/null; then
  echo "data/kjv.sh: no program 'bible': apt-get install bible-kjv bible-kjv-text" >&2
  exit 3
fi
mkdir -p "$(dirname "$out")"
temporary=$out.$$.tmp
trap 'rm -f "$temporary"' EXIT
bible -f Gen1:1-Rev22:21 </dev/null | sed -E 's/^[0-9A-Za-z]+:[0-9]+ //' >"$temporary"
verses=$(wc -l <"$temporary")
if [ "$verses" -ne 31102 ]; then
  echo "data/kjv.sh: expected 31102 verses, found $verses: another edition of bible-kjv?" >&2
  exit 2
fi
mv "$temporary" "$out"
