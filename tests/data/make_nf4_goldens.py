#!/usr/bin/env python3
"""Blocks of 64 numbers as bitsandbytes keeps them in NF4: codes, scales and what is read back. Needs torch and
bitsandbytes.

Usage: make_nf4_goldens.py   (writes nf4_goldens.json beside this file)
"""
import json
import pathlib

import bitsandbytes.functional as bnb
import torch

torch.manual_seed(5)
numbers = torch.cat([torch.randn(256) * 0.05, torch.rand(128) * 2 - 1, torch.zeros(64), torch.linspace(-3, 3, 64),
                     torch.randn(64) * 1e-6, torch.randn(64).bfloat16().float() * 100])
codes, state = bnb.quantize_4bit(numbers, blocksize=64, quant_type="nf4", compress_statistics=False)
back = bnb.dequantize_4bit(codes, state)
(pathlib.Path(__file__).parent / "nf4_goldens.json").write_text(json.dumps({
    "numbers": numbers.double().tolist(), "codes": codes.flatten().tolist(), "scales": state.absmax.flatten().double().tolist(),
    "back": back.flatten().double().tolist()}) + "\n")
