"""Writes adam_golden.txt: trajectories of torch.optim.AdamW and Adam in fp64, for tests/optimizer/adam_test.cpp.

    python make_adam_golden.py > adam_golden.txt

One case is a line "case <decoupled> <lr> <beta1> <beta2> <eps> <weight_decay> <count> <steps>", a line of initial
weights, then for each step a line of gradients and a line of weights after the step.
"""
import torch

COUNT, STEPS = 6, 5


def line(values):
    print(" ".join(f"{v:.10g}" for v in values))


def case(optimizer, decoupled, lr, betas, eps, weight_decay, generator):
    start = torch.randn(COUNT, generator=generator, dtype=torch.float32).double()
    weight = torch.nn.Parameter(start.clone())
    step = optimizer([weight], lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
    print("case", int(decoupled), lr, *betas, eps, weight_decay, COUNT, STEPS)
    line(start.tolist())
    for i in range(STEPS):
        # Magnitudes from 1e-6 to 1e3 in one tensor, and one gradient that is zero.
        scale = torch.tensor([1e-6, 1e-3, 1.0, 1e3, 0.0, 1.0], dtype=torch.float64)
        weight.grad = (torch.randn(COUNT, generator=generator, dtype=torch.float32).double() * scale).float().double()
        step.step()
        line(weight.grad.tolist())
        line(weight.tolist())


generator = torch.Generator().manual_seed(20)
case(torch.optim.AdamW, True, 1e-2, (0.9, 0.999), 1e-8, 0.0, generator)
case(torch.optim.AdamW, True, 1e-2, (0.9, 0.95), 1e-8, 0.1, generator)
case(torch.optim.Adam, False, 3e-3, (0.8, 0.99), 1e-6, 0.05, generator)
