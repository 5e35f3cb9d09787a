#!/usr/bin/env python3
"""Writes template/: the tokenizer of finetuning/llama with Llama's template, which puts <s> before a text, and what
transformers makes of prompts with it and the model of finetuning/llama: ids, greedy continuations, and log-likelihoods of
choices. Needs torch, transformers and tokenizers.

Usage: make_template_goldens.py
"""
import json
import pathlib
import shutil
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

here = pathlib.Path(__file__).parent
PROMPTS = ["The smith mended", "Ella", " two  nets", "Köln\n", "", "</s>An oar", "🙂 salt"]
NEW = 12
ITEMS = [("The old captain painted", [" the bell before dawn.", " seven lamps"]), ("", ["Nobody", " salt"]),
         ("Nobody counted the ship's log " * 6, [" at the fair", " for 25 crowns."])]
SEQUENCE = 64


def likelihood(model, ids, counted):
    with torch.no_grad():
        rows = torch.log_softmax(model(torch.tensor([ids[:-1]])).logits[0], -1)
    return float(sum(rows[i - 1][ids[i]] for i in range(len(ids) - counted, len(ids))))


def main():
    out = here / "template"
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(here / "finetuning" / "llama", folder, dirs_exist_ok=True)
        file = pathlib.Path(folder) / "tokenizer.json"
        whole = json.loads(file.read_text())
        start = {"SpecialToken": {"id": "<s>", "type_id": 0}}
        text = [{"Sequence": {"id": which, "type_id": i}} for i, which in enumerate("AB")]
        whole["post_processor"] = {"type": "TemplateProcessing", "single": [start, text[0]],
                                   "pair": [start, text[0], text[1]],
                                   "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
        file.write_text(json.dumps(whole, ensure_ascii=False))
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        model = model.double().eval()
        model.generation_config.update(do_sample=False, temperature=None)
        shutil.copy(file, out / "tokenizer.json")
    prompts = []
    for prompt in PROMPTS:
        ids = tokenizer(prompt)["input_ids"]
        whole = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.int64),
                               max_new_tokens=NEW, pad_token_id=2)[0].tolist()[len(ids):]
        prompts.append(dict(prompt=prompt, ids=ids, tokens=[id for id in whole if id != 2]))
    items = []
    for context, choices in ITEMS:
        scores = []
        for choice in choices:
            ids, alone = (tokenizer(part)["input_ids"] for part in (context + choice, context.rstrip()))
            counted = len(ids) - len(alone)
            cut = ids if len(ids) <= SEQUENCE + 1 else ids[:1] + ids[len(ids) - SEQUENCE:]  # <s> stays
            scores.append(likelihood(model, cut, counted))
        items.append(dict(context=context, choices=choices, gold=0, log_likelihoods=scores))
    (out / "goldens.json").write_text("{\"prompts\": [\n" + ",\n".join(map(json.dumps, prompts)) + "\n], \"items\": [\n"
                                      + ",\n".join(map(json.dumps, items)) + "\n]}\n")


if __name__ == "__main__":
    main()
