"""What the scripts that make the models' goldens share: the recipe for weights and tokens (splitmix64), which
tests/models/golden.cpp repeats so that they are not stored, and the runs themselves.

A model is (shapes(case, tied) -> {name: shape}, logits(case, weights, tokens) -> (B, T, V) in the type of the weights).
"""
import json
import math
import pathlib
import platform

import numpy as np
import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
GRADIENT_BATCH = dict(B=3, T=13, index=1000)  # shorter than the sequence: the last positions get no gradient
CURVE_BATCH = dict(B=4, T=32)
STEPS = 10
ADAM = dict(lr=1e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, clip=1.0)
MASK = (1 << 64) - 1


def stream(name, count):
    """The first `count` outputs of splitmix64 seeded with the FNV-1a hash of `name`."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x100000001B3) & MASK
    z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def recipe_weights(shapes):
    """fp32 values: gains around 1 by 0.2, biases within 0.1, matrices within 0.2, all uniform."""
    weights = {}
    for name, shape in shapes.items():
        unit = 2 * ((stream(name, math.prod(shape)) >> np.uint64(11)).astype(np.float64) * 2.0**-53) - 1
        if name.endswith(".bias"):
            value = 0.1 * unit
        elif len(shape) == 1:
            value = 1 + 0.2 * unit
        else:
            value = 0.2 * unit
        weights[name] = torch.from_numpy(value.astype(np.float32).reshape(shape))
    return weights


def recipe_batch(vocab, B, T, index):
    """Three of four tokens follow 5x + 7 (mod vocab), so that there is something to learn."""
    draws = iter(int(x) for x in stream(f"batch.{index}", B * (T + 1)))
    rows = []
    for _ in range(B):
        row = [next(draws) % vocab]
        for _ in range(T):
            r = next(draws)
            row.append((5 * row[-1] + 7) % vocab if r % 4 else (r >> 8) % vocab)
        rows.append(row)
    ids = torch.tensor(rows)
    return ids[:, :-1], ids[:, 1:]


def mean_loss(model, case, w, tokens, targets):
    logits = model.logits(case, w, tokens)
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return F.cross_entropy(wide.flatten(0, 1), targets.flatten()), logits


def curve(model, case, tied, dtype):
    """Weights, activations and gradients in `dtype`; master weights and moments fp32 (fp64 for the fp64 curve)."""
    state = torch.float64 if dtype == torch.float64 else torch.float32
    master = {n: t.to(state).requires_grad_() for n, t in recipe_weights(model.shapes(case, tied)).items()}
    adam = torch.optim.AdamW(master.values(), lr=ADAM["lr"], betas=(ADAM["beta1"], ADAM["beta2"]), eps=ADAM["eps"],
                             weight_decay=ADAM["weight_decay"], foreach=False)
    losses, norms = [], []
    for step in range(STEPS):
        weights = {n: t.detach().to(dtype).requires_grad_() for n, t in master.items()}
        loss, _ = mean_loss(model, case, weights, *recipe_batch(case["vocab"], **CURVE_BATCH, index=step))
        loss.backward()
        for name, t in master.items():
            t.grad = weights[name].grad.to(state)
        norm = math.sqrt(sum(float((t.grad.double()**2).sum()) for t in master.values()))
        c = (norm + 1e-6) / ADAM["clip"]  # DeepSpeed's rule
        if c > 1:
            for t in master.values():
                t.grad /= c
        adam.step()
        losses.append(loss.item())
        norms.append(norm)
    final = {n: float(model.without_noise(case, n, t.detach().double()).norm()) for n, t in master.items()}
    return dict(loss=losses, grad_norm=norms, final_weight_norm=final)


def gradients(model, case, tied, path):
    weights = {n: t.double().requires_grad_() for n, t in recipe_weights(model.shapes(case, tied)).items()}
    loss, logits = mean_loss(model, case, weights, *recipe_batch(case["vocab"], **GRADIENT_BATCH))
    loss.backward()
    with open(path, "wb") as f:
        for t in [logits.detach()] + [t.grad for t in weights.values()]:
            f.write(t.contiguous().numpy().astype("<f8").tobytes())
    return dict(file=path.name, loss=loss.item(), tensors={n: list(t.shape) for n, t in weights.items()})


class Lion(torch.optim.Optimizer):
    """By the formula of its paper (Chen et al., 2023)."""

    def __init__(self, params, lr, betas, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                beta1, beta2 = group["betas"]
                direction = torch.sign(beta1 * m + (1 - beta1) * p.grad)
                p.copy_(p * (1 - group["lr"] * group["weight_decay"]) - group["lr"] * direction)
                m.copy_(beta2 * m + (1 - beta2) * p.grad)


class Model:
    """shapes and logits are defined by each script."""

    @staticmethod
    def without_noise(case, name, tensor):
        """The part of a final weight whose norm is compared."""
        return tensor


def make(model, name, script, gradient_case, curve_case, versions={}, more={}):
    torch.set_num_threads(1)
    out = dict(
        made_by=dict(script=script, torch=torch.__version__, numpy=np.__version__,
                     python=platform.python_version(), machine=platform.machine(), **versions),
        gradient_case=gradient_case, gradient_batch=GRADIENT_BATCH, curve_case=curve_case, curve_batch=CURVE_BATCH,
        steps=STEPS, adam=ADAM, gradients={}, curves={}, **more)
    for head in ["tied", "untied"]:
        tied = head == "tied"
        out["gradients"][head] = gradients(model, gradient_case, tied, HERE / f"{name}_{head}.bin")
        out["curves"][head] = {
            key: curve(model, curve_case, tied, dtype)
            for key, dtype in [("fp64", torch.float64), ("fp32", torch.float32), ("bf16", torch.bfloat16)]
        }
    (HERE / f"{name}_goldens.json").write_text(json.dumps(out, indent=1) + "\n")
