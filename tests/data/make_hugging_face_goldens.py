#!/usr/bin/env python3
"""Tiny GPT-2, Llama, Qwen2, Qwen3, Phi-3, BERT, Mistral and Gemma directories as transformers writes them, and their
logits. Needs torch and transformers.

Usage: make_hugging_face_goldens.py [first|qwen3|bert|qwen2|phi3|rope|windows|more_windows|experts|experts_window]   (writes
hugging_face/ beside this file; without a word, all. Logits of the sets of windows lie in their folders.)
"""
import json
import pathlib
import sys

import torch
from transformers import (BertConfig, BertForMaskedLM, BertForPreTraining, Gemma2Config, Gemma2ForCausalLM,
                          Gemma3ForCausalLM, Gemma3TextConfig, GPT2Config, GPT2LMHeadModel, LlamaConfig,
                          LlamaForCausalLM, MegatronBertConfig, MegatronBertForMaskedLM, MegatronBertForPreTraining,
                          MistralConfig, MistralForCausalLM, MixtralConfig, MixtralForCausalLM, Phi3Config,
                          Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM,
                          Qwen3MoeConfig, Qwen3MoeForCausalLM)

here = pathlib.Path(__file__).parent / "hugging_face"
sets = {}

torch.manual_seed(3)
sets["first"] = lambda: {
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


def qwen3(seed, **more):
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=61, hidden_size=24, intermediate_size=40, head_dim=10, max_position_embeddings=16, **more))


# More and less in all heads than in the hidden size.
sets["qwen3"] = lambda: {
    "qwen3": qwen3(5, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-6,
                   rope_parameters={"rope_type": "default", "rope_theta": 1e6}, tie_word_embeddings=True),
    "qwen3_untied": qwen3(6, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, rms_norm_eps=1e-5,
                          rope_parameters={"rope_type": "default", "rope_theta": 300.0}, tie_word_embeddings=False),
}


def bert(seed, model, config, **more):
    torch.manual_seed(seed)
    return model(config(
        vocab_size=61, hidden_size=24, intermediate_size=96, num_hidden_layers=2, num_attention_heads=3,
        max_position_embeddings=16, cls_token_id=1, sep_token_id=8, mask_token_id=60, pad_token_id=None, **more))


sets["bert"] = lambda: {
    "bert": bert(7, BertForMaskedLM, BertConfig),
    "megatron_bert": bert(9, MegatronBertForMaskedLM, MegatronBertConfig),
    "bert_untied": bert(10, BertForMaskedLM, BertConfig, tie_word_embeddings=False),
    "bert_order": bert(11, BertForPreTraining, BertConfig),
    "megatron_bert_order": bert(12, MegatronBertForPreTraining, MegatronBertConfig),
}



def tiny(seed, model, config, positions=16, **more):
    torch.manual_seed(seed)
    return model(config(vocab_size=61, hidden_size=24, intermediate_size=40, max_position_embeddings=positions,
                        pad_token_id=None, **more))


