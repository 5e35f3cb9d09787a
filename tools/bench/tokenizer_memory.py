#!/usr/bin/env python3
"""The memory of `zrt data build` over generated JSON lines with a tokenizer.json in GPT-2's shape (50,257 tokens), at
several sizes. Makes its files in a folder of its own and removes them.

Usage: tokenizer_memory.py [--threads N] ZRT [MB …]     (without sizes: 100 300 1000)
"""
import argparse
import itertools
import json
import os
import random
import sys
import tempfile
import time

VOCABULARY = 50257


def byte_letters():
    """Byte to letter, as GPT-2 writes bytes in its vocabulary."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in shown}
    for byte in range(256):
        letters.setdefault(byte, chr(256 + byte - sum(b < byte for b in shown)))
    return letters


def words(draw, count):
    """Words of syllables, some with letters of two and three bytes."""
    begins, vowels = "b c d f g h j k l m n p r s t v w z br st tr ж д م か".split(), "a e i o u ä é ия ون な".split()
    made = {"".join(draw.choice(begins) + draw.choice(vowels) for _ in range(draw.randint(1, 4))) for _ in range(3 * count)}
    return draw.sample(sorted(made), count)  # the likeliest first


def tokenizer(all_words):
    """Merges make words of their beginnings, letter by letter, until the vocabulary is full."""
    letters = byte_letters()
    vocabulary = {letter: i for i, letter in enumerate(letters.values())}
    merges = []
    for word in all_words:
        parts = [letters[byte] for byte in (" " + word).encode()]
        left = parts[0]
        for right in parts[1:]:
            if left + right not in vocabulary and len(vocabulary) < VOCABULARY - 1:
                vocabulary[left + right] = len(vocabulary)
                merges.append([left, right])
            left += right
    assert len(vocabulary) == VOCABULARY - 1, len(vocabulary)
    split = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": VOCABULARY - 1, "content": "<|endoftext|>", "special": True}
    return {"version": "1.0", "added_tokens": [end], "pre_tokenizer": split, "decoder": split,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": merges}}


def generate(path, size, draw, all_words):
    shares = list(itertools.accumulate(1 / (i + 5) for i in range(len(all_words))))
    sentences = [" ".join(draw.choices(all_words, cum_weights=shares, k=draw.randint(4, 24))) + "." for _ in range(20000)]
    written = documents = 0
    with open(path, "wb") as out:
        while written < size:
            text = f"{documents} " + " ".join(draw.choices(sentences, k=draw.randint(1, 40)))
            written += out.write((json.dumps({"text": text}, ensure_ascii=False) + "\n").encode())
            documents += 1
    return os.path.getsize(path)


def build(zrt, folder, threads):
    arguments = [zrt, "data", "build", "--force", "--json", "--threads", str(threads), "--tokenizer",
                 folder + "/tokenizer.json", "--out", folder + "/x", folder + "/text.jsonl"]
    begun = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(folder + "/said", os.O_CREAT | os.O_TRUNC | os.O_WRONLY), 1)
        os.execv(zrt, arguments)
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"zrt ended with {os.waitstatus_to_exitcode(status)}")
    with open(folder + "/said", encoding="utf-8") as said:
        train = json.load(said)["train"]
    return train, usage.ru_maxrss / 1024, time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("zrt")
    parser.add_argument("megabytes", type=int, nargs="*", default=[100, 300, 1000])
    options = parser.parse_args()
    draw = random.Random(4)
    all_words = words(draw, 30000)
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/tokenizer.json", "w", encoding="utf-8") as out:
            json.dump(tokenizer(all_words), out, ensure_ascii=False)
        print("| JSON lines, MB | documents | tokens | peak memory, MiB | seconds |\n|---|---|---|---|---|")
        for megabytes in options.megabytes:
            size = generate(folder + "/text.jsonl", megabytes * 1000000, draw, all_words)
            train, peak, seconds = build(os.path.abspath(options.zrt), folder, options.threads)
            print(f"| {size / 1e6:.0f} | {train['documents']:,} | {train['tokens']:,} | {peak:.1f} | {seconds:.0f} |",
                  flush=True)


if __name__ == "__main__":
    main()
