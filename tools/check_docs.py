"""Checks README.md, CONTRIBUTING.md and docs/, and lists the commands in them; started by check_docs.sh.

Fenced blocks say what they are:
  ```sh             commands that CI runs, from the root of the tree, with build/release, corpus and runs/quickstart there
  ```sh gpu|slow|hosts|root  commands that it cannot run or that take minutes; they are not run
  ```cpp FILE, ```diff FILE, ```json FILE  lines that stand so in FILE
  ```text           output
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^\s*```(.*)$")
NOT_RUN = {"gpu", "slow", "hosts", "root"}
COMMAND = re.compile(r"^\s*(\./|build/|tools/|cmake |ctest |mpirun |srun |git )")
FOLDERS = ("core", "comm", "models", "optimizer", "offload", "runtime", "tools", "tests", "docs", "cmake", "share", ".ci")


def pages():
    first = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return first + sorted((ROOT / "docs").rglob("*.md"))


def split(text):
    """The lines outside blocks with their numbers, and the blocks as (line number, info string, lines)."""
    prose, blocks, inside = [], [], None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if fence and inside is None:
            inside = (number, fence[1].strip(), [])
        elif fence:
            blocks.append(inside)
            inside = None
        elif inside is None:
            prose.append((number, line))
        else:
            inside[2].append(line)
    if inside is not None:
        sys.exit(f"a block that begins in line {inside[0]} has no end")
    return prose, blocks


def anchors(text):
    """As GitHub makes them of headings."""
    made = set()
    for _, line in split(text)[0]:
        heading = re.match(r"^#+ +(.*)$", line)
        if heading:
            name = re.sub(r"[^\w\- ]", "", heading[1].lower()).replace(" ", "-")
            made.add(name if name not in made else f"{name}-1")
    return made


def links(page, prose):
    for number, line in prose:
        bare = re.sub(r"`[^`]*`", "", line)
        for target in re.findall(r"\]\(([^)\s]+)\)", bare):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists():
                yield number, f"the link {target} leads nowhere"
            elif anchor and anchor not in anchors(file.read_text()):
                yield number, f"{file.relative_to(ROOT)} has no heading #{anchor}"


def named_files(prose):
    """Paths in backticks. NAME stands for a name, * for any; `room/name` may be the test of that name."""
    for number, line in prose:
        for name in re.findall(r"`([^`\s]+)`", line):
            name = name.rstrip("/")
            if "/" not in name or name.split("/")[0] not in FOLDERS or re.search(r"[A-Z]{4}|[…{}|=]", name):
                continue
            name = re.sub(r"@(gpu|avx2)$", "", name)
            if not any(ROOT.glob(name)) and not any(ROOT.glob(f"tests/{name}_test.cpp")):
                yield number, f"there is no `{name}`"


def quoted(blocks):
    for number, info, lines in blocks:
        words = info.split()
        if len(words) == 2 and words[0] in ("cpp", "diff", "json", "cmake"):
            file = ROOT / words[1]
            if not file.exists():
                yield number, f"there is no {words[1]}"
            elif "\n".join(lines).strip("\n") + "\n" not in file.read_text():
                yield number, f"{words[1]} does not hold these lines"
        elif words[:1] == ["sh"]:
            if len(words) > 1 and words[1] not in NOT_RUN:
                yield number, f"'{words[1]}' is no reason not to run commands; legal: {', '.join(sorted(NOT_RUN))}"
        elif not words or words == ["text"]:
            if words == [] and any(COMMAND.match(line) for line in lines):
                yield number, "these commands have no mark: write ```sh, or ```sh with the reason why they are not run"


def run_by_ci(line, ci):
    """Scripts that .ci/run starts itself, with other arguments perhaps."""
    script = re.match(r"^(?:\./)?(tools/\w+\.sh)", line)
    return script and re.search(rf"^{re.escape(script[1])}( |$)", ci, re.MULTILINE)


def commands():
    """One shell script; each block is a subshell, so that a failure says where it stands."""
    ci = (ROOT / ".ci/run").read_text()
    count = 0
    print("set -euo pipefail")
    for page in pages():
        for number, info, lines in split(page.read_text())[1]:
            if info != "sh":
                continue
            lines = [line for line in lines if not run_by_ci(line, ci)]
            if not any(line.strip() and not line.strip().startswith("#") for line in lines):
                continue
            count += 1
            place = f"{page.relative_to(ROOT)}, line {number}"
            print(f"place={place!r}; started=$SECONDS; echo \"=== $place\"")
            print("\n".join(["(set -x", *lines, ") </dev/null"]))
            print("printf '%4d s  %s\\n' $((SECONDS - started)) \"$place\" >>\"$times\"")
    if count < 10:
        sys.exit(f"only {count} blocks of commands were found")


def example_changes():
    """Changes apply, each hunk behind lines that stand once in their file, whatever else stands there by now."""
    for patch in sorted((ROOT / "docs/examples").glob("*.diff")):
        name = patch.relative_to(ROOT)
        done = subprocess.run(["git", "apply", "--check", "--unidiff-zero", str(patch)], cwd=ROOT, capture_output=True,
                              text=True)
        if done.returncode != 0:
            yield (f"{name} does not apply any more: a line that it stands behind, or replaces, has changed. Write the "
                   f"new line into the diff, and where docs/extending.md quotes it.\n{done.stderr}")
            continue
        for path, hunk in hunks(patch.read_text()):
            held = "".join(line[1:] for line in hunk if line[0] in " -")
            if path and ("\n" + (ROOT / path).read_text()).count("\n" + held) != 1:
                yield f"{name}: these lines stand more than once in {path}; take more lines before them:\n{held}"


def hunks(patch):
    """The hunks of a patch with the files that they change; new files are None."""
    path, found = None, []
    for line in patch.splitlines(keepends=True):
        if line.startswith("--- "):
            path = line[6:].strip() if line.startswith("--- a/") else None
        elif line.startswith("@@"):
            found.append((path, []))
        elif line[0] in " +-\\" and found and not line.startswith("+++"):
            found[-1][1].append(line)
    return found


def quick_start_steps(text):
    """README.md's output and prose are of as many steps as the quick start's configuration asks for."""
    config = json.loads((ROOT / "tools/examples/quickstart.json").read_text())
    steps = config["run"]["steps"]
    scheduled = config["scheduler"]["params"]["total_num_steps"]
    if scheduled != steps:
        yield f"tools/examples/quickstart.json: run.steps is {steps}, but scheduler.params.total_num_steps {scheduled}"
    start = text.split("\n## Configuration", 1)[0]
    for what in (r"^step \d+/(\d+) ", r"^step (\d+): ", r"checkpoints/step_(\d+)", r"over steps 1 to (\d+)",
                 r"[Rr]uns? of (\d+) steps"):
        numbers = re.findall(what, start, re.MULTILINE)
        if not numbers:
            yield f"README.md: nothing before 'Configuration' matches {what}, by which the quick start's steps are checked"
        for number in sorted({n for n in numbers if int(n) != steps}):
            yield f"README.md: the quick start is said to have {number} steps; run.steps of its configuration is {steps}"


def check():
    found = list(quick_start_steps((ROOT / "README.md").read_text()))
    for page in pages():
        prose, blocks = split(page.read_text())
        for number, what in [*links(page, prose), *named_files(prose), *quoted(blocks)]:
            found.append(f"{page.relative_to(ROOT)}:{number}: {what}")
    listed = set(re.findall(r"\]\(([\w/.-]+\.md)\)", (ROOT / "docs/README.md").read_text()))
    for page in pages():
        name = str(page.relative_to(ROOT / "docs")) if page.is_relative_to(ROOT / "docs") else ""
        if name and name != "README.md" and name not in listed:
            found.append(f"docs/README.md: {name} is missing")
    found.extend(example_changes())
    if found:
        sys.exit("\n".join(found))
    print(f"{len(pages())} pages: links, named files, quoted lines, the quick start's steps and example changes hold")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--commands", action="store_true", help="print the commands as one shell script instead")
    commands() if parser.parse_args().commands else check()
