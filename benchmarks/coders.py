"""Accuracy against microseconds: exact codes, pursuit and threshold, on four sets.

    python -m benchmarks.coders [--plot docs/images/coders.png]

Atoms are those of K-SVD on 2000 training samples of unit norm, the same for all coders. A ridge classifier reads the
codes; its penalty is chosen on training samples. All are of single precision. Microseconds are those of the processor
for one test sample in a batch of 1000, on one thread, the median of five turns in which the coders take part one after
the other. Rows are in benchmarks/results/coders.jsonl.
"""

import argparse
import json
import pathlib
import time

import numpy as np
from sklearn.linear_model import RidgeClassifierCV
from sklearn.preprocessing import normalize

from benchmarks.zoo_sets import SETS
from sparlow import Coder
from sparlow.coders import SoftThreshold
from sparlow.dictionaries import OMP, ksvd
from sparlow.priors import ElasticNet

RESULTS = pathlib.Path(__file__).parent / "results" / "coders.jsonl"
NAMES = {"usps": "USPS", "mnist10000": "MNIST", "fashion5000": "clothes", "isolet": "spoken letters"}
ATOMS, MOST = 400, 1000
CODERS = {
    "exact": lambda D, level: Coder(D, ElasticNet(level, 0.01)),
    "pursuit": lambda D, level: OMP(D, int(level)),
    "threshold": lambda D, level: SoftThreshold(D, level),
}
LEVELS = {"exact": (0.3, 0.2, 0.1, 0.05), "pursuit": (2, 4, 8, 16), "threshold": (0.8, 0.6, 0.4, 0.2)}


def rows_of(name: str) -> list[dict]:
    """Measure all coders on one set."""
    split = SETS[name].draw(0)
    X, y, test, truth = (
        normalize(split.X).astype(np.float32), split.y, normalize(split.X_test).astype(np.float32), split.y_test,
    )  # fmt: skip
    D = ksvd(X[np.random.RandomState(0).permutation(len(X))[:2000]], min(ATOMS, len(X) // 2), random_state=0)
    coders = {(kind, level): make(D, level) for kind, make in CODERS.items() for level in LEVELS[kind]}
    some = np.resize(np.arange(len(test)), MOST)
    seconds: dict = {key: [] for key in coders}
    for turn in range(6):
        for key, coder in coders.items():
            begun = time.process_time()
            coder.encode(test[some])
            if turn:
                seconds[key].append(time.process_time() - begun)
    found = []
    for (kind, level), coder in coders.items():
        model = RidgeClassifierCV(np.geomspace(1e-3, 10, 9)).fit(coder.encode(X).toarray(), y)
        codes = coder.encode(test)
        found.append({
            "set": name, "coder": kind, "level": level, "atoms": len(D), "nonzeros": round(codes.nnz / len(test), 1),
            "microseconds": round(1e6 * float(np.median(seconds[kind, level])) / MOST, 2),
            "accuracy": round(100 * model.score(codes.toarray(), truth), 2),
        })  # fmt: skip
        print(found[-1], flush=True)
    return found


def plot(rows: list[dict], path: str) -> None:
    """Draw accuracy against microseconds, a panel for each set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(NAMES), figsize=(12, 3.2), layout="constrained")
    colours = {"exact": "#1b6ca8", "pursuit": "#d1495b", "threshold": "#66a182"}
    for axis, (name, title) in zip(axes, NAMES.items(), strict=True):
        for kind, colour in colours.items():
            points = [
                (row["microseconds"], row["accuracy"]) for row in rows if (row["set"], row["coder"]) == (name, kind)
            ]
            axis.plot(*zip(*points, strict=True), "o-", color=colour, label=kind)
        best = max(row["accuracy"] for row in rows if row["set"] == name)
        axis.set(title=title, xlim=(0, None), ylim=(best - 16, best + 1), xlabel="µs per sample")
    axes[0].set_ylabel("accuracy (%)")
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure, write rows, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", metavar="FILE", help="draw the rows that are there")
    arguments = parser.parse_args()
    if arguments.plot:
        return plot([json.loads(line) for line in RESULTS.read_text().splitlines()], arguments.plot)
    rows = [row for name in NAMES for row in rows_of(name)]
    RESULTS.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
