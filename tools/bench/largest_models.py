#!/usr/bin/env python3
"""Finds the largest GPT of three ways to spread it over four ranks with equal budgets, and trains each two steps.

tools/bench/largest_models.py [--zrt build/release/zrt] [--device-mib 64] [--host-mib 256]: of models of width 256 on the
quick start's corpus, the most layers whose plan fits; with parameters, and planned and measured bytes of every rank.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

WAYS = [
    ("ZeRO-3 alone", ["zero_optimization.stage=3", "memory.placement=device"]),
    ("pipeline of 4 alone", ["parallel.pipeline=4", "memory.placement=device"]),
    ("pipeline of 2, ZeRO-3, moments on the host",
     ["parallel.pipeline=2", "zero_optimization.stage=3", 'memory.placement=[{"states":["master","moments"],"tier":"host"}]']),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zrt", default="build/release/zrt")
    parser.add_argument("--data", default="corpus/train", help="prefix of a dataset of bytes")
    parser.add_argument("--device-mib", type=int, default=64)
    parser.add_argument("--host-mib", type=int, default=256)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "c.json"

        def command(name, sets, layers):
            config.write_text(json.dumps({
                "train_batch_size": 16, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True},
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
                "model": {"type": "gpt2", "layers": layers, "hidden": 256, "heads": 4, "sequence": 128, "vocab": 257,
                          "tied": False},
                "memory": {"device_budget_bytes": options.device_mib << 20, "host_budget_bytes": options.host_mib << 20,
                           "recompute": "none"},
                "data": {"train": options.data}, "run": {"steps": 2, "save_weights": False}}))
            words = [options.zrt, name, str(config), "--ranks", "4"]
            for one in sets:
                words += ["--set", one]
            return words

        def plan(sets, layers):
            done = subprocess.run(command("plan", sets, layers) + ["--json"], capture_output=True, text=True, check=False)
            return json.loads(done.stdout) if done.returncode == 0 else None

        for name, sets in WAYS:
            low, high = 4, 8  # fits, does not
            while plan(sets, high):
                low, high = high, 2 * high
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if plan(sets, middle) else (low, middle)
            out = pathlib.Path(folder) / "run"
            trained = subprocess.run(command("train", sets, low) + ["--out", str(out)], capture_output=True, text=True,
                                     check=False)
            if trained.returncode != 0:
                sys.exit(trained.stderr)
            tiers = [rank["tiers"] for rank in json.loads((out / "memory.json").read_text())["ranks"]]
            for rank in tiers:
                for tier in ("device", "host"):
                    planned, measured = rank[tier]["planned_peak_bytes"], rank[tier]["measured_peak_bytes"]
                    if planned != (measured or 0):
                        sys.exit(f"{name}: planned {planned}, measured {measured} in the {tier} tier")
            peaks = {tier: max(rank[tier]["planned_peak_bytes"] for rank in tiers) for tier in ("device", "host")}
            print(f"{name}: {low} layers, {plan(sets, low)['parameters']} parameters; at most {peaks['device']} bytes of "
                  f"the device and {peaks['host']} of the host a rank, planned and measured", flush=True)


if __name__ == "__main__":
    main()
