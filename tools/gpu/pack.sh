#!/usr/bin/env bash
# pack.sh BUILD OUT PART:PROGRAM… makes OUT, the folder that the target gpu_bundle is about. Programs, data and libraries
# travel as one compressed archive, in which what the programs have in common is stored once.
set -euo pipefail
build=$1 out=$2
shift 2
source=$(cd "$(dirname "$0")/../.." && pwd)
limit_bytes=$((60 << 20))

stage=$out.stage
rm -rf "$out" "$stage"
mkdir -p "$out" "$stage/bin" "$stage/lib" "$stage/share"
cp -r "$build/share/zrt" "$stage/share/zrt"
mkdir "$stage/data"
find "$source/tests/data" -maxdepth 1 -type f ! -name '*.py' -exec cp {} "$stage/data/" \;
cp -r "$source/tests/data/hugging_face" "$stage/data/"

programs=(zrt)
for entry in "$@"; do programs+=("${entry#*:}"); done
for program in "${programs[@]}"; do strip -o "$stage/bin/$program" "$build/$program"; done

# Of the system: the C and C++ libraries and the loader, which an older one must not replace, and all of the GPU's.
machine='^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+|cuda|cudart|cublas|cublasLt|nccl|nvidia.*))\.so'
for program in "${programs[@]}"; do ldd "$build/$program"; done | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u |
  while read -r name path; do
    [[ $name =~ $machine ]] || cp -L "$path" "$stage/lib/$name"
  done
strip --strip-unneeded "$stage"/lib/*

ldd "$build/zrt" | grep -o 'libcublasLt\.so\.[0-9]*' | head -1 >"$out/products_library.txt" || true
tar -C "$stage" --sort=name --owner=0 --group=0 --mtime=@0 -c . | xz -T1 --lzma2=preset=3,dict=256MiB >"$out/programs.tar.xz"
sha256sum "$out/programs.tar.xz" | cut -c1-16 >"$out/programs.id"
cp "$source"/tools/gpu/{run.sh,*.py,*.json} "$out/"
printf '%s\n' "$@" >"$out/tests.txt"
commit=$(git -C "$source" rev-parse HEAD 2>/dev/null || echo unknown)
git -C "$source" diff --quiet HEAD 2>/dev/null || commit="$commit with changes"
echo "$commit" >"$out/commit.txt"
rm -rf "$stage"

bytes=$(du -sb "$out" | cut -f1)
echo "$out: $((bytes >> 10)) KiB, ${#programs[@]} programs, commit $commit"
if [ "$bytes" -gt "$limit_bytes" ]; then
  echo "the bundle has $bytes bytes, more than $limit_bytes; build it for fewer chips: -DZRT_CUDA_ARCHITECTURES=90a" >&2
  exit 1
fi
