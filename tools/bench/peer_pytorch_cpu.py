#!/usr/bin/env python3
"""PyTorch's DDP and FSDP2 on CPU ranks, to put beside `zrt bench train`: gloo, one core and one thread a rank, GPT-2 of
plain PyTorch modules, AdamW, gradients clipped to norm 1. Prints tokens per second (median, lowest and highest of the
rounds, a step each, after one that is not counted) and every rank's peak of resident memory. Each way runs in
processes of its own. Needs PyTorch alone (`pip install torch numpy` into a virtual environment)."""
import argparse
import json
import os
import pathlib
import resource
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))
import peer_models


def wrap(model, way, dtype):
    if way == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy()
    if dtype == "bf16":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def run_rank(rank, way, options, port, results):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=options.ranks)
    sizes = peer_models.SIZES[options.model]
    model = wrap(peer_models.Model(sizes, options.length), way, options.dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, foreach=True)
    mixed = torch.autocast("cpu", torch.bfloat16, enabled=options.dtype == "bf16" and way == "ddp")
    seconds = []
    for round in range(options.rounds + 1):
        tokens = torch.randint(0, sizes.vocab, (options.batch, options.length + 1))
        dist.barrier()
        begin = time.perf_counter()
        with mixed:
            loss = model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()
        if round > 0:
            seconds.append(time.perf_counter() - begin)
    if not torch.isfinite(loss):
        raise RuntimeError("the loss is not finite")
    results.put((rank, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
    dist.barrier()
    dist.destroy_process_group()


def measure(way, options, port):
    queue = processes.get_context("spawn").SimpleQueue()
    processes.spawn(run_rank, (way, options, port, queue), nprocs=options.ranks)
    ranks = sorted(queue.get() for _ in range(options.ranks))
    rates = [options.ranks * options.batch * options.length / s for s in ranks[0][1]]
    return {"way": way, "model": options.model, "dtype": options.dtype, "ranks": options.ranks,
            "tokens_per_second": {"median": statistics.median(rates), "low": min(rates), "high": max(rates)},
            "peak_rss_bytes": [peak for _, _, peak in ranks], "torch": torch.__version__}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=peer_models.SIZES, default="gpt2-124m")
    parser.add_argument("--ways", default="ddp,fsdp2")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32", help="bf16: autocast, or FSDP2's policy")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1, help="samples per rank")
    parser.add_argument("--length", type=int, default=1024, help="tokens per sample")
    parser.add_argument("--rounds", type=int, default=5, help="measured steps")
    parser.add_argument("--port", type=int, default=29571)
    options = parser.parse_args()
    ways = options.ways.split(",")
    if not set(ways) <= {"ddp", "fsdp2"}:
        parser.error(f"--ways is '{options.ways}'; legal are ddp and fsdp2 with a comma between")
    if options.ranks > len(os.sched_getaffinity(0)):
        parser.error(f"--ranks is {options.ranks}, more than the {len(os.sched_getaffinity(0))} cores at hand")
    for i, way in enumerate(ways):
        print(json.dumps(measure(way, options, options.port + i)), flush=True)


if __name__ == "__main__":
    main()
