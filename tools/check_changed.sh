#!/usr/bin/env bash
# tools/check_changed.sh [REV]: compiles each source file changed since REV (ten commits ago) by itself, without making
# code: in a unity build a file may live off what the one before it includes or keeps to itself. At most 40 files, those
# changed last first.
set -euo pipefail
cd "$(dirname "$0")/.."

most=40
cmake --preset develop -DZRT_CUDA=OFF >/dev/null
mapfile -t changed < <(tools/changed_files.sh "${1:-}" '*.cpp')
list=$(mktemp)
trap 'rm -f "$list"' EXIT
python3 - "${changed[@]}" >"$list" <<'PYTHON'
import json, os, shlex, sys
wanted = [os.path.abspath(f) for f in sys.argv[1:]]
commands = {}
for entry in json.load(open("build/develop/compile_commands.json")):
    commands.setdefault(entry["file"], entry)
for file in wanted:
    if file not in commands:
        continue
    words = shlex.split(commands[file]["command"])
    if words[0].endswith("ccache"):
        words = words[1:]
    at = words.index("-o")
    del words[at:at + 2]
    print("cd " + shlex.quote(commands[file]["directory"]) + " && " + shlex.join(words + ["-fsyntax-only"]))
PYTHON
count=$(wc -l <"$list")
# Each line is a whole command, quoted for a shell.
head -n "$most" "$list" | tr '\n' '\0' | xargs -0 -P "$(nproc)" -I{} bash -c '{}'
echo "$((count < most ? count : most)) of $count changed files compile by themselves"
