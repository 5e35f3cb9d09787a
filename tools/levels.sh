#!/usr/bin/env bash
# tools/levels.sh [--list] [CTEST ARGUMENT…]: every test at every level of instruction sets that this machine has, the
# highest first; ends at the first level that fails. `--list` builds and prints the levels alone. At its own level a
# processor with AVX512-BF16 but without AMX also runs what multiplies in bf16 with the sums of AMX (tests NAME@amx).
set -euo pipefail
cd "$(dirname "$0")/.."

list=
[ "${1:-}" = --list ] && list=1 && shift
unset ZRT_MAX_ISA
tools/test.sh -N >/dev/null # builds, runs nothing
levels=()
# A name that is no level is refused with those that are; a level that the machine lacks gives way to its own.
for name in $(ZRT_MAX_ISA=none build/release/zrt --version 2>&1 | sed -n 's/.*legal are //p' | tr -d ','); do
  [ "$(ZRT_MAX_ISA=$name build/release/zrt --version | sed -n 's/instruction set: \([^ ]*\).*/\1/p')" = "$name" ] || continue
  levels=("$name" "${levels[@]}")
done
if [ -n "$list" ]; then
  printf '%s\n' "${levels[@]}"
  exit
fi
for level in "${levels[@]}"; do
  echo "level $level"
  ZRT_MAX_ISA=$level tools/test.sh "$@"
done
