"""Tokens per second of training in PyTorch, to compare zrt with: compiled, bf16, fused AdamW, flash attention, gradients
clipped to norm 1, 1,024 tokens per sample. The fastest of the variants and batch sizes that fit is measured over at
least 20 steps and printed as JSON; the others are listed with it. After each variant the best so far is printed likewise."""
import argparse
import contextlib
import gc
import itertools
import json
import statistics
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import peer_models

LENGTH = 1024


class Trainer:
    """`precision` autocast: fp32 weights, products in bf16. master: bf16 weights and gradients, fp32 master weights.
    `compiled`: the blocks and the loss each by itself (parts), or the whole model; "tuned" in front: products are
    chosen by timing them (max-autotune). `loss`: of all logits at once, as compiled, or of some rows at a time."""

    def __init__(self, name, precision, compiled, loss, device):
        self.precision, self.compiled, self.loss, self.device = precision, compiled, loss, device
        self.sizes = peer_models.SIZES[name]
        with torch.device(device):
            self.model = peer_models.Model(self.sizes, LENGTH)
        self.model.loss_rows = 4096 if loss == "chunked" else 0
        self.parameters = list(self.model.parameters())
        self.masters = self.parameters
        if precision == "master":
            self.masters = [p.detach().clone() for p in self.parameters]
            cos, sin = self.model.cos, self.model.sin
            self.model.bfloat16()
            self.model.cos, self.model.sin = cos, sin  # angles of far positions need more than 8 bits
            self.parameters = list(self.model.parameters())
            for master in self.masters:
                master.grad = torch.empty_like(master)
        self.optimizer = torch.optim.AdamW(self.masters, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                           fused=device == "cuda")
        # Graphs of CUDA, which "max-autotune" brings too, do not go with blocks that share one compilation.
        mode = "max-autotune-no-cudagraphs" if compiled.startswith("tuned") else None
        if device == "cuda" and compiled.endswith("parts"):
            self.model.compile_parts(mode)
        elif device == "cuda":
            self.model.compile(dynamic=False, mode=mode)

    def step(self, tokens, targets):
        mixed = torch.autocast(self.device, torch.bfloat16) if self.precision == "autocast" else contextlib.nullcontext()
        with mixed:
            loss = self.model(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        if self.precision == "master":
            torch._foreach_copy_([m.grad for m in self.masters], [p.grad for p in self.parameters])
        self.optimizer.step()
        if self.precision == "master":
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, self.masters)
        for p in self.parameters:
            p.grad = None
        return loss

    def measure(self, batch, warm_up, steps):
        """Seconds of each step, by events between them: the host runs ahead as it does in training."""
        tokens = torch.randint(0, self.sizes.vocab, (8, batch, LENGTH + 1), device=self.device)
        clock = Events() if self.device == "cuda" else Clock()
        for i in range(warm_up + steps):
            if i >= warm_up:
                clock.mark()
            row = tokens[i % 8]
            loss = self.step(row[:, :-1].contiguous(), row[:, 1:].contiguous())
        clock.mark()
        seconds = clock.seconds()
        if not torch.isfinite(loss):
            raise RuntimeError("the loss is not finite")
        return seconds


class Events:
    def __init__(self):
        self.marks = []

    def mark(self):
        self.marks.append(torch.cuda.Event(enable_timing=True))
        self.marks[-1].record()

    def seconds(self):
        torch.cuda.synchronize()
        return [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(self.marks)]


class Clock:
    def __init__(self):
        self.marks = []

    def mark(self):
        self.marks.append(time.perf_counter())

    def seconds(self):
        return [b - a for a, b in itertools.pairwise(self.marks)]


def attention(kind, device):
    if device != "cuda":
        return contextlib.nullcontext()
    return sdpa_kernel(SDPBackend.CUDNN_ATTENTION if kind == "cudnn" else SDPBackend.FLASH_ATTENTION)


