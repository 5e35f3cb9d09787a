#!/usr/bin/env bash
# run.sh --parts LIST [--seconds N] [--out DIR] …: runs parts of this bundle on the GPU of this machine; --help says more.
# Needs no network and no rights beyond using the GPU, and changes no setting of it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/environment.sh"
exec python3 "$here/run_parts.py" "$@"
