#!/usr/bin/env python3
"""Writes generation_goldens.json: greedy continuations by transformers of the tiny models in hugging_face/, and what its
temperature, top-k and top-p leave of a row of logits.

Usage: make_generation_goldens.py   (needs torch and transformers)
"""
import json
import pathlib

import torch
from transformers import AutoModelForCausalLM
from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

here = pathlib.Path(__file__).parent
MODELS = ["gpt2", "gpt2_untied", "llama", "llama_tied", "qwen3", "qwen3_untied"]
PROMPTS = [[5], [1, 2, 3], [60, 17, 17, 4, 33, 9]]
SEQUENCE = 16


def greedy(name, prompt, stops):
    model = AutoModelForCausalLM.from_pretrained(here / "hugging_face" / name).double().eval()
    model.generation_config.eos_token_id = stops or None
    model.generation_config.pad_token_id = 0
    ids = torch.tensor([prompt])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                         max_new_tokens=SEQUENCE - len(prompt))
    new = out[0, len(prompt):].tolist()
    return new[:-1] if stops and new[-1] in stops else new


def continuations():
    for name in MODELS:
        for prompt in PROMPTS:
            whole = greedy(name, prompt, [])
            yield dict(model=name, prompt=prompt, stops=[], tokens=whole)
            stops = [whole[4], whole[7]]
            yield dict(model=name, prompt=prompt, stops=stops, tokens=greedy(name, prompt, stops))


def left(logits, temperature, top_k, top_p):
    row = torch.tensor([logits], dtype=torch.float64)
    row = TemperatureLogitsWarper(temperature)(None, row)
    if top_k > 0:
        row = TopKLogitsWarper(top_k)(None, row)
    if top_p < 1:
        row = TopPLogitsWarper(top_p)(None, row)
    return torch.softmax(row[0], -1).tolist()


def rows():
    generator = torch.Generator().manual_seed(11)
    for case, (temperature, top_k, top_p) in enumerate([
            (1.0, 0, 1.0), (0.8, 40, 1.0), (0.8, 5, 1.0), (1.0, 0, 0.9), (1.0, 0, 0.5), (2.0, 0, 0.9), (0.5, 0, 0.9),
            (1.0, 4, 0.9), (1.5, 8, 0.7), (1.0, 0, 0.01), (0.7, 1, 0.9), (3.0, 3, 0.95)]):
        logits = (torch.randn(24, generator=generator) * 2).float().tolist()
        yield dict(temperature=temperature, top_k=top_k, top_p=top_p, logits=logits,
                   probabilities=left(logits, temperature, top_k, top_p))


lines = [json.dumps(x) for x in continuations()]
more = [json.dumps(x) for x in rows()]
(here / "generation_goldens.json").write_text(
    '{"greedy": [\n' + ",\n".join(lines) + '\n], "sampling": [\n' + ",\n".join(more) + "\n]}\n")
