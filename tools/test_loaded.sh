#!/usr/bin/env bash
# tools/test_loaded.sh [--times N] [--loops N] [CTEST ARGUMENT…]: every test, N times (10) in a row, beside N busy loops
# (2) that take their share of the processors; ends at the first run that fails. The first two runs are at the lowest
# level of instruction sets.
set -euo pipefail
cd "$(dirname "$0")/.."

times=10 loops=2
while [ $# -gt 0 ]; do
  case "$1" in
    --times) times=$2; shift 2 ;;
    --loops) loops=$2; shift 2 ;;
    *) break ;;
  esac
done

busy=()
trap 'kill "${busy[@]}" 2>/dev/null || true' EXIT
for ((i = 0; i < loops; ++i)); do
  (while :; do :; done) &
  busy+=($!)
done
for ((run = 1; run <= times; ++run)); do
  level=()
  [ "$run" -le 2 ] && level=(env ZRT_MAX_ISA=avx2)
  began=$SECONDS log=build/loaded.$run.log
  mkdir -p build
  if ! "${level[@]}" tools/test.sh "$@" >"$log" 2>&1; then
    grep -E '\*\*\*|tests passed' "$log" || tail -20 "$log"
    echo "run $run of $times failed after $((SECONDS - began)) s: $log"
    exit 1
  fi
  echo "run $run of $times: $(grep 'tests passed' "$log"), $((SECONDS - began)) s"
done
