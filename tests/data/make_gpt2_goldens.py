"""Makes the GPT-2 goldens of this folder with PyTorch on the CPU: python make_gpt2_goldens.py

gpt2_goldens.json   configs, 10-step loss curves (fp64, fp32, bf16), per-tensor norms, versions
gpt2_<head>.bin     fp64, little endian: logits (B, T, V) of step 0, then every gradient of the mean loss, in the order
                    of "tensors" in the JSON

Weights and tokens come from a recipe (splitmix64) that tests/models/gpt2_golden.cpp repeats, so they are not stored.
"""
import json
import math
import pathlib
import platform

import numpy as np
import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
GRADIENT_CASE = dict(layers=2, hidden=32, heads=2, sequence=16, vocab=97)
GRADIENT_BATCH = dict(B=3, T=13, index=1000)  # shorter than the sequence: the last positions get no gradient
CURVE_CASE = dict(layers=2, hidden=64, heads=2, sequence=32, vocab=257)
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


def tensor_shapes(case, tied):
    C, V = case["hidden"], case["vocab"]
    shapes = {"wte.weight": (V, C), "wpe.weight": (case["sequence"], C)}
    for layer in range(case["layers"]):
        h = f"h.{layer}."
        shapes |= {
            h + "ln_1.weight": (C,), h + "ln_1.bias": (C,),
            h + "attn.c_attn.weight": (C, 3 * C), h + "attn.c_attn.bias": (3 * C,),
            h + "attn.c_proj.weight": (C, C), h + "attn.c_proj.bias": (C,),
            h + "ln_2.weight": (C,), h + "ln_2.bias": (C,),
            h + "mlp.c_fc.weight": (C, 4 * C), h + "mlp.c_fc.bias": (4 * C,),
            h + "mlp.c_proj.weight": (4 * C, C), h + "mlp.c_proj.bias": (C,),
        }
    shapes |= {"ln_f.weight": (C,), "ln_f.bias": (C,)}
    if not tied:
        shapes["lm_head.weight"] = (V, C)
    return shapes


def recipe_weights(case, tied):
    """fp32 values: gains around 1 by 0.2, biases within 0.1, matrices within 0.2, all uniform."""
    weights = {}
    for name, shape in tensor_shapes(case, tied).items():
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


def forward(case, w, tokens):
    """Pre-norm GPT-2; Conv1D weights are (in, out). Returns logits in the type of the weights."""
    C, heads = case["hidden"], case["heads"]
    B, T = tokens.shape
    x = w["wte.weight"][tokens] + w["wpe.weight"][:T]
    causal = torch.ones(T, T, dtype=torch.bool).tril()

    def norm(name, x):
        return F.layer_norm(x, (C,), w[name + ".weight"], w[name + ".bias"], 1e-5)

    def conv1d(name, x):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    for layer in range(case["layers"]):
        h = f"h.{layer}."
        qkv = conv1d(h + "attn.c_attn", norm(h + "ln_1", x))
        q, k, v = (t.view(B, T, heads, C // heads).transpose(1, 2) for t in qkv.split(C, dim=-1))
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(C // heads)
        probs = scores.masked_fill(~causal, float("-inf")).softmax(-1)
        y = (probs @ v).transpose(1, 2).reshape(B, T, C)
        x = x + conv1d(h + "attn.c_proj", y)
        y = F.gelu(conv1d(h + "mlp.c_fc", norm(h + "ln_2", x)), approximate="tanh")
        x = x + conv1d(h + "mlp.c_proj", y)
    return norm("ln_f", x) @ w.get("lm_head.weight", w["wte.weight"]).T


def mean_loss(case, w, tokens, targets):
    logits = forward(case, w, tokens)
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return F.cross_entropy(wide.flatten(0, 1), targets.flatten()), logits


def curve(case, tied, dtype):
    """Weights, activations and gradients in `dtype`; master weights and moments fp32 (fp64 for the fp64 curve)."""
    state = torch.float64 if dtype == torch.float64 else torch.float32
    master = {n: t.to(state).requires_grad_() for n, t in recipe_weights(case, tied).items()}
    adam = torch.optim.AdamW(master.values(), lr=ADAM["lr"], betas=(ADAM["beta1"], ADAM["beta2"]), eps=ADAM["eps"],
                             weight_decay=ADAM["weight_decay"], foreach=False)
    losses, norms = [], []
    for step in range(STEPS):
        weights = {n: t.detach().to(dtype).requires_grad_() for n, t in master.items()}
        loss, _ = mean_loss(case, weights, *recipe_batch(case["vocab"], **CURVE_BATCH, index=step))
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
    # The key part of the attention bias is left out: its true gradient is zero, so Adam only amplifies rounding there.
    C = case["hidden"]
    final = {n: t.detach().double() for n, t in master.items()}
    final = {n: torch.cat([t[:C], t[2 * C:]]) if n.endswith("c_attn.bias") else t for n, t in final.items()}
    final = {n: float(t.norm()) for n, t in final.items()}
    return dict(loss=losses, grad_norm=norms, final_weight_norm=final)


def gradients(case, tied, path):
    weights = {n: t.double().requires_grad_() for n, t in recipe_weights(case, tied).items()}
    loss, logits = mean_loss(case, weights, *recipe_batch(case["vocab"], **GRADIENT_BATCH))
    loss.backward()
    with open(path, "wb") as f:
        for t in [logits.detach()] + [t.grad for t in weights.values()]:
            f.write(t.contiguous().numpy().astype("<f8").tobytes())
    return dict(file=path.name, loss=loss.item(), tensors={n: list(t.shape) for n, t in weights.items()})


def main():
    torch.set_num_threads(1)
    out = dict(
        made_by=dict(script=pathlib.Path(__file__).name, torch=torch.__version__, numpy=np.__version__,
                     python=platform.python_version(), machine=platform.machine()),
        gradient_case=GRADIENT_CASE, gradient_batch=GRADIENT_BATCH, curve_case=CURVE_CASE, curve_batch=CURVE_BATCH,
        steps=STEPS, adam=ADAM, gradients={}, curves={})
    for head in ["tied", "untied"]:
        tied = head == "tied"
        out["gradients"][head] = gradients(GRADIENT_CASE, tied, HERE / f"gpt2_{head}.bin")
        out["curves"][head] = {
            name: curve(CURVE_CASE, tied, dtype)
            for name, dtype in [("fp64", torch.float64), ("fp32", torch.float32), ("bf16", torch.bfloat16)]
        }
    (HERE / "gpt2_goldens.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
