#!/usr/bin/env python3
"""Prints the bytes that the kernels between the products of a layer read and write in a step on a GPU, beside the least
that any kernels could: each input read once, each output written once, nothing made again, and nothing read where a
product has it at hand anyway. By memory.recompute: "none" makes outputs of norms and activations again, "never" keeps
them. Tiles that a cache serves again count once.

tools/gpu/kernel_bytes.py [--samples 32]
"""
import argparse
from dataclasses import dataclass


@dataclass
class Layer:
    name: str
    tokens: int      # of a sample
    hidden: int
    attended: int    # elements of all heads of queries
    shared: int      # … of keys
    inner: int       # of the MLP
    gated: bool
    biases: int      # elements of a row of all products with biases, as their gradients read them
    head_norms: bool


LAYERS = [Layer("GPT-2 124M", 1024, 768, 768, 768, 3072, False, 3 * 768 + 768 + 3072 + 768, False),
          Layer("Qwen3-1.7B", 4096, 2048, 2048, 1024, 6144, True, 0, True)]


def classes(layer):
    """(class, elements of a row that are moved, with "never", and at least)."""
    C, A, S, F = layer.hidden, layer.attended, layer.shared, layer.inner
    qkv = A + 2 * S
    rows = [("norms, forward", 2 * 2 * (2 * C), 2 * (2 * C), 2 * (2 * C)),
            # What went in, the gradient, that of the stream, and the result.
            ("norms, backward", 2 * (4 * C), 2 * (4 * C), 2 * (4 * C)),
            ("attention, forward", qkv + A, qkv + A, qkv + A),
            # Two kernels: one reads all five inputs and writes queries' gradients, one four and writes the others.
            ("attention, backward", (qkv + 2 * A + A) + (qkv + A + 2 * S), (qkv + 2 * A + A) + (qkv + A + 2 * S),
             qkv + 2 * A + qkv)]
    if layer.gated:
        rows.append(("SwiGLU", 3 * F + 3 * F + 5 * F, 3 * F + 5 * F, 3 * F + 5 * F))
    else:
        # Products apply GELU and its gradient; a pass makes its output again.
        rows.append(("GELU", 2 * F, 0, 0))
    if layer.biases:
        rows.append(("gradients of biases", layer.biases, layer.biases, 0))
    if layer.head_norms:
        turned = 2 * qkv + 2 * (A + S)             # norms and a copy of values, then positions in place
        back = 2 * (A + S) + 3 * (A + S)           # positions, then norms
        rows.append(("head norms and positions", 2 * turned + back, turned + back, 2 * qkv + 3 * (A + S)))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=32)
    samples = parser.parse_args().samples
    print("| layer, samples × tokens | kernels | none, MB | never, MB | least, MB | none ÷ least | never ÷ least |")
    print("|---|---|---|---|---|---|---|")
    for layer in LAYERS:
        total = [0, 0, 0]
        for name, *moved in classes(layer) + [("all", None, None, None)]:
            if moved[0] is None:
                moved = total
            else:
                total = [a + b for a, b in zip(total, moved)]
            millions = [elements * 2 * samples * layer.tokens / 1e6 for elements in moved]
            ratios = [f"{m / moved[2]:.2f}" if moved[2] else "–" for m in moved[:2]]
            print(f"| {layer.name}, {samples} × {layer.tokens:,} | {name} | " +
                  " | ".join(f"{m:,.0f}" for m in millions) + " | " + " | ".join(ratios) + " |")


if __name__ == "__main__":
    main()
