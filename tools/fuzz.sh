#!/usr/bin/env bash
# tools/fuzz.sh [--seconds N] [--jobs N] [TARGET…]: builds the fuzzers with clang and runs each for N seconds (60), one
# at a time. Inputs that broke something are left in build/asan/findings/ and make the script fail; mend the cause and
# move them to tests/data/fuzz/TARGET/, where an ordinary test replays them. What a target learns is kept in
# build/asan/corpus/ and used by the next run.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=60 jobs=1 targets=()
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) seconds=$2; shift 2 ;;
    --jobs) jobs=$2; shift 2 ;;
    -*) echo "usage: tools/fuzz.sh [--seconds N] [--jobs N] [TARGET…]" >&2; exit 2 ;;
    *) targets+=("$1"); shift ;;
  esac
done
[ "${#targets[@]}" -gt 0 ] || targets=(chat_template config dataset dataset_meta documents llmc manifest raw_ids safetensors sentencepiece tasks tokenizer_json)

tools/setup.sh --fuzz
cmake --preset asan >/dev/null
cmake --build --preset asan --target "${targets[@]/#/fuzz_}"

fuzz_one() {
  local name=$1 seconds=$2 work=build/asan
  mkdir -p "$work/corpus/$name" "$work/findings" "tests/data/fuzz/$name"
  rm -rf "$work/seeds/$name"
  ZRT_FUZZ_SEEDS=$work/seeds/$name "$work/fuzz_$name"
  local result=clean
  # A gigabyte and ten seconds are far more than any input of 64 KiB may cost.
  nice -n 19 "$work/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 \
    -max_len=65536 -print_final_stats=1 -dict="$work/seeds/$name.dict" -artifact_prefix="$work/findings/$name-" \
    "$work/corpus/$name" "tests/data/fuzz/$name" "$work/seeds/$name" >"$work/$name.log" 2>&1 || result="a finding"
  # The fuzzer's clock goes on while the machine does something else: a time-out counts if it comes again.
  local late=("$work/findings/$name-timeout-"*)
  if [ "$result" != clean ] && [ -e "${late[0]}" ] && ! ls "$work/findings/$name-"[!t]* >/dev/null 2>&1 &&
    "$work/fuzz_$name" -timeout=10 "${late[@]}" >"$work/$name.again.log" 2>&1; then
    rm "${late[@]}"
    result="clean; ended early, the machine stood still"
  fi
  rmdir --ignore-fail-on-non-empty "tests/data/fuzz/$name"
  echo "$name: $(awk '/number_of_executed_units/ {print $2}' "$work/$name.log") inputs, $result ($work/$name.log)"
  [[ "$result" = clean* ]]
}
export -f fuzz_one
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'set -euo pipefail; fuzz_one "$@"' _ {} "$seconds"
