#!/usr/bin/env bash
# Set-up, build and every test. `--full` runs the exhaustive sweeps too; other arguments go to ctest.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
arguments=()
for argument in "$@"; do
  if [ "$argument" = "--full" ]; then
    export ZRT_FULL_TESTS=1
  else
    arguments+=("$argument")
  fi
done
cmake --preset release >/dev/null
cmake --build --preset release
ctest --preset release -j "$(nproc)" "${arguments[@]}"
