#!/usr/bin/env bash
# pack.sh BUILD OUT TESTS makes OUT, the folder that the target gpu_bundle is about. TESTS is a file with a line for each
# test, part|name|program|argument|…. Programs, data and libraries travel as one compressed archive, in which what the
# programs have in common is stored once.
set -euo pipefail
build=$1 out=$2 tests=$3
source=$(cd "$(dirname "$0")/../.." && pwd)
# With the tracked files of this source tree, which travel with it: what can be carried to a machine in one go.
limit_bytes=$((${ZRT_GPU_BUNDLE_MIB:-55} << 20))

stage=$out.stage
rm -rf "$out" "$stage"
mkdir -p "$out" "$stage/bin" "$stage/lib" "$stage/share"
cp -r "$build/share/zrt" "$stage/share/zrt"
mkdir "$stage/data"
find "$source/tests/data" -maxdepth 1 -type f ! -name '*.py' -exec cp {} "$stage/data/" \;
cp -r "$source/tests/data/hugging_face" "$stage/data/"

mapfile -t programs < <(echo zrt; cut -d'|' -f3 "$tests" | sort -u)
for program in "${programs[@]}"; do strip -o "$stage/bin/$program" "$build/$program"; done

if [ -f "$build/kernel_log.so" ]; then strip -o "$stage/kernel_log.so" "$build/kernel_log.so"; fi

# Of the system: the C and C++ libraries and the loader, which an older one must not replace, and all of the GPU's.
machine='^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+|cuda|cudart|cublas|cublasLt|nccl|nvidia.*))\.so'
for program in "${programs[@]}"; do ldd "$build/$program"; done | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u |
  while read -r name path; do
    [[ $name =~ $machine ]] || cp -L "$path" "$stage/lib/$name"
  done
find "$stage/lib" -type f -exec strip --strip-unneeded {} +

ldd "$build/zrt" "$build/kernel_log.so" 2>/dev/null | grep -oE 'lib(cublasLt|cupti)\.so\.[0-9]+' | sort -u >"$out/gpu_libraries.txt" || true
tar -C "$stage" --sort=name --owner=0 --group=0 --mtime=@0 -c . | xz -T1 --lzma2=preset=3,dict=256MiB >"$out/programs.tar.xz"
sha256sum "$out/programs.tar.xz" | cut -c1-16 >"$out/programs.id"
cp "$source"/tools/gpu/{run.sh,first_contact.sh,environment.sh,shared_gpu.sh,*.py,*.json} "$out/"
cp "$tests" "$out/tests.txt"
commit=$(git -C "$source" rev-parse HEAD 2>/dev/null || echo unknown)
git -C "$source" diff --quiet HEAD 2>/dev/null || commit="$commit with changes"
echo "$commit" >"$out/commit.txt"
rm -rf "$stage"

bytes=$(du -sb "$out" | cut -f1)
# Files that are tracked and gone have no size.
tracked=$(cd "$source" && { git ls-files -z 2>/dev/null | xargs -0 -r stat -c %s -- 2>/dev/null || true; } |
  awk '{sum += $1} END {print sum + 0}')
echo "$out: $((bytes >> 10)) KiB, ${#programs[@]} programs, commit $commit; tracked files $((tracked >> 10)) KiB"
if [ $((bytes + tracked)) -gt "$limit_bytes" ]; then
  echo "the bundle and the tracked files together have $((bytes + tracked)) bytes, more than $limit_bytes, and cannot be" \
    "carried in one go; build for fewer chips: -DZRT_CUDA_ARCHITECTURES=90" >&2
  exit 1
fi
