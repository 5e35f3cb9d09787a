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
# Of the time of interleaved runs: larger models take longer to set up and to compile.
SHARES = {"gpt2-124m": 2, "gpt2-1.5b": 3, "llama-3b": 3}


def zrt_command(programs, model, batch, rounds, sets=()):
    command = [str(programs / "bin" / "zrt"), "bench", "train", "--device", "cuda", "--model", model, "--ranks", "1",
               "--stages", "0", "--dtype", "bf16", "--micro-batch", str(batch), "--rounds", str(rounds), "--json"]
    for item in ("model.sequence=1024", "gradient_clipping=1.0", *sets):
        command += ["--set", item]
    return command


def run_bench(programs, here, results, models, deadline):
    measure_matrix_rate(here, results, deadline)
    for done, model in enumerate(models):
        now = time.monotonic()
        bench_model(programs, results, model, now + (deadline - now) / (len(models) - done))
    measure_matrix_rate(here, results, deadline)


def interleave(programs, here, results, models, deadline):
    """zrt, PyTorch, zrt again for each model: what changes on the machine meanwhile shows between the first and third.
    The time that is left is shared out by SHARES."""
    measure_matrix_rate(here, results, deadline)
    for done, model in enumerate(models):
        begin, shares = time.monotonic(), [SHARES.get(m, 1) for m in models[done:]]
        end = begin + (deadline - begin) * shares[0] / sum(shares)
        best = bench_model(programs, results, model, begin + (end - begin) * 0.4)
        peer = peer_job(here, model, max(20, (end - begin) * 0.42))
        jobs.run([peer], 1, deadline, results, "peers")
        if best:
            run_zrt(programs, results, model, best, ROUNDS, end, again=True)
    measure_matrix_rate(here, results, deadline)


def measure_matrix_rate(here, results, deadline):
    job = jobs.Job("matrix rate", [sys.executable, str(here / "facts.py"), "--matrix-rate"], ours=False, json=True,
                   seconds=90)
    jobs.run([job], 1, deadline, results, "bench")


def bench_model(programs, results, model, deadline):
    """A short run of each micro-batch as long as half of the time is not over, then twenty steps with the best, which is
    returned."""
    best, begin = None, time.monotonic()
    for batch in MODELS[model]["batches"]:
        if best and time.monotonic() - begin > (deadline - begin) / 2:
            break
        row = run_zrt(programs, results, model, batch, 3, deadline, tried=True)
        if row.get("data") and (best is None or speed(row) > best[0]):
            best = (speed(row), batch)
    if best:
        run_zrt(programs, results, model, best[1], ROUNDS, deadline)
    return best and best[1]


def run_zrt(programs, results, model, batch, rounds, deadline, sets=(), part="bench", **more):
    command = zrt_command(programs, model, batch, rounds, sets)
    word = "steps, again" if more.get("again") else "steps"
    job = jobs.Job(f"zrt {model}, {batch} samples, {rounds} {word}", command, json=True,
                   may_not_fit=rounds < ROUNDS)
    return jobs.run([job], 1, deadline, results, part, model=model, batch=batch,
                    command=" ".join(["zrt"] + command[1:]), **more)[0]


def speed(row):
    return row["data"]["stages"][0]["tokens_per_second"]


def peer_job(here, model, seconds=149):
    batches = ",".join(map(str, MODELS[model]["batches"]))
    return jobs.Job(f"PyTorch {model}", [sys.executable, str(here / "peer_pytorch.py"), "--model", model, "--batches",
                                         batches, "--seconds", str(int(seconds * 0.94))], ours=False, json=True,
                    seconds=seconds)


def compare(results):
    """One row for each model: tokens per second of both, and FLOP/s against the matrix rate of the same run."""
    rates = [r["data"]["matrix_flops_per_second"] for r in results
             if r["program"] == "matrix rate" and (r.get("data") or {}).get("matrix_flops_per_second")]
    rows = []
    for model, facts in MODELS.items():
        runs = [r for r in results if r.get("model") == model and not r.get("tried") and r.get("data") and not r.get("tuned")]
        ours = next(iter(runs), None)
        peer = next((r for r in results if r["program"] == f"PyTorch {model}" and r.get("data")), None)
        if not ours and not peer:
            continue
        row = {"model": model, "floor": facts["floor"]}
        if ours:
            stage = ours["data"]["stages"][0]
            row.update(batch=ours["batch"], tokens_per_second=stage["tokens_per_second"],
                       step_seconds=stage["step_seconds"], rank_bytes=stage["tiers"]["device"]["planned_bytes"], command=ours["command"],
                       model_flops_per_second=stage["model_flops_per_second"], of_ceiling=stage["of_gemm_ceiling"]["median"])
            # As zrt measures it between its steps; else as PyTorch does before and after.
            rate = ours["data"].get("matrix_flops_per_second", {}).get("median") or (sorted(rates) or [0])[len(rates) // 2]
            if rate:
                row["matrix_flops_per_second"] = rate
                row["of_matrix_rate"] = stage["model_flops_per_second"] / rate
        if again := next((r for r in runs if r.get("again")), None):
            row["again_tokens_per_second"] = speed(again)
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
