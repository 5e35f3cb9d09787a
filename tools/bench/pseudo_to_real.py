#!/usr/bin/env python3
"""Trains shared layers that are delinked at several points, beside the real model from the start.

tools/bench/pseudo_to_real.py train RESULTS [--zrt build/release/zrt] [--data corpus] [--steps 600] [--seeds 3]
    8 layers of width 128 on the datasets DATA/train and DATA/validation of bytes; adds a line of JSON to RESULTS for each
    run: its held-out loss by step.
tools/bench/pseudo_to_real.py steps [--turns 5]
    Seconds of a step of shared and of real layers, in turns, on the device and with their states on NVMe.
tools/bench/pseudo_to_real.py show RESULTS [--ratio R] [--svg FILE]
    The table of docs/benchmarks/pseudo_to_real.md; with --ratio for runs whose shared steps take R of a real step.
"""
import argparse
import json
import statistics
import tempfile

import runs
from runs import lines

COMMON = ("model.layers=8 model.hidden=128 model.heads=4 model.sequence=128 model.vocab=257 bf16.enabled=true "
          "train_batch_size=16 train_micro_batch_size_per_gpu=16 optimizer.type=AdamW optimizer.params.lr=0.002 "
          "optimizer.params.weight_decay=0.1 run.log_interval=0 run.checkpoint_interval=0 run.save_weights=false "
          "scheduler.type=WarmupCosineLR scheduler.params.warmup_num_steps=20").split()
WAYS = ["copy", "reset", "rescale"]


def train(options, folder, sets):
    """Trains with these keys; its folder."""
    return runs.train(options.zrt, folder, 1, COMMON + sets)


def run(options, share, how, seed):
    """One run of the sweep: the held-out losses of 20 places and of the end."""
    steps = options.steps
    sets = [f"data.train={options.data}/train", f"data.validation={options.data}/validation", f"run.steps={steps}",
            f"scheduler.params.total_num_steps={steps}", f"run.seed={seed}", "run.eval_batches=40",
            f"run.eval_interval={steps // 20}"]
    if share > 0:
        sets += ["pseudo_to_real.groups=1", f"pseudo_to_real.optimizer={how}"]
    if 0 < share < 100:
        sets.append(f"pseudo_to_real.delink.at_step={steps * share // 100}")
    with tempfile.TemporaryDirectory() as folder:
        out = train(options, folder, sets)
        final = json.loads((out / "summary.json").read_text())["validation"]["loss"]
        curve = [[each["step"], each["loss"]] for each in lines(out / "evaluations.jsonl")]
    return {"share": share, "how": how, "seed": seed, "steps": steps, "final": final, "curve": curve}


def sweep(options):
    for seed in range(1, options.seeds + 1):
        for share, how in [(0, "none"), (100, "none")] + [(s, w) for s in (25, 50, 75) for w in WAYS]:
            with open(options.results, "a", encoding="utf-8") as out:
                print(json.dumps(run(options, share, how, seed)), file=out)


def time_steps(options):
    """Pairs of runs of shared and of real layers, where states are on the device and where they are on NVMe."""
    with tempfile.TemporaryDirectory() as folder:
        for tier in ("device", "nvme"):
            ratios, seconds = [], {False: [], True: []}
            for _ in range(options.turns):
                for shared in (True, False):
                    sets = [f"data.train={options.data}/train", "run.steps=24", "scheduler.params.total_num_steps=600",
                            f"memory.placement={tier}", f"memory.nvme_path={folder}"]
                    out = train(options, folder, sets + ["pseudo_to_real.groups=1"] * shared)
                    steps = [each["step_seconds"] for each in lines(out / "metrics.jsonl")][4:]
                    seconds[shared].append(statistics.median(steps))
                ratios.append(seconds[True][-1] / seconds[False][-1])
            print(f"{tier}: shared {statistics.median(seconds[True]):.4f} s, real {statistics.median(seconds[False]):.4f} s, "
                  f"ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


def mean_curves(options):
    """By share and way: the mean held-out loss by step, the mean of the ends, and the ends by seed."""
    found = {}
    for each in lines(options.results):
        found.setdefault((each["share"], each["how"] if 0 < each["share"] < 100 else "none"), []).append(each)
    means = {}
    for key, same in sorted(found.items()):
        steps = [step for step, _ in same[0]["curve"]]
        losses = [statistics.mean(r["curve"][i][1] for r in same) for i in range(len(steps))]
        means[key] = (list(zip(steps, losses)), [r["final"] for r in same])
    return means


def step_of(curve, loss):
    """The step, between two that were looked at, at which a curve comes down to a loss."""
    for (a, high), (b, low) in zip(curve, curve[1:]):
        if high >= loss >= low:
            return a + (b - a) * (high - loss) / (high - low) if high > low else a
    return float("nan")


def show(options):
    means = mean_curves(options)
    scratch, ends = means[(0, "none")]
    total = scratch[-1][0]
    print("| delinked at | states | held out, mean (least to most) | − from scratch, by seed | scratch has it at step | break-even |")
    print("|---|---|---|---|---|---|")
    for (share, how), (_, finals) in means.items():
        gaps = [mine - theirs for mine, theirs in zip(finals, ends)]
        at = step_of(scratch, statistics.mean(finals))
        shared, real = total * share / 100, total * (100 - share) / 100
        even = (at - real) / shared if share else float("nan")
        print(f"| {share} % | {how} | {statistics.mean(finals):.3f} ({min(finals):.3f} – {max(finals):.3f}) | "
              f"{min(gaps):.3f} – {max(gaps):.3f} | {at:.0f} | {even:.2f} |")
    if options.ratio:
        print(f"\nEqual time, a shared step taking {options.ratio} of a real one:")
        for (share, how), (_, finals) in means.items():
            spent = total * (share * options.ratio + 100 - share) / 100
            near = [(a, b) for a, b in zip(scratch, scratch[1:]) if a[0] <= spent <= b[0]]
            loss = near[0][0][1] + (near[0][1][1] - near[0][0][1]) * (spent - near[0][0][0]) / (near[0][1][0] - near[0][0][0])
            print(f"| {share} % | {how} | {spent:.0f} | {statistics.mean(finals):.3f} | {loss:.3f} |")
    if options.svg:
        draw(means, options.svg)


def draw(means, path):
    shown = {(0, "none"): ("from scratch", "#000"), (100, "none"): ("shared to the end", "#888"),
             (25, "rescale"): ("25 %, rescale", "#c33"), (50, "rescale"): ("50 %, rescale", "#2a7"),
             (75, "rescale"): ("75 %, rescale", "#25c"), (50, "copy"): ("50 %, copy", "#b80"),
             (50, "reset"): ("50 %, reset", "#83b")}
    curves = [(name, color, means[key][0]) for key, (name, color) in shown.items()]
    runs.draw_losses(path, "held-out loss (nats per byte) over steps, mean of three seeds", curves, 1.8, 2.4)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["train", "steps", "show"])
    parser.add_argument("results", nargs="?", default="runs/pseudo_to_real.jsonl")
    parser.add_argument("--zrt", default="build/release/zrt")
    parser.add_argument("--data", default="corpus", help="folder of datasets of bytes: train and validation")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--ratio", type=float)
    parser.add_argument("--svg")
    options = parser.parse_args()
    {"train": sweep, "steps": time_steps, "show": show}[options.what](options)


if __name__ == "__main__":
    main()
