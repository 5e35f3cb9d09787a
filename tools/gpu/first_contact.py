"""The first hour of a GPU in six calls, each of which ends by itself in less than ten minutes. Started by first_contact.sh.

  1  facts and the tests of kernels
  2  benchmarks beside PyTorch: zrt, PyTorch, zrt for each model
  3  time per kernel, products chosen by timing, and the largest of these models again with them
  4  tests of blocks and of training programs
  5  fp8, a model of 7 billion parameters, compute-sanitizer
  6  machines with several GPUs: tests of these, and runs as threads, as processes and over NCCL; with one GPU: runs as
     processes that share it

DIR/first_contact_N.tar.gz holds results.json, the table and all logs. It is written anew after jobs, and last when the
call ends, also by SIGTERM; no job that hangs, crashes or fails keeps another from running. The exit status is 0 when
nothing failed, 1 when something did."""
import argparse
import contextlib
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import benches
import jobs
import kernel_times
import machine
import run_parts
import several
from results import Results, say

MODELS = ["gpt2-124m", "gpt2-1.5b"]
LARGEST = MODELS[-1]


def call_1(here):
    here.run([facts_job(here)], 1, "facts")
    here.run(run_parts.test_jobs("kernels", here.programs), here.side_by_side, "kernels")


def call_2(here):
    benches.interleave(here.programs, here.folder, here.results, MODELS, here.deadline)


def call_3(here):
    timed = [kernel_times.trace_job(here.programs, here.work), kernel_times.log_job(here.programs, here.work, LARGEST, 4)]
    here.run(timed, 1, "times")
    table = here.work / "logs" / "kernel_table.json"
    batch = fitting_batch(here)
    if batch is None:
        return
    here.run([tune_job(here, batch, table)], 1, "tune")
    for again in range(2):  # without the table and with it, twice
        for sets in ([], [f"run.kernel_table={table}"]) if table.exists() else ([],):
            benches.run_zrt(here.programs, here.results, LARGEST, batch, 10, here.deadline, sets, part="tuned",
                            tuned=bool(sets), again=again > 0)


def call_4(here):
    models = run_parts.test_jobs("models", here.programs)
    runtime = run_parts.test_jobs("runtime", here.programs) + [run_parts.train_job(here.programs, here.work)]
    here.run(models, here.side_by_side, "models")
    here.run(runtime, here.side_by_side, "runtime")


def call_5(here):
    fp8 = [job for part in ("kernels", "models", "runtime") for job in run_parts.test_jobs(part, here.programs, "fp8")]
    here.run(fp8, here.side_by_side, "fp8")
    here.run([seven_billion_job(here)], 1, "7b", seconds=100)
    here.run(run_parts.sanitizer_jobs(here.programs), here.side_by_side, "sanitizer")


def call_6(here):
    gpus = several.count()
    if gpus < 2:
        here.run([jobs.Job("several GPUs", None, note=f"this machine has {gpus}")], 1, "several")
        if gpus == 1:
            here.run(several.shared_jobs(here.programs, here.folder, here.work), here.side_by_side, "shared")
        return
    here.run([several.topology_job()], 1, "several")
    here.run(several.test_jobs(here.programs, run_parts.TEST_SECONDS), 1, "several")
    here.run(several.run_jobs(here.programs, here.folder, here.work, gpus), 1, "several")


# What each may take in all, in seconds: less than a run of ten minutes, and together less than fifty minutes.
CALLS = {1: (420, call_1), 2: (570, call_2), 3: (420, call_3), 4: (480, call_4), 5: (270, call_5), 6: (540, call_6)}


def facts_job(here):
    return jobs.Job("facts", [sys.executable, str(here.folder / "facts.py")], ours=False, json=True, seconds=90)


def fitting_batch(here):
    """The first of the model's micro-batches that runs here."""
    for batch in benches.MODELS[LARGEST]["batches"]:
        row = benches.run_zrt(here.programs, here.results, LARGEST, batch, 2, here.deadline, part="tuned", tried=True)
        if row.get("data"):
            return batch
    return None


def tune_job(here, batch, table):
    config = here.work / "tune.json"
    config.write_text(json.dumps({
        "train_micro_batch_size_per_gpu": batch, "gradient_accumulation_steps": 1, "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}, "model": {"preset": LARGEST, "sequence": 1024},
        "run": {"device": "cuda"}}))
    return jobs.Job(f"zrt bench tune {LARGEST}", [str(here.programs / "bin" / "zrt"), "bench", "tune", str(config), "--out",
                                                  str(table), "--device", "cuda", "--json"], json=True, seconds=120)


