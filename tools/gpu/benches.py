"""The benchmarks: zrt bench train with the best of a few micro-batches, the PyTorch peer, and both side by side."""
import sys
import time

import jobs

# Samples of 1,024 tokens at a time that are tried, most promising first, and the aim: model FLOP/s ÷ the rate of a
# large bf16 product.
MODELS = {
    "gpt2-124m": {"batches": [32, 64, 16], "floor": 0.40},
    "gpt2-1.5b": {"batches": [16, 32, 8], "floor": 0.55},
    "llama-3b": {"batches": [8, 16, 4], "floor": 0.55},
}
ROUNDS = 20


def zrt_command(programs, model, batch, rounds):
    return [str(programs / "bin" / "zrt"), "bench", "train", "--device", "cuda", "--model", model, "--ranks", "1",
            "--stages", "0", "--dtype", "bf16", "--micro-batch", str(batch), "--rounds", str(rounds), "--set",
            "model.sequence=1024", "--set", "gradient_clipping=1.0", "--json"]


def run_bench(programs, here, logs, models, deadline):
    rows = [measure_matrix_rate(here, logs, deadline)]
    for done, model in enumerate(models):
        now = time.monotonic()
        rows += bench_model(programs, logs, model, now + (deadline - now) / (len(models) - done))
    rows.append(measure_matrix_rate(here, logs, deadline))
    return rows


def measure_matrix_rate(here, logs, deadline):
    job = jobs.Job("matrix rate", [sys.executable, str(here / "facts.py"), "--matrix-rate"], ours=False, json=True,
                   seconds=90)
    return jobs.run([job], 1, deadline, logs, "bench")[0]


def bench_model(programs, logs, model, deadline):
    """A short run of each micro-batch as long as half of the time is not over, then twenty steps with the best."""
    rows, best, begin = [], None, time.monotonic()
    for batch in MODELS[model]["batches"]:
        if best and time.monotonic() - begin > (deadline - begin) / 2:
            break
        row = run_zrt(programs, logs, model, batch, 3, deadline)
        row["tried"] = True
        rows.append(row)
        if row.get("data") and (best is None or speed(row) > best[0]):
            best = (speed(row), batch)
    if best:
        rows.append(run_zrt(programs, logs, model, best[1], ROUNDS, deadline))
    return rows


def run_zrt(programs, logs, model, batch, rounds, deadline):
    job = jobs.Job(f"zrt {model}, {batch} samples, {rounds} steps", zrt_command(programs, model, batch, rounds), json=True)
    row = jobs.run([job], 1, deadline, logs, "bench")[0]
    row.update(model=model, batch=batch, command=" ".join(["zrt"] + job.command[1:]))
    if row["result"] == "FAILED" and "memory" in row.get("note", "").lower() and rounds < ROUNDS:
        row["result"] = "no fit"
    return row


def speed(row):
    return row["data"]["stages"][0]["tokens_per_second"]


def peer_job(here, model):
    batches = ",".join(map(str, MODELS[model]["batches"]))
    return jobs.Job(f"PyTorch {model}", [sys.executable, str(here / "peer_pytorch.py"), "--model", model, "--batches",
                                         batches, "--seconds", "140"], ours=False, json=True, seconds=149)


def compare(results):
    """One row for each model: tokens per second of both, and FLOP/s against the matrix rate of the same run."""
    rates = [r["data"]["matrix_flops_per_second"] for r in results
             if r["program"] == "matrix rate" and (r.get("data") or {}).get("matrix_flops_per_second")]
    rows = []
    for model, facts in MODELS.items():
        ours = next((r for r in results if r.get("model") == model and not r.get("tried") and r.get("data")), None)
        peer = next((r for r in results if r["program"] == f"PyTorch {model}" and r.get("data")), None)
        if not ours and not peer:
            continue
        row = {"model": model, "floor": facts["floor"]}
        if ours:
            stage = ours["data"]["stages"][0]
            row.update(batch=ours["batch"], tokens_per_second=stage["tokens_per_second"],
                       step_seconds=stage["step_seconds"], rank_bytes=stage["tiers"]["device"]["planned_bytes"], command=ours["command"],
                       model_flops_per_second=stage["model_flops_per_second"], of_ceiling=stage["of_gemm_ceiling"])
            # As zrt measures it between its steps; else as PyTorch does before and after.
            rate = ours["data"].get("matrix_flops_per_second", {}).get("median") or (sorted(rates) or [0])[len(rates) // 2]
            if rate:
                row["matrix_flops_per_second"] = rate
                row["of_matrix_rate"] = stage["model_flops_per_second"] / rate
        if peer:
            row["peer"] = peer["data"]
        if ours and peer:
            row["of_peer"] = row["tokens_per_second"] / peer["data"]["tokens_per_second"]
        rows.append(row)
    return rows


def show(results):
    rows = compare(results)
    if not rows:
        return
    print(f"\n{'model':10} {'batch':>5} {'tokens/s':>9} {'step ms':>9} {'of matrix rate':>14} {'floor':>5} "
          f"{'PyTorch tokens/s':>16} {'zrt ÷ it':>8}")
    for row in rows:
        def number(key, digits, scale=1.0, of=row):
            return f"{of[key] * scale:.{digits}f}" if key in of else "–"
        median = {"median": row["step_seconds"]["median"]} if "step_seconds" in row else {}
        print(f"{row['model']:10} {row.get('batch', '–'):>5} {number('tokens_per_second', 0):>9} "
              f"{number('median', 2, 1e3, median):>9} {number('of_matrix_rate', 3):>14} {row['floor']:>5} "
              f"{number('tokens_per_second', 0, 1.0, row.get('peer', {})):>16} {number('of_peer', 2):>8}")
