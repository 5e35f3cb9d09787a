#!/usr/bin/env python3
"""Plans of published runs on A100s against the iteration times that were measured: the tables of docs/benchmarks/planner.md.

tools/bench/planner.py [--zrt build/release/zrt] [--folder runs/planner] [--jobs 2] [--page FILE] [--no-overlap]

Rows are those of tests/data/ptdp_table1.csv, ptdp_table2.csv and vtrain_multi.csv. The constants are those of
share/clusters/dgx-a100.json with its software; what differs for a table stands in TABLES. Table 1 is also planned with other
efficiencies of products and Table 2's ZeRO-3 rows with other shares of the link, for what a fit without a row would give it.
Plans are kept in FOLDER, by program, constants and configuration. With --page the tables replace those in FILE.
"""
import argparse
import concurrent.futures
import csv
import hashlib
import itertools
import json
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EFFICIENCIES = [0.68 + 0.01 * i for i in range(7)]   # of products, tried where they are fitted
SHARES = [0.16, 0.2, 0.24, 0.28]                     # of the link between hosts, alike
VOCAB = 51200


class Row:
    """A published run: its configuration, its ranks, and seconds of a step."""

    def __init__(self, of, model, mesh, batch, micro, seconds, more=None):
        self.of, self.seconds, self.mesh, self.micro = of, seconds, mesh, micro
        self.layers, self.hidden, self.heads = model
        self.tensor, self.pipeline, self.chunks, self.data = mesh
        self.batch, self.ranks = batch, self.tensor * self.pipeline * self.data
        self.more = more or {}
        self.plans = {}

    def flops(self):
        """Megatron's formula, with full recomputation."""
        l, h, s = self.layers, self.hidden, 2048
        return 96 * self.batch * s * l * h * h * (1 + s / (6 * h) + VOCAB / (16 * l * h))

    def config(self, overlap):
        chunks = self.pipeline * self.chunks
        parts = [self.layers // chunks] * chunks  # blocks: the embedding before, the head behind
        parts[0] += 1
        parts[-1] += 1
        parallel = {"tensor": self.tensor, "pipeline": self.pipeline, "partition": parts}
        if self.chunks > 1:
            parallel["virtual_pipeline"] = self.chunks
        config = {"train_batch_size": self.batch, "train_micro_batch_size_per_gpu": self.micro, "fp16": {"enabled": True},
                  "optimizer": {"type": "Adam"}, "zero_optimization": {"overlap_comm": overlap},
                  "memory": {"recompute": "full", "placement": "device"},
                  "model": {"type": "gpt2", "layers": self.layers, "hidden": self.hidden, "heads": self.heads,
                            "sequence": 2048, "vocab": VOCAB, "tied": True},
                  "parallel": parallel if chunks > 1 else {"tensor": self.tensor}}
        for key, value in self.more.items():
            config[key] = {**config.get(key, {}), **value} if isinstance(value, dict) else value
        return config

    def name(self):
        t, p, v, d = self.mesh
        return f"{self.of} | {t} × {p}{f' ({v})' if v > 1 else ''} × {d} | {self.micro}"


def read(name):
    with open(ROOT / "tests" / "data" / name, newline="") as file:
        return list(csv.DictReader(file))


def table1():
    for x in read("ptdp_table1.csv"):
        i = lambda key: int(x[key])
        yield Row(x["params_billion"], (i("layers"), i("hidden"), i("heads")), (i("tp"), i("pp"), i("model_chunks_v"), i("dp")),
                  i("global_batch"), i("microbatch"), float(x["implied_iter_s"]))


def table2(scheme, interleaved=False):
    """PTD-P's chunks where it interleaves these models: 175B in Figure 12, 530B in Table 1."""
    for x in read("ptdp_table2.csv"):
        i = lambda key: int(x[key])
        if x["scheme"] != scheme:
            continue
        zero = {"zero_optimization": {"stage": 3}, "memory": {"unit_bytes": 1 << 32}} if scheme == "zero3" else None
        yield Row(x["params_billion"], (i("layers"), i("hidden"), i("heads")),
                  (i("tp"), i("pp"), {12: 4, 35: 3}[i("pp")] if interleaved else 1, i("gpus") // i("tp") // i("pp")), i("global_batch"),
                  i("microbatch"), float(x["implied_iter_s"]), zero)


def vtrain():
    for x in read("vtrain_multi.csv"):
        i = lambda key: int(x[key])
        yield Row(x["Parameters (billion)"], (i("# layers"), i("hidden size"), i("attention heads")),
                  (i("tensor parallelism"), i("pipeline parallelism"), 1, i("data parallelism")), i("global batch"),
                  i("micro batch"), float(x["iteration time (ms)"]) / 1000)


class Planner:
    def __init__(self, options):
        self.options, self.folder = options, pathlib.Path(options.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.program = hashlib.sha256(pathlib.Path(options.zrt).read_bytes()).hexdigest()
        self.pool = concurrent.futures.ThreadPoolExecutor(options.jobs)

    def cluster(self, changes):
        """dgx-a100 with other values; memory is not judged here, and what does not fit would bring advice."""
        cluster = json.loads((ROOT / "share" / "clusters" / "dgx-a100.json").read_text())
        for path, value in {"memory.device_bytes": 10**12, **changes}.items():
            at = cluster
            for key in path.split("."):
                at = at[key]
            at["value"] = value
        text = json.dumps(cluster)
        path = self.folder / f"dgx-a100-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
        path.write_text(text)
        return path

    def plan(self, row, cluster, software):
        config = json.dumps(row.config(not self.options.no_overlap))
        key = hashlib.sha256("\n".join([self.program, config, str(row.ranks), cluster.read_text(), software]).encode()).hexdigest()[:24]
        kept = self.folder / f"{key}.plan"
        if not kept.exists():
            file = self.folder / f"{key}.json"
            file.write_text(config)
            command = ["nice", "-n", "10", self.options.zrt, "plan", str(file), "--ranks", str(row.ranks), "--json",
                       "--cluster", f"{cluster}:{software}"]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if done.returncode not in (0, 1):
                raise RuntimeError(f"planner.py: {' '.join(command)} failed:\n{done.stderr}")
            plan = json.loads(done.stdout)
            kept.write_text(json.dumps({key: plan[key] for key in ["seconds_per_step", "exposed_comm_seconds", "fits"]}))
        return json.loads(kept.read_text())["seconds_per_step"]

    def plan_all(self, rows, software, changes=None, at=None):
        cluster = self.cluster(changes or {})
        for row, seconds in zip(rows, self.pool.map(lambda row: self.plan(row, cluster, software), rows)):
            row.plans[at] = seconds


def efficiency(value):
    return {f"compute.{type}.tiles.efficiency": round(value, 4) for type in ("bf16", "fp16")}


def error(row, at=None):
    return row.plans[at] / row.seconds - 1


def mape(errors):
    return statistics.mean(abs(e) for e in errors)


def constant_mape(rows):
    """Of the best single rate of a GPU."""
    times = [row.flops() / row.ranks for row in rows]
    return min(mape([t / rate / row.seconds - 1 for t, row in zip(times, rows)])
               for rate in (x * 0.25e12 for x in range(40, 1000)))


def left_out(rows, choices):
    """For each row the choice that suits the others best, and its error there."""
    for row in rows:
        others = [other for other in rows if other is not row]
        best = min(choices, key=lambda c: mape([error(other, c) for other in others]))
        yield row, best, error(row, best)


def table(rows, columns=()):
    lines = ["| billions | tensor × pipeline (chunks) × data | microbatch | published s | planned s | error |" + "".join(f" {name} |" for name, _ in columns),
             "|---|---|---|---|---|---|" + "---|" * len(columns)]
    for i, row in enumerate(rows):
        lines.append(f"| {row.name()} | {row.seconds:.2f} | {row.plans[None]:.2f} | {error(row):+.1%} |"
                     + "".join(f" {values[i]} |" for _, values in columns))
    return "\n".join(lines)


def summary(rows, errors, name):
    constant = constant_mape(rows)
    return f"{name}: MAPE {mape(errors):.1%}; the best constant rate {constant:.1%}; skill {1 - mape(errors) / constant:+.2f}."


def order(rows):
    right = pairs = apart = right_apart = 0
    first = []
    for of in dict.fromkeys(row.of for row in rows):
        runs = [row for row in rows if row.of == of]
        for a, b in itertools.combinations(runs, 2):
            if a.seconds == b.seconds or a.config(True) == b.config(True):
                continue
            good = (a.seconds < b.seconds) == (a.plans[None] < b.plans[None])
            pairs, right = pairs + 1, right + good
            if max(a.seconds, b.seconds) > 1.05 * min(a.seconds, b.seconds):
                apart, right_apart = apart + 1, right_apart + good
        chosen, best = min(runs, key=lambda r: r.plans[None]), min(runs, key=lambda r: r.seconds)
        first.append(f"| {of} | {len(runs)} | {chosen.name().split(' | ', 1)[1]} | {best.name().split(' | ', 1)[1]} | "
                     f"{chosen.seconds / best.seconds - 1:+.1%} |")
    lines = [f"Pairs of meshes of one model in the right order: {right} of {pairs}, {right / pairs:.1%}; of the {apart} whose "
             f"published times are more than 5 % apart {right_apart / apart:.1%}.", "",
             "| billions | runs | first choice | its microbatch | fastest published | its microbatch | first choice against it |",
             "|---|---|---|---|---|---|---|", *first]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zrt", default=str(ROOT / "build" / "release" / "zrt"))
    parser.add_argument("--folder", default="runs/planner")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--page", help="the page whose tables are replaced")
    parser.add_argument("--no-overlap", action="store_true", help="plan with zero_optimization.overlap_comm off")
    options = parser.parse_args()
    planner = Planner(options)
    parts = {}

    megatron, zero3 = "megatron-2021", "deepspeed-zero3-2021"
    rows = list(table1())
    planner.plan_all(rows, megatron)
    for value in EFFICIENCIES:
        planner.plan_all(rows, megatron, efficiency(value), round(value, 4))
    choices = [round(value, 4) for value in EFFICIENCIES]
    held = list(left_out(rows, choices))
    best = min(choices, key=lambda c: mape([error(row, c) for row in rows]))
    parts["table1"] = "\n\n".join([
        table(rows, [("fitted without it", [f"{c:.2f}" for _, c, _ in held]), ("error then", [f"{e:+.1%}" for _, _, e in held])]),
        summary(rows, [error(row) for row in rows], "With the shipped constants"),
        summary(rows, [e for _, _, e in held], "Each row left out of the fit"),
        f"The efficiency that suits all ten rows best: {best:.2f}, MAPE {mape([error(row, best) for row in rows]):.1%}."])

    rows, other = list(table2("ptdp", interleaved=True)), list(table2("ptdp"))
    planner.plan_all(rows, megatron)
    planner.plan_all(other, megatron)
    parts["table2"] = "\n\n".join([table(rows, [("with one chunk a stage", [f"{error(row):+.1%}" for row in other])]),
                                   summary(rows, [error(row) for row in rows], "Interleaved"),
                                   summary(rows, [error(row) for row in other], "One chunk a stage")])

    rows = list(table2("zero3"))
    planner.plan_all(rows, zero3)
    shares = [round(value, 4) for value in SHARES]
    for value in shares:
        planner.plan_all(rows, zero3, {f"software.{zero3}.between_hosts_share": value}, value)
    held = list(left_out(rows, shares))
    plain = list(table2("zero3"))
    planner.plan_all(plain, megatron)
    best = min(shares, key=lambda c: mape([error(row, c) for row in rows]))
    parts["zero3"] = "\n\n".join([
        table(rows, [("share fitted without it", [f"{c:.2f}" for _, c, _ in held]), ("error then", [f"{e:+.1%}" for _, _, e in held]),
                     ("as zrt gathers", [f"{error(row):+.1%}" for row in plain])]),
        summary(rows, [error(row) for row in rows], "With the shipped constants"),
        summary(rows, [e for _, _, e in held], "Each row left out of the fit"),
        f"The share that suits all six rows best: {best:.2f}, MAPE {mape([error(row, best) for row in rows]):.1%}."])

    rows = list(vtrain())
    planner.plan_all(rows, megatron, {"between_hosts.bytes_per_second": 9.6e10})
    far = [row for row in rows if abs(error(row)) > 0.1]
    near = [error(row) for row in rows if row not in far]
    parts["vtrain"] = "\n\n".join([
        summary(rows, [error(row) for row in rows], f"All {len(rows)} rows"),
        f"Median {statistics.median(abs(error(row)) for row in rows):.1%}; {len(near)} rows are within 10 %, their MAPE {mape(near):.1%}.",
        order(rows), f"The {len(far)} rows that are more than 10 % off:", table(far)])
    parts["all"] = table(rows)

    if not options.page:
        for name, text in parts.items():
            print(f"== {name}\n\n{text}\n")
        return
    page = pathlib.Path(options.page)
    text = page.read_text()
    for name, part in parts.items():
        text, found = re.subn(rf"(<!-- {name} -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{part}\n{m[2]}", text, flags=re.S)
        if found != 1:
            sys.exit(f"planner.py: {page} has {found} places for {name}, '<!-- {name} -->' to '<!-- end -->'; it needs one")
    page.write_text(text)


if __name__ == "__main__":
    main()
