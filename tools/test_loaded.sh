#!/usr/bin/env bash
# tools/test_loaded.sh [--times N] [--loops N] [--level LEVEL | --levels] [CTEST ARGUMENT…]: every test, N times (10) in a
# row, beside N busy loops (2) that take their share of the processors; ends at the first run that fails. `--level` takes
# one level of instruction sets (docs/debugging.md), `--levels` N times each that the machine has.
#
#   tools/test_loaded.sh --times 2 --levels          two suites at each level
#   tools/test_loaded.sh --times 30 -L timing        the tests of time, processes and signals, 30 times each
set -euo pipefail
cd "$(dirname "$0")/.."

times=10 loops=2 levels=("${ZRT_MAX_ISA:-}")
while [ $# -gt 0 ]; do
  case "$1" in
    --times) times=$2; shift 2 ;;
    --loops) loops=$2; shift 2 ;;
    --level) levels=("$2"); shift 2 ;;
    --levels) mapfile -t levels < <(tools/levels.sh --list); shift ;;
    *) break ;;
  esac
done

busy=()
trap 'kill "${busy[@]}" 2>/dev/null || true' EXIT
for ((i = 0; i < loops; ++i)); do
  (while :; do :; done) &
  busy+=($!)
done
mkdir -p build
for level in "${levels[@]}"; do
  at=(env -u ZRT_MAX_ISA)
  [ -n "$level" ] && at=(env "ZRT_MAX_ISA=$level")
  for ((run = 1; run <= times; ++run)); do
    began=$SECONDS log=build/loaded.${level:+$level.}$run.log
    if ! "${at[@]}" tools/test.sh "$@" >"$log" 2>&1; then
      grep -E '\*\*\*|tests passed' "$log" || tail -20 "$log"
      echo "run $run of $times${level:+ at $level} failed after $((SECONDS - began)) s: $log"
      exit 1
    fi
    echo "run $run of $times${level:+ at $level}: $(grep 'tests passed' "$log"), $((SECONDS - began)) s"
  done
done
