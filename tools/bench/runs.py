"""Runs of `zrt train` that benchmarks compare, their files, and drawings of their losses."""
import json
import pathlib
import subprocess
import tempfile


def train(zrt, folder, ranks, sets, config=None):
    """Trains with these keys, over those of the file `config`, in a new folder below `folder`, which it returns."""
    out = pathlib.Path(tempfile.mkdtemp(dir=folder))
    if config is None:
        config = out / "config.json"
        config.write_text("{}")
    command = [zrt, "train", str(config), "--ranks", str(ranks), "--out", str(out / "run")]
    for text in sets:
        command += ["--set", text]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return out / "run"


def lines(path):
    """The objects of a file that has one on each line."""
    return [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]


def draw_losses(path, title, curves, least, most):
    """Writes an SVG of losses between `least` and `most`. Curves are (name, colour, [(step, loss)])."""
    last = curves[0][2][-1][0]
    x = lambda step: 64 + 600 * step / last
    y = lambda loss: 372 - 330 * (loss - least) / (most - least)
    text = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 420" width="860" height="420" '
            'font-family="sans-serif" font-size="12">', '<rect width="860" height="420" fill="white"/>',
            f'<text x="64" y="24" font-size="15">{title}</text>']
    for i in range(7):
        at = least + i * (most - least) / 6
        text.append(f'<path d="M64,{y(at):.1f}H664" stroke="#ddd"/>'
                    f'<text x="56" y="{y(at) + 4:.1f}" text-anchor="end">{at:.1f}</text>')
    for step in range(0, last + 1, last // 4):
        text.append(f'<text x="{x(step):.1f}" y="392" text-anchor="middle">{step}</text>')
    for i, (name, color, points) in enumerate(curves):
        shown = " L".join(f"{x(step):.1f},{y(loss):.1f}" for step, loss in points if loss <= most)
        text.append(f'<path d="M{shown}" fill="none" stroke="{color}" stroke-width="2"/>')
        text.append(f'<path d="M680,{60 + 24 * i}h24" stroke="{color}" stroke-width="2"/>'
                    f'<text x="710" y="{64 + 24 * i}">{name}</text>')
    pathlib.Path(path).write_text("\n".join(text + ["</svg>", ""]), encoding="utf-8")
