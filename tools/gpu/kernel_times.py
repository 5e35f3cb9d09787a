"""Time per op by zrt's own trace, and per kernel by a log of all kernels (kernel_log.cpp)."""
import json
import os
import sys
from collections import defaultdict

import jobs
import run_parts

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


def log_job(programs, work, model, batch):
    """A few steps by `zrt train` with all of its kernels and copies written down, set-up and evaluation among them."""
    library = programs / "kernel_log.so"
    if not library.exists() or "cupti" in os.environ.get("ZRT_MISSING", ""):
        return jobs.Job(f"times of kernels, {model}", None, note="CUPTI is missing here, or where the bundle was built")
    zrt, folder, me = programs / "bin" / "zrt", work / "log", run_parts.HERE / "kernel_times.py"
    sets = [f"train_micro_batch_size_per_gpu={batch}", f"train_batch_size={batch}", f"model.preset={model}", "run.steps=8",
            "run.checkpoint_interval=0", "run.save_weights=false", "run.eval_batches=1"]
    given = " ".join(f"--set '{item}'" for item in sets)
    script = f"""set -e; rm -rf {folder}; mkdir -p {folder}; cd {folder}
        for i in $(seq 30000); do echo "line $((i * 7919 % 1000)) of a text that repeats itself"; done >text.txt
        {zrt} data build --out corpus --validation 0.05 text.txt
        CUDA_INJECTION64_PATH={library} ZRT_KERNEL_LOG=log.tsv {zrt} train {run_parts.HERE}/train.json --device cuda {given}
        {sys.executable} {me} log log.tsv
        rm -rf {folder}"""
    return jobs.Job(f"times of kernels, {model}", ["bash", "-c", script], json=True, seconds=110)


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


def of_log(path):
    """Lines of kernel_log.cpp: nanoseconds from the first, duration, stream, name."""
    durations = defaultdict(list)
    with open(path, errors="replace") as file:
        for line in file:
            if line.count("\t") < 3:
                continue  # the last, of a program that was ended
            _, duration, _, name = line.rstrip("\n").split("\t", 3)
            durations[name.replace("(anonymous namespace)::", "").split("(")[0]].append(int(duration))
    return table(durations, 1e-9)


def show(results):
    for result in results:
        rows = (result.get("data") or {}).get("times", []) if result["part"] == "times" else []
        if rows:
            print(f"\n{result['program']}\n{'ms':>10} {'share':>6} {'count':>6}")
        for row in rows[:SHOWN]:
            print(f"{row['seconds'] * 1e3:10.3f} {row['share']:6.3f} {row['count']:6} {row['name'][:100]}")


if __name__ == "__main__":
    print(json.dumps({"times": (of_trace if sys.argv[1] == "trace" else of_log)(sys.argv[2])}))
