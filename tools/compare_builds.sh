#!/usr/bin/env bash
# tools/compare_builds.sh A B: runs some 110 small configurations with two builds of zrt on this machine and names every
# difference in bits, planned and measured memory, communicated and moved bytes, and plans. A and B are build folders
# with the program zrt in them, or commits (- is the tree as it is), which are built below build/compare. Other
# options: see --help.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
exec python3 tools/compare_builds.py "$@"
