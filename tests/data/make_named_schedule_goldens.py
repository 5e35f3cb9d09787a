#!/usr/bin/env python3
"""Writes named_schedule_goldens.json: the rates that transformers' own schedules set for each step.

Usage: make_named_schedule_goldens.py   (needs torch and transformers)
"""
import json
import pathlib
import warnings

import torch
import transformers

STEPS = 26
LR = 8e-4


def case(name, **params):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
    first = {k: params[k] for k in ["num_warmup_steps", "num_training_steps"] if k in params}
    more = {k: v for k, v in params.items() if k not in first}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scheduler = transformers.get_scheduler(name, optimizer, **first, scheduler_specific_kwargs=more)
        values = []
        for _ in range(STEPS):
            values.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
    return {"type": name, "params": params, "values": values}


def cases():
    yield case("constant")
    for warmup in [0, 1, 5]:
        yield case("constant_with_warmup", num_warmup_steps=warmup)
        yield case("inverse_sqrt", num_warmup_steps=warmup)
        yield case("inverse_sqrt", num_warmup_steps=warmup, timescale=7)
        ends = dict(num_warmup_steps=warmup, num_training_steps=20)
        yield case("linear", **ends)
        yield case("cosine", **ends)
        yield case("cosine", **ends, num_cycles=1.25)
        yield case("cosine_with_restarts", **ends)
        yield case("cosine_with_restarts", **ends, num_cycles=3)
        yield case("polynomial", **ends)
        yield case("polynomial", **ends, lr_end=1e-4, power=2.5)
        yield case("cosine_with_min_lr", **ends, min_lr=1e-4)
        yield case("cosine_with_min_lr", **ends, min_lr_rate=0.3, num_cycles=0.75)
        for bend in ["linear", "cosine", "1-sqrt"]:
            yield case("warmup_stable_decay", **ends, num_decay_steps=6, warmup_type=bend, decay_type=bend)
        yield case("warmup_stable_decay", **ends, num_decay_steps=9, min_lr_ratio=0.1)
        yield case("warmup_stable_decay", **ends, num_decay_steps=4, num_stable_steps=3, num_cycles=0.3)
    yield case("linear", num_warmup_steps=8, num_training_steps=6)
    yield case("cosine", num_warmup_steps=8, num_training_steps=6)


rows = ",\n".join(json.dumps(one) for one in cases())
(pathlib.Path(__file__).parent / "named_schedule_goldens.json").write_text(
    '{"made_by": {"transformers": "%s"}, "lr": %r, "cases": [\n%s\n]}\n' % (transformers.__version__, LR, rows))
