# shellcheck shell=bash
# shellcheck disable=SC2154  # `here` is the caller's
# Sourced by run.sh and first_contact.sh with `here`, the folder of the bundle: unpacks its programs and finds the GPU's
# libraries. Sets ZRT_PROGRAMS, ZRT_TEST_DATA, ZRT_LIBRARIES and ZRT_MISSING for the Python behind them.
if ! command -v python3 >/dev/null; then
  echo "$(basename "$0"): python3 is missing; it is needed to run and to report" >&2
  exit 2
fi

# Programs and libraries are unpacked once for each bundle.
if [ -f "$here/programs.tar.xz" ]; then
  programs=${TMPDIR:-/tmp}/zrt_gpu_$(id -u)_$(cat "$here/programs.id")
  if [ ! -f "$programs/complete" ]; then
    rm -rf "$programs"
    mkdir -p "$programs"
    if command -v xz >/dev/null; then
      xz -dc "$here/programs.tar.xz" | tar -C "$programs" -x
    else
      python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1], "r:xz").extractall(sys.argv[2])' \
        "$here/programs.tar.xz" "$programs"
    fi
    touch "$programs/complete"
  fi
  export ZRT_PROGRAMS=$programs ZRT_TEST_DATA=$programs/data
fi

# The folder of a library of the GPU: as the loader finds it, of the toolkit, or of Python's packages.
packages=$(python3 -c 'import site, sys; print("\n".join(dict.fromkeys(site.getsitepackages() + sys.path)))' 2>/dev/null || true)
folder_of() {
  local found candidate
  found=$(ldconfig -p 2>/dev/null | awk -v name="$1" '$1 == name && !seen++ {print $NF}')
  if [ -n "$found" ]; then dirname "$found"; return; fi
  for candidate in ${LD_LIBRARY_PATH:+${LD_LIBRARY_PATH//:/ }} ${CUDA_PATH:+"$CUDA_PATH/lib64" "$CUDA_PATH/lib"} \
    /usr/local/cuda/lib64 /usr/local/cuda/lib /usr/local/cuda-1[23]*/lib64; do
    if [ -e "$candidate/$1" ]; then echo "$candidate"; return; fi
  done
  while IFS= read -r candidate; do
    [ -d "$candidate/nvidia" ] || continue
    found=$(find "$candidate/nvidia" -maxdepth 4 -name "$1" -print -quit 2>/dev/null)
    if [ -n "$found" ]; then dirname "$found"; return; fi
  done <<<"$packages"
}
libraries=${ZRT_PROGRAMS:+$ZRT_PROGRAMS/lib}
missing=
for library in $(cat "$here/gpu_libraries.txt" 2>/dev/null || echo libcublasLt.so.13) libnccl.so.2; do
  folder=$(folder_of "$library" || true)
  if [ -n "$folder" ]; then
    case ":$libraries:" in *":$folder:"*) ;; *) libraries=$libraries${libraries:+:}$folder ;; esac
  else
    missing="$missing $library"
  fi
done
# Of the programs of this bundle alone: Python's own would otherwise meet libraries they were not made with.
export PYTHONDONTWRITEBYTECODE=1 ZRT_LIBRARIES=$libraries ZRT_MISSING=$missing
