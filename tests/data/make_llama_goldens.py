"""Makes the Llama goldens of this folder with transformers' LlamaForCausalLM on the CPU: python make_llama_goldens.py

llama_goldens.json   configs, 10-step loss curves (fp64, fp32, bf16), per-tensor norms, versions
llama_<head>.bin     fp64, little endian: logits (B, T, V) of step 0, then every gradient of the mean loss, in the order
                     of "tensors" in the JSON

Weights and tokens come from the recipe in golden_common.py, so they are not stored. transformers computes the norm and
the rotary angles in fp32 even in an fp64 model; both are replaced by the same formulas in the model's type, and the
unchanged model is compared with the changed one in fp32.
"""
import functools
import pathlib

import torch
import transformers
from transformers.models.llama import modeling_llama

import golden_common

GRADIENT_CASE = dict(layers=2, hidden=32, heads=4, kv_heads=2, ffn=56, sequence=16, vocab=97, rope_theta=500.0,
                     rms_norm_eps=2.0**-10)  # exact in fp32
CURVE_CASE = dict(layers=2, hidden=64, heads=4, kv_heads=2, ffn=176, sequence=32, vocab=257, rope_theta=10000.0,
                  rms_norm_eps=1e-5)


def tensor_shapes(case, tied):
    C, F, V = case["hidden"], case["ffn"], case["vocab"]
    kv = C // case["heads"] * case["kv_heads"]
    shapes = {"model.embed_tokens.weight": (V, C)}
    for layer in range(case["layers"]):
        p = f"model.layers.{layer}."
        shapes |= {
            p + "input_layernorm.weight": (C,), p + "self_attn.q_proj.weight": (C, C),
            p + "self_attn.k_proj.weight": (kv, C), p + "self_attn.v_proj.weight": (kv, C),
            p + "self_attn.o_proj.weight": (C, C), p + "post_attention_layernorm.weight": (C,),
            p + "mlp.gate_proj.weight": (F, C), p + "mlp.up_proj.weight": (F, C), p + "mlp.down_proj.weight": (C, F),
        }
    shapes["model.norm.weight"] = (C,)
    if not tied:
        shapes["lm_head.weight"] = (V, C)
    return shapes


def at_least_fp32(dtype):
    return torch.promote_types(dtype, torch.float32)


class Norm(torch.nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        wide = x.to(at_least_fp32(x.dtype))
        return self.weight * (wide * (wide.pow(2).mean(-1, keepdim=True) + self.eps).rsqrt()).to(x.dtype)


class Rotary(torch.nn.Module):
    def __init__(self, width, theta):
        super().__init__()
        self.frequencies = theta ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)

    def forward(self, x, position_ids):
        angles = position_ids[..., None].double() * self.frequencies
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


@functools.cache
def build(case, tied, dtype, changed=True):
    case = dict(case)
    config = transformers.LlamaConfig(
        hidden_size=case["hidden"], intermediate_size=case["ffn"], num_hidden_layers=case["layers"],
        num_attention_heads=case["heads"], num_key_value_heads=case["kv_heads"], rms_norm_eps=case["rms_norm_eps"],
        max_position_embeddings=case["sequence"], vocab_size=case["vocab"], tie_word_embeddings=tied,
        rope_parameters=dict(rope_type="default", rope_theta=case["rope_theta"]), use_cache=False,
        attn_implementation="sdpa")
    original = modeling_llama.LlamaRMSNorm
    if changed:
        modeling_llama.LlamaRMSNorm = Norm
    model = transformers.LlamaForCausalLM(config).to(dtype)
    modeling_llama.LlamaRMSNorm = original
    if changed:
        model.model.rotary_emb = Rotary(case["hidden"] // case["heads"], case["rope_theta"])
    return model


def run(case, weights, tokens, changed):
    tied = "lm_head.weight" not in weights
    model = build(tuple(case.items()), tied, next(iter(weights.values())).dtype, changed)
    return torch.func.functional_call(model, weights, kwargs=dict(input_ids=tokens)).logits


def logits(case, weights, tokens):
    return run(case, weights, tokens, True)


class Llama(golden_common.Model):
    shapes = staticmethod(tensor_shapes)
    logits = staticmethod(logits)


def compare_with_unchanged():
    for case in (GRADIENT_CASE, CURVE_CASE):
        for tied in (True, False):
            weights = golden_common.recipe_weights(tensor_shapes(case, tied))
            tokens, _ = golden_common.recipe_batch(case["vocab"], B=2, T=case["sequence"], index=0)
            with torch.no_grad():
                a, b = run(case, weights, tokens, True), run(case, weights, tokens, False)
            error = float((a - b).norm() / b.norm())
            assert error < 1e-6, error
            print(f"relative distance to the unchanged model in fp32: {error:.2e}")


def rope_scaling():
    """The frequencies of Llama 3.2 1B's heads, which transformers computes in fp32."""
    scaling = dict(rope_type="llama3", factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=8192)
    config = transformers.LlamaConfig(hidden_size=2048, num_attention_heads=32, max_position_embeddings=131072,
                                      rope_parameters=scaling | dict(rope_theta=500000.0))
    frequencies, _ = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    return dict(width=64, theta=500000.0, scaling=scaling, frequencies=[float(f) for f in frequencies])


if __name__ == "__main__":
    compare_with_unchanged()
    golden_common.make(Llama, "llama", pathlib.Path(__file__).name, GRADIENT_CASE, CURVE_CASE,
                       versions=dict(transformers=transformers.__version__), more=dict(rope_scaling=rope_scaling()))
