"""What the machine at hand has, for the sizes of what is run on it."""
import os
import shutil
import subprocess

import jobs

GIB = 1 << 30
# Of a GPU's memory: what its context and libraries take, and room for what a plan does not see.
DEVICE_RESERVE = 4 * GIB
# Of the host's: pinned memory cannot be given back to the system when it needs some; beyond this size pinning takes
# long and has been seen to be refused.
HOST_SHARE, HOST_MOST = 0.78, 100 * GIB
DISK_SHARE, DISK_MOST = 0.75, 40 * GIB


def device_bytes():
    """Of the first GPU; 0 where none is seen. ZRT_DEVICE_BYTES says otherwise, for tests."""
    if os.environ.get("ZRT_DEVICE_BYTES"):
        return int(os.environ["ZRT_DEVICE_BYTES"])
    program = jobs.find_program("nvidia-smi", "/usr/local/nvidia/bin", "/usr/bin")
    if not program:
        return 0
    try:
        text = subprocess.run([program, "--query-gpu=memory.total", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, timeout=30).stdout
        return int(text.split("\n")[0]) << 20
    except (ValueError, OSError, subprocess.TimeoutExpired):
        return 0


def host_bytes():
    """Free, of the machine or of the container that this runs in."""
    if os.environ.get("ZRT_HOST_BYTES"):
        return int(os.environ["ZRT_HOST_BYTES"])
    free = next((int(line.split()[1]) << 10 for line in open("/proc/meminfo") if line.startswith("MemAvailable")), 0)
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            free = min(free, int(open(limit).read()))
        except (OSError, ValueError):
            continue  # no limit, or "max"
    return free


def budgets(scratch):
    """Bytes that a run may plan for each tier. Folders above `scratch` must exist."""
    return {"device": max(0, device_bytes() - DEVICE_RESERVE),
            "host": min(HOST_MOST, int(HOST_SHARE * host_bytes())),
            "nvme": min(DISK_MOST, int(DISK_SHARE * shutil.disk_usage(scratch).free))}
