#!/usr/bin/env python3
"""Trains the seven tokenizers of tests/data/tokenizers and writes the ids that the library `tokenizers` gives.

    make_tokenizer_goldens.py --train FILE.txt.gz ...   trains tests/data/tokenizers/NAME.json anew; then as without
    make_tokenizer_goldens.py                           writes tests/data/tokenizers/goldens.json
    make_tokenizer_goldens.py --differences ZRT         lists in goldens.json the characters that differ; then run without
    make_tokenizer_goldens.py --compare ZRT FILE ...    compares ids of `ZRT data build` for each FILE (text, or .gz)

Needs Python's tokenizers, for --train sentencepiece, too (its rules become the Precompiled charsmap). Tests read
goldens.json alone: FNV-1a hashes of ids, and for short texts the ids themselves. `differences` has the characters, each
between x and y, that zrt cuts in another way, because its Unicode (ICU 72: 15, PCRE2 10.42: 14) is not that of the
library.
"""
import argparse
import gzip
import io
import json
import pathlib
import struct
import subprocess
import tempfile

import tokenizers
from tokenizer_components import COMPONENTS
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent / "tokenizers"
NAMES = ["gpt2", "llama3", "qwen2", "llama2", "bert", "unigram", "metaspace"]
MASK = (1 << 64) - 1

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def byte_pieces():
    return [f"<0x{byte:02X}>" for byte in range(256)]


def byte_level_bpe(lines, size, tokens, pre, **bpe):
    tokenizer = Tokenizer(models.BPE(**bpe))
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=tokens, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def gpt2(lines):
    made = byte_level_bpe(lines, 1024, ["<|endoftext|>"], pre_tokenizers.ByteLevel(add_prefix_space=False))
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    return made


def split_and_bytes(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def llama3(lines):
    made = byte_level_bpe(lines, 1500, ["<|begin_of_text|>", "<|end_of_text|>"], split_and_bytes(LLAMA3),
                          ignore_merges=True)
    begin = made.token_to_id("<|begin_of_text|>")
    made.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing("<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", begin)])])
    # A word of the vocabulary that no merges reach: only ignore_merges finds it.
    data = json.loads(made.to_str())
    data["model"]["vocab"]["tomorrow"] = len(data["model"]["vocab"])
    return Tokenizer.from_str(json.dumps(data))


def qwen2(lines):
    made = byte_level_bpe(lines, 1024, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], split_and_bytes(QWEN2))
    made.normalizer = normalizers.NFC()
    made.add_tokens([AddedToken("<think>", normalized=False, special=False),
                     AddedToken("</think>", normalized=False, special=False)])
    return made


