"""Programs with time limits, side by side, and what their results are."""
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass


@dataclass
class Job:
    program: str
    command: list | None  # None: cannot run here, `note` says why
    ours: bool = True  # needs the bundle's libraries
    json: bool = False  # prints JSON, which becomes the result's data
    note: str = ""
    seconds: float | None = None  # its own limit, beside that of the part
    may_not_fit: bool = False  # for want of memory, which is then no failure
    counts: bool = False  # a test program: one that counts no test case has tested nothing


def find_program(name, *folders):
    return shutil.which(name) or next((f"{f}/{name}" for f in folders if os.access(f"{f}/{name}", os.X_OK)), None)


def environment(ours):
    env = dict(os.environ)
    if ours and os.environ.get("ZRT_LIBRARIES"):
        before = env.get("LD_LIBRARY_PATH")
        env["LD_LIBRARY_PATH"] = os.environ["ZRT_LIBRARIES"] + (":" + before if before else "")
    return env


# Of the jobs that run, so that they can be ended with this program.
running, running_lock = set(), threading.RLock()
stopping = False  # nothing begins any more, and what is being ended is no result


def signal_group(process, number):
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def end(process):
    """First asked, then not."""
    signal_group(process, signal.SIGTERM)
    try:
        process.wait(3)
    except subprocess.TimeoutExpired:
        signal_group(process, signal.SIGKILL)
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            pass  # it hangs in the kernel; the next job need not wait for it


def end_all():
    global stopping
    with running_lock:  # what has begun is listed, and nothing begins afterwards
        stopping = True
        for process in running:
            signal_group(process, signal.SIGKILL)


def run_limited(command, seconds, log, ours=True):
    """The exit status, or None for a program that was ended because its time was over. Its children end with it,
    however it ends."""
    with open(log, "wb") as file:
        file.write(("+ " + " ".join(command) + "\n").encode())
        file.flush()
        with running_lock:
            if stopping:
                raise InterruptedError("the call was ending")
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                       env=environment(ours), start_new_session=True)
            running.add(process)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            end(process)
            return None
        finally:
            signal_group(process, signal.SIGKILL)
            with running_lock:
                running.discard(process)


def judge(code, text, counts):
    """The row of the table: Catch2's counts of test cases and the names of those that failed. The first line of `text`
    is the command."""
    row = {"result": "TIMEOUT" if code is None else "passed" if code == 0 else "FAILED", "exit": code}
    if found := re.search(r"All tests passed \(.* in (\d+) test cases?\)", text):
        row.update(passed=int(found[1]), failed=0)
    elif found := re.search(r"^test cases: +\d+ (.*)$", text, re.M):
        count = {what: int(number) for number, what in re.findall(r"(\d+) (passed|failed)", found[1])}
        row.update(passed=count.get("passed", 0), failed=count.get("failed", 0))
    if code != 0:
        named = re.findall(r"^-{79}\n(.+)\n(?:  .*\n)*-{79}\n\S*:\d+\n\.{79}\n\n\S*:\d+: FAILED", text, re.M)
        row["failures"] = list(dict.fromkeys(name.strip() for name in named))
        if not row["failures"]:
            last = next((line[:100] for line in reversed(text.splitlines()[1:]) if line.strip()), "")
            row["note"] = ": ".join(filter(None, [signal_name(code), last]))
    elif counts and row.get("passed", 0) + row.get("failed", 0) == 0:
        row.update(result="FAILED", note="it counts no test case")
    if (skipped := text.count("skipped: this test")) > 0:
        row["skipped"] = skipped
    if "Device not supported" in text or "Unable to attach" in text:
        row.update(result="REFUSED", note="compute-sanitizer refuses this machine")
    return row


def signal_name(code):
    try:
        return signal.Signals(-code).name if code is not None and code < 0 else ""
    except ValueError:
        return f"signal {-code}"


def run_one(job, deadline, logs, part):
    if job.command is None:
        return {"program": job.program, "result": "REFUSED", "seconds": 0, "note": job.note}
    begin = time.monotonic()
    left = min(deadline - begin, job.seconds or 1e9)
    if left < 2:
        return {"program": job.program, "result": "NOT RUN", "seconds": 0, "note": "the time was over"}
    log = logs / (part + "_" + re.sub(r"[^a-z0-9_.]+", "_", job.program.lower()) + ".txt")
    try:
        code = run_limited(job.command, left, log, job.ours)
    except OSError as error:
        return {"program": job.program, "result": "FAILED", "seconds": 0, "note": str(error)}
    text = log.read_text(errors="replace")
    row = {"program": job.program, "seconds": time.monotonic() - begin, **judge(code, text, job.counts), "log": log.name}
    if code is None:
        row["note"] = f"ended after {left:.0f} s"
    if job.may_not_fit and row["result"] == "FAILED" and "memory" in row.get("note", "").lower():
        row["result"] = "no fit"
    if job.json and (data := read_json(text)):  # also of one that did not end: the best so far
        row["data"] = data
    return row


def read_json(text):
    """The last JSON object that begins a line and is whole."""
    decoder = json.JSONDecoder()
    for start in reversed([m.start() for m in re.finditer(r"^\{", text, re.M)]):
        try:
            return decoder.raw_decode(text, start)[0]
        except json.JSONDecodeError:
            continue
    return None


def run(jobs, side_by_side, deadline, results, part, **more):
    """Each job's row, which is also written down as soon as there is one."""
    def one(job):
        row = {"part": part, **run_one(job, deadline, results.logs, part), **more}
        if not stopping:
            results.add(row)
        return row

    with ThreadPoolExecutor(side_by_side) as pool:
        return list(pool.map(one, jobs))
