#!/usr/bin/env python3
"""Sweeps how many layers have their weights on the device at a time, and how many of them move together.

tools/bench/device_layers.py [--zrt build/release/zrt] [--layers 12] [--rounds 7] [--steps 3] [--set KEY=VALUE …]
prints a row for each: device memory, planned and measured, the seconds of a step and what it moved. All rows take turns in
each round, in an order drawn anew; a row's figure of a round is the median of its steps. `at once` are the layers that have
room on the device. Of all rows but the first, all other states are on the host. The first two keep the weights of layers on
the device, the third brings those of each block as it is used.
"""
import argparse
import json
import random
import statistics
import subprocess
import sys

NOTHING_AHEAD = "zero_optimization.stage3_prefetch_bucket_size=0"


def sweep(layers):
    """(name, layers, moved, ahead, keys) of each row."""
    rows = [("resident, all states too", layers, "–", "–", []),
            ("resident", layers, "–", "–", ["memory.placement=host", f"memory.device_layers={layers}"]),
            ("block by block", "–", "–", "yes", ["memory.placement=host"])]
    counts = sorted({1, 2, layers // 2, layers - 2} & set(range(1, layers)))
    for count in counts:
        for moved in sorted({1, count // 2, count} - {0}):
            for ahead in (False, True):
                keys = ["memory.placement=host", f"memory.device_layers={count}", f"memory.moved_layers={moved}"]
                rows.append(("sliding", count, moved, "yes" if ahead else "no", keys + ([] if ahead else [NOTHING_AHEAD])))
    return rows


def measure(options, keys):
    command = [options.zrt, "bench", "train", "--model", options.model, "--ranks", "1", "--stages", "0", "--dtype", "fp32",
               "--micro-batch", str(options.micro_batch), "--rounds", str(options.steps), "--json"]
    for key in [f"model.layers={options.layers}", *options.set, *keys]:
        command += ["--set", key]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{run.stderr}")
    return json.loads(run.stdout)["stages"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zrt", default="build/release/zrt")
    parser.add_argument("--model", default="gpt2-10m")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--micro-batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of all rows")
    options = parser.parse_args()

    rows = sweep(options.layers)
    seconds, last = [[] for _ in rows], [None] * len(rows)
    for _ in range(options.rounds):
        for r in random.sample(range(len(rows)), len(rows)):
            last[r] = measure(options, rows[r][4])
            seconds[r].append(last[r]["step_seconds"]["median"])
    print("| weights of layers | device_layers | moved_layers | ahead | at once | device MiB, planned | measured | a step, s "
          "| exposed I/O s | MiB up, down |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for (name, count, moved, ahead, _), times, run in zip(rows, seconds, last):
        at_once = count if moved == "–" else min(options.layers, count + (moved if ahead == "yes" else 0))
        device, bytes_of = run["tiers"]["device"], run["moved_bytes"]
        print(f"| {name} | {count} | {moved} | {ahead} | {at_once} | {device['planned_bytes'] / 2**20:.2f} "
              f"| {device['measured_bytes'] / 2**20:.2f} "
              f"| {statistics.median(times):.3f} ({min(times):.3f} – {max(times):.3f}) | {run['exposed_io_seconds']:.3f} "
              f"| {bytes_of['to_device'] / 2**20:.0f}, {bytes_of['to_host'] / 2**20:.0f} |")


if __name__ == "__main__":
    main()
