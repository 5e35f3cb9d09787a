#!/usr/bin/env bash
# Set-up, build and every test. `--full` runs the exhaustive sweeps too; other arguments go to ctest. Where nvcc is, the
# CUDA back end is built, too: for this machine's GPU, or for one kind of chip where there is none.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh --tests
arguments=()
for argument in "$@"; do
  if [ "$argument" = "--full" ]; then
    export ZRT_FULL_TESTS=1
  else
    arguments+=("$argument")
  fi
done
chips=90
command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q . && chips=native
cmake --preset release -DZRT_CUDA=ON -DZRT_CUDA_ARCHITECTURES=$chips >/dev/null
cmake --build --preset release
# Many tests wait for their ranks, for time to pass, or for a disk.
ctest --preset release -j "$(($(nproc) + 4))" "${arguments[@]}"
