#!/usr/bin/env bash
# tools/check_docs.sh [--static]: README.md, CONTRIBUTING.md and docs/ say what is so. Links and named files exist,
# quoted lines stand in their files, the changes of docs/examples apply; then every command that is not marked is run, in
# order. --static leaves the commands out. The quick start must have run.
set -euo pipefail
cd "$(dirname "$0")/.."

python3 tools/check_docs.py
[ "${1:-}" = "--static" ] && exit
# What an earlier check left would be gone on with, or refused.
rm -rf runs/two runs/processes runs/pseudo runs/real runs/staged runs/shared runs/rows runs/watched runs/imported runs/started runs/docs runs/bert runs/megatron_bert runs/experts
times=$(mktemp) script=$(mktemp)
trap 'rm -f "$times" "$script"' EXIT
python3 tools/check_docs.py --commands >"$script"
times=$times bash "$script"
echo "the commands that took longest:"
sort -rn "$times" | head -n 8
