#!/usr/bin/env python3
"""Rotary frequencies as transformers stretches them, and the factor of their cosines and sines. Needs torch and
transformers.

Usage: make_rope_goldens.py   (writes rope_goldens.json beside this file)
"""
import json
import pathlib

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

yarn = {"rope_type": "yarn", "original_max_position_embeddings": 4096}
cases = [  # the rule, a head's width, the theta, the model's positions, and the sequence's
    ({"rope_type": "linear", "factor": 4.0}, 64, 1e4, 8192, 8192),
    ({"rope_type": "dynamic", "factor": 2.0}, 64, 1e4, 2048, 2048),
    ({"rope_type": "dynamic", "factor": 2.0}, 64, 1e4, 2048, 1000),
    ({"rope_type": "dynamic", "factor": 2.0}, 64, 1e4, 2048, 6000),
    ({"rope_type": "dynamic", "factor": 8.0}, 2, 5e5, 2048, 6000),
    ({**yarn, "factor": 4.0}, 128, 1e6, 16384, 16384),
    ({**yarn, "factor": 40.0, "truncate": False}, 64, 1e4, 163840, 163840),
    ({**yarn, "factor": 40.0, "mscale": 0.707, "mscale_all_dim": 1.0}, 64, 1e4, 163840, 163840),
    ({**yarn, "factor": 16.0, "attention_factor": 1.5}, 64, 1e4, 65536, 65536),
    ({**yarn, "factor": 16.0, "beta_fast": 4.0, "beta_slow": 0.5}, 64, 1e4, 65536, 65536),
    ({**yarn, "factor": 1.0}, 64, 1e4, 4096, 4096),
    ({**yarn, "factor": 4.0, "original_max_position_embeddings": 4}, 8, 1e4, 16, 16),  # both bounds are at the first pair
    ({**yarn, "factor": 4.0, "original_max_position_embeddings": 1 << 24}, 8, 10.0, 1 << 24, 16),  # … beyond the last
    ({**yarn, "factor": 4.0, "beta_fast": 1.0, "beta_slow": 1.0, "truncate": False}, 64, 1e4, 16384, 16384),
]
lines = []
for rule, width, theta, positions, sequence in cases:
    given = {**rule, "rope_theta": theta}
    config = LlamaConfig(hidden_size=4 * width, num_attention_heads=4, max_position_embeddings=positions,
                         rope_parameters=dict(given))
    if width == 2:  # the formula divides by zero; there is one pair, which any base leaves as it is
        frequencies, scale = [1.0], 1.0
    else:
        frequencies, scale = ROPE_INIT_FUNCTIONS[rule["rope_type"]](config, "cpu", seq_len=sequence)
    lines.append(json.dumps({"given": given, "width": width, "positions": positions, "sequence": sequence,
                             "frequencies": [float(f) for f in frequencies], "scale": float(scale)}))
(pathlib.Path(__file__).parent / "rope_goldens.json").write_text("[\n " + ",\n ".join(lines) + "\n]\n")
