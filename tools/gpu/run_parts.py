"""Runs parts of the GPU bundle one after the other and prints one table at the end. Started by run.sh.

Results go to OUT/results.json after every job, what programs print to OUT/logs, and both to OUT/results.tar.gz. A test
ends within 150 seconds and a part within its own: what has not ended by then is a TIMEOUT, and what has not started is
NOT RUN. Failures do not keep the rest from running. The exit status is 0 when nothing failed."""
import argparse
import json
import os
import sys
import time
from pathlib import Path

import benches
import jobs
import offloads
from results import Results

HERE = Path(__file__).resolve().parent
PARTS = {
    "facts": "the GPU, its driver, its rates of copies and products",
    "kernels": "tests of single kernels against fp64 references",
    "models": "tests of whole blocks against fp64 references and PyTorch's results",
    "runtime": "tests of training programs: equal bits, planned memory, checkpoints, faults",
    "sanitizer": "compute-sanitizer's memcheck, racecheck and synccheck on a few small tests",
    "bench": "zrt bench train of the models below",
    "peers": "the same models in PyTorch",
    "offload": "zrt bench train of models larger than the GPU, sized for the machine at hand",
}
# Small cases of every kind of kernel: under the tools a test takes up to fifty times as long.
SANITIZED = [
    ("models/kernels", "bias gradients*"),
    ("models/cross_entropy", "rows without a target*"),
    ("models/embedding", "an embedding without positions*"),
    ("models/attention", "attention of one new token*"),
    ("models/gpt2_dropout", "dropout repeats to the bit*"),
]


# Of one test; the slowest took a fifth of it on the machines at hand. A hang costs this and not the part.
TEST_SECONDS = float(os.environ.get("ZRT_TEST_SECONDS", 150))


def tests_of(part):
    """Name and command of each, of the bundle's tests.txt: part|name|program|argument|…"""
    file = HERE / "tests.txt"
    rows = [line.split("|") for line in file.read_text().splitlines()] if file.exists() else []
    return [(row[1], row[2:]) for row in rows if row[0] == part]


def test_jobs(part, programs, only=None):
    return [jobs.Job(name, [str(programs / "bin" / command[0]), *command[1:], "--device", "cuda", "--durations", "yes"],
                     seconds=TEST_SECONDS, counts=True)
            for name, command in tests_of(part) if only is None or only in name]


def sanitizer_jobs(programs, seconds=60):
    tool = jobs.find_program("compute-sanitizer", "/usr/local/cuda/bin")
    if not tool:
        return [jobs.Job("compute-sanitizer", None, note="not installed")]
    commands = {name: command for part in ("kernels", "models") for name, command in tests_of(part)}
    return [
        jobs.Job(f"{check} {test}: {name}",
                 [tool, "--tool", check, "--error-exitcode", "9", str(programs / "bin" / commands[test][0]), name,
                  "--device", "cuda"], seconds=seconds, counts=True)
        for check in ("memcheck", "racecheck", "synccheck") for test, name in SANITIZED if test in commands
    ]


def train_job(programs, out):
    """A whole run by the program itself: data, training, and text from what was trained."""
    zrt, folder = programs / "bin" / "zrt", out / "train"
    script = f"""set -e; rm -rf {folder}; mkdir -p {folder}; cd {folder}
        for i in $(seq 4000); do echo "line $((i * 7919 % 1000)) of a text that repeats itself"; done >text.txt
        {zrt} data build --out corpus --validation 0.2 text.txt
        {zrt} train {HERE}/train.json --device cuda
        {zrt} generate run --device cuda --prompt 'line ' --tokens 40"""
    return jobs.Job("zrt data, train and generate", ["bash", "-c", script], seconds=TEST_SECONDS)


def jobs_of(part, programs, out, models):
    if part == "facts":
        return [jobs.Job("facts", [sys.executable, str(HERE / "facts.py")], ours=False, json=True, seconds=90)]
    if part == "sanitizer":
        return sanitizer_jobs(programs)
    if part == "peers":
        return [benches.peer_job(HERE, model) for model in models]
    return test_jobs(part, programs) + ([train_job(programs, out)] if part == "runtime" else [])


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


def run_part(part, programs, results, models, runs, side_by_side, deadline):
    if part == "bench":
        return benches.run_bench(programs, HERE, results, models, deadline)
    if part == "offload":
        return offloads.run_offload(programs, HERE, results, runs, deadline, results.work / "nvme")
    alone = part not in ("kernels", "models", "runtime", "sanitizer")
    jobs.run(jobs_of(part, programs, results.work, models), 1 if alone else side_by_side, deadline, results, part)


def failed(rows):
    return any(r["result"] in ("FAILED", "TIMEOUT", "NOT RUN") for r in rows)


def programs_here():
    return Path(os.environ["ZRT_PROGRAMS"]) if os.environ.get("ZRT_PROGRAMS") else None


def commit_here():
    return (HERE / "commit.txt").read_text().strip()


def main():
    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--parts", help="commas between")
    parser.add_argument("--list", action="store_true", help="print the parts, their tests and what is missing here")
    parser.add_argument("--seconds", type=float, default=450, help="of one part, at most 470 (450)")
    parser.add_argument("--out", type=Path, default=Path("gpu_results"), help="folder of the results (gpu_results)")
    parser.add_argument("--jobs", type=int, default=4, help="tests that run side by side (4)")
    parser.add_argument("--models", default=",".join(benches.MODELS), help="of bench and peers")
    parser.add_argument("--runs", default=",".join(offloads.RUNS), help="of offload; each takes minutes")
    options = parser.parse_args()
    if not options.parts and not options.list:
        parser.error(f"--parts is missing; legal are {', '.join(PARTS)}, each of which may take --seconds; "
                     "first_contact.sh runs them in six calls of less than ten minutes")
    parts = (options.parts or ",".join(PARTS)).split(",")
    models, runs = options.models.split(","), options.runs.split(",")
    for chosen, legal, what in ((parts, PARTS, "--parts"), (models, benches.MODELS, "--models"),
                                (runs, offloads.RUNS, "--runs")):
        for name in chosen:
            if name not in legal:
                parser.error(f"{what} names '{name}'; legal are {', '.join(legal)}")
    if not 0 < options.seconds <= 470 or options.jobs < 1:
        parser.error("--seconds lies above 0 and at most at 470, --jobs is at least 1")
    programs = programs_here()
    lacks = missing(programs)
    if options.list:
        for part in parts:
            print(f"{part:9} {PARTS[part]}")
            for name, _ in tests_of(part):
                print(f"{'':9}   {name}")
        print("\n".join("missing: " + line for line in lacks) or "nothing is missing")
        return 0
    if not programs:
        parser.error(lacks[-1] if len(lacks) == 1 else "; ".join(lacks))

    out = options.out.resolve()
    results = Results(out, out / "results.tar.gz", commit=commit_here(), missing=lacks)
    print(f"zrt {commit_here()}, parts {', '.join(parts)}, at most {options.seconds:.0f} s each, results in {out}",
          flush=True)
    for part in parts:
        begin = time.monotonic()
        run_part(part, programs, results, models, runs, options.jobs, begin + options.seconds)
        results.facts.setdefault("part_seconds", {})[part] = time.monotonic() - begin
    results.facts.update(comparison=benches.compare(results.rows), offload=offloads.compare(results.rows))
    results.write(last=True)
    show(results.rows, lacks)
    benches.show(results.rows)
    offloads.show(results.rows)
    return 1 if failed(results.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
