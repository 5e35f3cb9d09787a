#!/usr/bin/env python3
"""`zrt bench tokenizer` beside the library `tokenizers` (pip install tokenizers), in turns on the same documents.

    tokenizer_speed.py ZRT TEXT...    prints a table of docs/benchmarks/tokenizers.md

Each turn encodes every document with one of the two, after one time that is not counted; who begins alternates. The
library runs encode_batch_fast, which leaves offsets out, in a process of its own with as many threads."""
import argparse
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "tokenizers"
NAMES = {"gpt2": "GPT-2", "llama3": "Llama 3", "qwen2": "Qwen2", "llama2": "Llama 2", "bert": "BERT",
         "unigram": "Unigram", "metaspace": "Metaspace BPE"}
DOCUMENT = 8192


def documents(files):
    found = []
    for name in files:
        raw = gzip.open(name).read() if name.endswith(".gz") else open(name, "rb").read()
        while raw:
            end = len(raw) if len(raw) <= DOCUMENT else raw.rfind(b"\n", 0, DOCUMENT) + 1 or DOCUMENT
            while end < len(raw) and raw[end] & 0xC0 == 0x80:
                end -= 1
            found.append(raw[:end].decode())
            raw = raw[end:]
    return found


def library(tokenizer, files):
    """A server: each line on standard input is a turn."""
    from tokenizers import Tokenizer
    texts = documents(files)
    loaded = Tokenizer.from_file(tokenizer)
    print(sum(len(ids) for ids in loaded.encode_batch_fast(texts, add_special_tokens=False)), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        loaded.encode_batch_fast(texts, add_special_tokens=False)
        print(time.perf_counter() - start, flush=True)


def zrt_turn(zrt, tokenizer, files, threads):
    out = subprocess.run([zrt, "bench", "tokenizer", "--json", "--rounds", "1", "--threads", str(threads),
                          "--document", str(DOCUMENT), "--tokenizer", tokenizer] + files,
                         check=True, capture_output=True, text=True).stdout
    return json.loads(out)


def spread(values, unit=1):
    return f"{statistics.median(values) / unit:.2f} ({min(values) / unit:.2f} – {max(values) / unit:.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--library", help=argparse.SUPPRESS)
    parser.add_argument("zrt")
    parser.add_argument("texts", nargs="+")
    options = parser.parse_args()
    if options.library:
        return library(options.library, options.texts)
    print("| tokenizer | threads | zrt, MB/s | tokenizers, MB/s | zrt ÷ tokenizers |\n|---|---|---|---|---|")
    for name, shown in NAMES.items():
        tokenizer = str(DATA / f"{name}.json")
        for threads in options.threads:
            environment = dict(os.environ, RAYON_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM="true")
            peer = subprocess.Popen([sys.executable, __file__, "--library", tokenizer, options.zrt] + options.texts,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
            tokens = int(peer.stdout.readline())
            ours, theirs = [], []
            for turn in range(options.rounds):
                for who in ["zrt", "peer"] if turn % 2 == 0 else ["peer", "zrt"]:
                    if who == "zrt":
                        result = zrt_turn(options.zrt, tokenizer, options.texts, threads)
                        assert result["tokens"] == tokens, (name, result["tokens"], tokens)
                        ours.append(result["bytes_per_second"]["median"])
                    else:
                        peer.stdin.write("\n")
                        peer.stdin.flush()
                        theirs.append(result["bytes"] / float(peer.stdout.readline()))
            peer.stdin.close()
            peer.wait()
            print(f"| {shown} | {threads} | {spread(ours, 1e6)} | {spread(theirs, 1e6)} | "
                  f"{spread([a / b for a, b in zip(ours, theirs)])} |", flush=True)


if __name__ == "__main__":
    main()
