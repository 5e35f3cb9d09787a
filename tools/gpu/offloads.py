"""Models that do not fit the GPU: zrt bench train with states on the host and in a file, within what an H200 machine has."""
import json
import sys

import jobs

GIB = 1 << 30
# Of the machine that the part is made for: one H200 with 139 GiB, 128 GiB of host memory, 64 GiB of disk.
BUDGETS = {"device": 136 * GIB, "host": 118 * GIB, "nvme": 40 * GIB}
# Layers of this width have 315 million parameters, embedding and head 328 million.
MODEL = {"hidden": 5120, "heads": 40, "kv_heads": 8, "ffn": 16384, "sequence": 1024}
FORMS = {"exact": [], "small": ["memory.moments=int8", "memory.master=none"], "bf16": ["memory.moments=bf16"]}
OPTIMIZER_ON_HOST = json.dumps([{"states": ["master", "moments"], "tier": "host"}])
# They fit as `zrt plan` says (docs/benchmarks/offload.md). 14b updates on the GPU: its states cross the link faster than
# 16 cores can update them.
RUNS = {
    "17b": {"layers": 54, "batch": 4, "form": "exact", "sets": ["memory.recompute=full"]},
    "40b": {"layers": 126, "batch": 4, "form": "small", "sets": ["memory.recompute=full"]},
    "14b": {"layers": 46, "batch": 8, "form": "bf16",
            "sets": ["gradient_accumulation_steps=16", f"memory.placement={OPTIMIZER_ON_HOST}",
                     "memory.update=device"]},
}
ROUNDS = 2


def command_of(zrt, name, scratch):
    run = RUNS[name]
    sets = [f"model.{key}={value}" for key, value in {"layers": run["layers"], **MODEL}.items()]
    sets += [f"memory.{tier}_budget_bytes={bytes_}" for tier, bytes_ in BUDGETS.items()]
    sets += [f"memory.nvme_path={scratch}"] + FORMS[run["form"]] + run["sets"]
    command = [zrt, "bench", "train", "--device", "cuda", "--model", "llama-3b", "--ranks", "1",
               "--stages", "0", "--dtype", "bf16", "--micro-batch", str(run["batch"]), "--rounds", str(ROUNDS), "--json"]
    for item in sets:
        command += ["--set", item]
    return command


def run_offload(programs, here, logs, names, deadline, scratch):
    """The facts first: the rate of copies from and to pinned memory is what those of the runs are held against."""
    rows = jobs.run([jobs.Job("facts", [sys.executable, str(here / "facts.py")], ours=False, json=True)], 1, deadline,
                    logs, "offload")
    scratch.mkdir(parents=True, exist_ok=True)
    for name in names:
        job = jobs.Job(f"zrt offload {name}", command_of(str(programs / "bin" / "zrt"), name, scratch), json=True)
        row = jobs.run([job], 1, deadline, logs, "offload")[0]
        row.update(run=name, command=" ".join(["zrt"] + job.command[1:]))
        rows.append(row)
    return rows


def compare(results):
    """One row for each run, with the rate of its copies ÷ that of one large copy of pinned memory."""
    facts = next((r["data"] for r in results if r["program"] == "facts" and r.get("data")), {})
    pinned = facts.get("copy_bytes_per_second", {})
    rows = []
    for result in results:
        if "run" not in result or not result.get("data"):
            continue
        data, stage = result["data"], result["data"]["stages"][0]
        row = {"run": result["run"], "parameters": data["parameters"], "command": result["command"]}
        for key in ("tokens_per_second", "step_seconds", "exposed_io_seconds", "setup_seconds", "moved_bytes",
                    "copy_bytes_per_second", "tiers"):
            row[key] = stage[key]
        row["of_pinned"] = {to: stage["copy_bytes_per_second"][to] / pinned[of]
                            for to, of in (("to_device", "host_to_device"), ("to_host", "device_to_host"))
                            if pinned.get(of)}
        rows.append(row)
    return rows


def show(results):
    for row in compare(results):
        peaks = ", ".join(f"{tier} {of['planned_bytes'] / GIB:.2f}/{of['measured_bytes'] / GIB:.2f} GiB"
                          for tier, of in row["tiers"].items())
        moved = ", ".join(f"{what} {bytes_ / 1e9:.1f} GB" for what, bytes_ in row["moved_bytes"].items())
        rates = ", ".join(f"{to} {rate / 1e9:.1f} GB/s" + (f" ({row['of_pinned'][to]:.2f} of pinned)"
                                                           if to in row["of_pinned"] else "")
                          for to, rate in row["copy_bytes_per_second"].items())
        print(f"\noffload {row['run']}: {row['parameters'] / 1e9:.2f}B parameters, {row['tokens_per_second']:.0f} tokens/s, "
              f"step {row['step_seconds']['median']:.2f} s, exposed io {row['exposed_io_seconds']:.2f} s, set up in "
              f"{row['setup_seconds']:.0f} s\n  planned/measured: {peaks}\n  moved in a step: {moved}\n  copies: {rates}")
