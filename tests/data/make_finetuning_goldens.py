#!/usr/bin/env python3
"""Tiny folders of each family as transformers writes them, with tokenizers and templates, a text as JSON lines, and what
PyTorch makes of them in 20 steps of AdamW: losses of each step, and of the held-out text before and behind them.
Needs torch, transformers and tokenizers.

Usage: make_finetuning_goldens.py [FAMILY …]    writes finetuning/ beside this file, or those families of it
       make_finetuning_goldens.py check DIR     the loss of the held-out text that transformers computes with the model and
                                                the tokenizer of DIR, in fp32, and the files of DIR

All is computed in fp64. Data is read in Megatron's order, which make_dataset_golden.py computes. The text is made of the
words below.
"""
import json
import math
import pathlib
import random
import sys

import torch
import torch.nn.functional as F
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (AutoModelForCausalLM, AutoTokenizer, Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM,
                          Gemma3TextConfig, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, Phi3Config, Phi3ForCausalLM, PreTrainedTokenizerFast, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

import make_dataset_golden as dataset

OUT = pathlib.Path(__file__).parent / "finetuning"
SEQUENCE, STEPS, BATCH, SEED, RATE, DECAY, CLIP, VOCAB = 32, 20, 4, 7, 2e-3, 0.1, 1.0, 320

TEMPLATE = ("{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
PHI3_TEMPLATE = ("{% for message in messages %}<|{{ message.role }}|>\n{{ message.content }}<|end|>\n{% endfor %}"
                 "{% if add_generation_prompt %}<|assistant|>\n{% endif %}")
GEMMA_TEMPLATE = ("{{ bos_token }}{% for message in messages %}<start_of_turn>{{ message.role }}\n{{ message.content }}"
                  "<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}")
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def sentences(seed, count):
    draw = random.Random(seed)
    who = ["The smith", "A ferryman", "Ella", "The old captain", "Jürgen", "My sister", "The court's clerk", "Nobody"]
    what = ["mended", "carried", "counted", "painted", "hid", "didn't find", "sold", "weighed"]
    things = ["the bell", "two nets", "1904 coins", "a café chair", "the ship's log", "seven lamps", "an oar", "salt"]
    where = ["before dawn", "in the harbour", "near Köln", "for 25 crowns", "while it rained", "at the fair"]
    return [" ".join([draw.choice(who), draw.choice(what), draw.choice(things), draw.choice(where)]) + draw.choice(".!?")
            for _ in range(count)]


def documents():
    draw = random.Random(1)
    all_of_them = []
    for i in range(60):
        parts = sentences(100 + i, draw.randint(1, 5))
        all_of_them.append("\n".join(parts) if i % 7 == 0 else " ".join(parts))
    return all_of_them, " ".join(sentences(9000, 24))


def gpt2_tokenizer(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|endoftext|>", eos_token="<|endoftext|>",
                                   unk_token="<|endoftext|>")


def pieces(texts, special, prefix):
    """Pieces with byte fallback; `prefix`: a mark stands before the first word, too."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    replace, parts = normalizers.Replace(" ", "▁"), [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if prefix:
        replace = normalizers.Sequence([normalizers.Prepend("▁"), replace])
        parts.append(decoders.Strip(" ", 1, 0))
    tokenizer.normalizer, tokenizer.decoder = replace, decoders.Sequence(parts)
    # Pieces hold no words that stand side by side: the trainer sees words, each with its mark.
    words = [[f"▁{word}" for word in text.split()] for text in texts]
    helper = Tokenizer(models.BPE(unk_token="<unk>"))
    helper.train_from_iterator([word for row in words for word in row],
                               trainers.BpeTrainer(vocab_size=VOCAB - 256, special_tokens=special, show_progress=False))
    made = json.loads(helper.to_str())["model"]
    vocabulary = {word: i for i, word in enumerate(special + [f"<0x{byte:02X}>" for byte in range(256)])}
    for piece in sorted(made["vocab"], key=made["vocab"].get):
        vocabulary.setdefault(piece, len(vocabulary))
    whole = json.loads(tokenizer.to_str())
    whole["model"].update(vocab=vocabulary, merges=made["merges"])
    tokenizer = Tokenizer.from_str(json.dumps(whole))
    tokenizer.add_special_tokens([AddedToken(word, normalized=False, special=True) for word in special])
    return tokenizer


def llama_tokenizer(texts):
    """As Llama 2's and Mistral's."""
    return PreTrainedTokenizerFast(tokenizer_object=pieces(texts, ["<unk>", "<s>", "</s>"], True), bos_token="<s>",
                                   eos_token="</s>", unk_token="<unk>")


def phi3_tokenizer(texts):
    """As Llama 2's, with words of its own that take the space behind them."""
    tokenizer = pieces(texts, ["<unk>", "<s>", "</s>"], True)
    tokenizer.add_special_tokens([AddedToken(word, normalized=False, special=True, rstrip=True)
                                  for word in ("<|endoftext|>", "<|assistant|>", "<|user|>", "<|end|>")])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="<|endoftext|>",
                                   unk_token="<unk>", chat_template=PHI3_TEMPLATE)


def gemma_tokenizer(texts):
    tokenizer = pieces(texts, ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"], False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>", unk_token="<unk>",
                                   chat_template=GEMMA_TEMPLATE)


def qwen3_tokenizer(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCAB - 3, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_special_tokens([AddedToken(word, normalized=False, special=True)
                                  for word in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", pad_token="<|endoftext|>",
                                   chat_template=TEMPLATE)


def gpt2(vocab, eos):
    return GPT2LMHeadModel(GPT2Config(vocab_size=vocab, n_positions=SEQUENCE, n_embd=24, n_layer=2, n_head=3,
                                      bos_token_id=eos, eos_token_id=eos))


def llama(vocab, eos):
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=vocab, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=2 * SEQUENCE, rms_norm_eps=1e-5, tie_word_embeddings=False,
        bos_token_id=1, eos_token_id=eos, rope_parameters={"rope_type": "default", "rope_theta": 5000.0}))


def qwen3(vocab, eos):
    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=vocab, hidden_size=24, intermediate_size=40, head_dim=8, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=2 * SEQUENCE, tie_word_embeddings=True, eos_token_id=eos,
        bos_token_id=None))  # of a pad_token_id transformers trains no embedding