sets["qwen2"] = lambda: {
    "qwen2": tiny(20, Qwen2ForCausalLM, Qwen2Config, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
                  rope_parameters={"rope_type": "default", "rope_theta": 1e6}, tie_word_embeddings=True),
    "qwen2_untied": tiny(21, Qwen2ForCausalLM, Qwen2Config, num_hidden_layers=1, num_attention_heads=4,
                         num_key_value_heads=4, rms_norm_eps=1e-5, tie_word_embeddings=False,
                         rope_parameters={"rope_type": "default", "rope_theta": 300.0}),
}
sets["phi3"] = lambda: {
    "phi3": tiny(22, Phi3ForCausalLM, Phi3Config, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2),
    "phi3_tied": tiny(23, Phi3ForCausalLM, Phi3Config, num_hidden_layers=1, num_attention_heads=4,
                      tie_word_embeddings=True, sliding_window=16,
                      rope_parameters={"rope_type": "default", "rope_theta": 300.0}),
}
# Stretched positions. Those of "dynamic" are stretched by a sequence that is longer than the model's.
rope = {"rope_theta": 500.0, "factor": 4.0}
yarn = {**rope, "rope_type": "yarn", "original_max_position_embeddings": 64}
few = {"num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True}
sets["rope"] = lambda: {
    "llama_linear": tiny(24, LlamaForCausalLM, LlamaConfig, **few, rope_parameters={**rope, "rope_type": "linear"}),
    "llama_dynamic": tiny(25, LlamaForCausalLM, LlamaConfig, 6, **few,
                          rope_parameters={**rope, "rope_type": "dynamic"}),
    "llama_yarn": tiny(26, LlamaForCausalLM, LlamaConfig, head_dim=20, **few, rope_parameters={
        **yarn, "beta_fast": 2.5, "beta_slow": 0.25, "mscale": 1.5, "mscale_all_dim": 0.75, "truncate": False}),
    "qwen2_yarn": tiny(27, Qwen2ForCausalLM, Qwen2Config, **few, rope_parameters=yarn),
    "qwen2_linear": tiny(28, Qwen2ForCausalLM, Qwen2Config, **few, rope_parameters={**rope, "rope_type": "linear"}),
    "qwen3_yarn": tiny(29, Qwen3ForCausalLM, Qwen3Config, head_dim=16, **few,
                       rope_parameters={**yarn, "attention_factor": 1.25, "beta_fast": 4.0}),
    "qwen3_dynamic": tiny(30, Qwen3ForCausalLM, Qwen3Config, 6, head_dim=10, **few,
                          rope_parameters={**rope, "rope_type": "dynamic"}),
    # SmolLM has Llama's layers, three heads of queries to one of keys, and tied embeddings.
    "smollm": tiny(31, LlamaForCausalLM, LlamaConfig, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
                   rms_norm_eps=1e-5, tie_word_embeddings=True,
                   rope_parameters={"rope_type": "default", "rope_theta": 1e5}),
}


def windowed(seed, model, config, **more):
    torch.manual_seed(seed)
    # Only eager attention caps scores.
    return model(config(
        vocab_size=61, hidden_size=24, intermediate_size=40, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=16, attn_implementation="eager", **more))


# Windows shorter than the 16 tokens, of one layer or several, and caps that numbers reach.
sets["windows"] = lambda: {
    "mistral": windowed(13, MistralForCausalLM, MistralConfig, num_hidden_layers=2, sliding_window=5, head_dim=10),
    "mistral_all": windowed(14, MistralForCausalLM, MistralConfig, num_hidden_layers=1, sliding_window=None),
    "gemma2": windowed(15, Gemma2ForCausalLM, Gemma2Config, num_hidden_layers=3, sliding_window=6, head_dim=10,
                       query_pre_attn_scalar=14, attn_logit_softcapping=3.0, final_logit_softcapping=4.0),
    "gemma3": windowed(16, Gemma3ForCausalLM, Gemma3TextConfig, num_hidden_layers=4, sliding_window=6, head_dim=12,
                       query_pre_attn_scalar=20, rope_parameters={
                           "full_attention": {"rope_type": "default", "rope_theta": 30000.0},
                           "sliding_attention": {"rope_type": "default", "rope_theta": 200.0}},
                       layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]),
}
# What is added to weights depends on all models of a set, so that these are one of their own.
sets["more_windows"] = lambda: {
    "phi3_window": windowed(32, Phi3ForCausalLM, Phi3Config, num_hidden_layers=2, sliding_window=5, pad_token_id=None,
                            eos_token_id=2),
    # The first layers attend to all.
    "qwen2_window": windowed(33, Qwen2ForCausalLM, Qwen2Config, num_hidden_layers=3, sliding_window=5,
                             use_sliding_window=True, max_window_layers=1, tie_word_embeddings=True),
    "qwen3_window": windowed(34, Qwen3ForCausalLM, Qwen3Config, num_hidden_layers=3, sliding_window=4, head_dim=8,
                             use_sliding_window=True, max_window_layers=2, tie_word_embeddings=True),
    # As Gemma 3 from 4B on, whose layers without a window have stretched positions.
    "gemma3_linear": windowed(35, Gemma3ForCausalLM, Gemma3TextConfig, num_hidden_layers=2, sliding_window=6, head_dim=8,
                              query_pre_attn_scalar=8, layer_types=["sliding_attention", "full_attention"],
                              rope_parameters={
                                  "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 500.0},
                                  "sliding_attention": {"rope_type": "default", "rope_theta": 200.0}}),
    "gemma3_yarn": windowed(36, Gemma3ForCausalLM, Gemma3TextConfig, num_hidden_layers=2, sliding_window=6, head_dim=8,
                            query_pre_attn_scalar=8, layer_types=["sliding_attention", "full_attention"],
                            rope_parameters={
                                "full_attention": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 500.0,
                                                   "original_max_position_embeddings": 64},
                                "sliding_attention": {"rope_type": "default", "rope_theta": 200.0}}),
}

