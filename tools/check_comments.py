#!/usr/bin/env python3
"""Lists comments that begin without a subject: with Of, What, Where, Whether, Which, How, As, That, Whose or "…".

tools/check_comments.py [--most N] [PATH…]: looks at the sources below PATHs, or all; fails where there are more than N.
"""
import argparse
import re
import subprocess
import sys

WORDS = "Of|What|Where|Whether|Which|How|As|That|Behind|Whose|Beside|Likewise"
BEGINS = re.compile(rf"({WORDS})\b|…")


def comments(path):
    """Yields (line, text) of the first line of each comment."""
    inside = False
    with open(path, encoding="utf-8") as source:
        for number, line in enumerate(source, 1):
            own = re.match(r"\s*//+\s?(.*)$", line)
            behind = None if own else re.search(r"\s//\s(.*)$", line)
            if own and not inside:
                yield number, own.group(1)
            if behind:
                yield number, behind.group(1)
            inside = own is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, help="fail where there are more; without it all are listed")
    parser.add_argument("paths", nargs="*", default=[])
    options = parser.parse_args()
    listed = subprocess.run(["git", "ls-files", *options.paths], capture_output=True, text=True, check=True).stdout
    files = [name for name in listed.split("\n") if name.endswith((".h", ".cpp", ".cu", ".cuh"))]
    found = [(path, number, text) for path in files for number, text in comments(path) if BEGINS.match(text)]
    if options.most is None or len(found) > options.most:
        for path, number, text in found:
            print(f"{path}:{number}: {text}")
    print(f"{len(found)} comments begin without a subject", file=sys.stderr)
    if options.most is not None and len(found) > options.most:
        sys.exit(f"more than {options.most} are: give the new ones a subject and a verb")


if __name__ == "__main__":
    main()