def small(model, config, vocab, eos, **more):
    return model(config(vocab_size=vocab, hidden_size=16, intermediate_size=24, num_attention_heads=4,
                        num_key_value_heads=2, max_position_embeddings=2 * SEQUENCE, eos_token_id=eos,
                        **{"num_hidden_layers": 2, "pad_token_id": None, "bos_token_id": 1, **more}))


def qwen2(vocab, eos):
    return small(Qwen2ForCausalLM, Qwen2Config, vocab, eos, tie_word_embeddings=True, bos_token_id=None,
                 rope_parameters={"rope_type": "default", "rope_theta": 1e6})


def mistral(vocab, eos):  # a window that most queries reach beyond
    return small(MistralForCausalLM, MistralConfig, vocab, eos, sliding_window=6, head_dim=6)


def phi3(vocab, eos):
    return small(Phi3ForCausalLM, Phi3Config, vocab, eos)


def gemma2(vocab, eos):
    return small(Gemma2ForCausalLM, Gemma2Config, vocab, eos, head_dim=8, sliding_window=7, query_pre_attn_scalar=12,
                 attn_logit_softcapping=5.0, final_logit_softcapping=6.0, bos_token_id=2)


def gemma3(vocab, eos):
    return small(Gemma3ForCausalLM, Gemma3TextConfig, vocab, eos, head_dim=8, sliding_window=7, query_pre_attn_scalar=8,
                 num_hidden_layers=3, bos_token_id=2,
                 layer_types=["sliding_attention", "sliding_attention", "full_attention"])


