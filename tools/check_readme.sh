#!/usr/bin/env bash
# Runs every command of the README's `sh` blocks, in order, and fails with the first that fails. The two commands of the
# first block are run by .ci/run itself before this.
set -euo pipefail
cd "$(dirname "$0")/.."

blocks=$(awk '/^```sh$/ {inside = 1; next} /^```/ {inside = 0} inside && !/^ *#/ && NF' README.md)
# What an earlier check left would be gone on with, or refused.
rm -rf runs/two runs/processes runs/watched runs/imported
count=0
while IFS= read -r line; do
  case "$line" in
    ./tools/quickstart.sh*|./tools/test.sh*) continue ;;
  esac
  echo "+ $line"
  bash -c "set -euo pipefail; $line" </dev/null
  count=$((count + 1))
done <<<"$blocks"
[ "$count" -ge 15 ] || { echo "only $count commands were found in README.md" >&2; exit 1; }
# The file shown is the file used.
diff <(awk '/^```json$/ {inside = 1; next} /^```/ {inside = 0} inside' README.md) tools/examples/quickstart.json
