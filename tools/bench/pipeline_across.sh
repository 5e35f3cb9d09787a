#!/usr/bin/env bash
# pipeline_across.sh [BUILD [FOLDER]]: two hosts of two ranks each, joined by a cable of 1 Gbit/s (tools/two_hosts.sh): a
# pipeline of two stages across the cable, data parallel inside each host, against four data-parallel ranks across. Blocks
# sleep for as long as the model says that they compute, so that few cores suffice. Predicted and measured step times of
# one model with many weights and few tokens, and of one with few weights and many tokens. Needs root; nothing else
# should run meanwhile. FOLDER/measured.json, the constants of the cable and the hosts, is used again where it is there.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$here/../build/release}
folder=${2:-runs/pipeline_across}
mkdir -p "$folder"
[ -x "$build/sleeping_ranks" ] || { echo "pipeline_across.sh: there is no $build/sleeping_ranks; build the tests" >&2; exit 2; }
[ -f "$folder/measured.json" ] ||
  "$here/two_hosts.sh" --ranks-per-host 2 -- "$build/zrt" bench calibrate --out "$folder/measured.json" >"$folder/log" 2>&1
# What sleeps takes nothing from what communicates beside it.
python3 - "$folder" <<'END'
import json, sys
folder = sys.argv[1]
cluster = json.load(open(folder + "/measured.json"))
for link in cluster["overlap"].values():
    for share in link.values():
        if isinstance(share, dict):
            share["value"] = 1
json.dump(cluster, open(folder + "/cluster.json", "w"), indent=1)
END

echo "| model | mesh | predicted s | measured s | error |"
echo "|---|---|---|---|---|"
while read -r name layers hidden sequence micro; do
  for pipeline in 2 1; do
    cat >"$folder/c.json" <<END
{"train_batch_size": $((16 * micro)), "train_micro_batch_size_per_gpu": $micro, "zero_optimization": {"stage": 1},
 "optimizer": {"type": "AdamW", "params": {"lr": 1e-9}}, "parallel": {"pipeline": $pipeline, "partition": "time"},
 "model": {"type": "gpt2", "layers": $layers, "hidden": $hidden, "heads": 4, "sequence": $sequence, "vocab": 257, "tied": false}}
END
    line=$("$here/two_hosts.sh" --ranks-per-host 2 -- "$build/sleeping_ranks" "$folder/c.json" "$folder/cluster.json" 4 2>"$folder/log" </dev/null | grep predicted)
    python3 - "$name" "$pipeline" "$line" <<'END'
import json, sys
name, pipeline, line = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
mesh = "pipeline across, data inside" if pipeline == 2 else "data parallel across"
m = line["measured_seconds"]
print(f"| {name.replace('_', ' ')} | {mesh} | {line['predicted_seconds']:.3f} | {m['median']:.3f} ({m['low']:.3f} to {m['high']:.3f}) | "
      f"{100 * (line['predicted_seconds'] / m['median'] - 1):+.1f} % |")
END
  done
done <<'END'
25M_parameters,_64_tokens 8 512 64 1
1.6M_parameters,_8192_tokens 2 256 1024 8
END
