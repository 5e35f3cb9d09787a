#!/usr/bin/env python3
"""How far transformers' own gradients in fp32 and bf16 are from those in fp64, on the shapes of
tests/models/gradient_test.cpp, whose bounds are multiples of it. Needs torch and transformers.

Usage: measure_rounding.py [SEEDS]   (of weights and tokens; 8)

Prints, of each type of model and size of weights, the largest relative L2 error over all shapes, tied or not: of a
tensor, of a bias of keys, of queries' and keys' matrices, and of the gradient as a whole.
"""
import sys

import torch
import torch.nn.functional as F
from transformers import (Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig,
                          LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM)

# transformers computes softmax and norms in fp32 whatever the type; here fp64 stays fp64.
plain_softmax, plain_float = F.softmax, torch.Tensor.float
plain_to = torch.Tensor.to


def softmax(x, dim=None, dtype=None, **more):
    return plain_softmax(x, dim=dim, dtype=x.dtype if x.dtype == torch.float64 else dtype, **more)


def to(x, *args, **more):
    kept = x.dtype == torch.float64 and (args[:1] == (torch.float32,) or more.get("dtype") == torch.float32)
    return x if kept else plain_to(x, *args, **more)


F.softmax = torch.nn.functional.softmax = softmax
torch.Tensor.float = lambda x, *args, **more: x if x.dtype == torch.float64 else plain_float(x, *args, **more)
torch.Tensor.to = to

# Layers, hidden, heads, their width, sequence, vocabulary, tokens of a sample: `cases` and `config_of` there, which have
# biases with two heads and norms of heads, in place of Gemma's caps, with three.
SHAPES = [(2, 32, 2, 16, 16, 97, 13), (1, 48, 3, 20, 17, 131, 17), (3, 64, 2, 32, 32, 257, 32),
          (1, 64, 1, 40, 80, 1030, 80)]
HEADS = {"llama": (1, 2, 3), "qwen2": (2,), "gemma2": (1, 2), "gemma3": (3,)}


def gemma(model, config, **more):
    def make(sizes, sequence):
        period = 2 if sizes["tie_word_embeddings"] else 100
        types = ["full_attention" if (i + 1) % period == 0 else "sliding_attention"
                 for i in range(sizes["num_hidden_layers"])]
        return model(config(**sizes, **more, query_pre_attn_scalar=24, sliding_window=sequence // 3 + 1,
                            layer_types=types, attn_implementation="eager", pad_token_id=None))
    return make


def plain(model, config):
    return lambda sizes, sequence: model(config(**sizes, attn_implementation="eager", pad_token_id=None))


TYPES = {
    "llama": plain(LlamaForCausalLM, LlamaConfig),
    "qwen2": plain(Qwen2ForCausalLM, Qwen2Config),
    "gemma2": gemma(Gemma2ForCausalLM, Gemma2Config, attn_logit_softcapping=3.0, final_logit_softcapping=5.0),
    "gemma3": gemma(Gemma3ForCausalLM, Gemma3TextConfig),
}


def gradients(model, ids, targets, dtype):
    model = model.to(dtype)
    model.zero_grad()
    # The mask that transformers makes is of the model's type.
    logits = model(ids).logits
    F.cross_entropy(logits.flatten(0, 1).to(torch.float32), targets.flatten()).backward()
    return {name: p.grad.double().clone() for name, p in model.named_parameters()}


def distance(a, b):
    return float((a - b).norm() / b.norm())


def errors(name, shape, tied, seed, size, dtype):
    layers, hidden, heads, width, sequence, vocab, tokens = shape
    torch.manual_seed(seed)
    sizes = dict(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                 num_key_value_heads=1 if tied else heads, intermediate_size=2 * hidden + 9, vocab_size=vocab,
                 max_position_embeddings=sequence, rms_norm_eps=1e-4, tie_word_embeddings=tied,
                 head_dim=width)
    model = TYPES[name](sizes, sequence)
    with torch.no_grad():
        for key, p in model.named_parameters():
            uniform = torch.rand_like(p) * 2 - 1
            # As recipe_weights() there; Gemma's gains are about 2 then.
            p.copy_(size * uniform if p.dim() == 2 else 0.1 * uniform if key.endswith("bias") else 1 + 0.2 * uniform)
            p.copy_(p.to(dtype).float())
    ids = torch.randint(vocab, (3, tokens))
    targets = torch.randint(vocab, (3, tokens))
    exact = gradients(model, ids, targets, torch.float64)
    found = gradients(model, ids, targets, dtype)
    groups = {"tensor": 0.0, "key bias": 0.0, "queries, keys": 0.0}
    for key, value in found.items():
        group = ("key bias" if key.endswith("k_proj.bias") else
                 "queries, keys" if "q_proj" in key or "k_proj" in key else "tensor")
        groups[group] = max(groups[group], distance(value, exact[key]))
    whole = distance(torch.cat([v.flatten() for v in found.values()]),
                     torch.cat([exact[key].flatten() for key in found]))
    return {**groups, "whole": whole}


def main():
    torch.set_num_threads(1)
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    for dtype in (torch.float32, torch.bfloat16):
        for size, word in ((0.2, "large"), (0.02 * 3**0.5, "initial")):
            for name in TYPES:
                most = {}
                for seed in range(seeds):
                    for shape in (shape for shape in SHAPES if shape[2] in HEADS[name]):
                        for tied in (True, False):
                            for key, value in errors(name, shape, tied, seed, size, dtype).items():
                                most[key] = max(most.get(key, 0.0), value)
                print(f"{str(dtype)[6:]} {word} weights, {name}: " +
                      ", ".join(f"{key} {value:.2e}" for key, value in most.items() if value))


if __name__ == "__main__":
    main()
