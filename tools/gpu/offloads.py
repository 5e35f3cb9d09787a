"""Models that do not fit the GPU: zrt bench train with states on the host and in a file, sized for the machine at hand."""
import json
import sys

import jobs
import machine

GIB = machine.GIB
# Layers of this width have 315 million parameters, embedding and head 328 million.
MODEL = {"hidden": 5120, "heads": 40, "kv_heads": 8, "ffn": 16384, "sequence": 1024}
FORMS = {"exact": [], "small": ["memory.moments=int8", "memory.master=none"], "bf16": ["memory.moments=bf16"]}
OPTIMIZER_ON_HOST = json.dumps([{"states": ["master", "moments"], "tier": "host"}])
# `layers`: the most that are asked for, which an H200 with 118 GiB of the host holds as `zrt plan` says
# (docs/benchmarks/offload.md). `needs`: GiB of a layer there, of all tiers together or of single ones, by which smaller
# machines get fewer. 14b updates on the GPU: its states cross the link faster than 16 cores can update them.
RUNS = {
    "17b": {"layers": 54, "batch": 4, "form": "exact", "sets": ["memory.recompute=full"],
            "needs": [(("device", "host", "nvme"), 265.0 / 54)]},
    "40b": {"layers": 126, "batch": 4, "form": "small", "sets": ["memory.recompute=full"],
            "needs": [(("device", "host"), 231.5 / 126)]},
    "14b": {"layers": 46, "batch": 8, "form": "bf16",
            "sets": ["gradient_accumulation_steps=16", f"memory.placement={OPTIMIZER_ON_HOST}",
                     "memory.update=device"],
            "needs": [(("device",), 123.6 / 46), (("host",), 110.3 / 46)]},
}
ROUNDS = 2


def layers_of(name, budgets):
    """97 of 100 of what there is: packing and the parts that do not shrink with the layers take some."""
    run = RUNS[name]
    fits = [0.97 * sum(budgets[tier] for tier in tiers) / GIB / each for tiers, each in run["needs"]]
    return max(1, min(run["layers"], int(min(fits))))


def command_of(zrt, name, budgets, scratch):
    run = RUNS[name]
    sets = [f"model.{key}={value}" for key, value in {"layers": layers_of(name, budgets), **MODEL}.items()]
    sets += [f"memory.{tier}_budget_bytes={bytes_}" for tier, bytes_ in budgets.items()]
    sets += [f"memory.nvme_path={scratch}"] + FORMS[run["form"]] + run["sets"]
    command = [zrt, "bench", "train", "--device", "cuda", "--model", "llama-3b", "--ranks", "1",
               "--stages", "0", "--dtype", "bf16", "--micro-batch", str(run["batch"]), "--rounds", str(ROUNDS), "--json"]
    for item in sets:
        command += ["--set", item]
    return command


def run_offload(programs, here, results, names, deadline, scratch):
    """The facts first: the rate of copies from and to pinned memory is what those of the runs are held against."""
    jobs.run([jobs.Job("facts", [sys.executable, str(here / "facts.py")], ours=False, json=True, seconds=90)], 1, deadline,
             results, "offload")
    scratch.mkdir(parents=True, exist_ok=True)
    budgets = machine.budgets(scratch)
    for name in names:
        if budgets["device"] == 0:
            results.add({"part": "offload", "program": f"zrt offload {name}", "result": "REFUSED", "seconds": 0,
                         "note": "nvidia-smi lists no GPU, by whose memory the run is sized"})
            continue
        job = jobs.Job(f"zrt offload {name}", command_of(str(programs / "bin" / "zrt"), name, budgets, scratch), json=True)
        jobs.run([job], 1, deadline, results, "offload", run=name, command=" ".join(["zrt"] + job.command[1:]))


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
