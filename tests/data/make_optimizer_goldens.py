"""Writes optimizer_goldens.json: trajectories of optimizers and loss scales, for tests/optimizer.

    python make_optimizer_goldens.py > optimizer_goldens.json

Trajectories run in fp64: torch.optim.SGD, transformers.optimization.Adafactor, and Lion by its paper's formula. Loss
scales follow DeepSpeed's rule, written down again here as a state machine that takes one step at a time.
"""
import json

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

print(json.dumps({"shapes": SHAPES, "starts": [rounded(s) for s in starts],
                  "grads": [[rounded(g) for g in step] for step in grads], "cases": cases, "loss_scales": loss_scales}))
