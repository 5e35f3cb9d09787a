"""Makes the GPT-2 goldens of this folder with PyTorch on the CPU: python make_gpt2_goldens.py

gpt2_goldens.json   configs, 10-step loss curves (fp64, fp32, bf16), per-tensor norms, versions
gpt2_<head>.bin     fp64, little endian: logits (B, T, V) of step 0, then every gradient of the mean loss, in the order
                    of "tensors" in the JSON

Weights and tokens come from the recipe in golden_common.py, so they are not stored.
"""
import math
import pathlib

import torch
import torch.nn.functional as F

import golden_common

GRADIENT_CASE = dict(layers=2, hidden=32, heads=2, sequence=16, vocab=97)
CURVE_CASE = dict(layers=2, hidden=64, heads=2, sequence=32, vocab=257)


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


class Gpt2(golden_common.Model):
    shapes = staticmethod(tensor_shapes)
    logits = staticmethod(forward)

    @staticmethod
    def without_noise(case, name, tensor):
        # The key part of the attention bias is left out: its true gradient is zero, so Adam only amplifies rounding.
        C = case["hidden"]
        return torch.cat([tensor[:C], tensor[2 * C:]]) if name.endswith("c_attn.bias") else tensor


if __name__ == "__main__":
    golden_common.make(Gpt2, "gpt2", pathlib.Path(__file__).name, GRADIENT_CASE, CURVE_CASE)
