#!/bin/sh
# sh tests/summarise.sh BUILD: runs every test of a build folder and closes with the sum of their counts,
# "N passed, N failed, N skipped". Programs that count cases print such a line last; a test without one is one
# case. Exit code 1 when anything failed or nothing ran.
build=${1:?usage: sh tests/summarise.sh BUILD}
log=$build/Testing/Temporary/LastTest.log
rm -f "$log"
ctest --test-dir "$build" --output-on-failure
if [ ! -f "$log" ]; then
  echo "ctest left no log in $build: build the tests first (cmake --build $build)"
  echo "0 passed, 0 failed, 0 skipped"
  exit 1
fi
awk '
function close_test() {
  if (name == "") return
  if (!counted && outcome == "Passed") p = 1
  if (!counted && outcome == "Skipped") s = 1
  if (outcome != "Passed" && outcome != "Skipped" && f == 0) f = 1
  if (f > 0) printf "failed: %s\n", name
  passed += p; failed += f; skipped += s
  name = ""
}
/^[0-9]+\/[0-9]+ Testing: / { close_test(); name = $3; counted = 0; outcome = "Failed"; p = f = s = 0 }
/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { counted = 1; p = $1; f = $3; s = $5 }
/^Test Passed\.$/ { outcome = "Passed" }
/^Test (Skipped|Not Run)/ || /^Skipped/ { outcome = "Skipped" }
END {
  close_test()
  printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
  exit (failed > 0 || passed + failed == 0) ? 1 : 0
}' "$log"
