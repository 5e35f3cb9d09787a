"""Several GPUs of one machine: the tests that use more than one, and runs of zrt whose ranks are threads, processes and
processes over NCCL, which must all end with the same weights. Where there is one GPU, processes share it."""
import subprocess

import jobs

STAGES = {"zero0": "zero_optimization.stage=0", "zero3": "zero_optimization.stage=3"}
TESTS = [("core/gpus", "test_core"), ("core/peer_memory", "test_core"), ("comm/device_sum", "test_comm"),
         ("comm/process_gpu", "test_comm"), ("runtime/engine/several_gpus", "test_runtime"),
         ("runtime/engine/invariance", "test_runtime")]
# Runs in which processes share one GPU; shared_gpu.sh says what each is.
SHARED = ["nccl2_zero0", "hosts4", "processes8", "kill8", "nccl2_zero3", "line8", "kill_nccl2", "stop_nccl2", "nccl4",
          "processes2", "nccl2_fast"]


def count():
    """GPUs of this machine; 0 where none is seen."""
    program = jobs.find_program("nvidia-smi", "/usr/local/nvidia/bin", "/usr/bin")
    if not program:
        return 0
    try:
        text = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=30).stdout
        return sum(line.startswith("GPU ") for line in text.splitlines())
    except (OSError, subprocess.TimeoutExpired):
        return 0


def topology_job():
    """Which GPUs are near which, and which can read which."""
    return jobs.Job("topology", ["bash", "-c", "nvidia-smi topo -m; nvidia-smi topo -p2p r; nvidia-smi -L"], ours=False)


def test_jobs(programs, seconds):
    return [jobs.Job(name, [str(programs / "bin" / program), "-#", f"[#{name.split('/')[-1]}_test]", "--device", "cuda",
                            "--durations", "yes"], seconds=seconds, counts=True) for name, program in TESTS]


def run_jobs(programs, folder, work, gpus):
    """Each trains in three ways with as many ranks as GPUs and fails where their weights differ. A way that cannot run
    fails with its own message; the others are compared all the same."""
    zrt = programs / "bin" / "zrt"
    data = f"""set -e; mkdir -p {work}/several; cd {work}/several
        for i in $(seq 4000); do echo "line $((i * 7919 % 1000)) of a text that repeats itself"; done >text.txt
        {zrt} data build --force --out corpus --validation 0.2 text.txt"""
    made = [jobs.Job("zrt data", ["bash", "-c", data], seconds=60)]
    for name, setting in STAGES.items():
        script = f"""cd {work}/several; failed=0
            sets="--device cuda --set train_batch_size={4 * gpus} --set train_micro_batch_size_per_gpu=2 --set {setting}"
            {zrt} train {folder}/train.json --ranks {gpus} $sets --out threads_{name} || failed=1
            {zrt} ranks {gpus} train {folder}/train.json $sets --out processes_{name} || failed=1
            {zrt} ranks {gpus} train {folder}/train.json $sets --transport nccl --out nccl_{name} || failed=1
            grep -H state_xxh3 *_{name}/summary.json; grep -H tokens_per_second *_{name}/summary.json
            [ "$(grep -h state_xxh3 *_{name}/summary.json | sort -u | wc -l)" = 1 ] || {{ echo "weights differ"; failed=1; }}
            exit $failed"""
        made.append(jobs.Job(f"zrt train, {gpus} GPUs, {name}: threads, processes, NCCL", ["bash", "-c", script],
                             seconds=180))
    return made


def shared_jobs(programs, folder, work, cases=SHARED):
    """Each compares processes that share the GPU with threads that do, some with a rank that is killed or stopped."""
    (work / "shared").mkdir(parents=True, exist_ok=True)
    return [jobs.Job(f"one GPU shared: {case}", ["bash", "-c", f"cd {work}/shared; exec {folder}/shared_gpu.sh {programs} "
                                                 f"{folder} {case}"], seconds=150) for case in cases]
