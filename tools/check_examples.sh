#!/usr/bin/env bash
# The changes that docs/extending.md walks through, docs/examples/*.diff, still do what the page says: makes them in a copy
# of the tree below build/examples, builds it, runs their tests and trains the model with the optimizer. The loss must
# fall, and stage 3, which the pass is for, must end with the bits of stage 0. Of the op, for which every file would be
# built anew, the three files are looked at by the compiler. Needs the quick start's text.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=build/examples
mkdir -p "$copy"
find "$copy" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
git ls-files -co --exclude-standard -z | tar --null --ignore-failed-read -T - -c | tar -x -m -C "$copy"
for change in model_nope optimizer_signum pass_late_gathers policy_activations_only; do
  git apply --unidiff-zero --directory="$copy" "docs/examples/$change.diff"
done
(
  cd "$copy"
  cmake --preset release -DZRT_CUDA=OFF >/dev/null
  cmake --build --preset release --target zrt test_models test_optimizer
  ctest --preset release --no-tests=error -R '^(models/nope|optimizer/(signum|backends|optimizer_kernels))$'
  # Of the tests of whole runs only the file that lists optimizers is new: a run with this one follows below.
  c++ -std=c++20 -fsyntax-only -DZRT_HAS_CUDA=0 -I. -Itests '-DZRT_CATCH_HEADER=<catch2/catch.hpp>' tests/runtime/engine/optimizers_test.cpp
)

[ -e corpus/train.idx ] ||
  "$copy/build/release/zrt" data build --out corpus --validation 0.05 /usr/share/debian-reference/debian-reference.en.txt.gz
rm -rf runs/examples0 runs/examples3
for stage in 0 3; do
  "$copy/build/release/zrt" train tools/examples/bytes.json --ranks 2 --steps 12 --out "runs/examples$stage" \
    --set model.preset=nope-tiny --set parallel.reduce_every=1 --set zero_optimization.stage=$stage \
    --set 'optimizer={"type": "Signum", "params": {"lr": 0.003}}' --set scheduler=null
done
python3 - <<'PYTHON'
import json
losses = [json.loads(line)["loss"] for line in open("runs/examples3/metrics.jsonl")]
if not losses[-1] < losses[0] - 0.5:
    raise SystemExit(f"the loss went from {losses[0]} to {losses[-1]}; it should fall by more than 0.5")
hashes = [json.load(open(f"runs/examples{stage}/summary.json"))["state_xxh3"] for stage in (0, 3)]
if hashes[0] != hashes[1]:
    raise SystemExit(f"stages 0 and 3 end with other weights: {hashes}")
print(f"loss {losses[0]:.3f} to {losses[-1]:.3f}, the same bits at stages 0 and 3")
PYTHON

plan=("plan" tools/examples/bytes.json --ranks 2 --set zero_optimization.overlap_comm=true)
peak() { "$1" "${plan[@]}" | sed -n 's/.*device: peak \([0-9]*\).*/\1/p'; }
before=$(peak build/release/zrt) after=$(peak "$copy/build/release/zrt")
echo "a rank's device memory: $before bytes, with late gathers $after"
[ "$after" -lt "$before" ] || { echo "the pass saves no memory" >&2; exit 1; }
"$copy/build/release/zrt" "${plan[@]}" --program --phase step --after "late gathers" | grep '^ *[0-9]* comm:dp *gather' >/dev/null

git apply --unidiff-zero --directory="$copy" docs/examples/op_note_skips.diff
(
  cd "$copy"
  for file in runtime/ops/notes.cpp runtime/ops/spec.cpp runtime/passes/zero.cpp; do
    c++ -std=c++20 -fsyntax-only -DZRT_HAS_CUDA=0 -DSPDLOG_FMT_EXTERNAL -DSPDLOG_COMPILED_LIB -I. "$file"
  done
)
