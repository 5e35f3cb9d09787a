#!/usr/bin/env python3
"""Folders of PEFT with adapters for three models of hugging_face/, the logits of each and what PEFT merges. Needs torch,
transformers and peft.

Usage: make_adapter_goldens.py   (writes adapters/ beside this file)
"""
import json
import pathlib
import shutil

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

here = pathlib.Path(__file__).parent
tokens = [5, 17, 42, 3, 60, 0, 21, 33, 8, 11]
adapters = {
    "gpt2": LoraConfig(r=3, lora_alpha=7, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True,
                       task_type="CAUSAL_LM"),
    "llama": LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "v_proj"], use_rslora=True, task_type="CAUSAL_LM"),
    "qwen3": LoraConfig(r=2, lora_alpha=16, lora_dropout=0.1, target_modules="all-linear", task_type="CAUSAL_LM"),
}

logits = {}
for number, (name, config) in enumerate(adapters.items()):
    torch.manual_seed(11 + number)
    base = AutoModelForCausalLM.from_pretrained(here / "hugging_face" / name, dtype=torch.float32)
    model = get_peft_model(base, config).eval()
    for key, value in model.named_parameters():
        if ".lora_B." in key:  # which begin with zeros
            torch.nn.init.normal_(value, std=0.3)
    out = here / "adapters" / name
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(out)
    (out / "README.md").unlink(missing_ok=True)
    written = json.loads((out / "adapter_config.json").read_text())
    written["base_model_name_or_path"] = f"../../hugging_face/{name}"
    if isinstance(written["target_modules"], list):
        written["target_modules"].sort()
    (out / "adapter_config.json").write_text(json.dumps(written, indent=2) + "\n")
    with torch.no_grad():
        logits[name] = model(torch.tensor([tokens])).logits[0].double().tolist()
    merged = model.merge_and_unload().state_dict()
    touched = {key: value.contiguous() for key, value in merged.items()
               if value.dim() == 2 and any(part in key for part in ("attn", "mlp"))}
    save_file(touched, here / "adapters" / f"{name}_merged.safetensors")
(here / "adapters" / "logits.json").write_text(json.dumps({"tokens": tokens, "logits": logits}) + "\n")
