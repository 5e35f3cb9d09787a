"""Runs the same configurations with two builds of zrt and compares what must be equal; started by compare_builds.sh.

A row of RUNS is what one would give to `zrt train`, by key; "then" goes on from its checkpoint with other settings, or
with what `zrt generate` or `zrt eval` makes of it. A row of PLANS is planned only.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Short names of keys and values in the rows below.
SHORT = {
    "bf16": "bf16.enabled=true", "fp16": "fp16.enabled=true",
    "llama": "model.preset=llama-tiny model.dropout=null",
    "overlap": "zero_optimization.overlap_comm=true", "serial": "zero_optimization.overlap_comm=false",
    "early": "memory.update_when=as_ready gradient_clipping=0",
    "layers": "memory.microbatch_order=layer_major", "microbatches": "memory.microbatch_order=microbatch_major",
    "again": "memory.recompute=full", "some": "memory.recompute=selective",
    "units": "memory.unit_bytes=8192", "buckets":
    "zero_optimization.reduce_bucket_size=5000 zero_optimization.allgather_bucket_size=3000",
    "persist": "zero_optimization.stage3_param_persistence_threshold=100",
    "groups": "parallel.hierarchical_ranks=2", "secondary": "zero_optimization.zero_hpz_partition_size=2",
    "mics": "zero_optimization.mics_shard_size=2",
    "nvme": "memory.nvme_path={scratch}",
    "cpu_adam": "zero_optimization.offload_optimizer.device=cpu",
    "cpu_params": "zero_optimization.offload_param.device=cpu",
    "nvme_adam": "zero_optimization.offload_optimizer.device=nvme "
    "zero_optimization.offload_optimizer.nvme_path={scratch}",
    "nvme_params": "zero_optimization.offload_param.device=nvme zero_optimization.offload_param.nvme_path={scratch}",
    "cpu_saved": "activation_checkpointing.cpu_checkpointing=true",
    "sgd": "optimizer.type=SGD optimizer.params.betas=null optimizer.params.momentum=0.9",
    "lion": "optimizer.type=Lion",
    "adafactor": "optimizer.type=Adafactor optimizer.params.betas=null optimizer.params.relative_step=false",
    "muon": "optimizer.type=Muon optimizer.params.betas=null",
    "qwen3": "model.preset=qwen3-tiny model.dropout=null", "bert": "model.preset=bert-tiny",
    "tensor": "parallel.tensor=2", "rows": "parallel.tensor=2 parallel.sequence=true",
    "stages": "parallel.pipeline=2", "gpipe": "parallel.pipeline=2 parallel.schedule=gpipe",
    "zb": "parallel.pipeline=2 parallel.schedule=zb-h1",
    "chunks": "parallel.pipeline=2 parallel.virtual_pipeline=2 model.layers=4 gradient_accumulation_steps=4",
    "decay": 'parameter_groups=[{"match":["*.bias","*ln_*"],"weight_decay":0},{"match":"wte*","lr_scale":0.5}]',
    "evals": "data.validation={corpus} run.eval_interval=2 run.eval_batches=2",
    "saved": "run.save_weights=true",
    "stage0": "zero_optimization.stage=0", "stage1": "zero_optimization.stage=1",
    "stage2": "zero_optimization.stage=2", "stage3": "zero_optimization.stage=3",
}
BASE = ("model.preset=gpt2-tiny model.dropout=0.1 train_micro_batch_size_per_gpu=2 gradient_accumulation_steps=2 "
        "gradient_clipping=0.5 optimizer.type=AdamW optimizer.params.lr=0.01 optimizer.params.betas=[0.9,0.95] "
        "optimizer.params.weight_decay=0.1 data.train={corpus} run.steps=4 run.seed=3 run.log_interval=0 "
        "run.save_weights=false")

# The number of ranks, and settings.
RUNS = """
1 stage0
2 stage0
3 stage0 bf16
4 stage0 groups
2 stage0 llama fp16 fp16.initial_scale_power=40
2 stage0 overlap buckets units
2 stage0 sgd early
2 stage1
3 stage1 bf16 overlap units buckets
4 stage1 groups bf16
4 stage3 mics units
2 stage1 fp16 adafactor
2 stage1 early overlap llama bf16
2 stage1 cpu_adam
2 stage1 cpu_adam early
2 stage1 nvme_adam bf16
2 stage1 again layers parallel.reduce_every=2
2 stage1 memory.moments=int8
2 stage1 memory.moments=bf16 bf16
2 stage2
3 stage2 bf16 overlap units buckets gradient_accumulation_steps=3
2 stage2 parallel.reduce_every=2
4 stage2 groups parallel.reduce_every=2 overlap
4 stage3 mics llama parallel.reduce_every=2
2 stage2 lion fp16
2 stage2 early cpu_adam overlap
2 stage2 nvme_adam early bf16
2 stage2 again cpu_saved
2 stage2 some llama bf16
2 stage3
3 stage3 units buckets overlap
2 stage3 bf16 overlap units
2 stage3 fp16 llama overlap
4 stage3 groups bf16 overlap
4 stage3 secondary units
4 stage3 mics overlap bf16
4 stage3 groups secondary overlap
2 stage3 persist units bf16
2 stage3 layers gradient_accumulation_steps=4 overlap
2 stage3 microbatches gradient_accumulation_steps=4 parallel.reduce_every=2
2 stage3 layers again gradient_accumulation_steps=3 bf16
2 stage3 memory.recompute=[0] llama
2 stage3 early overlap gradient_accumulation_steps=3
2 stage3 early bf16 llama again
2 stage3 cpu_adam bf16
2 stage3 cpu_adam cpu_params llama bf16 overlap
2 stage3 nvme_adam nvme_params overlap
2 stage3 nvme_adam nvme_params bf16 early
2 stage3 nvme memory.placement=host memory.update=device
2 stage3 nvme memory.placement=nvme memory.update=host bf16
2 stage3 nvme memory.placement=[{"states":["moments"],"tier":"nvme"},{"states":["activations"],"tier":"host"}]
2 stage3 memory.device_budget_bytes=1500000
2 stage3 memory.device_budget_bytes=1000000 overlap bf16
2 stage3 adafactor bf16 units
2 stage3 lion cpu_adam
2 stage3 sgd overlap
2 stage3 bf16 memory.master=none memory.moments=bf16
2 stage3 zero_optimization.stage3_max_live_parameters=20000 zero_optimization.stage3_prefetch_bucket_size=10000
2 stage3 fp8.enabled=true bf16
2 stage3 llama model.kv_heads=2 model.tied=true overlap
2 stage3 model.tied=false overlap
1 stage3 overlap cpu_adam
2 stage0 tensor
2 stage0 rows bf16 overlap
4 stage1 tensor bf16 units overlap
4 stage2 rows units buckets
4 stage3 tensor bf16 overlap again
4 stage3 rows overlap units memory.recompute=selective
4 stage3 tensor llama cpu_adam overlap
4 stage3 rows qwen3 bf16 overlap
2 stage3 qwen3 bf16 overlap
4 stage3 tensor adafactor
4 stage2 rows muon bf16
2 stage2 muon units
3 stage3 muon bf16 overlap
2 stage0 stages
4 stage1 stages bf16
4 stage2 gpipe units gradient_accumulation_steps=3
4 stage3 stages overlap again
4 stage1 zb bf16 gradient_accumulation_steps=4
4 stage2 zb early gradient_accumulation_steps=3
2 stage0 chunks
4 stage3 chunks bf16 overlap
4 stage1 stages tensor bf16
8 stage3 stages rows overlap units
4 stage2 stages llama cpu_adam
4 stage1 stages model.tied=true fp16
2 stage1 bert bf16
4 stage3 bert rows overlap
2 stage2 model.preset=megatron-bert-tiny again
2 stage1 decay
2 stage3 decay bf16 overlap muon
2 stage3 evals bf16
4 stage1 evals rows stages
2 stage3 saved bf16 overlap then generate then eval
4 stage2 saved tensor then generate then eval
4 stage1 saved stages llama then eval then generate
2 stage2 saved bert then eval
2 stage2 saved qwen3 then generate
4 stage3 rows run.steps=2 run.checkpoint_interval=2 then 2 stage1 stages run.checkpoint_interval=2
2 stage1 run.steps=2 run.checkpoint_interval=2 then 3 stage3 run.checkpoint_interval=2
2 stage3 bf16 run.steps=2 run.checkpoint_interval=2 then 2 stage3 bf16 overlap run.checkpoint_interval=2
3 stage2 llama adafactor run.steps=2 run.checkpoint_interval=2 then 1 stage0 llama adafactor run.checkpoint_interval=2
"""

# On the emulated GPU.
GPU_RUNS = """
1 stage0
2 stage1 bf16 overlap
2 stage2 early cpu_adam
2 stage3 bf16 overlap units
2 stage3 llama fp16 again
2 stage3 cpu_adam cpu_params bf16 overlap
2 stage3 nvme_adam bf16
4 stage1 rows stages bf16
2 stage2 muon bf16
2 stage3 saved qwen3 bf16 then generate
2 stage3 fp8.enabled=true bf16
2 stage3 adafactor layers gradient_accumulation_steps=3
"""

PLANS = """
8 stage3 model.preset=gpt2-1.5b train_batch_size=64 gradient_accumulation_steps=null bf16
8 stage3 model.preset=llama-2-7b model.dropout=null bf16 memory.device_budget_bytes=17179869184 memory.host_budget_bytes=34359738368 nvme
4 stage2 model.preset=llama-3b model.dropout=null bf16 memory.device_budget_bytes=42949672960 memory.recompute=auto
16 stage1 model.preset=gpt2-1.5b bf16 parallel.cluster=dgx-a100 overlap
16 stage3 model.preset=llama-3-8b model.dropout=null bf16 parallel.cluster=dgx-a100 parallel.hierarchical_ranks=8 overlap
"""
LARGE = ("1024 stage3 bf16 train_batch_size=1024 train_micro_batch_size_per_gpu=1 gradient_accumulation_steps=null "
         "memory.unit_bytes=67108864 model.preset=null model.layers=96 model.hidden=29440 model.heads=230 "
         "model.sequence=1024 model.vocab=50304 model.dropout=0")


def rows(text):
    return [line for line in text.splitlines() if line]


def arguments(row, places):
    """Ranks and --set options of a row; a later setting replaces an earlier one of its key, null takes it away."""
    ranks, *words = row.split()
    settings = {}
    for word in BASE.split() + [part for word in words for part in SHORT.get(word, word).split()]:
        key, value = word.split("=", 1)
        settings[key] = value.replace("{corpus}", places["corpus"]).replace("{scratch}", places["scratch"])
    options = ["--ranks", ranks]
    for key, value in settings.items():
        if value != "null":
            options += ["--set", f"{key}={value}"]
    return options


def run(command):
    return subprocess.run(command, capture_output=True, text=True)


def without(value, names):
    if isinstance(value, dict):
        return {k: without(v, names) for k, v in value.items() if k not in names}
    return [without(v, names) for v in value] if isinstance(value, list) else value


def evidence_of(folder):
    """What two builds must agree on in the files of a run: bits, bytes, but no times and no names of ops."""
    summary = json.loads((folder / "summary.json").read_text())
    memory = json.loads((folder / "memory.json").read_text())
    steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    names = ("exit_reason", "steps", "final_loss", "state_xxh3", "kernel_table_xxh3", "comm_bytes", "moved_bytes",
             "packing_overhead")
    return {
        "summary": {name: summary.get(name) for name in names},
        "memory": without(memory["ranks"], {"peak_op", "peak_phase"}),
        "steps": [{name: step.get(name) for name in ("step", "loss", "grad_norm", "lr", "loss_scale")} for step in steps],
    }


def differences(a, b, where=""):
    if isinstance(a, dict) and isinstance(b, dict):
        return [d for key in sorted(set(a) | set(b)) for d in differences(a.get(key), b.get(key), f"{where}.{key}")]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [d for i, (x, y) in enumerate(zip(a, b)) for d in differences(x, y, f"{where}[{i}]")]
    return [] if a == b else [f"{where.lstrip('.')}: {json.dumps(a)} and {json.dumps(b)}"]


class Comparison:
    def __init__(self, folder, builds):
        self.folder, self.builds, self.failed, self.compared = folder, builds, 0, 0
        text = folder / "text.txt"
        draw = random.Random(1)
        words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(1, 9))) for _ in range(400)]
        text.write_text(" ".join(draw.choices(words, k=20000)))
        made = run([builds[0] / "zrt", "data", "build", "--out", folder / "corpus", text])
        if made.returncode != 0:
            sys.exit(f"no dataset: {made.stderr}")

    def outcome(self, build, row, number, device):
        work = self.folder / f"{number}_{build}"
        places = {"corpus": str(self.folder / "corpus"), "scratch": str(work / "scratch")}
        (work / "scratch").mkdir(parents=True)
        evidence = {}
        for part in row.split(" then "):
            if part in ("generate", "eval"):
                options = ["--tokens", "12"] if part == "generate" else ["--data", places["corpus"]]
                used = run([self.builds[build] / "zrt", part, work / "run", "--json", "--device", device, *options])
                evidence[part] = without(json.loads(used.stdout or "{}"), {"seconds", "tokens_per_second"})
                if used.returncode != 0:
                    done = used
                    break
                continue
            done = run([self.builds[build] / "zrt", "train", self.folder / "empty.json",
                        "--out", work / "run", "--resume", "auto", "--device", device, *arguments(part, places)])
            if done.returncode != 0:
                break
        evidence["exit_code"] = done.returncode
        if done.returncode == 0:
            evidence |= evidence_of(work / "run")
        shutil.rmtree(work)
        return evidence, done.stderr

    def plan(self, build, row, number, _, *options):
        work = self.folder / f"plan_{number}_{build}"
        work.mkdir()
        places = {"corpus": str(self.folder / "corpus"), "scratch": str(work)}
        done = run([self.builds[build] / "zrt", "plan", self.folder / "empty.json", "--json", *options,
                    *arguments(row, places)])
        shutil.rmtree(work)
        evidence = {"exit_code": done.returncode}
        if done.stdout:
            evidence["plan"] = without(json.loads(done.stdout), {"peak_op", "peak_phase", "plan_seconds"})
        return evidence, done.stderr

    def compare(self, rows, how, device="cpu", done=(0,)):
        def both(numbered):
            number, row = numbered
            number = f"{device}{number}"
            return row, how(0, row, number, device), how(1, row, number, device)

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for row, (a, told_a), (b, told_b) in pool.map(both, enumerate(rows)):
                self.compared += 1
                found = differences(a, b)
                if a["exit_code"] not in done or b["exit_code"] not in done:
                    found.append(f"does not run: {told_a or told_b}")
                self.failed += bool(found)
                for line in found[:6]:
                    print(f"{row}\n    {line}", flush=True)
                if sys.stderr.isatty():
                    print(f"\r{self.compared} compared", end="", file=sys.stderr)

    def plan_times(self, rounds):
        seconds = ([], [])
        for _ in range(rounds):
            for build in (0, 1):
                begin = time.monotonic()
                evidence, told = self.plan(build, LARGE, "large", "", "--cluster", "dgx-a100")
                seconds[build].append(time.monotonic() - begin)
                if evidence["exit_code"] not in (0, 1):
                    sys.exit(f"the large plan is refused: {told}")
        a, b = (statistics.median(s) for s in seconds)
        print(f"zrt plan of 10^12 parameters on 1,024 ranks, median of {rounds}: {a:.2f} and {b:.2f} s, ratio {b / a:.2f}")


def build_of(name, emulated):
    """The folder with the program of a build folder, or of a commit, which is built where it has not been yet."""
    folder = pathlib.Path(name)
    if (folder / "zrt").is_file():
        return folder.resolve()
    if name == "-":
        tree = ROOT
    else:
        found = run(["git", "-C", str(ROOT), "rev-parse", "--verify", "--short", f"{name}^{{commit}}"])
        if found.returncode != 0:
            sys.exit(f"'{name}' is neither a folder with the program zrt in it nor a commit")
        tree = ROOT / "build/compare" / found.stdout.strip()
        if not tree.exists():
            subprocess.run(["git", "-C", str(ROOT), "worktree", "prune"], check=True)
            subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(tree)], check=True)
            subprocess.run(["git", "-C", str(tree), "checkout", "-q", "--detach", found.stdout.strip()], check=True)
    preset = "emulated" if emulated else "release"
    print(f"building {preset} of {name}", file=sys.stderr)
    # The paths of the tree must not be part of the objects: both commits share a compiler cache.
    cuda = [] if emulated else ["-DZRT_CUDA=OFF"]
    for command in (["cmake", "--preset", preset, "-DZRT_TESTS=OFF", "-B", f"build/compared_{preset}", *cuda],
                    ["cmake", "--build", f"build/compared_{preset}", "--target", "zrt"]):
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{name} does not build:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return tree / f"build/compared_{preset}"


def main():
    parser = argparse.ArgumentParser(prog="compare_builds.sh", description=__doc__.splitlines()[0])
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("--emulated", action="store_true", help="on the emulated GPU, with builds of the preset of that name")
    parser.add_argument("--rounds", type=int, default=3, help="of timing a large plan; 0: none")
    options = parser.parse_args()
    builds = [build_of(name, options.emulated) for name in (options.a, options.b)]
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/tmp")) as folder:
        comparison = Comparison(pathlib.Path(folder), builds)
        (comparison.folder / "empty.json").write_text("{}")
        if options.emulated:
            comparison.compare(rows(GPU_RUNS), comparison.outcome, "cuda")
        else:
            comparison.compare(rows(RUNS), comparison.outcome)
            comparison.compare(rows(PLANS), comparison.plan, done=(0, 1))  # 1: does not fit
            if options.rounds > 0:
                comparison.plan_times(options.rounds)
    print(f"{comparison.compared} compared, {comparison.failed} differ, {time.monotonic() - begin:.0f} s")
    sys.exit(1 if comparison.failed else 0)


main()
