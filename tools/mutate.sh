#!/usr/bin/env bash
# Plants the faults of tests/mutants one at a time and says which of them the tests do not notice: a random tenth, or
# all with --full. Works on a copy of the tree below build/mutants, which stays for the next time; with --here in the
# tree itself, which is put back, for clones that nobody works in and whose tests have just passed. Other arguments:
# see --help.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh --tests
exec python3 tools/mutate.py "$@"