class Search:
    def __init__(self, options):
        self.options, self.tried, self.trainer, self.kind = options, [], None, None
        self.deadline = time.monotonic() + options.seconds

    def left(self):
        return self.deadline - time.monotonic()

    def trainer_of(self, precision, kind, compiled, loss):
        if kind != self.kind:  # the kernel is chosen when attention is compiled
            torch._dynamo.reset()
            self.kind = kind
        wanted = (precision, compiled, loss)
        if self.trainer is None or (self.trainer.precision, self.trainer.compiled, self.trainer.loss) != wanted:
            self.trainer = None
            gc.collect()
            if self.options.device == "cuda":
                torch.cuda.empty_cache()
            self.trainer = Trainer(self.options.model, precision, compiled, loss, self.options.device)
        return self.trainer

    def run(self, precision, kind, compiled, loss, batch, warm_up, steps):
        """The median seconds of a sample, or None when it does not fit or cannot be run."""
        begin, row = time.monotonic(), {"precision": precision, "attention": kind, "compiled": compiled,
                                        "loss": loss, "batch": batch}
        try:
            if self.options.device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            with attention(kind, self.options.device):
                row["step_seconds"] = self.trainer_of(precision, kind, compiled, loss).measure(batch, warm_up, steps)
            row["tokens_per_second"] = batch * LENGTH / statistics.median(row["step_seconds"])
            if self.options.device == "cuda":
                row["peak_bytes"] = torch.cuda.max_memory_allocated()
        except (torch.OutOfMemoryError, RuntimeError) as error:
            row["refused"] = str(error).split("\n")[0][:200]
            self.trainer = None
        row["wall_seconds"] = time.monotonic() - begin
        print(json.dumps({k: v for k, v in row.items() if k != "step_seconds"}), file=sys.stderr, flush=True)
        return row

    def report(self, row):
        seconds = row["step_seconds"]
        return {
            "model": self.options.model, "tokens_per_second": row["tokens_per_second"], "batch": row["batch"],
            "step_seconds": {"median": statistics.median(seconds), "low": min(seconds), "high": max(seconds)},
            "steps": len(seconds), "peak_bytes": row.get("peak_bytes"), "torch": torch.__version__,
            "variant": f"{row['precision']}, {row['attention']} attention, {row['compiled']} compiled, "
                       f"{row['loss']} loss, fused AdamW",
            "parameters": sum(p.numel() for p in self.trainer.parameters) if self.trainer else None,
            "tried": [{k: v for k, v in each.items() if k != "step_seconds"} for each in self.tried]}

    def best(self):
        batches = [int(b) for b in self.options.batches.split(",")]
        candidates = [("master", "flash", "parts", "whole", batches[0]), ("master", "cudnn", "parts", "whole", batches[0]),
                      ("master", None, "parts", "chunked", batches[0]), ("master", None, "tuned parts", None, batches[0])]
        if peer_models.SIZES[self.options.model].layers <= 12:  # deeper models take minutes to compile
            candidates.append(("master", None, "whole", None, batches[0]))
        candidates += [("master", None, None, None, batch) for batch in batches[1:]]
        candidates.append(("autocast", None, None, None, None))
        for precision, kind, compiled, loss, batch in candidates:
            done = [r for r in self.tried if "tokens_per_second" in r]
            # The last measurement compiles nothing, but needs its twenty steps.
            if done and self.left() < 0.3 * self.options.seconds:
                break
            lead = max(done, key=lambda r: r["tokens_per_second"], default=None)
            kind = kind or (lead["attention"] if lead else "flash")
            compiled = compiled or (lead["compiled"] if lead else "parts")
            loss = loss or (lead["loss"] if lead else "whole")
            batch = batch or (lead["batch"] if lead else batches[-1])
            self.tried.append(self.run(precision, kind, compiled, loss, batch, 3, 5))
            if "tokens_per_second" in self.tried[-1]:  # the best so far, should the time be over before the end
                done.append(self.tried[-1])
                print(json.dumps(self.report(max(done, key=lambda r: r["tokens_per_second"])), indent=1), flush=True)
        done = [r for r in self.tried if "tokens_per_second" in r]
        return max(done, key=lambda r: r["tokens_per_second"], default=None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=peer_models.SIZES, required=True)
    parser.add_argument("--batches", default="16,32,8", help="samples of a step that are tried")
    parser.add_argument("--steps", type=int, default=20, help="measured steps of the fastest")
    parser.add_argument("--seconds", type=float, default=140, help="for all of it")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU")
    torch.manual_seed(1)
    search = Search(options)
    lead = search.best()
    if lead is None:
        sys.exit("no variant ran: " + "; ".join(r["refused"] for r in search.tried))
    final = search.run(lead["precision"], lead["attention"], lead["compiled"], lead["loss"], lead["batch"], 5, options.steps)
    if "tokens_per_second" not in final:
        sys.exit("the fastest variant did not run again: " + final["refused"])
    print(json.dumps(search.report(final), indent=1))


if __name__ == "__main__":
    main()
