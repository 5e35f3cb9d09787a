"""What a call or a set of parts found, on disk after every job: results.json, the logs, and all of it in one file."""
import io
import json
import os
import sys
import tarfile
import threading
import time
from pathlib import Path

LOG_BYTES = 256 << 10  # of one log in the packed file; of longer ones its beginning and its end
PACK_SHARE = 20  # of the time at most one part goes into packing while jobs run
PACK_WAIT = 10  # seconds after which what a job found is packed in any case: one packing may stall


def say(text):
    """To stdout, which may be gone: nobody reading on is no reason to lose results."""
    try:
        print(text, flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w")


class Results:
    """`work` holds results.json and logs/; with `packed` everything is also packed there, anew after jobs. What cannot
    be written is named among the facts as `trouble`, and whatever else can be is."""

    def __init__(self, work, packed=None, **facts):
        self.work, self.packed, self.facts = Path(work), packed, facts
        self.logs = self.work / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.rows, self.lock, self.next_pack = [], threading.RLock(), 0.0
        self.waiting = self.ended = False
        self.write()

    def add(self, row):
        with self.lock:
            self.rows.append(row)
            self.write()
            say(f"{row['part']}: {row['program']}: {row['result']} ({row['seconds']:.1f} s)"
                + (f": {row['note']}" if row.get("note") else ""))

    def content(self):
        return json.dumps({**self.facts, "results": self.rows}, indent=1).encode()

    def trouble(self, error):
        known = self.facts.setdefault("trouble", [])
        if str(error) not in known:
            known.append(str(error))
            say(f"trouble: {error}")

    def write(self, last=False):
        with self.lock:
            try:
                replace(self.work / "results.json", self.content())
            except OSError as error:
                self.trouble(error)
            begin, self.ended = time.monotonic(), last
            if self.packed and (last or begin >= self.next_pack):
                self.pack()
                end = time.monotonic()
                self.next_pack = end + min(PACK_WAIT, (PACK_SHARE - 1) * (end - begin))
            elif self.packed and not self.waiting:
                # The next job may hang: what this one found does not wait for it.
                self.waiting = True
                timer = threading.Timer(self.next_pack - begin, self.write_late)
                timer.daemon = True
                timer.start()

    def write_late(self):
        with self.lock:
            self.waiting = False
            if not self.ended:
                self.write()

    def pack(self):
        """The old file is there until the new one is whole: a process that is killed in between leaves one of them.
        Without room for the logs the results go alone."""
        for logs in (True, False):
            try:
                return self.pack_with(logs)
            except OSError as error:
                self.trouble(error)

    def pack_with(self, logs):
        part = Path(str(self.packed) + ".part")
        try:
            with tarfile.open(part, "w:gz", compresslevel=4) as tar:
                add_bytes(tar, "results.json", self.content())
                for log in sorted(self.logs.iterdir()) if logs else []:
                    add_bytes(tar, "logs/" + log.name, read_log(log))
            os.replace(part, self.packed)
        finally:
            part.unlink(missing_ok=True)


def replace(path, content):
    part = Path(str(path) + ".part")
    part.write_bytes(content)
    os.replace(part, path)


def read_log(log):
    size = log.stat().st_size
    with open(log, "rb") as file:
        content = file.read(min(size, LOG_BYTES // 2))
        if size > LOG_BYTES:
            file.seek(-(LOG_BYTES // 2), os.SEEK_END)
            content += f"\n[{size - LOG_BYTES} bytes left out]\n".encode()
        return content + file.read(LOG_BYTES)


def add_bytes(tar, name, content):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime = len(content), int(time.time())
    tar.addfile(entry, io.BytesIO(content))
