#!/usr/bin/env python3
"""Trains what the configurations in pytorch_runs/ say with PyTorch: models of transformers, optimizers of PyTorch and
transformers (Lion and Adam without bias correction by their formulas), learning rates and loss scales of DeepSpeed.

Usage: make_pytorch_runs.py   (needs torch, transformers, safetensors and deepspeed; writes pytorch_runs/goldens.json and
                               pytorch_runs/tokens.{bin,idx})

Runs in fp32 are computed in fp64 throughout, those in fp16 and bf16 with weights, activations and gradients of that type
and master weights and moments in fp32. Data is read in Megatron's order, which make_dataset_golden.py computes.
"""
import json
import math
import pathlib
import platform
import types

import deepspeed
import numpy as np
import torch
import torch.nn.functional as F
import transformers
from deepspeed.runtime import lr_schedules
from deepspeed.runtime.fp16 import loss_scaler
from transformers import AutoModelForCausalLM
from transformers.optimization import Adafactor

import golden_common
import make_dataset_golden as dataset

HERE = pathlib.Path(__file__).parent
RUNS = HERE / "pytorch_runs"
loss_scaler.dist = types.SimpleNamespace(get_rank=lambda: 1)  # which is silent
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()
TYPES = {"fp32": torch.float64, "bf16": torch.bfloat16, "fp16": torch.float16}


