#!/usr/bin/env python3
"""Tiny GPT-2 and Llama directories as transformers writes them, and their logits. Needs torch and transformers.

Usage: make_hugging_face_goldens.py   (writes hugging_face/ beside this file)
"""
import json
import pathlib

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

here = pathlib.Path(__file__).parent / "hugging_face"
torch.manual_seed(3)

models = {
    "gpt2": GPT2LMHeadModel(GPT2Config(vocab_size=61, n_positions=16, n_embd=24, n_layer=2, n_head=3)),
    "gpt2_untied": GPT2LMHeadModel(
        GPT2Config(vocab_size=61, n_positions=16, n_embd=24, n_layer=1, n_head=3, tie_word_embeddings=False)),
    "llama": LlamaForCausalLM(LlamaConfig(
        vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=2, max_position_embeddings=16, rms_norm_eps=1e-5, tie_word_embeddings=False)),
    "llama_tied": LlamaForCausalLM(LlamaConfig(
        vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=16, tie_word_embeddings=True, rope_parameters={
            "rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8})),
}
tokens = [(7 * i * i + 3 * i + 1) % 61 for i in range(16)]
goldens = {"tokens": tokens, "logits": {}}
for name, model in models.items():
    model = model.eval()
    # Weights away from their initial values: small ones would hide a missing transpose or norm.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    # Several files with an index for one, one file for the others.
    model.save_pretrained(here / name, max_shard_size="20KB" if name == "llama" else "5GB")
    with torch.no_grad():
        logits = model.double()(torch.tensor([tokens])).logits[0]
    goldens["logits"][name] = [[round(x, 9) for x in row] for row in logits.tolist()]
    (here / name / "generation_config.json").unlink(missing_ok=True)
(here / "logits.json").write_text(json.dumps(goldens, separators=(",", ":")) + "\n")
