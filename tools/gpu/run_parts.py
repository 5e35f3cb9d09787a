"""Runs the parts of the GPU bundle one after the other and prints one table at the end. Started by run.sh.

Full results go to OUT/results.json, what programs print to OUT/logs. A part ends within its seconds: what has not ended
by then is a TIMEOUT, and what has not started is NOT RUN. Failures do not keep the rest from running. The exit status is
0 when nothing failed."""
import argparse
import json
import os
import sys
import time
from pathlib import Path

import benches
import jobs
import offloads

HERE = Path(__file__).resolve().parent
PARTS = {
    "facts": "the GPU, its driver, its rates of copies and products",
    "kernels": "tests of single kernels against fp64 references",
    "models": "tests of whole blocks against fp64 references and PyTorch's results",
    "runtime": "tests of training programs: equal bits, planned memory, checkpoints, faults",
    "sanitizer": "compute-sanitizer's memcheck, racecheck and synccheck on a few small tests",
    "bench": "zrt bench train of the models below",
    "peers": "the same models in PyTorch",
    "offload": "zrt bench train of models larger than the GPU; only where --parts names it",
}
# Small cases of every kind of kernel: under the tools a test takes up to fifty times as long.
SANITIZED = [
    ("test_models_kernels", "bias gradients*"),
    ("test_models_kernels", "rows without a target*"),
    ("test_models_embedding", "an embedding without positions*"),
    ("test_models_attention", "attention of one new token*"),
    ("test_models_gpt2_dropout", "dropout repeats to the bit*"),
]


def tests_of(part):
    lines = (HERE / "tests.txt").read_text().split() if (HERE / "tests.txt").exists() else []
    return [line.split(":")[1] for line in lines if line.split(":")[0] == part]


def sanitizer_jobs(programs):
    tool = jobs.find_program("compute-sanitizer", "/usr/local/cuda/bin")
    if not tool:
        return [jobs.Job("compute-sanitizer", None, note="not installed")]
    return [
        jobs.Job(f"{check} {program[5:]}: {name}",
                 [tool, "--tool", check, "--error-exitcode", "9", str(programs / program), name, "--device", "cuda"])
        for check in ("memcheck", "racecheck", "synccheck") for program, name in SANITIZED
    ]


def train_job(programs, out):
    """A whole run by the program itself: data, training, and text from what was trained."""
    zrt, folder = programs / "bin" / "zrt", out / "train"
    script = f"""set -e; rm -rf {folder}; mkdir -p {folder}; cd {folder}
        for i in $(seq 4000); do echo "line $((i * 7919 % 1000)) of a text that repeats itself"; done >text.txt
        {zrt} data build --out corpus --validation 0.2 text.txt
        {zrt} train {HERE}/train.json --device cuda
        {zrt} generate run --device cuda --prompt 'line ' --tokens 40"""
    return jobs.Job("zrt data, train and generate", ["bash", "-c", script])


def jobs_of(part, programs, out, models):
    if part == "facts":
        return [jobs.Job("facts", [sys.executable, str(HERE / "facts.py")], ours=False, json=True)]
    if part == "sanitizer":
        return sanitizer_jobs(programs / "bin")
    if part == "peers":
        return [benches.peer_job(HERE, model) for model in models]
    tests = [jobs.Job(name, [str(programs / "bin" / name), "--device", "cuda", "--durations", "yes"])
             for name in tests_of(part)]
    return tests + ([train_job(programs, out)] if part == "runtime" else [])


def missing(programs):
    """What this machine lacks, in words."""
    lacks = [f"{name} was not found" for name in os.environ.get("ZRT_MISSING", "").split()]
    if not programs:
        lacks.append("programs.tar.xz lies not beside run.sh: this is the source tree, not a bundle (target gpu_bundle)")
    if not jobs.find_program("nvidia-smi", "/usr/local/nvidia/bin", "/usr/bin"):
        lacks.append("nvidia-smi was not found: no NVIDIA driver, so no GPU")
    if not jobs.find_program("compute-sanitizer", "/usr/local/cuda/bin"):
        lacks.append("compute-sanitizer was not found: the part sanitizer records that")
    return lacks