# The last one's file has all experts of a layer in two tensors, as transformers 5 holds them.
sets["experts"] = lambda: {
    "mixtral": windowed(40, MixtralForCausalLM, MixtralConfig, num_hidden_layers=2, num_local_experts=4),
    "mixtral_window": windowed(41, MixtralForCausalLM, MixtralConfig, num_hidden_layers=1, num_local_experts=5,
                               num_experts_per_tok=3, sliding_window=5, head_dim=10, rms_norm_eps=1e-4,
                               rope_parameters={"rope_type": "default", "rope_theta": 300.0}),
    "qwen3_moe": windowed(42, Qwen3MoeForCausalLM, Qwen3MoeConfig, num_hidden_layers=2, num_experts=6,
                          num_experts_per_tok=2, moe_intermediate_size=16, head_dim=10, norm_topk_prob=True,
                          tie_word_embeddings=True),
    "qwen3_moe_step": windowed(43, Qwen3MoeForCausalLM, Qwen3MoeConfig, num_hidden_layers=4, num_experts=4,
                               num_experts_per_tok=3, moe_intermediate_size=12, decoder_sparse_step=2),
    "mixtral_fused": windowed(44, MixtralForCausalLM, MixtralConfig, num_hidden_layers=1, num_local_experts=3),
}

sets["experts_window"] = lambda: {
    "qwen3_moe_window": windowed(45, Qwen3MoeForCausalLM, Qwen3MoeConfig, num_hidden_layers=2, num_experts=4,
                                 num_experts_per_tok=2, moe_intermediate_size=12, use_sliding_window=True,
                                 sliding_window=5),
}

tokens = [(7 * i * i + 3 * i + 1) % 61 for i in range(16)]


def decided(router, _, out):
    """No choice of an expert rests on a rounding."""
    logits = out[0].sort(-1, descending=True).values[:, :router.top_k + 1]
    assert (logits[:, :-1] - logits[:, 1:]).min() > 1e-3, router


def file_of(of_set):
    """Where the logits of a set's models lie: later sets have files of their own."""
    return here / ("logits.json" if of_set in ("first", "qwen3", "bert") else f"logits_{of_set.split('_')[0]}.json")


wanted = sys.argv[1:] or list(sets)
for each in wanted:  # a set is made and used, then the next
    goldens = {"tokens": tokens, "logits": {}}
    if file_of(each).exists():
        goldens = json.loads(file_of(each).read_text())
    for name, model in sets[each]().items():
        model = model.eval()
        # Weights away from their initial values: small ones would hide a missing transpose or norm.
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)
            for name_of_part, parameter in model.named_parameters():
                if name_of_part.endswith(".mlp.gate.weight"):  # of a router: its choices shall not be close
                    parameter.mul_(4)
        # Several files with an index for one, one file for the others.
        model.save_pretrained(here / name, max_shard_size="20KB" if name == "llama" else "5GB",
                              save_original_format="fused" not in name)
        for router in (m for n, m in model.named_modules() if n.endswith(".mlp.gate")):
            router.register_forward_hook(decided)
        more = {}
        if each.startswith("experts"):  # others do not compute in fp64
            model.set_experts_implementation("eager")
        if "bert" in name:  # behind the first separator tokens are of the second type
            first = tokens.index(model.config.sep_token_id)
            more["token_type_ids"] = torch.tensor([[int(i > first) for i in range(len(tokens))]])
        with torch.no_grad():
            out = model.double()(torch.tensor([tokens]), **more)
        logits = out.prediction_logits[0] if "order" in name else out.logits[0]
        if "order" in name:
            goldens.setdefault("order", {})[name] = [round(x, 9) for x in out.seq_relationship_logits[0].tolist()]
        rows = [[round(x, 9) for x in row] for row in logits.tolist()]
        if "windows" in each:
            (here / name / "logits.json").write_text(json.dumps(rows, separators=(",", ":")) + "\n")
        else:
            goldens["logits"][name] = rows
        (here / name / "generation_config.json").unlink(missing_ok=True)
    if "windows" not in each:
        file_of(each).write_text(json.dumps(goldens, separators=(",", ":")) + "\n")
