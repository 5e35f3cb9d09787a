#!/usr/bin/env bash
# tools/format.sh [--check]: lays out every C++ and CUDA file as .clang-format says. --check changes nothing and fails
# where something differs.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh --lint
case "${1:-}" in
  "") how=(-i) ;;
  --check) how=(--dry-run -Werror) ;;
  *) echo "usage: tools/format.sh [--check]" >&2; exit 2 ;;
esac
mapfile -t files < <(git ls-files -co --exclude-standard '*.cpp' '*.h' '*.cu' '*.cuh' | while IFS= read -r file; do
  [ ! -f "$file" ] || printf '%s\n' "$file"
done)
printf '%s\0' "${files[@]}" | xargs -0 -n 64 -P "$(nproc)" clang-format-14 "${how[@]}"
echo "${#files[@]} files are laid out as .clang-format says"
