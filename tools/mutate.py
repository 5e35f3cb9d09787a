"""Plants faults in a copy of the tree and runs the tests that must notice them; started by mutate.sh.

tests/mutants/*.json hold lists of faults: `text` of `file`, where it occurs once, becomes `to`, and one of `tests`
(names that ctest knows) must fail. `gpu`: built with the emulated GPU. `equivalent` says why nothing can notice one.
"""
import argparse
import json
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A fault may leave a name that nothing reads or a comparison that always holds. Warnings are errors, and a build that
# stops shows nothing.
TOLERATED = ("unused-variable", "unused-but-set-variable", "unused-parameter", "unused-function", "type-limits")
PREAMBLE = "".join(f'#pragma GCC diagnostic ignored "-W{warning}"\n' for warning in TOLERATED) + "#line 1\n"


def read_mutants():
    mutants = []
    for path in sorted((ROOT / "tests/mutants").glob("*.json")):
        for mutant in json.loads(path.read_text()):
            text = (ROOT / mutant["file"]).read_text()
            if text.count(mutant["text"]) != 1:
                sys.exit(f"{path.name}: '{mutant['name']}': its text occurs {text.count(mutant['text'])} times in "
                         f"{mutant['file']}; it must occur once. Adapt the fault to the code as it is now.")
            mutants.append(mutant | {"area": path.stem})
    return mutants


