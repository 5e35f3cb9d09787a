"""Programs with time limits, side by side, and what their results are."""
import json
import os
import re
import shutil
import signal
import subprocess
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
    seconds: float | None = None


def find_program(name, *folders):
    return shutil.which(name) or next((f"{f}/{name}" for f in folders if os.access(f"{f}/{name}", os.X_OK)), None)


def environment(ours):
    env = dict(os.environ)
    if ours and os.environ.get("ZRT_LIBRARIES"):
        before = env.get("LD_LIBRARY_PATH")
        env["LD_LIBRARY_PATH"] = os.environ["ZRT_LIBRARIES"] + (":" + before if before else "")
    return env


def run_limited(command, seconds, log, ours=True):
    """The exit status, or None for a program that was ended because its time was over. Its children end with it."""
    with open(log, "wb") as file:
        file.write(("+ " + " ".join(command) + "\n").encode())
        file.flush()
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   env=environment(ours), start_new_session=True)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            for ending in (signal.SIGTERM, signal.SIGKILL):
                os.killpg(process.pid, ending)
                try:
                    process.wait(3)
                    break
                except subprocess.TimeoutExpired:
                    continue
            return None


def judge(code, text):
    """The row of the table: Catch2's counts of test cases and the names of those that failed."""
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
            row["note"] = next((line[:100] for line in reversed(text.splitlines()) if line.strip()), "")
    if (skipped := text.count("skipped: this test")) > 0:
        row["skipped"] = skipped
    if "Device not supported" in text or "Unable to attach" in text:
        row.update(result="REFUSED", note="compute-sanitizer refuses this machine")
    return row


def run_one(job, deadline, logs, part):
    if job.command is None:
        return {"program": job.program, "result": "REFUSED", "seconds": 0, "note": job.note}
    begin = time.monotonic()
    left = min(deadline - begin, job.seconds or 1e9)
    if left < 2:
        return {"program": job.program, "result": "NOT RUN", "seconds": 0, "note": "the part's time was over"}
    log = logs / (part + "_" + re.sub(r"[^a-z0-9_.]+", "_", job.program) + ".txt")
    try:
        code = run_limited(job.command, left, log, job.ours)
    except OSError as error:
        return {"program": job.program, "result": "FAILED", "seconds": 0, "note": str(error)}
    text = log.read_text(errors="replace")
    row = {"program": job.program, "seconds": time.monotonic() - begin, **judge(code, text), "log": log.name}
    if job.json and code == 0:
        row["data"] = read_json(text)
    return row


def read_json(text):
    """The JSON at the end of what a program printed."""
    for start in [m.start() for m in re.finditer(r"^\{", text, re.M)]:
        try:
            return json.loads(text[start:])
        except json.JSONDecodeError:
            continue
    return None


def run(jobs, side_by_side, deadline, logs, part):
    def one(job):
        row = run_one(job, deadline, logs, part)
        print(f"{part}: {row['program']}: {row['result']} ({row['seconds']:.1f} s)", flush=True)
        return row

    with ThreadPoolExecutor(side_by_side) as pool:
        return list(pool.map(one, jobs))