def show(results, lacks):
    print(f"\n{'part':9} {'program':60} {'result':8} {'passed':>6} {'failed':>6} {'seconds':>8}")
    for r in results:
        print(f"{r['part']:9} {r['program'][:60]:60} {r['result']:8} {r.get('passed', ''):>6} {r.get('failed', ''):>6} "
              f"{r['seconds']:8.1f}" + (f"  {r['note']}" if r.get("note") else ""))
        for name in r.get("failures", [])[:6]:
            print(f"{'':9}   ! {name}")
    for line in lacks:
        print("note:", line)


def main():
    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--parts", help="commas between; all but offload without it")
    parser.add_argument("--list", action="store_true", help="print the parts, their programs and what is missing here")
    parser.add_argument("--seconds", type=float, default=450, help="of one part, at most 470 (450)")
    parser.add_argument("--out", type=Path, default=Path("gpu_results"), help="folder of the results (gpu_results)")
    parser.add_argument("--jobs", type=int, default=4, help="tests that run side by side (4)")
    parser.add_argument("--models", default=",".join(benches.MODELS), help="of bench and peers")
    parser.add_argument("--runs", default=",".join(offloads.RUNS), help="of offload; each takes minutes")
    options = parser.parse_args()
    given = options.parts or ",".join(part for part in PARTS if options.list or part != "offload")
    parts, models, runs = given.split(","), options.models.split(","), options.runs.split(",")
    for chosen, legal, what in ((parts, PARTS, "--parts"), (models, benches.MODELS, "--models"),
                                (runs, offloads.RUNS, "--runs")):
        for name in chosen:
            if name not in legal:
                parser.error(f"{what} names '{name}'; legal are {', '.join(legal)}")
    if not 0 < options.seconds <= 470 or options.jobs < 1:
        parser.error("--seconds lies above 0 and at most at 470, --jobs is at least 1")
    programs = Path(os.environ["ZRT_PROGRAMS"]) if os.environ.get("ZRT_PROGRAMS") else None
    lacks = missing(programs)
    if options.list:
        for part in parts:
            print(f"{part:9} {PARTS[part]}")
            for name in tests_of(part):
                print(f"{'':9}   {name}")
        print("\n".join("missing: " + line for line in lacks) or "nothing is missing")
        return 0
    if not programs:
        parser.error(lacks[-1] if len(lacks) == 1 else "; ".join(lacks))

    out = options.out.resolve()
    (out / "logs").mkdir(parents=True, exist_ok=True)
    commit = (HERE / "commit.txt").read_text().strip()
    print(f"zrt {commit}, parts {', '.join(parts)}, at most {options.seconds:.0f} s each, results in {out}", flush=True)
    results, details = [], {}
    for part in parts:
        begin = time.monotonic()
        deadline = begin + options.seconds
        if part == "bench":
            rows = benches.run_bench(programs, HERE, out / "logs", models, deadline)
        elif part == "offload":
            rows = offloads.run_offload(programs, HERE, out / "logs", runs, deadline, out / "nvme")
        else:
            side_by_side = options.jobs if part in ("kernels", "models", "runtime", "sanitizer") else 1
            rows = jobs.run(jobs_of(part, programs, out, models), side_by_side, deadline, out / "logs", part)
        results += [{"part": part, **row} for row in rows]
        details[part] = time.monotonic() - begin
        content = {"commit": commit, "missing": lacks, "part_seconds": details, "results": results,
                   "comparison": benches.compare(results), "offload": offloads.compare(results)}
        (out / "results.json").write_text(json.dumps(content, indent=1))
    show(results, lacks)
    benches.show(results)
    offloads.show(results)
    return 1 if any(r["result"] in ("FAILED", "TIMEOUT", "NOT RUN") for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