class UncorrectedAdamW(torch.optim.Optimizer):
    def __init__(self, params, lr, betas, weight_decay, eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, eps=eps))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                v = self.state[p].setdefault("exp_avg_sq", torch.zeros_like(p))
                beta1, beta2 = group["betas"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                m.copy_(beta1 * m + (1 - beta1) * p.grad)
                v.copy_(beta2 * v + (1 - beta2) * p.grad**2)
                p.sub_(group["lr"] * m / (v.sqrt() + group["eps"]))


def make_optimizer(config, masters):
    name, params = config["optimizer"]["type"], dict(config["optimizer"]["params"])
    corrected, decoupled = params.pop("bias_correction", True), params.pop("adam_w_mode", True)
    if name == "Adam" and not corrected:
        return UncorrectedAdamW(masters, **params)
    if name == "Adam" and not decoupled:
        return torch.optim.Adam(masters, **params, foreach=False)
    classes = {"AdamW": torch.optim.AdamW, "Adam": torch.optim.AdamW, "SGD": torch.optim.SGD,
               "Lion": golden_common.Lion,
               "Adafactor": Adafactor}
    if name in ("Adam", "AdamW"):
        params.setdefault("weight_decay", 0.0)  # DeepSpeed's default
    return classes[name](masters, **params)


def make_scaler(config):
    fp16 = config.get("fp16", {})
    if not fp16.get("enabled") or fp16.get("loss_scale", 0) > 0:
        return None, float(fp16.get("loss_scale", 1))
    return loss_scaler.DynamicLossScaler(
        init_scale=2.0 ** fp16["initial_scale_power"], scale_window=fp16["loss_scale_window"],
        min_scale=fp16.get("min_loss_scale", 1), delayed_shift=fp16["hysteresis"],
        consecutive_hysteresis=fp16.get("consecutive_hysteresis", False), raise_error_at_min_scale=False), None


def model_of(config):
    model = config["model"]
    tied = model.get("tied", True)
    return {("gpt2", True): "gpt2", ("gpt2", False): "gpt2_untied", ("llama", False): "llama",
            ("llama", True): "llama_tied"}[model["type"], tied]


def samples_of(config, documents):
    """The samples of the whole run in order, each sequence + 1 tokens."""
    sequence, count = config["model"]["sequence"], config["run"]["steps"] * config["train_batch_size"]
    index = dataset.gpt_index([len(d) for d in documents], 0, sequence, count, config["run"]["seed"])
    stream = [token for d in index["documents"] for token in documents[d]]
    return [stream[i * sequence:(i + 1) * sequence + 1] for i in index["shuffle"]][:count]


def ways_of_change(name, change):
    """Its norm and two weighted sums with weights of golden_common's recipe."""
    flat = change.double().flatten().numpy()
    if name.endswith("c_attn.bias"):
        flat[flat.size // 3:2 * flat.size // 3] = 0  # softmax ignores the keys' bias: it moves by rounding alone
    weights = [2 * ((golden_common.stream(f"{name}.{i}", flat.size) >> np.uint64(11)).astype(np.float64) * 2.0**-53) - 1
               for i in range(2)]
    return [float(np.sqrt((flat**2).sum()))] + [float((flat * w).sum()) for w in weights]


def train(config, documents):
    kind = next((t for t in ("fp16", "bf16") if config.get(t, {}).get("enabled")), "fp32")
    compute = TYPES[kind]
    state = torch.float64 if kind == "fp32" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(
        HERE / "hugging_face" / model_of(config), dtype=torch.float32, attn_implementation="eager")
    model = model.to(compute).eval()  # without dropout
    names = {n: p for n, p in model.named_parameters()}
    source = AutoModelForCausalLM.from_pretrained(HERE / "hugging_face" / model_of(config), dtype=torch.float32)
    masters = {n: p.detach().to(state).requires_grad_() for n, p in source.named_parameters()}
    starts = {n: p.detach().clone() for n, p in masters.items()}
    optimizer = make_optimizer(config, list(masters.values()))
    schedule = None
    if "scheduler" in config:
        schedule = getattr(lr_schedules, config["scheduler"]["type"])(optimizer, **config["scheduler"]["params"])
    scaler, static_scale = make_scaler(config)
    clip = config.get("gradient_clipping", 0.0)
    batch, micro = config["train_batch_size"], config["train_micro_batch_size_per_gpu"]
    samples = samples_of(config, documents)
    steps, nearest = [], math.inf
    for step in range(config["run"]["steps"]):
        scale = scaler.cur_scale if scaler else static_scale
        with torch.no_grad():
            for n, p in names.items():
                p.copy_(masters[n])
        loss, grads = 0.0, {n: torch.zeros_like(p) for n, p in masters.items()}
        largest = 0.0
        for begin in range(0, batch, micro):
            tokens = torch.tensor(samples[step * batch + begin:step * batch + begin + micro])
            logits = model(tokens[:, :-1]).logits
            wide = logits if logits.dtype == torch.float64 else logits.float()
            part = F.cross_entropy(wide.flatten(0, 1), tokens[:, 1:].flatten()) * (micro / batch)
            loss += part.item()
            model.zero_grad()
            if kind == "fp16":  # how large gradients would be without overflow
                (part * min(scale, 4096.0)).backward(retain_graph=True)
                largest = max([largest] + [float(p.grad.abs().max()) * scale / min(scale, 4096.0)
                                           for p in names.values()])
                model.zero_grad()
            (part * scale).backward()
            for n, p in names.items():
                grads[n] += p.grad.to(state)
        overflow = not all(torch.isfinite(g).all() for g in grads.values())
        if kind == "fp16":
            nearest = min(nearest, max(largest / 65504, 65504 / largest))
            assert overflow == (largest > 65504)
        lr = optimizer.param_groups[0]["lr"]
        if lr is None:  # Adafactor's own, before the weights' size
            lr = min(1e-6 * (step + 1), 1 / math.sqrt(step + 1))
        entry = dict(loss=loss, lr=float(lr), loss_scale=scale)
        steps.append(entry)
        if scaler:
            scaler.update_scale(overflow)
        if overflow:
            entry["grad_norm"] = None
            continue
        norm = math.sqrt(sum(float(((g / scale).double()**2).sum()) for g in grads.values()))
        entry["grad_norm"] = norm
        factor = max(1.0, (norm + 1e-6) / clip) if clip > 0 else 1.0
        for n, p in masters.items():
            p.grad = grads[n] / scale / factor
        optimizer.step()
        if schedule:
            schedule.step()
    change = {n.removeprefix("transformer."): ways_of_change(n.removeprefix("transformer."), (p - starts[n]).detach())
              for n, p in masters.items()}
    skipped = sum(s["grad_norm"] is None for s in steps)
    print(f"loss {steps[0]['loss']:.4f} to {steps[-1]['loss']:.4f}, {skipped} skipped, "
          f"norms {min(s['grad_norm'] or 9 for s in steps):.3f} to {max(s['grad_norm'] or 0 for s in steps):.3f}, "
          f"scales {sorted({s['loss_scale'] for s in steps})}, largest gradient at least {nearest:.3g} times or part of what overflows")
    return dict(type=kind, hugging_face=model_of(config), steps=steps, change=change)


def main():
    torch.set_num_threads(1)
    random = np.random.RandomState(14)
    documents = []
    for length in random.randint(5, 60, size=40).tolist():
        document = [int(random.randint(61))]
        for _ in range(length - 1):  # three of four tokens follow from the one before
            document.append((5 * document[-1] + 7) % 61 if random.randint(4) else int(random.randint(61)))
        documents.append(document)
    dataset.OUT = RUNS
    dataset.write_pair("tokens", 8, "<u2", documents)
    runs = {}
    for path in sorted(RUNS.glob("*.json")):
        if path.name == "goldens.json":
            continue
        print(path.stem, end=": ", flush=True)
        runs[path.stem] = train(json.loads(path.read_text()), documents)
    made_by = dict(script="make_pytorch_runs.py", torch=torch.__version__, transformers=transformers.__version__,
                   deepspeed=deepspeed.__version__, numpy=np.__version__, python=platform.python_version())
    (RUNS / "goldens.json").write_text(json.dumps(dict(made_by=made_by, runs=runs), indent=0) + "\n")


if __name__ == "__main__":
    main()
