#!/usr/bin/env python3
"""Writes the goldens that Megatron-Core's own code makes: python3 tests/data/make_megatron_golden.py (needs torch and
megatron-core; made with version 0.16.1).

dataset_golden/megatron_{0,1,2}.{bin,idx}  pairs written by Megatron's IndexedDatasetBuilder
dataset_golden/megatron.json               the samples that its GPTDataset and BlendedDataset give of them, in order

It also checks that dataset_golden/index.json, which make_dataset_golden.py computes from its own reading of the
algorithm, is what Megatron's code gives for the same documents.
"""
import json
import pathlib
import tempfile
import types

import numpy as np
import torch
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
from megatron.core.datasets.utils import Split

OUT = pathlib.Path(__file__).resolve().parent / "dataset_golden"
VOCABULARY = 1000


def config(seed, sequence, **more):
    tokenizer = types.SimpleNamespace(
        vocab_size=VOCABULARY, eod=0, pad=VOCABULARY, unique_identifiers={"class": "none"})
    return GPTDatasetConfig(
        random_seed=seed, sequence_length=sequence, tokenizer=tokenizer, reset_position_ids=False,
        reset_attention_mask=False, eod_mask_loss=False, create_attention_mask=False, **more)


def write_pair(prefix, documents):
    builder = IndexedDatasetBuilder(str(prefix) + ".bin", dtype=np.uint16)
    for document in documents:
        builder.add_document(torch.tensor(document, dtype=torch.int64), [len(document)])
    builder.finalize(str(prefix) + ".idx")


def sample_list(dataset, count):
    return [dataset[i]["tokens"].tolist() + [int(dataset[i]["labels"][-1])] for i in range(count)]


def build(prefixes, weights, samples, seed, sequence, cache):
    train = (prefixes, weights)
    settings = config(seed, sequence, blend_per_split=[train, None, None], path_to_cache=cache)
    return BlendedMegatronDatasetBuilder(GPTDataset, [samples, 0, 0], lambda: True, settings).build()[0]


def check_index(cases, folder):
    """index.json against Megatron's indices of documents with the same lengths."""
    for number, case in enumerate(cases):
        prefix = folder / f"case_{number}"
        lengths = [1] * case["first"] + case["lengths"]
        write_pair(prefix, [[1] * n for n in lengths])
        indices = np.arange(case["first"], len(lengths), dtype=np.int32)
        settings = config(case["seed"], case["sequence"], blend_per_split=[([str(prefix)], None), None, None],
                          path_to_cache=str(folder / f"cache_{number}"))
        dataset = GPTDataset(IndexedDataset(str(prefix)), str(prefix), indices, case["samples"], Split.train, settings)
        assert dataset.document_index.tolist() == case["documents"], number
        assert dataset.sample_index.tolist() == case["starts"], number
        assert dataset.shuffle_index.tolist() == case["shuffle"], number


def main():
    # Blends ask for their rank.
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        random = np.random.RandomState(11)
        prefixes = []
        for d in range(3):
            documents = [random.randint(1, VOCABULARY, size=n).tolist() for n in random.randint(1, 30, size=12 + 5 * d)]
            write_pair(OUT / f"megatron_{d}", documents)
            prefixes.append(str(OUT / f"megatron_{d}"))
        cases = []
        for weights, samples, seed, sequence in [
            ([1.0], 12, 1234, 16), ([1.0], 40, 7, 16), ([0.3, 0.5, 0.2], 50, 1234, 16), ([2.0, 1.0, 7.0], 64, 3, 8),
        ]:
            used = prefixes[: len(weights)]
            cache = str(folder / f"samples_{len(cases)}")
            dataset = build(used, weights if len(weights) > 1 else None, samples, seed, sequence, cache)
            cases.append({"weights": weights, "samples": samples, "seed": seed, "sequence": sequence,
                          "tokens": sample_list(dataset, len(dataset))})
        (OUT / "megatron.json").write_text(json.dumps({"vocabulary": VOCABULARY, "cases": cases}) + "\n")
        check_index(json.loads((OUT / "index.json").read_text())["gpt"], folder)


main()
