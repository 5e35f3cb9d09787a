#!/usr/bin/env python3
"""What transformers' classes make of the keys that a config.json leaves out. Needs transformers, without torch.

Usage: make_hugging_face_defaults.py   (writes hugging_face_defaults.json beside this file; what another version of
transformers wrote there before stays. Made with 4.57.6 and 5.24.0.)

Each case has the keys that a file gives and those of the whole configuration that the class makes of them.
"""
import json
import pathlib

import transformers
from transformers import (BertConfig, Gemma2Config, Gemma3TextConfig, GPT2Config, LlamaConfig, MegatronBertConfig,
                          MistralConfig, MixtralConfig, Phi3Config, Qwen2Config, Qwen3Config, Qwen3MoeConfig)

path = pathlib.Path(__file__).parent / "hugging_face_defaults.json"
version = transformers.__version__
of_the_folder = {"transformers_version", "_name_or_path", "model_type"}

small = {"vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 2, "max_position_embeddings": 16}
llama3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
given = [
    (GPT2Config, {}),
    (GPT2Config, {"vocab_size": 61, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 16}),
    (GPT2Config, {**small, "num_attention_heads": 3}),  # by the names that most types have
    (LlamaConfig, {}),
    (LlamaConfig, {**small, "intermediate_size": 40, "num_attention_heads": 6}),
    (LlamaConfig, {**small, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10}),
    (LlamaConfig, {"num_attention_heads": 16, "num_key_value_heads": None, "head_dim": None}),
    (LlamaConfig, {**small, "num_attention_heads": 6, "rope_theta": 500000.0}),
    (LlamaConfig, {**small, "num_attention_heads": 6, "rope_theta": 300.0,
                   "rope_scaling": {**llama3, "original_max_position_embeddings": 8}}),
    (LlamaConfig, {**small, "num_attention_heads": 6, "rope_scaling": {"type": "linear", "factor": 4.0}}),
    (LlamaConfig, {**small, "num_attention_heads": 6, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}),
    (Qwen2Config, {}),
    (Qwen2Config, {**small, "intermediate_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2}),
    (Qwen2Config, {**small, "num_attention_heads": 4, "num_key_value_heads": None}),
    (Qwen2Config, {**small, "num_attention_heads": 4, "num_key_value_heads": 2, "rope_theta": 1000000.0,
                   "rope_scaling": {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8}}),
    (Phi3Config, {}),
    (Phi3Config, {**small, "intermediate_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2}),
    (Phi3Config, {**small, "num_attention_heads": 4, "rope_theta": 250000.0}),
    (Qwen3Config, {}),
    (Qwen3Config, {**small, "intermediate_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2}),
    (Qwen3Config, {**small, "num_attention_heads": 4, "num_key_value_heads": None}),
    (Qwen3Config, {"num_attention_heads": 64}),
    (Qwen3Config, {"num_attention_heads": 16}),
    (MistralConfig, {}),
    (MistralConfig, {**small, "num_attention_heads": 4, "sliding_window": None}),
    (MixtralConfig, {}),
    (MixtralConfig, {**small, "num_attention_heads": 4, "num_local_experts": 4}),
    (Qwen3MoeConfig, {}),
    (Qwen3MoeConfig, {**small, "num_attention_heads": 4, "num_experts": 16, "decoder_sparse_step": 2}),
    (Gemma2Config, {}),
    (Gemma2Config, {**small, "num_attention_heads": 4, "num_key_value_heads": 2}),
    (Gemma3TextConfig, {}),
    (Gemma3TextConfig, {**small, "num_attention_heads": 4, "sliding_window_pattern": 2}),
    (BertConfig, {}),
    (BertConfig, {**small, "num_attention_heads": 3, "intermediate_size": 96}),
    (BertConfig, {**small, "num_attention_heads": 3}),
    (MegatronBertConfig, {}),
    (MegatronBertConfig, {**small, "num_attention_heads": 3, "intermediate_size": 96}),
    (MegatronBertConfig, {**small, "num_attention_heads": 3}),
]
if int(version.split(".")[0]) >= 5:
    given += [
        (LlamaConfig, {**small, "num_attention_heads": 6, "rope_parameters": {"rope_theta": 500000.0}}),
        (LlamaConfig, {**small, "num_attention_heads": 6, "rope_parameters": {"rope_type": "default"}}),
        (LlamaConfig, {**small, "num_attention_heads": 6, "rope_parameters": llama3}),
        (LlamaConfig, {"rope_parameters": {**llama3, "rope_theta": 500000.0}}),
        (Qwen3Config, {**small, "num_attention_heads": 4, "num_key_value_heads": 2,
                       "rope_parameters": {"rope_theta": 1000000.0}}),
        (Qwen3Config, {**small, "num_attention_heads": 4, "num_key_value_heads": 2,
                       "rope_parameters": {"rope_type": "yarn", "factor": 2.0}}),
        (Phi3Config, {**small, "num_attention_heads": 4, "rope_parameters": {"rope_theta": 300.0}}),
    ]

goldens = json.loads(path.read_text()) if path.exists() else {}
goldens[version] = []
for make, keys in given:
    keys = json.loads(json.dumps(keys))
    # The class completes the blocks that it is given.
    whole = json.loads(json.dumps(make(**json.loads(json.dumps(keys))).to_dict()))
    goldens[version].append({
        "type": make.model_type,
        "given": keys,
        "whole": {key: whole[key] for key in sorted(whole) if key not in of_the_folder},
    })
# A line for each case.
lines = [f' "{name}": [\n' + ",\n".join("  " + json.dumps(case) for case in goldens[name]) + "\n ]"
         for name in sorted(goldens)]
path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
