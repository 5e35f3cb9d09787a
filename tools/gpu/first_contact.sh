#!/usr/bin/env bash
# first_contact.sh N [--out DIR]: call N (1 … 6) of a GPU's first hour, each of less than ten minutes; --help says more.
# Needs the bundle alone: beside this file, or in build/release/gpu_bundle of this source tree.
set -euo pipefail
export ZRT_STARTED=${ZRT_STARTED:-$EPOCHSECONDS}  # unpacking counts
here=$(cd "$(dirname "$0")" && pwd)
if [ ! -f "$here/programs.tar.xz" ]; then
  bundle=$here/../../build/release/gpu_bundle
  if [ ! -f "$bundle/programs.tar.xz" ]; then
    echo "first_contact.sh: there is no bundle in $bundle; build the target gpu_bundle" >&2
    exit 2
  fi
  exec bash "$bundle/first_contact.sh" "$@"
fi
. "$here/environment.sh"
exec python3 "$here/first_contact.py" "$@"
