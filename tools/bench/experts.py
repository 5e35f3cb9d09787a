#!/usr/bin/env python3
"""Compares ways to route tokens to experts, measures experts on the host, and trains the largest model of one machine.

tools/bench/experts.py curves RESULTS [--zrt build/release/zrt] [--steps 240] [--seeds 1 2 3] [--picks 2 4]
    A GPT-2 with 16 experts in each of 4 layers on the multilingual text. Each token has 2 or 4 experts, picked by top-k (gates
    as they are, or normalised to add up to 1) or by prototypes, with and without the loss that evens out experts; adds a
    line of JSON to RESULTS for each run.
tools/bench/experts.py show RESULTS [--svg FILE]
    The tables of docs/benchmarks/experts.md.
tools/bench/experts.py host [--turns 5] [--layers N --hidden N --ffn N --rate BYTES]
    Mixtral and Qwen3-MoE on four ranks that share experts, whose states lie on the host behind a link of RATE bytes/s:
    seconds of a step and exposed copies, with and without weights brought ahead of their use.
tools/bench/experts.py largest --nvme DIR [--device-gib 2] [--host-gib 18.5] [--nvme-gb 40] [--train]
    The widest experts whose plan fits these budgets, exact states; with --train two steps of that model.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import runs
from runs import lines

# A token is computed with picks * ffn = 768 elements of a layer, so FLOPs are equal over all ways; parameters are equal over
# those of the same number of picks.
MODEL = ("model.layers=4 model.hidden=192 model.heads=4 model.sequence=128 model.experts.number=16 "
         "model.experts.capacity_factor=1.25 train_batch_size=16 train_micro_batch_size_per_gpu=16 "
         "zero_optimization.stage=0 run.checkpoint_interval=0 run.save_weights=false run.log_interval=10 "
         "run.eval_batches=2").split()
NAMES = {"top_k": "top-k", "normalised": "top-k, normalised", "prototypes": "prototypes"}
WAYS = ([(2, way, aux) for way in NAMES for aux in (0, 0.01)] + [(4, way, 0) for way in NAMES])


def spread_of(loads):
    """Means over lines and layers: deviation of the experts' loads by their mean, largest load by mean, unused share."""
    rows = [layer for line in loads for layer in line["picked"]]
    means = [statistics.mean(row) for row in rows]
    return {"deviation": statistics.mean(statistics.pstdev(row) / mean for row, mean in zip(rows, means)),
            "largest": statistics.mean(max(row) / mean for row, mean in zip(rows, means)),
            "unused": statistics.mean(row.count(0) / len(row) for row in rows)}


