"""Speed of wavelet scattering against kymatio, as ratios of CPU time measured in one run, one thread each.

kymatio 0.3.0 needs an older SciPy, so it has an environment of its own, and runs there in a process that takes turns
with this one:

    python -m venv kymatio-venv
    kymatio-venv/bin/python -m pip install "kymatio==0.3.0" "scipy<1.12" "numpy<2" torch
    python benchmarks/scattering.py --kymatio kymatio-venv/bin/python --output benchmarks/results/scattering.json

Without torch there, its column is left out. Images are crops of the two photographs of scikit-learn.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import subprocess
import tempfile
import time

import numpy as np
import scipy
from sklearn.datasets import load_sample_images

from sparlow import __version__
from sparlow.images import Scattering

# side of the images, J, number of images
SETTINGS = [(16, 2, 1), (16, 2, 256), (28, 2, 128), (32, 3, 64), (64, 2, 32), (64, 3, 32), (128, 3, 8), (256, 2, 4)]

WORKER = """
import json, sys, time
import numpy as np
front, folder = sys.argv[1:]
if front == "torch":
    import torch
    torch.set_num_threads(1)
    from kymatio.torch import Scattering2D
    given = torch.from_numpy
else:
    from kymatio.numpy import Scattering2D
    given = np.asarray
import kymatio, scipy
versions = {"kymatio": kymatio.__version__, "kymatio_scipy": scipy.__version__, "kymatio_numpy": np.__version__}
print(json.dumps(versions | ({"torch": torch.__version__} if front == "torch" else {})))
sys.stdout.flush()
for line in sys.stdin:
    task = json.loads(line)
    if "J" in task:
        images = np.load(folder + "/images.npy")
        X, transform = given(images), Scattering2D(task["J"], images.shape[1:])
        np.save(folder + "/coefficients.npy", np.asarray(transform(X)))
    began = time.process_time()
    transform(X)
    print(time.process_time() - began)
    sys.stdout.flush()
"""


class Kymatio:
    """A front end of kymatio in a process of its own."""

    def __init__(self, python, front, folder):
        self.folder = pathlib.Path(folder)
        self.process = subprocess.Popen(
            [python, "-c", WORKER, front, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")},
        )
        first = self.process.stdout.readline()
        self.versions = json.loads(first) if first else None

    def ask(self, **task):
        """Transform once; CPU seconds."""
        print(json.dumps(task), file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def prepare(self, images, J):
        """Make the filters; the coefficients of the images."""
        np.save(self.folder / "images.npy", images)
        self.ask(J=J)
        return np.load(self.folder / "coefficients.npy")

    def close(self):
        """End the process."""
        self.process.stdin.close()
        self.process.wait()


def crops(side, count):
    photographs = [image.mean(axis=2) / 255 for image in load_sample_images().images]
    rng, images = np.random.default_rng(0), []
    for i in range(count):
        y, x = rng.integers(0, 427 - side), rng.integers(0, 640 - side)
        images.append(photographs[i % 2][y : y + side, x : x + side])
    return np.array(images, np.float32)


def seconds_of(function):
    began = time.process_time()
    function()
    return time.process_time() - began


def compare(side, J, count, fronts, repeats):
    """Milliseconds per image, the least of several turns: other work on the machine does not count."""
    images = crops(side, count)
    model = Scattering(J, n_jobs=1).fit(images)
    row = dict(side=side, J=J, images=count, coefficients=int(np.prod(model.output_shape_)))
    ours, times = model.transform(images), {"sparlow": []}
    for name, front in fronts.items():
        theirs = front.prepare(images, J).reshape(ours.shape)
        row[f"difference_{name}"] = float(np.abs(ours - theirs).max())
        times[name] = []
    for _ in range(repeats):
        times["sparlow"].append(seconds_of(lambda: model.transform(images)))
        for name, front in fronts.items():
            times[name].append(front.ask())
    least = {name: 1e3 * min(values) / count for name, values in times.items()}
    row |= {f"{name}_ms": value for name, value in least.items()}
    row |= {f"ratio_{name}": least[name] / least["sparlow"] for name in fronts}
    return row


def main(python, repeats, output):
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    versions = dict(sparlow=__version__, numpy=np.__version__, scipy=scipy.__version__)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        fronts = {name: Kymatio(python, name, folder) for name in ("numpy", "torch")}
        for front in fronts.values():
            stack.callback(front.close)
        fronts = {name: front for name, front in fronts.items() if front.versions is not None}
        if not fronts:
            raise SystemExit(f"{python} cannot import kymatio.")
        for front in fronts.values():
            versions |= front.versions
        columns = ["image", "J", "images", *fronts, "sparlow", *(f"ratio to {name}" for name in fronts), "difference"]
        print(f"## Scattering, float32, L = 8, milliseconds per image, one thread, {machine}\n")
        print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
        rows = []
        for side, J, count in SETTINGS:
            row = compare(side, J, count, fronts, repeats)
            rows.append(row)
            words = [
                f"{side} × {side}",
                str(J),
                str(count),
                *(f"{row[f'{name}_ms']:.3g}" for name in (*fronts, "sparlow")),
            ]
            words += [f"{row[f'ratio_{name}']:.1f}" for name in fronts]
            words.append(f"{max(row[f'difference_{name}'] for name in fronts):.1e}")
            print("| " + " | ".join(words) + " |", flush=True)
    if output:
        output.write_text(json.dumps(dict(versions=versions, machine=machine, repeats=repeats, rows=rows), indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kymatio", required=True, help="Python of an environment with kymatio 0.3.0")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--output", type=pathlib.Path, help="also write all rows to this JSON file")
    arguments = parser.parse_args()
    main(arguments.kymatio, arguments.repeats, arguments.output)
