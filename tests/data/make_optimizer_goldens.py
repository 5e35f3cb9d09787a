"""Writes optimizer_goldens.json: trajectories of optimizers, loss scales and schedules, for tests/optimizer.

    python make_optimizer_goldens.py > optimizer_goldens.json

Trajectories run in fp64: torch.optim.SGD, transformers.optimization.Adafactor, and Lion by its paper's formula. Loss
scales and schedules follow DeepSpeed's rules, written down again here as state machines that take one step at a time.
"""
import json
import math

import torch
from transformers.optimization import Adafactor

from golden_common import Lion

SHAPES = [[3, 40], [6], [2, 3, 4], [70]]
STEPS = 4
generator = torch.Generator().manual_seed(31)


def rounded(tensor):
    return [float(f"{v:.9g}") for v in tensor.flatten().tolist()]


def normal(shape):
    return torch.randn(shape, generator=generator, dtype=torch.float32)


starts = [normal(s) * 0.5 for s in SHAPES]
# Magnitudes that differ by row, and some zeros.
scales = [10.0 ** torch.randint(-4, 1, [s[0]] + [1] * (len(s) - 1), generator=generator) for s in SHAPES]
grads = [[(normal(s) * scale).float() * (torch.rand(s, generator=generator) > 0.05) for s, scale in zip(SHAPES, scales)]
         for _ in range(STEPS)]


def case(name, make, **params):
    weights = [torch.nn.Parameter(s.double()) for s in starts]
    optimizer = make(weights, **params)
    after = []
    for step in range(STEPS):
        for weight, grad in zip(weights, grads[step]):
            weight.grad = grad.double()
        optimizer.step()
        after.append([rounded(w.detach()) for w in weights])
    return {"optimizer": name, "params": params, "weights": after}


cases = [
    case("sgd", torch.optim.SGD, lr=0.1),
    case("sgd", torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01),
    case("sgd", torch.optim.SGD, lr=0.1, momentum=0.8, dampening=0.3),
    case("sgd", torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    case("lion", Lion, lr=1e-2, betas=(0.9, 0.99), weight_decay=0.1),
    case("lion", Lion, lr=1e-3, betas=(0.95, 0.98), weight_decay=0.0),
    case("adafactor", Adafactor),
    case("adafactor", Adafactor, warmup_init=True, weight_decay=0.01),
    case("adafactor", Adafactor, lr=1e-2, relative_step=False, scale_parameter=False, beta1=0.9, clip_threshold=0.5,
         weight_decay=0.1),
    case("adafactor", Adafactor, lr=1e-2, relative_step=False, eps=(1e-8, 0.6), decay_rate=-0.5),
]


def loss_scale(overflows, initial, window, hysteresis, consecutive, minimum):
    """Scales after each step; None where the run ends with an error."""
    scale, left, iteration, last, scales = float(initial), hysteresis, 0, -1, []
    for overflow in overflows:
        if overflow == "x":
            if hysteresis == 1 or left == 1:
                if scale == minimum:
                    scales.append(None)
                    break
                scale = max(scale / 2, minimum)
            else:
                left -= 1
            last = iteration
        else:
            if consecutive:
                left = hysteresis
            stable = iteration - last - 1
            if stable > 0 and stable % window == 0:
                if not consecutive:
                    left = hysteresis
                scale *= 2
        scales.append(scale)
        iteration += 1
    return {"overflows": overflows, "initial": initial, "window": window, "hysteresis": hysteresis,
            "consecutive": consecutive, "minimum": minimum, "scales": scales}


loss_scales = [
    loss_scale("............x..xx.....xxxx........x.x.x.x.", 65536, 4, 2, False, 1),
    loss_scale("............x..xx.....xxxx........x.x.x.x.", 65536, 4, 2, True, 1),
    loss_scale("xxx......x.....x....", 1024, 3, 1, False, 1),
    loss_scale("xxxxxxxxxx", 8, 1000, 1, False, 1),
    loss_scale("xxxxxxxxxx", 8, 1000, 3, False, 1),
    loss_scale("xx...x.x", 3, 2, 2, False, 2),
    loss_scale("x....x..x.x.x.x.x", 2, 1, 3, True, 1),
]


def one_cycle(steps, cycle_min_lr, cycle_max_lr, decay_lr_rate=0.0, cycle_first_step_size=2000,
              cycle_second_step_size=None, decay_step_size=0, cycle_min_mom=0.8, cycle_max_mom=0.9, decay_mom_rate=0.0):
    """(lr, beta1) in force at each optimizer step."""
    first = float(cycle_first_step_size)
    second = first if cycle_second_step_size is None else float(cycle_second_step_size)
    total, ratio = first + second, first / (first + second)
    current, last, result = (cycle_min_lr, cycle_min_mom), -1, []
    for _ in range(steps):
        result.append([current[0], current[1]])
        last += 1
        if last < total:
            at = last + 1
            x = 1.0 + at / total - math.floor(1 + at / total)
            height = x / ratio if x <= ratio else (x - 1) / (ratio - 1)
            current = (cycle_min_lr + (cycle_max_lr - cycle_min_lr) * height,
                       cycle_max_mom - (cycle_max_mom - cycle_min_mom) * height)
        else:
            interval = (last - total + 1) / decay_step_size if decay_step_size else 0.0
            current = (cycle_min_lr / (1 + decay_lr_rate * interval), cycle_max_mom * (1 + decay_mom_rate * interval))
    return result


def range_test(steps, lr_range_test_min_lr, lr_range_test_step_size, lr_range_test_step_rate, lr_range_test_staircase):
    current, last, result = lr_range_test_min_lr, -1, []
    for _ in range(steps):
        result.append(current)
        last += 1
        interval = (last + 1) / lr_range_test_step_size
        current = lr_range_test_min_lr * (
            1 + lr_range_test_step_rate * (math.floor(interval) if lr_range_test_staircase else interval))
    return result


def schedule(law, steps, **params):
    return {"type": law.__name__, "params": params, "values": law(steps, **params)}


schedules = [
    schedule(one_cycle, 14, cycle_min_lr=1e-4, cycle_max_lr=1e-3, cycle_first_step_size=4),
    schedule(one_cycle, 20, cycle_min_lr=1e-4, cycle_max_lr=1e-3, cycle_first_step_size=3, cycle_second_step_size=6,
             decay_lr_rate=0.5, decay_step_size=4, cycle_min_mom=0.7, cycle_max_mom=0.95, decay_mom_rate=0.01),
    schedule(one_cycle, 8, cycle_min_lr=0.1, cycle_max_lr=0.3, cycle_first_step_size=5, cycle_second_step_size=0),
    schedule(range_test, 9, lr_range_test_min_lr=1e-4, lr_range_test_step_size=3, lr_range_test_step_rate=2.0,
             lr_range_test_staircase=False),
    schedule(range_test, 9, lr_range_test_min_lr=1e-4, lr_range_test_step_size=3, lr_range_test_step_rate=2.0,
             lr_range_test_staircase=True),
]

print(json.dumps({"shapes": SHAPES, "starts": [rounded(s) for s in starts],
                  "grads": [[rounded(g) for g in step] for step in grads], "cases": cases, "loss_scales": loss_scales,
                  "schedules": schedules}))