def seven_billion_job(here):
    """Llama-2-7B with states of 4 bytes a parameter, and one sample at a time where memory is small: weights and
    gradients in bf16, moments in bf16, no master weights; 16 microbatches of 1,024 tokens or more to an update."""
    device = machine.device_bytes()
    sets = ["memory.moments=bf16", "memory.master=none", "gradient_accumulation_steps=16"]
    if device:
        sets.append(f"memory.device_budget_bytes={device - machine.DEVICE_RESERVE}")
    command = benches.zrt_command(here.programs, "llama-2-7b", 4 if device > 120 * machine.GIB else 1, 2, sets)
    return jobs.Job("zrt llama-2-7b, small states", command, json=True)


class Call:
    """What the calls need: programs, results, and the moment by which all must have ended."""

    def __init__(self, options):
        self.folder, self.programs = run_parts.HERE, run_parts.programs_here()
        self.side_by_side = options.jobs
        self.out = options.out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        started = float(os.environ.get("ZRT_STARTED") or time.time())
        seconds = min(options.seconds or 1e9, CALLS[options.call][0]) - max(0.0, time.time() - started)
        self.deadline = time.monotonic() + seconds
        self.work = Path(tempfile.mkdtemp(prefix="zrt_first_contact_"))
        self.packed = self.out / f"first_contact_{options.call}.tar.gz"
        self.results = Results(self.work, self.packed, commit=run_parts.commit_here(), call=options.call,
                               missing=run_parts.missing(self.programs))

    def run(self, of, side_by_side, part, seconds=None):
        deadline = min(self.deadline, time.monotonic() + seconds) if seconds else self.deadline
        return jobs.run(of, side_by_side, deadline, self.results, part)

    def finish(self, **facts):
        """The table and the comparisons; everything packed for the last time."""
        rows = list(self.results.rows)
        self.results.facts.update(facts)
        text = io.StringIO()
        try:
            self.results.facts.update(comparison=benches.compare(rows))
            with contextlib.redirect_stdout(text):
                run_parts.show(rows, self.results.facts["missing"])
                benches.show(rows)
                kernel_times.show(rows)
        except Exception:  # of rows that nobody foresaw; the rows themselves are worth more than the table
            self.results.trouble(traceback.format_exc())
        try:
            (self.results.logs / "table.txt").write_text(text.getvalue())
        except OSError as error:
            self.results.trouble(error)
        self.results.write(last=True)
        say(text.getvalue() + f"\nresults: {self.packed}")
        shutil.rmtree(self.work, ignore_errors=True)


def stop_at(here, signum):
    """By a signal, or by the clock when a job cannot even be killed: what there is is packed, and this ends."""
    jobs.end_all()
    here.finish(ended_by=signal.Signals(signum).name)
    os._exit(128 + signum)


def main():
    parser = argparse.ArgumentParser(prog="first_contact.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("call", type=int, choices=CALLS, help="which of the six")
    parser.add_argument("--out", type=Path, default=Path("gpu_results"), help="folder of the result (gpu_results)")
    parser.add_argument("--seconds", type=float, help="less than the call's own limit: "
                        + ", ".join(f"{n}: {seconds}" for n, (seconds, _) in CALLS.items()))
    parser.add_argument("--jobs", type=int, default=4, help="tests that run side by side (4)")
    options = parser.parse_args()
    if not run_parts.programs_here():
        parser.error("programs.tar.xz lies not beside this script: it is started by first_contact.sh of a bundle")
    here = Call(options)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(signum, lambda number, _: stop_at(here, number))
    signal.setitimer(signal.ITIMER_REAL, max(1.0, here.deadline - time.monotonic()) + 12)
    say(f"first contact, call {options.call}: zrt {run_parts.commit_here()}, at most "
        f"{here.deadline - time.monotonic():.0f} s, result in {here.packed}")
    broken = False
    try:
        CALLS[options.call][1](here)
    except Exception:  # a fault of these scripts, or a full disk: the rows so far are still packed
        broken = True
        here.results.trouble(traceback.format_exc())
    signal.setitimer(signal.ITIMER_REAL, 0)
    rows = here.results.rows
    here.finish()
    tests = [r for r in rows if r["part"] == "kernels"]
    if 2 * sum(r["result"] not in ("passed", "REFUSED") for r in tests) > len(tests) > 0:
        say("most tests of kernels do not pass: mend these before the other calls")
    return 1 if broken or run_parts.failed(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
