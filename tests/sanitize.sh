#!/bin/sh
# compute-sanitizer over every op's small cases, each op in a process of its own. Usage: tests/sanitize.sh BUILD
# Prints the processes that reported something, then a count for each tool; exit code 1 if any did.
set -eu
build=$1
command -v compute-sanitizer >/dev/null || { echo "sanitize: compute-sanitizer (CUDA toolkit) is not on the PATH" >&2; exit 1; }
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export build logs

# Every kernel is compiled and kept once, before many processes want it.
"$build/tang-check" parity --small --device cuda --quiet

ops=$("$build/tang-check" list | awk 'NR > 1 { print $1 }')
[ -n "$ops" ] || { echo "sanitize: tang-check list names no op" >&2; exit 1; }
for tool in memcheck racecheck; do
  for op in $ops; do echo "$tool $op"; done
done | xargs -P "${JOBS:-$(nproc)}" -L 1 sh -c '
  log=$logs/$0-$1
  compute-sanitizer --tool $0 --error-exitcode 9 --print-limit 3 \
    "$build/tang-check" parity $1 --small --device cuda --quiet >"$log" 2>&1 &&
    grep -qE "SUMMARY: 0 (errors|hazards)" "$log" && mv "$log" "$log.clean" || true'

status=0
for tool in memcheck racecheck; do
  clean=$(ls "$logs" | grep -c "^$tool-.*clean$" || true)
  echo "$tool: $clean of $(echo "$ops" | wc -l) ops clean over their small cases"
  for log in "$logs/$tool"-*; do
    case $log in *.clean) continue ;; esac
    status=1
    echo "$tool ${log#"$logs/$tool"-}:"
    grep -E "^=========|FAILED" "$log" | head -8
  done
done
exit $status
