#!/usr/bin/env python3
"""The first choice of `zrt plan --search` for 8 ranks against six meshes, all measured. Nothing else should run meanwhile.

tools/bench/first_choice.py [--build build/release] [--folder runs/first_choice] [--rounds 3]

The ranks are threads of this machine. Their blocks sleep for as long as the cost model says that they compute, so that few
cores suffice; copies, sums, updates and messages are real. Constants are measured first, into FOLDER/cluster.json; where that
is, it is used again. For each mesh the search chooses the rest: stage, microbatch, schedule, recomputation.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

RANKS = 8
MESHES = [(1, 1), (2, 1), (1, 2), (2, 2), (1, 4), (4, 1)]  # tensor, pipeline
BASE = {"train_batch_size": 32, "optimizer": {"type": "AdamW", "params": {"lr": 1e-9}},
        "model": {"type": "gpt2", "layers": 8, "hidden": 512, "heads": 8, "sequence": 128, "vocab": 2000, "tied": False}}


def output(command):
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"first_choice.py: {' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def with_keys(keys):
    """BASE with keys of the form a.b; a batch follows from its parts."""
    config = json.loads(json.dumps(BASE))
    for path, value in keys.items():
        section = config
        *sections, name = path.split(".")
        for each in sections:
            section = section.setdefault(each, {})
        section[name] = value
    return config


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--folder", default="runs/first_choice")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    build, folder = pathlib.Path(options.build), pathlib.Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    cluster, base = folder / "cluster.json", folder / "base.json"
    if not cluster.exists():
        output([build / "zrt", "bench", "calibrate", "--out", cluster, "--ranks", RANKS])
        constants = json.loads(cluster.read_text())
        for link in constants["overlap"].values():  # what sleeps takes nothing from what communicates beside it
            for share in link.values():
                if isinstance(share, dict):
                    share["value"] = 1
        cluster.write_text(json.dumps(constants))
    base.write_text(json.dumps(BASE))

    def search(*sets):
        fixed = [part for each in sets for part in ("--set", each)]
        found = json.loads(output([build / "zrt", "plan", base, "--ranks", RANKS, "--cluster", cluster, "--search", "--json", *fixed]))
        return found["found"][0]

    first = search()
    ways = [("first choice", first)]
    for tensor, pipeline in MESHES:
        ways.append((f"tensor {tensor} × pipeline {pipeline}", search(f"parallel.tensor={tensor}", f"parallel.pipeline={pipeline}")))
    measured = [[] for _ in ways]
    for _ in range(options.rounds):
        for seconds, (_, way) in zip(measured, ways):
            (folder / "c.json").write_text(json.dumps(with_keys(way["keys"])))
            out = output([build / "sleeping_ranks", folder / "c.json", cluster, RANKS])
            seconds.append(next(json.loads(line) for line in out.splitlines() if "predicted" in line))
    print("| mesh | keys | predicted s | measured s | error |\n|---|---|---|---|---|")
    medians = []
    for (name, way), steps in zip(ways, measured):
        seconds = [each["measured"]["seconds"]["median"] for each in steps]
        predicted, median = steps[0]["predicted"]["seconds"], statistics.median(seconds)
        medians.append(median)
        keys = ", ".join(f"{key}={value}" for key, value in way["keys"].items())
        error = f"{100 * (predicted / median - 1):+.1f} %".replace("-", "−")
        print(f"| {name} | {keys} | {predicted:.3f} | {median:.3f} ({min(seconds):.3f} to {max(seconds):.3f}) | {error} |")
    best = min(medians[1:])
    print(f"\nThe first choice takes {medians[0] / best:.3f} of the fastest of the six meshes.")


if __name__ == "__main__":
    main()
