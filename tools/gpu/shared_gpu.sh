#!/usr/bin/env bash
# shared_gpu.sh PROGRAMS FOLDER CASE: ranks that share one GPU as processes train to the bits of threads that share it.
# PROGRAMS has bin/zrt, FOLDER the file train.json; it works in the folder at hand. ZRT_SHARED_SETS
# has further settings for all runs, such as a smaller model, ZRT_SHARED_STEPS their number of steps.
set -u
zrt=$1/bin/zrt config=$2/train.json case=$3
steps=${ZRT_SHARED_STEPS:-6} failed=0
export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo}  # without a network NCCL looks for one in vain

cases=(
  "processes2 2 zero_optimization.stage=3"
  "processes8 8 zero_optimization.stage=1 parallel.tensor=4 parallel.pipeline=2 model.heads=8 model.kv_heads=4"
  "nccl2_zero0 2 zero_optimization.stage=0"
  "nccl2_zero3 2 zero_optimization.stage=3"
  "nccl2_fast 2 zero_optimization.stage=2 bf16.enabled=false parallel.sums=fast"  # two addends have one order
  "nccl4 4 zero_optimization.stage=1 parallel.tensor=2 parallel.pipeline=2 parallel.schedule=zb-h1"
  "hosts4 4 zero_optimization.stage=3 parallel.tensor=2"
  "line8 8 zero_optimization.stage=2 bf16.enabled=false model.hidden=512 model.heads=8"
  "kill8 8 zero_optimization.stage=1 parallel.tensor=2 parallel.pipeline=2"
  "kill_nccl2 2 zero_optimization.stage=2"
  "stop_nccl2 2 zero_optimization.stage=2"
)
line=
for c in "${cases[@]}"; do [ "${c%% *}" != "$case" ] || line=${c#* }; done
if [ -z "$line" ]; then
  printf 'shared_gpu.sh: no case %s; legal are:\n' "$case" >&2
  printf '  %s\n' "${cases[@]%% *}" >&2
  exit 2
fi
ranks=${line%% *}
sets=(--device cuda --steps "$steps" --set run.share_gpu=true --set run.timeout_seconds=60 --set train_batch_size=16
  --set train_micro_batch_size_per_gpu=1 --set "run.checkpoint_interval=$steps")
for set in ${line#* } ${ZRT_SHARED_SETS:-}; do sets+=(--set "$set"); done

# say COMMAND…: its command line, its last lines and how long it took; fails with it.
say() {
  local begin=$EPOCHREALTIME code
  echo "+ $*"
  "$@" >said.txt 2>&1
  code=$?
  tail -n 25 said.txt
  printf '  exit %s after %.1f s\n' "$code" "$(awk "BEGIN {print $EPOCHREALTIME - $begin}")"
  return "$code"
}
fail() { echo "FAILED: $*"; failed=1; }

value_of() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1/summary.json" "$2"; }

# same KEY: compares the summaries of both runs.
same() { [ "$(value_of threads "$1")" = "$(value_of run "$1")" ] || fail "$1: $(value_of threads "$1"), $(value_of run "$1")"; }

# compare: compares the run's bits with those of threads, and its planned memory with the measured.
compare() {
  same state_xxh3
  python3 - run <<'X' || fail "planned and measured memory differ"
import json, sys
memory = json.load(open(sys.argv[1] + "/memory.json"))
pairs = [(t["planned_peak_bytes"], t["measured_peak_bytes"]) for r in memory["ranks"] for t in r["tiers"].values()]
print("planned and measured bytes:", pairs[:2], "...; beside them:",
      [p.get("gpu", {}).get("library_bytes") for p in memory.get("processes", [])])
sys.exit(any(planned != measured for planned, measured in pairs) or not pairs)
X
  echo "state $(value_of run state_xxh3), bytes received: $(value_of run comm_bytes)"
}

# ranks_below PID: prints the processes that train, in the order of their start.
ranks_below() {
  local child children
  read -ra children <"/proc/$1/task/$1/children"  # ends without a newline, which is no success
  for child in "${children[@]}"; do
    if tr '\0' ' ' <"/proc/$child/cmdline" | grep -q "zrt train"; then echo "$child"; else ranks_below "$child"; fi
  done 2>/dev/null
}

# hit SIGNAL WAY…: a run by zrt launch, one rank of which gets a signal behind the first checkpoint.
hit() {
  local signal=$1 launcher begin rank
  shift
  "$zrt" launch "$config" --processes --ranks "$ranks" "${sets[@]}" --set run.checkpoint_interval=2 --set run.timeout_seconds=10 \
    --delay 0.1 --out run -- "$@" >said.txt 2>&1 &
  launcher=$!
  while [ ! -e run/checkpoints/step_2/manifest.json ] && kill -0 "$launcher" 2>/dev/null; do sleep 0.05; done
  rank=$(ranks_below "$launcher" | tail -n 1)
  [ -n "$rank" ] || { fail "no rank below the launcher"; wait "$launcher"; cat said.txt; return; }
  begin=$EPOCHREALTIME
  local others
  others=$(ranks_below "$launcher")
  kill "-$signal" "$rank"
  for _ in $(seq 1200); do
    local living=0 one
    for one in $others; do [ "$one" = "$rank" ] || [ ! -e "/proc/$one" ] || living=1; done
    [ $living = 1 ] || break
    sleep 0.05
  done
  printf 'process %s got SIG%s; the other ranks had ended %.1f s later\n' "$rank" "$signal" \
    "$(awk "BEGIN {print $EPOCHREALTIME - $begin}")"
  [ "$living" = 0 ] || fail "other ranks did not end within 60 s"
  wait "$launcher" || fail "zrt launch ended with $?"
  cat said.txt
  compare
}

rm -rf "$case"
mkdir -p "$case"
cd "$case" || exit 2
for i in $(seq 800); do echo "line $((i * 7919 % 1000)) of a text that repeats itself"; done >text.txt
"$zrt" data build --force --out corpus --validation 0.1 text.txt >said.txt 2>&1 || { cat said.txt; exit 1; }
say "$zrt" train "$config" --ranks "$ranks" "${sets[@]}" --out threads || { fail "threads"; exit 1; }
printf 'localhost slots=%s\n127.0.0.1 slots=%s\n' $((ranks / 2)) $((ranks / 2)) >hosts
# shellcheck disable=SC2016
printf '#!/bin/sh\nhost=$1; shift\nZRT_HOST_GROUP=$host exec sh -c "$*"\n' >agent.sh
chmod +x agent.sh
case $case in
processes*) say "$zrt" ranks "$ranks" train "$config" "${sets[@]}" --out run && compare && same comm_bytes || failed=1 ;;
nccl*) say "$zrt" ranks "$ranks" train "$config" "${sets[@]}" --transport nccl --out run && compare && same comm_bytes || failed=1 ;;
hosts* | line*) say "$zrt" ranks --hosts hosts --agent "$PWD/agent.sh" train "$config" "${sets[@]}" --out run && compare && same comm_bytes || failed=1 ;;
kill_nccl*) hit KILL --transport nccl ;;
stop_nccl*) hit STOP --transport nccl ;;
kill*) hit KILL ;;
esac
grep -h tokens_per_second threads/summary.json run/summary.json
exit $failed