FAMILIES = {
    "gpt2": (gpt2_tokenizer, gpt2, 21), "llama": (llama_tokenizer, llama, 22), "qwen3": (qwen3_tokenizer, qwen3, 23),
    "qwen2": (qwen3_tokenizer, qwen2, 24), "mistral": (llama_tokenizer, mistral, 25), "phi3": (phi3_tokenizer, phi3, 26),
    "gemma2": (gemma_tokenizer, gemma2, 27), "gemma3": (gemma_tokenizer, gemma3, 28),
}


def ids_of(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]


def held_out_samples(tokens):
    """One document: its samples follow one another, each with the first token of the next as its last target."""
    count = (len(tokens) - 1) // SEQUENCE
    return torch.tensor([tokens[i * SEQUENCE:(i + 1) * SEQUENCE + 1] for i in range(count)])


def loss_of(model, rows):
    logits = model(rows[:, :-1]).logits
    return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


def training_samples(documents):
    count = STEPS * BATCH
    index = dataset.gpt_index([len(d) for d in documents], 0, SEQUENCE, count, SEED)
    stream = [token for d in index["documents"] for token in documents[d]]
    return [stream[i * SEQUENCE:(i + 1) * SEQUENCE + 1] for i in index["shuffle"]][:count]


def train(model, samples):
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, foreach=False)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, torch.tensor(samples[step * BATCH:(step + 1) * BATCH]))
        loss.backward()
        norm = math.sqrt(sum(float((p.grad**2).sum()) for p in model.parameters()))
        factor = max(1.0, (norm + 1e-6) / CLIP)
        for p in model.parameters():
            p.grad /= factor
        optimizer.step()
        losses.append(loss.item())
    return losses


def make(name, texts, held_out):
    make_tokenizer, make_model, seed = FAMILIES[name]
    tokenizer = make_tokenizer(texts)
    tokenizer.save_pretrained(OUT / name)
    tokenizer = AutoTokenizer.from_pretrained(OUT / name)
    torch.manual_seed(seed)
    model = make_model(len(tokenizer), tokenizer.eos_token_id)
    # Weights away from their initial values: small ones would hide a missing transpose or norm.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.generation_config.update(temperature=0.7, do_sample=True)
    model.save_pretrained(OUT / name)
    model = AutoModelForCausalLM.from_pretrained(OUT / name, dtype=torch.float32, attn_implementation="eager")
    model = model.double().eval()  # without dropout
    documents = [ids_of(tokenizer, text) for text in texts]
    tokens = ids_of(tokenizer, held_out)
    rows = held_out_samples(tokens)
    with torch.no_grad():
        before = loss_of(model, rows).item()
    losses = train(model, training_samples(documents))
    with torch.no_grad():
        after = loss_of(model, rows).item()
    print(f"{name}: {len(tokenizer)} tokens, {sum(map(len, documents))} to train on, loss {losses[0]:.4f} to "
          f"{losses[-1]:.4f}, held out {before:.4f} to {after:.4f}")
    return dict(vocabulary=len(tokenizer), end=tokenizer.eos_token_id, tokens=[len(d) for d in documents],
                held_out=tokens, before=before, losses=losses, after=after)


def check(folder):
    held_out = json.loads((OUT / "validation.jsonl").read_text())["text"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        loss = loss_of(model, held_out_samples(ids_of(tokenizer, held_out))).item()
    print(f"{loss:.9f}", *sorted(path.name for path in pathlib.Path(folder).iterdir()))


def main():
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["check"]:
        return check(sys.argv[2])
    texts, held_out = documents()
    OUT.mkdir(exist_ok=True)
    (OUT / "train.jsonl").write_text("".join(json.dumps({"text": text}, ensure_ascii=i % 2 == 0) + "\n"
                                             for i, text in enumerate(texts)))
    (OUT / "validation.jsonl").write_text(json.dumps({"text": held_out}) + "\n")
    wanted = sys.argv[1:] or list(FAMILIES)
    goldens = json.loads((OUT / "goldens.json").read_text()) if sys.argv[1:] else {}
    goldens.update({name: make(name, texts, held_out) for name in wanted})
    (OUT / "goldens.json").write_text(json.dumps(goldens, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
