#!/usr/bin/env bash
# From a fresh clone to a trained model: set-up, build, data, and the main job on four ranks with ZeRO-3.
# Leaves the run in runs/quickstart; any argument is passed on to `zrt train`.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh --corpus
cmake --preset release >/dev/null
cmake --build --preset release --target zrt
zrt=build/release/zrt

"$zrt" data build --out corpus --validation 0.05 /usr/share/debian-reference/debian-reference.en.txt.gz

# bf16 where the processor multiplies it, else fp32.
precision=false
grep -qw avx512_bf16 /proc/cpuinfo && precision=true
rm -rf runs/quickstart
"$zrt" train tools/examples/quickstart.json --ranks 4 --set bf16.enabled=$precision --out runs/quickstart "$@"

echo
echo "== a sample =="
"$zrt" generate runs/quickstart --prompt "The Debian package management system " --tokens 200
