#!/usr/bin/env python3
"""Reads a checkpoint of zrt with PyTorch's distributed checkpoint and with safetensors, and an export of it with
transformers; all must agree to the bit. Needs torch (2.8 or newer), safetensors and transformers.

Usage: check_checkpoint.py ZRT CHECKPOINT     (ZRT: the program; CHECKPOINT: a run's checkpoints/step_N)
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.distributed.checkpoint as dcp
from safetensors import safe_open
from torch.distributed.checkpoint import HuggingFaceStorageReader
from transformers import AutoModelForCausalLM

zrt, checkpoint = sys.argv[1], pathlib.Path(sys.argv[2])
prefix = "transformer."


def assembled(folder):
    """Whole tensors from the shard files, by safetensors alone."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            places = json.loads(file.metadata()["DCP_SHARDING_INFO"])
            for name in file.keys():
                tensors.setdefault(name, []).append((places[name]["saved_offsets"], file.get_tensor(name)))
    whole = {}
    for name, pieces in tensors.items():
        shape = [max(o[d] + t.shape[d] for o, t in pieces) for d in range(len(pieces[0][0]))]
        result = torch.full(shape, float("nan"))
        for offsets, piece in pieces:
            result[tuple(slice(o, o + n) for o, n in zip(offsets, piece.shape))] = piece
        assert not result.isnan().any(), f"{name} has holes"
        whole[name] = result
    return whole


for folder in [checkpoint, checkpoint / "optimizer"]:
    if not folder.is_dir():
        continue
    reader = HuggingFaceStorageReader(str(folder))
    metadata = reader.read_metadata().state_dict_metadata
    state = {name: torch.zeros(entry.size) for name, entry in metadata.items()}
    dcp.load(state, storage_reader=reader)
    expected = assembled(folder)
    assert state.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(state[name], tensor), f"{name} differs between DCP and safetensors"
    print(f"{folder}: {len(state)} tensors, DCP and safetensors agree")

with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / "export"
    subprocess.run([zrt, "checkpoint", "export", checkpoint, "--out", out], check=True, stdout=subprocess.DEVNULL)
    model, info = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
    weights = assembled(checkpoint)
    for name, tensor in model.state_dict().items():
        ours = name.removeprefix(prefix)
        if ours == "lm_head.weight" and ours not in weights:
            continue
        assert torch.equal(tensor, weights[ours]), f"{name} differs between transformers and the checkpoint"
    print(f"export: {type(model).__name__} of transformers has the same weights")
