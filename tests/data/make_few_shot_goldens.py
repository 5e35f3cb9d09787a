#!/usr/bin/env python3
"""Writes few_shot/: a tiny Llama of transformers with a SentencePiece tokenizer, items, and what a plain scorer gives.

Usage: make_few_shot_goldens.py   (needs torch, transformers, sentencepiece)

The scorer follows lm-evaluation-harness: blanks at the context's end go to the choice, both are encoded together, what
lies behind the context's own ids is the choice; a context that is too long loses its beginning. Log-probabilities are
in fp64, one text at a time.
"""
import io
import json
import pathlib
import shutil

import sentencepiece
import torch
from transformers import LlamaConfig, LlamaForCausalLM

here = pathlib.Path(__file__).parent / "few_shot"
SEQUENCE = 56
VOCAB = 400
colours = ["red", "green", "blue", "größer", "zielony", "синий", "青い"]
things = ["sky", "grass", "Haus", "трава", "海", "stone"]


def items():
    number = 0
    for i in range(14):
        thing, right = things[i % len(things)], colours[i * 3 % len(colours)]
        choices = [" " + colours[(i * 3 + step * (i % 3 + 1)) % len(colours)] for step in range(2 + i % 3)]
        choices[i % len(choices)] = f" {right} and {thing}" if i % 2 else " " + right
        yield dict(task="colours", id=number, context=f"The {thing} number {i * 37 % 100} is", choices=choices,
                   gold=i % len(choices))
        number += 1
    for i in range(10):
        thing = things[i * 5 % len(things)]
        yield dict(task="pairs", id=f"p{number}", context=f"{thing}, right? ",
                   choices=[f"Yes, {colours[i % 7]}", "No, 12", f"Also {thing} und mehr"], gold=i * 7 % 3)
        number += 1
    # Nothing in front, nothing but blanks, and a beginning that is lost.
    yield dict(task="pairs", id="empty", context="", choices=["red", " the green grass"], gold=1)
    yield dict(task="pairs", id="blanks", context="  ", choices=["blue", "red 7"], gold=0)
    yield dict(task="pairs", id="long", context="the stone is blue and the sea 海 is red. " * 12,
               choices=[" The end", " sky", " größer"], gold=2)


def shots():
    for i in range(6):
        task = ["colours", "pairs"][i % 2]
        thing = things[(i + 2) % len(things)]
        yield dict(task=task, context=f"The {thing} is" if task == "colours" else f"{thing}, right?",
                   choices=[" " + colours[i], " No"], gold=i % 2)


def encode(tokenizer, item, choice):
    context = item["context"]
    end = len(context.rstrip(" \t\n\v\f\r"))
    context, text = context[:end], context[end:] + choice
    before, both = tokenizer.encode(context), tokenizer.encode(context + text)
    counted = len(both) - len(before)
    if not before:
        both = [tokenizer.eos_id()] + both
    return both[-(SEQUENCE + 1):], counted, len(both) > SEQUENCE + 1


def score(model, tokenizer, item):
    result = dict(log_likelihoods=[], tokens=[], bytes=[len(c.encode()) for c in item["choices"]], cut=0)
    for choice in item["choices"]:
        ids, counted, cut = encode(tokenizer, item, choice)
        with torch.no_grad():
            table = torch.log_softmax(model(torch.tensor([ids[:-1]])).logits[0], -1)
        targets = torch.tensor(ids[-counted:])
        result["log_likelihoods"].append(table[-counted:].gather(1, targets[:, None]).sum().item())
        result["tokens"].append(counted)
        result["cut"] += cut
    return result


def right(item, scored, lengths=None):
    values = [v / (1 if lengths is None else lengths[c]) for c, v in enumerate(scored["log_likelihoods"])]
    return values.index(max(values)) == item["gold"]


def with_shots(item, pool, number, separator):
    pool = [shot for shot in pool if shot["task"] == item["task"]][:number]
    text = "".join(shot["context"] + shot["choices"][shot["gold"]] + separator for shot in pool)
    return dict(item, context=text + item["context"])


def setting(model, tokenizer, tasks, pool, number, separator):
    tasks = [with_shots(item, pool, number, separator) for item in tasks]
    scored = [score(model, tokenizer, item) for item in tasks]
    accuracies = {}
    for name in ["colours", "pairs", "all"]:
        of_task = [(i, s) for i, s in zip(tasks, scored) if name in (i["task"], "all")]
        accuracies[name] = dict(
            items=len(of_task), right=sum(right(i, s) for i, s in of_task),
            by_bytes=sum(right(i, s, s["bytes"]) for i, s in of_task),
            by_tokens=sum(right(i, s, s["tokens"]) for i, s in of_task), cut=sum(s["cut"] for _, s in of_task))
    return dict(number=number, separator=separator, items=scored, accuracies=accuracies)


def train_tokenizer(lines):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=out, model_type="bpe", vocab_size=VOCAB - 5, byte_fallback=True,
        hard_vocab_limit=False, split_digits=True, allow_whitespace_only_pieces=True, add_dummy_prefix=False,
        remove_extra_whitespaces=False, normalization_rule_name="identity", character_coverage=0.9995,
        minloglevel=2)
    return out.getvalue()


def main():
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    tasks, pool = list(items()), list(shots())
    for name, lines in [("tasks", tasks), ("shots", pool)]:
        (here / f"{name}.jsonl").write_text("".join(json.dumps(x, ensure_ascii=False) + "\n" for x in lines))
    lines = [item["context"] + choice for item in tasks + pool for choice in item["choices"]]
    (here / "tokenizer.model").write_bytes(train_tokenizer(lines))
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(here / "tokenizer.model"))
    torch.manual_seed(17)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCAB, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=SEQUENCE, rms_norm_eps=1e-5, tie_word_embeddings=False)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(here / "model")
    (here / "model" / "generation_config.json").unlink(missing_ok=True)
    model = model.double()
    settings = [setting(model, tokenizer, tasks, pool, 0, "")]
    settings += [setting(model, tokenizer, tasks, pool, n, s) for n, s in [(1, "\n"), (2, "\n\n")]]
    (here / "scores.json").write_text(json.dumps({"sequence": SEQUENCE, "settings": settings}, indent=1) + "\n")


main()