def llama2(lines):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=1400, special_tokens=["<unk>", "<s>", "</s>"] + byte_pieces(),
                                  limit_alphabet=400, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = data["added_tokens"][:3]
    data["pre_tokenizer"] = None
    data["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    data["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    # As older files write them.
    data["model"]["merges"] = [" ".join(merge) for merge in data["model"]["merges"]]
    made = Tokenizer.from_str(json.dumps(data))
    made.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    text = json.loads(made.to_str())
    text["model"]["merges"] = data["model"]["merges"]
    return json.dumps(text)


def bert(lines):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=1800, special_tokens=special,
                                                                   limit_alphabet=500, show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def charsmap():
    """A small Precompiled charsmap from rules of our own."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    rules = {"\ufb01": "fi", "\ufb02": "fl", "e\u0301": "\u00e9", "\u212b": "\u00c5", "\u3000": " ", "\t": " ", "\n": " ",
             "\r\n": " ", "\u2026": "...", "\u2026!": "?!", "\uff76\uff9e": "\u30ac", "\uff76": "\u30ab", "\u200b": "",
             "\uff21": "A", "\uff11": "1", "\u1100\u1161\u11a8": "\uac01", "\u0302": "^"}
    with tempfile.TemporaryDirectory() as folder:
        tsv = pathlib.Path(folder) / "rules.tsv"
        tsv.write_text("".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n"
                               for a, b in rules.items()))
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b c d e f"] * 50), model_writer=model, vocab_size=12, hard_vocab_limit=False,
            normalization_rule_tsv=str(tsv), minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


def unigram(lines):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap()),
                                                 normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    # The trainer wants every character in the vocabulary; those of Chinese and Japanese stay unknown.
    lines = [line for line in lines if all(ord(character) < 0x590 for character in line)]
    tokenizer.train_from_iterator(lines, trainers.UnigramTrainer(vocab_size=2000, special_tokens=special,
                                                                 unk_token="<unk>", show_progress=False))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def metaspace(lines):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Metaspace(prepend_scheme="first"), pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Split(Regex(r"[\r\n]+"), "merged_with_previous"),
        pre_tokenizers.Split("ab", "merged_with_next")])
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=1400, special_tokens=["<unk>", "</s>"], limit_alphabet=300, show_progress=False))
    tokenizer.add_tokens([AddedToken("word", single_word=True), AddedToken("UPPER", normalized=True),
                          AddedToken("<strip>", lstrip=True, rstrip=True, normalized=False)])
    return tokenizer


def train(files):
    lines = []
    for name in files:
        with gzip.open(name, "rt", encoding="utf-8") if name.endswith(".gz") else open(name, encoding="utf-8") as text:
            lines += text.read()[:400000].split("\n")
    for name in NAMES:
        made = globals()[name](lines)
        text = made if isinstance(made, str) else made.to_str()
        (HERE / f"{name}.json").write_text(json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")))
        print(name, (HERE / f"{name}.json").stat().st_size, "bytes")


class Random:
    """The generator of tests/runtime/data/tokenizer_texts.h."""

    def __init__(self, seed):
        self.state = seed

    def below(self, limit):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & MASK
        return (self.state >> 33) % limit


def generated(texts, language, size, seed):
    random = Random(seed)
    words, between = texts["words"][language], texts["between"]
    spaced = language not in texts["unspaced"]
    out = bytearray()
    while len(out) < size:
        kind = random.below(16)
        if kind == 0:
            out += between[random.below(len(between))].encode()
        elif kind == 1:
            out += str(random.below(10 ** (1 + random.below(8)))).encode()
        else:
            out += words[random.below(len(words))].encode()
            if kind == 2:
                out += words[random.below(len(words))].encode()
        if spaced and kind > 2:
            out += b" "
    return out.decode()


def without_space(size):
    random = Random(99)
    return "".join("etaoinshrdlucmfwypvbgkjqxz"[random.below(26) * random.below(26) // 26] for _ in range(size))


def code_points():
    for code in list(range(0x40000)) + list(range(0xE0000, 0xE1000)) + list(range(0xF0000, 0x110000, 257)):
        if not 0xD800 <= code < 0xE000:
            yield code


def component_file(part, characters):
    """A model that shows each character of a piece, and by "|" where one ends."""
    vocab = {"<unk>": 0, "</s>": 1}
    for character in characters:
        vocab[character] = len(vocab)
        vocab[character + "|"] = len(vocab)
    data = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None,
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                      "end_of_word_suffix": "|", "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": []}}
    data.update(part)
    return json.dumps(data)


def components(texts):
    characters = "".join(sorted(set("".join(texts["edges"]) + "".join(w for ws in texts["words"].values() for w in ws)
                                    + "".join(pre_tokenizers.ByteLevel.alphabet())) - {"|"}))
    # The library's table of scripts is older than these emoji.
    samples = [text for text in texts["edges"] if "\U0001fae0" not in text] + [generated(texts, language, 1500, 7) for language in texts["words"]]
    parts = []
    for part in COMPONENTS:
        try:
            tokenizer = Tokenizer.from_str(component_file(part, characters))
        except Exception as error:
            print("left out:", part, error)
            continue
        parts.append({"part": part, "ids": [f"{fnv(ids_of(tokenizer, text)):016x}" for text in samples]})
    return {"characters": characters, "parts": parts}


def differences(zrt):
    """Each character above U+00A0 stands between x and y, in a paragraph of its own."""
    path = HERE / "goldens.json"
    data = json.loads(path.read_text())
    codes = [code for code in code_points() if code >= 0xA0]
    for name in NAMES:
        tokenizer = Tokenizer.from_file(str(HERE / f"{name}.json"))
        texts = [f"x{chr(code)}y\n" for code in codes]
        with tempfile.TemporaryDirectory() as folder:
            ours = ids_by_zrt(zrt, HERE / f"{name}.json", ["\n".join(texts)], folder, documents="paragraph")
        ranges = []
        for code, text, ids in zip(codes, texts, ours):
            if ids == ids_of(tokenizer, text if code != codes[-1] else text[:-1] + "\n"):
                continue
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
        data["tokenizers"][name]["differences"] = ranges
        print(name, len(ours), "characters,", len(ranges), "ranges differ")
    path.write_text(json.dumps(data, ensure_ascii=True, separators=(",", ":")))


def fnv(ids, value=0xCBF29CE484222325):
    for token in ids:
        value = ((value ^ token) * 0x100000001B3) & MASK
    return value


def ids_of(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def ids_by_zrt(zrt, tokenizer, texts, folder, documents="file"):
    """The ids of documents that zrt writes, one file each; eod is cut off."""
    folder = pathlib.Path(folder)
    inputs = folder / "inputs"
    inputs.mkdir()
    for number, text in enumerate(texts):
        (inputs / f"{number:08}.txt").write_bytes(text.encode())
    subprocess.run([zrt, "data", "build", "--force", "--out", str(folder / "d"), "--tokenizer", str(tokenizer),
                    "--documents", documents, str(inputs)], check=True, stdout=subprocess.DEVNULL)
    index = (folder / "d.idx").read_bytes()
    kind, count, _ = struct.unpack_from("<BQQ", index, 17)
    lengths = struct.unpack_from(f"<{count}i", index, 34)
    form = {8: "H", 4: "i"}[kind]
    data = (folder / "d.bin").read_bytes()
    tokens = struct.unpack(f"<{len(data) // struct.calcsize(form)}{form}", data)
    at, found = 0, []
    for length in lengths:
        found.append(list(tokens[at:at + length - 1]))
        at += length
    return found


def compare(zrt, files):
    for name in NAMES:
        tokenizer = Tokenizer.from_file(str(HERE / f"{name}.json"))
        for file in files:
            raw = gzip.open(file).read() if file.endswith(".gz") else open(file, "rb").read()
            text = raw.decode(errors="strict")
            with tempfile.TemporaryDirectory() as folder:
                ours = ids_by_zrt(zrt, HERE / f"{name}.json", [text], folder)[0]
            theirs = ids_of(tokenizer, text)
            at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
            equal = ours == theirs
            print(f"{name:10} {pathlib.Path(file).name:40} {len(raw):9} bytes {len(theirs):8} ids",
                  "equal" if equal else f"DIFFER at {at}: {ours[at-2:at+4]} {theirs[at-2:at+4]}"
                  f" {[tokenizer.id_to_token(i) for i in theirs[at-2:at+4]]}")


def goldens():
    texts = json.loads((HERE / "texts.json").read_text())
    path = HERE / "goldens.json"
    old = json.loads(path.read_text()) if path.exists() else {"tokenizers": {}}
    result = {"tokenizers_version": tokenizers.__version__, "tokenizers": {}}
    million = without_space(1 << 20)
    for name in NAMES:
        tokenizer = Tokenizer.from_file(str(HERE / f"{name}.json"))
        one = {"languages": {}}
        for number, language in enumerate(texts["words"]):
            ids = ids_of(tokenizer, generated(texts, language, 88000, number + 1))
            one["languages"][language] = [len(ids), f"{fnv(ids):016x}"]
        ids = ids_of(tokenizer, million)
        one["without_space"] = [len(ids), f"{fnv(ids):016x}"]
        one["edges"] = [ids_of(tokenizer, text) for text in texts["edges"]]
        one["decoded"] = [tokenizer.decode(ids) for ids in one["edges"]]
        one["around"] = tokenizer.encode("").ids
        one["vocabulary"] = tokenizer.get_vocab_size()
        skipped = old["tokenizers"].get(name, {}).get("differences", [])
        leave = {code for first, last in skipped for code in range(first, last + 1)}
        blocks = {}
        for code in code_points():
            if code not in leave:
                block = code >> 12
                blocks[block] = fnv(ids_of(tokenizer, f"x{chr(code)}y"), blocks.get(block, 0xCBF29CE484222325))
        one["code_points"] = {f"{block:x}": f"{value:016x}" for block, value in blocks.items()}
        one["differences"] = skipped
        result["tokenizers"][name] = one
        print(name, one["languages"]["en"], len(leave))
    result["components"] = components(texts)
    path.write_text(json.dumps(result, ensure_ascii=True, separators=(",", ":")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", nargs="+", metavar="FILE")
    parser.add_argument("--compare", nargs="+", metavar=("ZRT", "FILE"))
    parser.add_argument("--differences", metavar="ZRT")
    options = parser.parse_args()
    if options.compare:
        return compare(options.compare[0], options.compare[1:])
    if options.differences:
        return differences(options.differences)
    if options.train:
        train(options.train)
    goldens()


if __name__ == "__main__":
    main()
