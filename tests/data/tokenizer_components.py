"""Normalizers and pre-tokenizers that make_tokenizer_goldens.py tries one at a time."""

# Parts that the seven do not have, or have in another form.
COMPONENTS = [
    {"normalizer": {"type": "NFD"}}, {"normalizer": {"type": "NFKD"}}, {"normalizer": {"type": "Nmt"}},
    {"normalizer": {"type": "StripAccents"}}, {"normalizer": {"type": "ByteLevel"}},
    {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]}},
    {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": False}},
    {"normalizer": {"type": "Strip", "strip_left": False, "strip_right": True}},
    {"normalizer": {"type": "Replace", "pattern": {"Regex": "[[:upper:]]+|\\d\\b"}, "content": "<>"}},
    {"normalizer": {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False, "strip_accents": True,
                    "lowercase": False}},
    {"normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                    "lowercase": False}},
    {"pre_tokenizer": {"type": "Whitespace"}}, {"pre_tokenizer": {"type": "WhitespaceSplit"}},
    {"pre_tokenizer": {"type": "UnicodeScripts"}}, {"pre_tokenizer": {"type": "Digits", "individual_digits": False}},
    {"pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": "a"}},
    {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}},
    {"pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never", "split": False}},
    {"pre_tokenizer": {"type": "Metaspace", "replacement": "_", "add_prefix_space": True}},
    {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        {"type": "Punctuation", "behavior": "Removed"}]}},
    {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Punctuation", "behavior": "MergedWithNext"},
        {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}]}},
] + [
    {"normalizer": normalizer,
     "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}}
    for normalizer in [{"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "NFKC"},
                       {"type": "Replace", "pattern": {"String": "T"}, "content": ""}]
] + [
    {"pre_tokenizer": {"type": "Punctuation", "behavior": behavior}}
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
] + [
    {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}}
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
    for pattern, invert in [("\\s|\\w", False), ("\\S+", True)]
] + [
    {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}}
    for pattern in [" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+", "\\b", "\\w+|[^\\w\\s]+", "(?i:'s|'ll)|\\p{N}{1,3}+",
                    "\\h{2}|\\p{Han}|\\p{Cyrillic}+", "[\\p{L}\\p{M}]+(?=\\s)", "(?<=a)b|x*", "(?m:a.)|[^\\S\\n]+$", "\\u0905|[\\S&&[a-c]]",
                    "^.|.$", "e(?i)s|n", "(t(?i)h|a(?-i:N))(?m)e?.|,", "\\v|\\x20{2}+|[\\x61-\\x{65}\\v]+\\x65"]
]
