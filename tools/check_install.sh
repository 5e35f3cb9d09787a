#!/usr/bin/env bash
# Installs the release build below build/install_check, moves it, builds the example projects against it and runs them:
# the loss of the first must fall, the pass of the second must save memory, the policy of the third time. Nothing outside
# the build folder is touched.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset release >/dev/null
cmake --build --preset release --target zrt
work=$PWD/build/install_check
rm -rf "$work"
mkdir -p "$work"
cmake --install build/release --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix"  # an installed zrt does not know where it lies
"$work/prefix/bin/zrt" --version
# It finds the clusters that were installed with it.
echo '{"train_micro_batch_size_per_gpu": 1, "model": {"preset": "gpt2-tiny"}}' >"$work/tiny.json"
"$work/prefix/bin/zrt" bench predict "$work/tiny.json" --cluster dgx-h200 --ranks 1 --rounds 1

for example in custom_block custom_pass custom_policy; do
  cp -r "tools/examples/$example" "$work/$example"
  cmake -S "$work/$example" -B "$work/$example/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" >/dev/null
  cmake --build "$work/$example/build"
done
"$work/custom_block/build/custom_block" README.md "$work/run" | tee "$work/losses"
# The first loss is about log(257) = 5.5; single bytes of such text have an entropy of about 3.3 nats.
awk '/^step/ {if (first == "") first = $4; last = $4} END {exit !(first > 5 && last < 3.3)}' "$work/losses" ||
  { echo "the example's loss did not fall from about 5.5 to below 3.3" >&2; exit 1; }

echo '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, "overlap_comm": true},
  "model": {"preset": "gpt2-tiny"}, "optimizer": {"type": "AdamW"}}' >"$work/stage3.json"
"$work/custom_pass/build/custom_pass" "$work/stage3.json" 2

# A host that computes slowly, and less device memory than a step wants.
python3 - "$work/prefix/share/zrt/clusters/dgx-h200.json" "$work/slow_host.json" <<'PYTHON'
import json, sys
cluster = json.load(open(sys.argv[1]))
cluster["memory"]["host_bytes_per_second"] = {"value": 2e8, "source": "assumption: a host that computes slowly"}
json.dump(cluster, open(sys.argv[2], "w"))
PYTHON
echo '{"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 3, "overlap_comm": true},
  "bf16": {"enabled": true}, "optimizer": {"type": "AdamW"},
  "model": {"type": "gpt2", "layers": 8, "hidden": 256, "heads": 4, "sequence": 256, "vocab": 512},
  "memory": {"unit_bytes": 4194304, "recompute": "none", "device_budget_bytes": 120000000},
  "parallel": {"cluster": "'"$work/slow_host.json"'"}}' >"$work/budget.json"
"$work/custom_policy/build/custom_policy" "$work/budget.json" 2