def run(options, picks, way, aux, seed):
    """One run: held-out losses of 8 places and of the end, and how evenly experts were picked at first and at last."""
    steps = options.steps
    key = "prototypes" if way == "prototypes" else "top_k"
    sets = MODEL + [f"model.experts.ffn={768 // picks}", f"model.experts.{key}={picks}", f"model.experts.aux_loss={aux}",
                    f"model.experts.norm_topk_prob={'true' if way == 'normalised' else 'false'}", f"run.steps={steps}",
                    f"scheduler.params.total_num_steps={steps}", f"run.seed={seed}", f"run.eval_interval={steps // 8}",
                    "run.threads_per_rank=1"]
    with tempfile.TemporaryDirectory() as folder:
        out = runs.train(options.zrt, folder, 1, sets, "tools/examples/multilingual.json")
        summary = json.loads((out / "summary.json").read_text())
        loads = lines(out / "expert_loads.jsonl")
        metrics = lines(out / "metrics.jsonl")
        curve = [[each["step"], each["loss"]] for each in lines(out / "evaluations.jsonl")]
        late = metrics[-steps // 4:]
        layers = len(loads[-1]["picked"])
        chosen = sum(sum(row) for row in loads[-1]["picked"])
        dropped = [each["dropped_choices"] / chosen for each in metrics]
    return {"picks": picks, "way": way, "aux": aux, "seed": seed, "steps": steps, "layers": layers,
            "final": summary["validation"]["loss"], "bits_per_byte": summary["validation"].get("bits_per_byte"),
            "train": statistics.mean(each["loss"] for each in late), "curve": curve, "first": spread_of(loads[:3]),
            "last": spread_of(loads[-10:]), "dropped_first": statistics.mean(dropped[:steps // 4]),
            "dropped": statistics.mean(dropped[-steps // 4:])}


def sweep(options):
    for seed in options.seeds:
        for picks, way, aux in WAYS:
            if picks not in options.picks:
                continue
            with open(options.results, "a", encoding="utf-8") as out:
                print(json.dumps(run(options, picks, way, aux, seed)), file=out)


def grouped(options):
    found = {}
    for each in lines(options.results):
        found.setdefault((each["picks"], each["way"], each["aux"]), []).append(each)
    return {key: sorted(found[key], key=lambda r: r["seed"]) for key in WAYS if key in found}


def show(options):
    found = grouped(options)
    print("| picks | way | aux_loss | held out: mean (least – most) | − top-k of the same seed |")
    print("|---|---|---|---|---|")
    for (picks, way, aux), same in found.items():
        ends = [each["final"] for each in same]
        base = {each["seed"]: each["final"] for each in found.get((picks, "top_k", aux), [])}
        gaps = [each["final"] - base[each["seed"]] for each in same if each["seed"] in base]
        print(f"| {picks} | {NAMES[way]} | {aux} | {statistics.mean(ends):.3f} ({min(ends):.3f} – {max(ends):.3f}) | "
              + (f"{min(gaps):+.3f} to {max(gaps):+.3f} |" if way != "top_k" and gaps else "|"))
    print("\n| picks | way | aux_loss | deviation ÷ mean, first | last | largest ÷ mean, last | never picked, last | dropped, "
          "first quarter | last quarter |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (picks, way, aux), same in found.items():
        mean = lambda f: statistics.mean(f(each) for each in same)
        print(f"| {picks} | {NAMES[way]} | {aux} | {mean(lambda r: r['first']['deviation']):.2f} | "
              f"{mean(lambda r: r['last']['deviation']):.2f} | {mean(lambda r: r['last']['largest']):.2f} | "
              f"{mean(lambda r: r['last']['unused']):.1%} | {mean(lambda r: r['dropped_first']):.1%} | "
              f"{mean(lambda r: r['dropped']):.1%} |")
    curves = []
    colors = {2: {"top_k": ("#999", "#000"), "normalised": ("#dc8", "#b80"), "prototypes": ("#e99", "#c33")},
              4: {"top_k": ("#25c", ""), "normalised": ("#83b", ""), "prototypes": ("#2a7", "")}}
    print("\n| picks | way | aux_loss | " + " | ".join(str(s) for s, _ in next(iter(found.values()))[0]["curve"]) + " |")
    print("|---|---|---|" + "---|" * len(next(iter(found.values()))[0]["curve"]))
    for (picks, way, aux), same in found.items():
        points = [(same[0]["curve"][i][0], statistics.mean(r["curve"][i][1] for r in same))
                  for i in range(len(same[0]["curve"]))]
        curves.append((f"{picks} picks, {NAMES[way]}{', aux_loss' if aux else ''}", colors[picks][way][aux > 0], points))
        print(f"| {picks} | {NAMES[way]} | {aux} | " + " | ".join(f"{loss:.3f}" for _, loss in points) + " |")
    if options.svg:
        ends = [loss for _, _, points in curves for _, loss in points]
        least = int(min(ends) * 5) / 5
        runs.draw_losses(options.svg, "held-out loss (nats per token) over steps, mean of the seeds", curves, least,
                         least + 1.8)


def host(options):
    """Pairs of runs on four ranks, each with and without weights that come ahead of their use."""
    sizes = {"layers": options.layers, "hidden": options.hidden, "experts.ffn": options.ffn}
    with tempfile.TemporaryDirectory() as folder:
        for preset in ("mixtral-tiny", "qwen3_moe-tiny"):
            sets = [f"model.preset={preset}", "bf16.enabled=true", "train_batch_size=32", "train_micro_batch_size_per_gpu=8",
                    "optimizer.type=AdamW", "optimizer.params.lr=1e-3", "gradient_clipping=1", "parallel.expert=4",
                    "data.train=corpus/train", "run.steps=16", "run.save_weights=false", "run.log_interval=0",
                    "zero_optimization.stage=3", "run.threads_per_rank=1", f"memory.link_bytes_per_second={options.rate}",
                    'memory.placement=[{"parameters":"*experts*","states":["weight","grad","master","moments"],"tier":"host"}]']
            sets += [f"model.{key}={value}" for key, value in sizes.items() if value]
            found = {"ahead": [], "not ahead": [], "one after the other": []}
            ways = {"ahead": [], "not ahead": ["zero_optimization.stage3_prefetch_bucket_size=0"],
                    "one after the other": ["zero_optimization.overlap_comm=false"]}
            for _ in range(options.turns):
                for way, keys in ways.items():
                    out = runs.train(options.zrt, folder, 4, sets + keys)
                    steps = lines(out / "metrics.jsonl")[4:]
                    memory = json.loads((out / "memory.json").read_text())
                    equal = all(tier["planned_peak_bytes"] == (tier["measured_peak_bytes"] or 0)
                                for rank in memory["ranks"] for tier in rank["tiers"].values())
                    if not equal:
                        sys.exit(f"{preset}: planned and measured bytes differ")
                    summary = json.loads((out / "summary.json").read_text())
                    found[way].append({key: statistics.median(step[key] for step in steps)
                                       for key in ("step_seconds", "exposed_io_seconds", "exposed_comm_seconds")}
                                      | {"state": summary["state_xxh3"]})
            if len({each["state"] for same in found.values() for each in same}) != 1:
                sys.exit(f"{preset}: the ways end with different weights")
            for way, same in found.items():
                values = [[each[key] for each in same] for key in ("step_seconds", "exposed_io_seconds", "exposed_comm_seconds")]
                ratios = [a["step_seconds"] / b["step_seconds"] for a, b in zip(same, found["ahead"])]
                print(f"| {preset} | {way} | " + " | ".join(
                    f"{1e3 * statistics.median(v):.2f} ({1e3 * min(v):.2f} – {1e3 * max(v):.2f})" for v in values)
                      + f" | {statistics.median(ratios):.2f} ({min(ratios):.2f} – {max(ratios):.2f}) |", flush=True)


def largest(options):
    """The widest experts of 24 layers with 16 each, of width 1024, whose plan fits, and two steps of that model."""
    budgets = {"device_budget_bytes": int(options.device_gib * 2**30), "host_budget_bytes": int(options.host_gib * 2**30),
               "nvme_budget_bytes": int(options.nvme_gb * 1e9)}
    ffn = sum(budgets.values()) // 14 // (24 * 16 * 2 * 1024) // 64 * 64  # 14 bytes of states a parameter: none fits above

    with tempfile.TemporaryDirectory(dir=options.nvme) as folder:
        config = pathlib.Path(folder) / "c.json"
        config.write_text(json.dumps({
            "train_batch_size": 4, "train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": True}, "gradient_clipping": 0,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-6, "weight_decay": 0.1}},
            "model": {"type": "gpt2", "layers": 24, "hidden": 1024, "heads": 16, "sequence": 128, "vocab": 257,
                      "experts": {"number": 16, "prototypes": 2, "capacity_factor": 1.25}},
            "memory": {**budgets, "nvme_path": folder, "recompute": "full", "update_when": "as_ready"},
            "data": {"train": options.data},
            "run": {"steps": 2, "threads_per_rank": 2, "save_weights": False, "timeout_seconds": 900}}))

        def command(name):
            return [options.zrt, name, str(config), "--ranks", "1", "--set", f"model.experts.ffn={ffn}"]

        while (done := subprocess.run(command("plan") + ["--json"], capture_output=True, text=True, check=False)).returncode != 0:
            ffn -= 64
        found = json.loads(done.stdout)
        print(f"experts of {ffn} elements: {found['parameters']} parameters, {found['active_parameters']} for a token", flush=True)
        if not options.train:
            return
        out = pathlib.Path(folder) / "run"
        if subprocess.run(command("train") + ["--out", str(out)], check=False).returncode != 0:
            sys.exit("training failed")
        for tier, values in json.loads((out / "memory.json").read_text())["ranks"][0]["tiers"].items():
            planned, measured = values["planned_peak_bytes"], values["measured_peak_bytes"] or 0
            print(f"{tier}: planned {planned}, measured {measured}" + ("" if planned == measured else ", which differ"))
        for step in lines(out / "metrics.jsonl"):
            print({key: step[key] for key in ("step", "loss", "step_seconds", "exposed_io_seconds")})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["curves", "show", "host", "largest"])
    parser.add_argument("results", nargs="?", default="runs/experts.jsonl")
    parser.add_argument("--zrt", default="build/release/zrt")
    parser.add_argument("--data", default="corpus/train", help="prefix of a dataset of bytes")
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--picks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--hidden", type=int)
    parser.add_argument("--ffn", type=int)
    parser.add_argument("--rate", type=int, default=500_000_000)
    parser.add_argument("--nvme", default=".")
    parser.add_argument("--device-gib", type=float, default=2)
    parser.add_argument("--host-gib", type=float, default=18.5)
    parser.add_argument("--nvme-gb", type=float, default=40)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--svg")
    options = parser.parse_args()
    {"curves": sweep, "show": show, "host": host, "largest": largest}[options.what](options)


if __name__ == "__main__":
    main()
