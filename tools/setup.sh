#!/usr/bin/env bash
# Installs what zrt builds and tests with, from Debian 12's own packages. Needs root or sudo only when something is
# missing.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config
  ocl-icd-opencl-dev opencl-c-headers  # asked for by the CMake package of libdnnl-dev
  libboost-program-options-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libdnnl-dev libxxhash-dev zlib1g-dev libzstd-dev
  liburing-dev libopenmpi-dev openmpi-bin libsentencepiece-dev libpcre2-dev libicu-dev
)
# Tests need these: chromium looks at the pages that zrt writes, a Slurm of one node runs srun.
[ "${1:-}" = "--tests" ] && packages+=(catch2 python3 chromium slurm-wlm munge)
# The quick start trains on this text.
[ "${1:-}" = "--corpus" ] && packages+=(debian-reference-en)
# tools/examples/multilingual.sh trains on these.
[ "${1:-}" = "--multilingual" ] && packages+=(debian-reference-{de,en,es,fr,id,it,ja,pt,pt-br,zh-cn,zh-tw} debian-faq-ru)
# zrt bench train measures its products beside this library's; zrt itself never uses it.
[ "${1:-}" = "--bench" ] && packages+=(libopenblas0-serial)
# tools/format.sh and tools/lint.sh run these.
[ "${1:-}" = "--lint" ] && packages+=(catch2 python3 clang-format-14 clang-tidy-14 shellcheck)
# The preset asan and the fuzzers are built with these.
[ "${1:-}" = "--fuzz" ] && packages+=(catch2 clang-14 libclang-rt-14-dev libfuzzer-14-dev libomp-14-dev)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
  as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  echo "installing: ${missing[*]}" >&2
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi
