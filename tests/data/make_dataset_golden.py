#!/usr/bin/env python3
"""Writes the goldens of the dataset tests: python3 tests/data/make_dataset_golden.py (needs numpy).

dataset_golden/{u16,i32}.{bin,idx}  an indexed dataset written field by field, without the code under test
dataset_golden/numpy.json           streams of numpy.random.RandomState and sums of numpy
dataset_golden/index.json           document, sample and shuffle indices of Megatron's GPT dataset, and blends
"""
import json
import math
import pathlib
import struct

import numpy as np

OUT = pathlib.Path(__file__).resolve().parent / "dataset_golden"


def write_pair(name, code, dtype, documents):
    item = np.dtype(dtype).itemsize
    (OUT / f"{name}.bin").write_bytes(b"".join(np.array(d, dtype=dtype).tobytes() for d in documents))
    lengths = [len(d) for d in documents]
    pointers = [item * sum(lengths[:i]) for i in range(len(lengths))]
    idx = b"MMIDIDX\0\0" + struct.pack("<Q", 1) + struct.pack("<B", code)
    idx += struct.pack("<QQ", len(lengths), len(lengths) + 1)
    idx += struct.pack(f"<{len(lengths)}i", *lengths)
    idx += struct.pack(f"<{len(lengths)}q", *pointers)
    idx += struct.pack(f"<{len(lengths) + 1}q", *range(len(lengths) + 1))
    (OUT / f"{name}.idx").write_bytes(idx)
    return documents


def digest(values):
    """Order-dependent 64-bit digest of integers, easy to repeat anywhere."""
    h = 0
    for v in values:
        h = (h * 6364136223846793005 + int(v) + 1442695040888963407) % 2**64
    return h


def numpy_streams():
    cases = []
    for seed in (0, 1, 1234, 2**32 - 1):
        words = np.random.RandomState(seed).randint(0, 2**32, size=4, dtype=np.uint32)
        for n, dtype in ((0, "i4"), (1, "i4"), (2, "i4"), (17, "i4"), (64, "u4"), (1000, "i8"), (70000, "u4")):
            values = np.arange(n, dtype=dtype)
            state = np.random.RandomState(seed)
            state.shuffle(values)
            case = {"seed": seed, "n": n, "digest": digest(values), "next": int(state.randint(0, 2**32, dtype=np.uint32))}
            if n <= 17:
                case["values"] = values.tolist()
            cases.append(case)
        cases[-1]["words"] = words.tolist()
    wide = []
    for top in (2**32 - 1, 2**32, 2**32 + 1, 2**40 - 3, 2**62):
        # Inclusive upper bounds; those above 32 bits take the 64-bit path.
        state = np.random.RandomState(7)
        wide.append({"max": top, "values": [int(state.randint(0, top + 1, dtype=np.int64)) for _ in range(6)]})
    sums = []
    for n in (1, 3, 7, 8, 10, 19, 128, 129, 300):
        values = np.random.RandomState(n).rand(n) * 10
        sums.append({"values": values.tolist(), "sum": float(np.sum(values))})
    return {"shuffles": cases, "wide": wide, "sums": sums}


def gpt_index(lengths, first, S, samples, seed):
    """Megatron-Core's three indices; the walk is done on the flat token stream, not document by document."""
    tokens = sum(lengths)
    epochs = 1
    if samples is not None:
        while epochs * tokens < samples * S + 1:
            epochs += 1
    separate = False
    before_last = None
    if epochs > 1:
        before_last = ((epochs - 1) * tokens - 1) // S
        separate = samples - before_last < int(0.80 * ((tokens - 1) // S))
    state = np.random.RandomState(seed)
    ids = np.arange(first, first + len(lengths), dtype=np.int32)
    if separate:
        head, tail = np.tile(ids, epochs - 1), ids.copy()
        state.shuffle(head)
        state.shuffle(tail)
        documents = np.concatenate([head, tail])
    else:
        documents = np.tile(ids, epochs)
        state.shuffle(documents)
    count = (epochs * tokens - 1) // S
    # Sample j ends with token (j + 1) * S of the stream, where sample j + 1 starts.
    place = [(d, o) for d, doc in enumerate(documents) for o in range(lengths[doc - first])]
    starts = [(0, 0)] + [place[(j + 1) * S] for j in range(count)]
    if separate:
        a, b = np.arange(before_last, dtype=np.uint32), np.arange(before_last, count, dtype=np.uint32)
        state.shuffle(a)
        state.shuffle(b)
        shuffle = np.concatenate([a, b])
    else:
        shuffle = np.arange(count, dtype=np.uint32)
        state.shuffle(shuffle)
    return {
        "lengths": lengths, "first": first, "sequence": S, "samples": samples, "seed": seed, "epochs": epochs,
        "separate": bool(separate), "documents": documents.tolist(), "starts": [list(map(int, s)) for s in starts],
        "shuffle": shuffle.tolist(),
    }


def blend(weights, size):
    def normalise(w):
        w = np.array(w, dtype=np.float64)
        return (w / np.sum(w)).tolist()

    w = normalise(weights)
    requests = [int(math.ceil(math.ceil(size * x) * (1 + 0.005))) for x in w]
    total = sum(int(math.ceil(math.ceil(size * x) * (1 + 0.0))) for x in w)
    w = normalise(w)
    counts, dataset, number = [0] * len(w), [], []
    for i in range(total):
        errors = [x * max(float(i), 1.0) - float(c) for x, c in zip(w, counts)]
        d = int(np.argmax(errors))
        dataset.append(d)
        number.append(counts[d])
        counts[d] += 1
    return {"weights": weights, "samples": size, "requests": requests, "dataset": dataset, "number": number}


def split(text, n):
    w = np.array([float(x) for x in text.split(",")] + [0.0] * (3 - len(text.split(","))))
    w = (w / np.sum(w)).tolist()
    bounds = [0]
    for x in w:
        bounds.append(bounds[-1] + x)
    parts = [[int(round(a * float(n))), int(round(b * float(n)))] for a, b in zip(bounds[:-1], bounds[1:])]
    return {"split": text, "sequences": n, "parts": parts}


def main():
    OUT.mkdir(exist_ok=True)
    small = write_pair("u16", 8, "<u2", [[1, 2, 256], [256], [65499, 0, 7, 8, 256]])
    large = write_pair("i32", 4, "<i4", [[70000, 1], [2147483647, 5, 0]])
    (OUT / "numpy.json").write_text(json.dumps(numpy_streams()) + "\n")

    lengths = np.random.RandomState(5).randint(1, 40, size=23).tolist()
    with_empty = [0, 9, 0, 0, 30, 1, 5, 0]
    tokens = sum(lengths)
    S = 16
    per_epoch = (tokens - 1) // S
    cases = [
        gpt_index(lengths, 0, S, None, 1234),  # one epoch
        gpt_index(lengths, 0, S, per_epoch, 1),  # one epoch, exactly
        gpt_index(lengths, 0, S, per_epoch + 1, 1),  # a second epoch for one sample: separate
        gpt_index(lengths, 0, S, 2 * per_epoch, 3),  # two nearly full epochs: together
        gpt_index(lengths, 7, S, 2 * per_epoch + per_epoch // 2, 1234),  # three, the last half used
        gpt_index(lengths, 0, S, 5 * per_epoch, 9),
        gpt_index(lengths, 0, 1, 3 * tokens, 2),  # the shortest samples
        gpt_index(lengths, 0, tokens - 1, 1, 2),  # one sample that is everything
        gpt_index(with_empty, 0, 4, None, 1),
        gpt_index(with_empty, 3, 4, 29, 1),
        gpt_index([33], 0, 16, None, 8),  # one document, two whole samples that end with it
        gpt_index([17, 16, 16], 0, 16, 7, 8),  # samples that end with documents
    ]
    # Around the threshold of the separate last epoch.
    for extra in range(int(0.8 * per_epoch) - 1, int(0.8 * per_epoch) + 2):
        sans = (tokens - 1) // S
        cases.append(gpt_index(lengths, 0, S, sans + extra, 4))
    blends = [
        blend([0.3, 0.7], 50), blend([1, 1, 1], 31), blend([5], 7), blend([0.2, 0.0, 3.5, 1.1], 101),
        blend([1.0] * 10, 97), blend([0.1 * (i + 1) for i in range(19)], 60),
    ]
    splits = [split(t, n) for t in ("969,30,1", "98,2", "1", "0,1,0", "99.5,0.5,0", "1,1,1", "1,1") for n in (1, 5, 10, 1000, 12345)]
    (OUT / "index.json").write_text(json.dumps({"gpt": cases, "blends": blends, "splits": splits}) + "\n")
    assert small and large
    assert {c["separate"] for c in cases} == {True, False}


if __name__ == "__main__":
    main()
