#!/usr/bin/env python3
"""Steps of two hosts that a cable of 1 Gbit/s joins, measured and predicted. Needs root, and a machine with nothing else to do.

tools/bench/across.py pipeline|tensor|overlap|default [--build build/release] [--folder runs/across]

The hosts are network namespaces of this machine (tools/two_hosts.sh). Blocks sleep for as long as the cost model says that
they compute, so that few cores suffice; copies, sums, updates and messages are real.

pipeline  two ranks a host: stages of a pipeline across the cable against data-parallel ranks across, of a model with many
          weights and few tokens and of one with few weights and many tokens
tensor    two ranks a host: tensor-parallel ranks inside a host and stages across, against the reverse
overlap   one rank a host: how long tensor-parallel ranks wait for each other, with and without overlap_comm, in pairs
default   two ranks a host: steps of a pipeline without the key overlap_comm against steps with it on and off, in turns; stages
          across the cable, and data-parallel ranks across it

The constants of cable and hosts are measured first, into FOLDER/RANKS_PER_HOST.json; where that is, it is used again.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys


def model(layers, hidden, sequence, heads=4):
    return {"type": "gpt2", "layers": layers, "hidden": hidden, "heads": heads, "sequence": sequence, "vocab": 257, "tied": False}


def config(of, micro, batch, parallel, overlap=None):
    zero = {"stage": 1} if overlap is None else {"stage": 1, "overlap_comm": overlap}
    return {"train_batch_size": batch, "train_micro_batch_size_per_gpu": micro, "zero_optimization": zero,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-9}}, "parallel": parallel, "model": of}


class Hosts:
    def __init__(self, options, ranks):
        self.ranks, self.build, self.folder = ranks, pathlib.Path(options.build), pathlib.Path(options.folder)
        self.script = pathlib.Path(__file__).resolve().parent.parent / "two_hosts.sh"
        self.folder.mkdir(parents=True, exist_ok=True)
        measured = self.folder / f"{ranks}.json"
        if not measured.exists():
            self.run(["--", self.build / "zrt", "bench", "calibrate", "--out", measured])
        self.cluster = json.loads(measured.read_text())
        for link in self.cluster["overlap"].values():  # what sleeps takes nothing from what communicates beside it
            for share in link.values():
                if isinstance(share, dict):
                    share["value"] = 1

    def run(self, arguments):
        command = [str(part) for part in [self.script, "--ranks-per-host", self.ranks, *arguments]]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"across.py: {' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def steps(self, of, in_turns=False):
        source = "the option --in-turns of this run"
        self.cluster["distribution"] = {"value": "cyclic" if in_turns else "block", "source": source}
        (self.folder / "cluster.json").write_text(json.dumps(self.cluster))
        (self.folder / "c.json").write_text(json.dumps(of))
        turns = ["--in-turns"] if in_turns else []
        out = self.run([*turns, "--", self.build / "sleeping_ranks", self.folder / "c.json", self.folder / "cluster.json",
                        2 * self.ranks])
        return next(json.loads(line) for line in out.splitlines() if "predicted" in line)


def row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def table(*names):
    row(*names)
    row(*["---"] * len(names))


def range_of(values):
    return f"{values['median']:.3f} ({values['low']:.3f} to {values['high']:.3f})"


def step_row(steps, *names):
    of, predicted = steps["measured"]["seconds"], steps["predicted"]["seconds"]
    row(*names, f"{predicted:.3f}", range_of(of), f"{100 * (predicted / of['median'] - 1):+.1f} %".replace("-", "−"))


def pipeline(options):
    hosts = Hosts(options, 2)
    table("model", "mesh", "predicted s", "measured s", "error")
    for name, layers, hidden, sequence, micro in [("25M parameters, 64 tokens a microbatch", 8, 512, 64, 1),
                                                  ("1.6M parameters, 8192 tokens a microbatch", 2, 256, 1024, 8)]:
        for stages, mesh in [(2, "pipeline across, data inside"), (1, "data parallel across")]:
            of = config(model(layers, hidden, sequence), micro, 16 * micro, {"pipeline": stages, "partition": "time"})
            step_row(hosts.steps(of), name, mesh)


def tensor(options):
    hosts = Hosts(options, 2)
    table("rows", "mesh", "predicted s", "measured s", "error")
    for sequence, name in [(False, "whole"), (True, "shared")]:
        of = config(model(8, 512, 256, 8), 1, 8, {"pipeline": 2, "tensor": 2, "sequence": sequence}, True)
        step_row(hosts.steps(of), name, "tensor inside, pipeline across")
        step_row(hosts.steps(of, in_turns=True), name, "pipeline inside, tensor across")


def overlap(options):
    hosts = Hosts(options, 1)
    table("rows", "overlap", "predicted step s", "measured", "predicted exchange exposed s", "measured")
    for sequence, name in [(False, "whole"), (True, "shared")]:
        rounds = {False: [], True: []}
        for _ in range(options.rounds):
            for on in rounds:
                rounds[on].append(hosts.steps(config(model(4, 512, 512, 8), 1, 4, {"tensor": 2, "sequence": sequence}, on)))
        for on, steps in rounds.items():
            def of(what):
                values = [each["measured"][what]["median"] for each in steps]
                return range_of({"median": statistics.median(values), "low": min(values), "high": max(values)})
            predicted = steps[0]["predicted"]
            row(name, "on" if on else "off", f"{predicted['seconds']:.3f}", of("seconds"), f"{predicted['exposed_seconds']:.3f}",
                of("exposed_seconds"))
        pairs = [on["measured"]["exposed_seconds"]["median"] / off["measured"]["exposed_seconds"]["median"]
                 for on, off in zip(rounds[True], rounds[False])]
        print(f"\nexposed with ÷ without overlap, pair by pair: {', '.join(f'{each:.2f}' for each in pairs)}\n", flush=True)


def default(options):
    hosts = Hosts(options, 2)
    table("across the cable", "overlap_comm", "predicted s", "measured s", "error", "÷ on, turn by turn")
    for in_turns, name in [(False, "stages"), (True, "data-parallel ranks")]:
        rounds = {None: [], True: [], False: []}
        for _ in range(options.rounds):
            for on in rounds:
                of = config(model(8, 512, 64), 1, 16, {"pipeline": 2}, on)
                rounds[on].append(hosts.steps(of, in_turns))
        for on, steps in rounds.items():
            seconds = [each["measured"]["seconds"]["median"] for each in steps]
            predicted, median = steps[0]["predicted"]["seconds"], statistics.median(seconds)
            pairs = [each / other["measured"]["seconds"]["median"] for each, other in zip(seconds, rounds[True])]
            row(name, {None: "left out", True: "on", False: "off"}[on], f"{predicted:.3f}",
                range_of({"median": median, "low": min(seconds), "high": max(seconds)}),
                f"{100 * (predicted / median - 1):+.1f} %".replace("-", "−"), ", ".join(f"{pair:.3f}" for pair in pairs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pipeline", "tensor", "overlap", "default"])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--folder", default="runs/across")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of overlap, turns of default")
    options = parser.parse_args()
    if not (pathlib.Path(options.build) / "sleeping_ranks").exists():
        sys.exit(f"across.py: there is no {options.build}/sleeping_ranks; build the tests")
    {"pipeline": pipeline, "tensor": tensor, "overlap": overlap, "default": default}[options.what](options)


if __name__ == "__main__":
    main()
