"""Writes muon_goldens.json: steps of torch.optim.Muon, for tests/optimizer/muon_test.cpp.

    python make_muon_goldens.py > muon_goldens.json

`exact`: in fp64, with the cast to bf16 taken out of PyTorch's Newton-Schulz iteration. `shipped`: as PyTorch ships it, in
fp32 with that cast.
"""
import inspect
import json

import torch
from torch.optim import _muon

SHAPES = [[12, 20], [20, 12], [16, 16], [4, 36]]
STEPS = 2
generator = torch.Generator().manual_seed(47)
shipped = _muon._zeropower_via_newtonschulz
scope = dict(vars(_muon))
exec(inspect.getsource(shipped).replace("torch.bfloat16", "torch.float64"), scope)
without_cast = scope["_zeropower_via_newtonschulz"]


def rounded(tensor):
    return [float(f"{v:.9g}") for v in tensor.flatten().tolist()]


def normal(shape):
    return torch.randn(shape, generator=generator, dtype=torch.float32)


starts = [normal(s) * 0.1 for s in SHAPES]
grads = [[normal(s) * 10.0 ** (-step) for s in SHAPES] for step in range(STEPS)]


def steps(dtype, iteration, **params):
    _muon._zeropower_via_newtonschulz = iteration
    weights = [torch.nn.Parameter(s.to(dtype, copy=True)) for s in starts]
    optimizer = torch.optim.Muon(weights, **params)
    after = []
    for step in range(STEPS):
        for weight, grad in zip(weights, grads[step]):
            weight.grad = grad.to(dtype, copy=True)
        optimizer.step()
        after.append([rounded(w.detach()) for w in weights])
    return after


cases = []
for params in [dict(lr=0.02, weight_decay=0.1), dict(lr=0.02, weight_decay=0.0, momentum=0.8, nesterov=False),
               dict(lr=0.005, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
               dict(lr=0.01, ns_steps=4, ns_coefficients=(2.0, -1.5, 0.5))]:
    cases.append({"params": params, "exact": steps(torch.float64, without_cast, **params),
                  "shipped": steps(torch.float32, shipped, **params)})
print(json.dumps({"torch": torch.__version__.split("+")[0], "shapes": SHAPES, "weights": [rounded(s) for s in starts],
                  "grads": [[rounded(g) for g in of_step] for of_step in grads], "cases": cases}))
