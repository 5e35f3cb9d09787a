#!/usr/bin/env python3
"""Writes FOLDER/tasks.jsonl and FOLDER/shots.jsonl: multiple choice in twelve languages, for zrt eval --tasks.

Usage: multilingual_tasks.py FOLDER [ITEMS]   (ITEMS of each task and language, 12 if it is not given)

The protocol is mGPT's: no weight moves, solved items stand in front of each, and of the choices the likeliest text
counts. Two tasks of every language, made of the texts that tools/examples/multilingual.sh trains on:

  follows-LANG   like XNLI: "A, right? Yes, B" or "A, right? No, B"; right is yes where paragraph B follows A
  ending-LANG    like XStoryCloze: the second half of a paragraph, among those of three others

Items come from the last twentieth of each text, which training does not see, and shots from the part before it.
"""
import gzip
import json
import pathlib
import random
import sys

REFERENCE = "/usr/share/debian-reference/debian-reference.{}.txt.gz"
FAQ = "/usr/share/doc/debian/FAQ/debian-faq.ru.txt.gz"
# The words that ask, yes and no.
WORDS = {
    "de": (", richtig?", "Ja", "Nein"), "en": (", right?", "Yes", "No"), "es": (", ¿verdad?", "Sí", "No"),
    "fr": (", n'est-ce pas ?", "Oui", "Non"), "id": (", benar?", "Ya", "Tidak"), "it": (", giusto?", "Sì", "No"),
    "ja": ("、そうですね？", "はい", "いいえ"), "pt": (", certo?", "Sim", "Não"), "pt-br": (", certo?", "Sim", "Não"),
    "ru": (", верно?", "Да", "Нет"), "zh-cn": ("，对吗？", "是", "不是"), "zh-tw": ("，對嗎？", "是", "不是"),
}
LEAST, MOST = 60, 300  # characters of a paragraph; half as many where each is a syllable


def paragraphs(language):
    path = FAQ if language == "ru" else REFERENCE.format(language)
    text = gzip.open(path, "rt", encoding="utf-8").read()
    blank = "" if language in ("ja", "zh-cn", "zh-tw") else " "
    whole = [blank.join(line.strip() for line in block.splitlines()).strip() for block in text.split("\n\n")]
    scale = 1 if blank else 2
    # Tables and listings are no prose.
    return [p for p in whole if LEAST <= scale * len(p) <= MOST and not set(p) & set("|┃│─+$#=_")]


def halves(text):
    middle = len(text) // 2
    cut = text.rfind(" ", 0, middle + 1)
    return (text[:cut], text[cut:]) if cut > 0 else (text[:middle], text[middle:])


def follows(language, texts, number, random):
    ask, yes, no = WORDS[language]
    blank = "" if ask[-1] == "？" else " "
    for i in range(number):
        at = random.randrange(len(texts) - 1)
        other = random.choice([t for k, t in enumerate(texts) if k not in (at, at + 1)])
        second = texts[at + 1] if i % 2 == 0 else other
        comma = ", " if blank else "，"
        yield dict(task=f"follows-{language}", id=i, context=texts[at].rstrip(".。") + ask,
                   choices=[blank + word + comma + second for word in (yes, no)], gold=i % 2)


def ending(language, texts, number, random):
    for i in range(number):
        chosen = random.sample(texts, 4)
        gold = random.randrange(4)
        yield dict(task=f"ending-{language}", id=i, context=halves(chosen[gold])[0],
                   choices=[halves(text)[1] for text in chosen], gold=gold)


def main():
    folder, number = pathlib.Path(sys.argv[1]), int((sys.argv + ["12"])[2])
    draws = random.Random(1)
    files = {"tasks": [], "shots": []}
    for language in WORDS:
        texts = paragraphs(language)
        held_out = max(len(texts) // 20, 8)
        for name, part, count in [("tasks", texts[-held_out:], number), ("shots", texts[:-held_out][-60:], 8)]:
            for make in (follows, ending):
                files[name] += make(language, part, count, draws)
    for name, items in files.items():
        lines = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")


main()