def make_copy(tree):
    """Brings the copy to the state of the tree; files that are equal keep their times, so that little is built."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True,
                           text=True).stdout.splitlines()
    names = [name for name in names if (ROOT / name).is_file()]
    for name in names:
        source, target = ROOT / name, tree / name
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    known = set(names)
    for path in tree.rglob("*"):
        name = path.relative_to(tree)
        if name.parts[0] != "build" and path.is_file() and str(name) not in known:
            path.unlink()


class Tree:
    def __init__(self, path, gpu_preset):
        self.path, self.gpu_preset = path, gpu_preset
        self.programs = {}  # by preset: of each test, the target that holds it

    def run(self, *command, **options):
        return subprocess.run(command, cwd=self.path, **options)

    def run_quietly(self, *command):
        """Keeps what it prints. A failing test may print any bytes, so those that are not UTF-8 are replaced."""
        return self.run(*command, capture_output=True, text=True, errors="replace")

    def preset(self, mutant):
        return self.gpu_preset if mutant.get("gpu") else "release"

    def configure(self, preset):
        if preset in self.programs:
            return
        # Without nvcc, where nothing runs what it compiles: a fault in a header of kernels is built in seconds.
        without_nvcc = ["-DZRT_CUDA=OFF"] if preset == "release" else []
        self.run("cmake", "--preset", preset, *without_nvcc, check=True, stdout=subprocess.DEVNULL)
        listed = self.run("ctest", "--preset", preset, "--show-only=json-v1", check=True, capture_output=True).stdout
        tests = json.loads(listed[listed.index(b"{"):])["tests"]
        self.programs[preset] = {test["name"]: "test_" + test["name"].split("/")[0] for test in tests}

    def build(self, preset, tests):
        targets = sorted({self.programs[preset][test] for test in tests})
        return self.run_quietly("cmake", "--build", "--preset", preset, "--target", *targets)

    def test(self, preset, tests, at_once):
        pattern = "^(" + "|".join(re.escape(test) for test in tests) + ")$"
        return self.run_quietly("ctest", "--preset", preset, "-R", pattern, "-j", str(at_once), "--stop-on-failure",
                                "--no-tests=error", "--timeout", "1500")

    def test_in_turn(self, preset, tests):
        """As listed: the first one most likely notices the fault, and the others need not run then."""
        for test in tests:
            tested = self.test(preset, [test], 1)
            if tested.returncode != 0:
                break
        return tested

    def tests(self, mutant):
        known = self.programs[self.preset(mutant)]
        for test in mutant["tests"]:
            if test not in known:
                sys.exit(f"'{mutant['name']}': there is no test {test} in the build {self.preset(mutant)}")
        return mutant["tests"]

    def judge(self, mutant):
        """caught, survived or broken (with what the compiler says), with the file as it was before and after."""
        preset, file = self.preset(mutant), self.path / mutant["file"]
        whole = file.read_text()
        try:
            file.write_text(PREAMBLE + whole.replace(mutant["text"], mutant["to"]))
            built = self.build(preset, self.tests(mutant))
            if built.returncode != 0:
                return "broken", built.stdout[-2000:] + built.stderr[-2000:]
            tested = self.test_in_turn(preset, mutant["tests"])
            if "***Timeout" in tested.stdout:
                return "broken", "a test ran out of time, which shows nothing\n" + tested.stdout[-1000:]
            return ("survived" if tested.returncode == 0 else "caught"), ""
        finally:
            file.write_text(whole)


def main():
    parser = argparse.ArgumentParser(prog="mutate.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all faults, not a random tenth")
    parser.add_argument("--seed", type=int, help="of the choice of a tenth")
    parser.add_argument("--seconds", type=int, help="start no further fault after so many, of the tenth in its order")
    parser.add_argument("--here", action="store_true", help="in this tree, whose tests have just passed, without a copy")
    parser.add_argument("--gpu-preset", default="emulated", help="the preset with the emulated GPU")
    parser.add_argument("names", nargs="*", help="only these faults: part of a name, or a file of tests/mutants")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # puts files back on the way out

    mutants = read_mutants()
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    if options.names:
        mutants = [m for m in mutants if any(n in m["name"] or n == m["area"] for n in options.names)]
        if not mutants:
            sys.exit("no fault has such a name")
    elif not options.full:
        mutants = random.Random(seed).sample(mutants, len(mutants) // 10)
        print(f"a tenth of the faults; --seed {seed} chooses these again", file=sys.stderr)

    tree = Tree(ROOT, options.gpu_preset)
    if not options.here:
        tree.path = ROOT / "build/mutants/tree"
        make_copy(tree.path)
    for preset in sorted({tree.preset(m) for m in mutants}):
        tree.configure(preset)
        mine = [m for m in mutants if tree.preset(m) == preset]
        tests = sorted({test for m in mine for test in tree.tests(m)})
        if options.here:
            continue
        print(f"building {preset}, and {len(tests)} tests that must pass without a fault", file=sys.stderr)
        built = tree.build(preset, tests)
        if built.returncode != 0:
            sys.exit(f"{preset} does not build:\n{built.stdout[-3000:]}{built.stderr[-3000:]}")
        passed = tree.test(preset, tests, 2)
        if passed.returncode != 0:
            sys.exit(f"without a fault tests fail:\n{passed.stdout[-3000:]}")

    counts = {"caught": 0, "survived": 0, "equivalent": 0, "broken": 0}
    start = time.monotonic()
    # Neighbours share builds; where time may end the work, those that chance put first come first.
    if options.seconds is None:
        mutants.sort(key=lambda m: (tree.preset(m), m["file"]))
    for number, mutant in enumerate(mutants):
        begin = time.monotonic()
        if options.seconds is not None and begin - start > options.seconds:
            print(f"{options.seconds} s are over: {len(mutants) - number} faults are left out", file=sys.stderr)
            break
        verdict, why = tree.judge(mutant)
        if verdict == "survived" and "equivalent" in mutant:
            verdict, why = "equivalent", mutant["equivalent"]
        counts[verdict] += 1
        print(f"{verdict:10} {mutant['name']} ({mutant['file']})" + (f": {why}" if why else ""), flush=True)
        print(f"{number + 1} of {len(mutants)}, {time.monotonic() - begin:.0f} s", file=sys.stderr)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    if options.here:
        print("the last fault is still in the programs: build before you run them", file=sys.stderr)
    few = counts["caught"] < 0.95 * len(mutants) if options.full else False
    sys.exit(1 if counts["survived"] or counts["broken"] or few else 0)


if __name__ == "__main__":
    main()
