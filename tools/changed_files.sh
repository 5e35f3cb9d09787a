#!/usr/bin/env bash
# tools/changed_files.sh REV PATTERN…: the files that match, of those changed since REV or not yet committed, those
# changed last first. REV "" is ten commits ago, --all names every file.
set -euo pipefail
cd "$(dirname "$0")/.."

base=$1
shift
if [ "$base" = "--all" ]; then
  git ls-files -co --exclude-standard -- "$@"
else
  [ -n "$base" ] || base=$(git rev-list --first-parent --max-count=11 HEAD | tail -n 1)
  git ls-files -mo --exclude-standard -- "$@"
  git diff --name-only --cached -- "$@"
  git log --first-parent --diff-merges=first-parent --format= --name-only "$base..HEAD" -- "$@"
fi | awk '!seen[$0]++' | while IFS= read -r file; do
  [ -f "$file" ] && printf '%s\n' "$file"
done || true
