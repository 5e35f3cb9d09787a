"""Time per op by zrt's own trace, and per kernel by Nsight Compute where it is installed."""
import csv
import json
import sys
from collections import defaultdict

import jobs
import run_parts

KERNELS = 1500  # that are profiled: some steps' worth of small ones, most of a large one
SHOWN = 25


def trace_job(programs, work):
    """Some steps of GPT-2 124M by `zrt train` with run.trace; then the table that this file makes of the trace."""
    zrt, folder, me = programs / "bin" / "zrt", work / "trace", run_parts.HERE / "kernel_times.py"
    sets = ["train_micro_batch_size_per_gpu=8", "train_batch_size=8", "model.preset=gpt2-124m", "run.steps=8",
            "run.log_interval=1", "run.trace=true", "run.trace_steps=[5,8]", "run.checkpoint_interval=0"]
    given = " ".join(f"--set '{item}'" for item in sets)
    script = f"""set -e; rm -rf {folder}; mkdir -p {folder}; cd {folder}
        for i in $(seq 9000); do echo "line $((i * 7919 % 1000)) of a text that repeats itself"; done >text.txt
        {zrt} data build --out corpus --validation 0.2 text.txt
        {zrt} train {run_parts.HERE}/train.json --device cuda {given}
        {sys.executable} {me} trace run/trace.json
        rm -rf {folder}"""
    return jobs.Job("times of ops, GPT-2 124M", ["bash", "-c", script], json=True, seconds=120)


def profiler_job(programs, model):
    """The profiler ends the program after its kernels; clocks are left alone."""
    tool = jobs.find_program("ncu", "/usr/local/cuda/bin")
    if not tool:
        return jobs.Job("ncu", None, note="not installed")
    bench = [str(programs / "bin" / "zrt"), "bench", "train", "--device", "cuda", "--model", model, "--ranks", "1", "--stages",
             "0", "--dtype", "bf16", "--micro-batch", "4", "--rounds", "2", "--set", "model.sequence=1024"]
    profiled = [tool, "--clock-control", "none", "--target-processes", "all", "--metrics", "gpu__time_duration.sum",
                "--launch-count", str(KERNELS), "--kill", "on", "--csv", "--page", "raw"] + bench
    script = " ".join(f"'{word}'" for word in profiled) + f""" >ncu.csv 2>ncu.err || true
        cat ncu.err; head -c 400 ncu.csv; echo; {sys.executable} {run_parts.HERE}/kernel_times.py profile ncu.csv; rm -f ncu.csv ncu.err"""
    return jobs.Job(f"times of kernels, {model}", ["bash", "-c", "cd $(mktemp -d) && " + script], json=True, seconds=110)


def table(durations, unit):
    """Rows of the longest first, of lists of durations by name."""
    total = sum(sum(times) for times in durations.values()) or 1
    rows = [{"name": name, "count": len(times), "seconds": sum(times) * unit, "share": sum(times) / total}
            for name, times in durations.items()]
    return sorted(rows, key=lambda row: -row["seconds"])


def of_trace(path):
    """Chrome's format: events with durations in microseconds; whole phases are a category of their own."""
    events = json.load(open(path))
    events = events["traceEvents"] if isinstance(events, dict) else events
    durations = defaultdict(list)
    for event in events:
        if event.get("ph") == "X" and event.get("cat") != "program":
            durations[f"{event['cat']}: {event['name']}"].append(event["dur"])
    return table(durations, 1e-6)


def of_profile(path):
    """ncu's page of raw metrics: a line of names, one of units, and one for each kernel; other lines are the program's."""
    with open(path, errors="replace") as file:
        lines = [line for line in file if line.startswith('"')]
    rows = list(csv.DictReader(lines))
    key = next((name for name in (rows[0] if rows else {}) if name.startswith("gpu__time_duration")), None)
    if key is None:
        sys.exit("ncu printed no times of kernels")
    unit = {"ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3}.get(rows[0][key], 1e-9)
    durations = defaultdict(list)
    for row in rows:
        try:
            durations[row["Kernel Name"].split("(")[0]].append(float(row[key].replace(",", "")))
        except (ValueError, KeyError, AttributeError):
            continue  # the line of units
    return table(durations, unit)


def show(results):
    for result in results:
        rows = (result.get("data") or {}).get("times", []) if result["part"] == "times" else []
        if rows:
            print(f"\n{result['program']}\n{'ms':>10} {'share':>6} {'count':>6}")
        for row in rows[:SHOWN]:
            print(f"{row['seconds'] * 1e3:10.3f} {row['share']:6.3f} {row['count']:6} {row['name'][:100]}")


if __name__ == "__main__":
    print(json.dumps({"times": (of_trace if sys.argv[1] == "trace" else of_profile)(sys.argv[2])}))
