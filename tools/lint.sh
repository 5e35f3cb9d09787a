#!/usr/bin/env bash
# tools/lint.sh [--all | REV]: the layout of all files, shellcheck on all scripts, the texts of planted faults, how
# comments begin (check_comments.py), and clang-tidy, with the checks of .clang-tidy, on at most eight of the sources
# changed since REV (ten commits ago) or not yet committed, those changed last first. With --all clang-tidy looks at every
# source, which takes an hour.
set -euo pipefail
cd "$(dirname "$0")/.."

most=8
base=${1:-}
[ "$base" != "--all" ] || most=100000
tools/setup.sh --lint
tools/format.sh --check

mapfile -t scripts < <(git ls-files -co --exclude-standard '*.sh' .ci/run)
shellcheck --severity=warning "${scripts[@]}"
echo "${#scripts[@]} scripts checked"
# A fault whose text is gone would end the planted faults' part of the checks, half an hour later.
python3 -c 'import sys; sys.path.insert(0, "tools"); import mutate; print(len(mutate.read_mutants()), "planted faults have their texts")'

python3 tools/check_comments.py --most 20

# Warnings are clang's own, of which the compiler of this build knows others. Sources that are compiled only for other
# targets, as with CUDA, have no command.
cmake --preset develop -DZRT_CUDA=OFF >/dev/null
mapfile -t sources < <(tools/changed_files.sh "$base" '*.cpp' | while IFS= read -r file; do
  grep -qF "\"file\": \"$PWD/$file\"" build/develop/compile_commands.json && printf '%s\n' "$file"
done | head -n "$most")
[ "${#sources[@]}" -eq 0 ] || printf '%s\0' "${sources[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy-14 -p build/develop --quiet --extra-arg=-Wno-unknown-warning-option \
    2> >(grep -v "warnings generated" >&2)
echo "${#sources[@]} sources checked"
