#!/usr/bin/env bash
# check_simulator.sh [ZRT [FOLDER]]: predicts and measures the step time of twelve runs with constants that it calibrates
# just before, and prints the table of docs/benchmarks/simulator.md. Six runs were there when the model was made, six
# were written down before they were measured for the first time. Nothing else should run meanwhile; it takes about a
# quarter of an hour. The runs over a slow link need root (tools/two_hosts.sh) and are left out without.
# ONLY=LETTERS in the environment takes some of the runs.
set -u
here=$(cd "$(dirname "$0")" && pwd)
zrt=${1:-$here/../build/release/zrt}
folder=${2:-runs/simulator}
mkdir -p "$folder"
[ -x "$zrt" ] || { echo "check_simulator.sh: there is no program $zrt; build it, or name it" >&2; exit 2; }

# Letter, when chosen, machines x ranks on each, model, type, stage, samples, accumulation, further keys.
runs='
A model 1x2 gpt2-10m  bf16 0 4 1
B model 1x2 llama-10m bf16 3 8 2
C model 1x2 gpt2-10m  fp32 2 2 4
D model 1x2 gpt2-124m bf16 1 1 1 model.sequence=512
E model 2x1 gpt2-10m  bf16 3 4 1
F model 2x1 gpt2-10m  fp32 1 8 2
G held  1x1 gpt2-124m bf16 1 2 1 model.sequence=256
H held  1x2 gpt2-10m  fp32 3 8 2
I held  1x2 gpt2-124m bf16 3 2 1 model.sequence=512
J held  1x1 llama-10m bf16 3 4 1
K held  2x1 llama-10m bf16 2 8 2
L held  2x1 gpt2-10m  bf16 0 4 4
'

# on MACHINESxRANKS ARGUMENTS…: zrt with these ranks.
on() {
  local hosts=${1%x*} ranks=${1#*x}
  shift
  if [ "$hosts" = 2 ]; then
    "$here/two_hosts.sh" --ranks-per-host "$ranks" -- "$zrt" "$@"
  else
    "$zrt" "$@" --ranks "$ranks"
  fi
}
number() { sed -n "s/.*\"$1\":\(-\{0,1\}[0-9.e+-]*\).*/\1/p"; }
spread() { sed -n "s/.*\"$1\":{\"median\":\([0-9.e+-]*\),\"low\":\([0-9.e+-]*\),\"high\":\([0-9.e+-]*\)}.*/\1 \2 \3/p"; }

echo "| run | machines × ranks | model | type | stage | samples | accumulation | further | predicted s | measured s | error | exposed comm s, predicted | measured |"
echo "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
errors=$folder/errors
: >"$errors"
for place in 1x1 1x2 2x1; do
  wanted=$(echo "$runs" | awk -v place=$place -v only="${ONLY:-ABCDEFGHIJKL}" '$3 == place && index(only, $1)')
  [ -n "$wanted" ] || continue
  cluster=$folder/$place.json
  if ! on $place bench calibrate --out "$cluster" >"$folder/$place.log" 2>&1; then
    echo "check_simulator.sh: no constants for $place, whose runs are left out: $(tail -n 1 "$folder/$place.log")" >&2
    continue
  fi
  while read -r letter chosen _ model type stage samples accumulation more; do
    config=$folder/$letter.json
    cat >"$config" <<END
{"train_micro_batch_size_per_gpu": $samples, "gradient_accumulation_steps": $accumulation,
 "bf16": {"enabled": $([ "$type" = bf16 ] && echo true || echo false)}, "zero_optimization": {"stage": $stage},
 "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}, "model": {"preset": "$model"}}
END
    sets=()
    for key in $more; do sets+=(--set "$key"); done
    on $place bench predict "$config" --cluster "$cluster" --json "${sets[@]}" </dev/null >"$folder/$letter.out" 2>"$folder/$letter.log" || {
      echo "check_simulator.sh: run $letter failed: $(tail -n 1 "$folder/$letter.log")" >&2
      exit 1
    }
    line=$(grep predicted_seconds "$folder/$letter.out")
    error=$(echo "$line" | number error)
    read -r median low high <<<"$(echo "$line" | spread measured_seconds)"
    read -r exposed _ _ <<<"$(echo "$line" | spread exposed_comm_seconds)"
    echo "$chosen $error" >>"$errors"
    printf '| %s | %s | %s | %s | %s | %s | %s | %s | %.3f | %.3f (%.3f – %.3f) | %+.1f %% | %.3f | %.3f |\n' "$letter" \
      "${place/x/ × }" "$model" "$type" "$stage" "$samples" "$accumulation" "$more" \
      "$(echo "$line" | number predicted_seconds)" "$median" "$low" "$high" "$(awk "BEGIN {print 100 * $error}")" \
      "$(echo "$line" | number predicted_exposed_comm_seconds)" "$exposed"
  done <<<"$wanted"
done
for chosen in model held '.*'; do
  grep -E "^$chosen " "$errors" | awk '{print 100 * ($2 < 0 ? -$2 : $2)}' | sort -g |
    awk -v of="$chosen" '{e[NR] = $1} END {
      if (of == "model") name = "runs that the model was made with"; else if (of == "held") name = "runs measured after it was frozen"
      else name = "all runs"
      if (NR) printf "%s: %d, median error %.1f %%, worst %.1f %%\n", name, NR, NR % 2 ? e[(NR + 1) / 2] : (e[NR / 2] + e[NR / 2 + 1]) / 2, e[NR]}'
done
