"""Local codes beside what people would use instead: 1NN by angle on embeddings of small images.

    SPARLOW_DATA=<folder> python benchmarks/local.py [--sets usps orl-5 …] [--methods …] [--seeds 0 1 2]
    python benchmarks/local.py --table page      the table of docs/evidence/local_codes.md, from the rows at hand

Each row (set, method, seed) is a line of JSON, written as soon as it is known: starting again goes on where the last
run ended. Test images are used once per row. A method is a function of a ``Task`` that returns an ``Answer``: vectors
of both parts, judged by 1NN by angle, or labels of its own. What needs a package that is missing is left out, with a
line that says so. "+ LDA" is the same for all features: whitened shrinkage LDA in the span of the samples.
"""

import argparse
import importlib.util
import inspect
import itertools
import json
import os
import pathlib
import platform
import time
import warnings
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

import sparlow
from sparlow import SparLow
from sparlow.evaluation import share_right, support_vectors

RESULTS = pathlib.Path(__file__).parent / "results"
SPAN = 6000  # beyond so many samples, LDA works with the covariance of the features instead of the Gram matrix

# ── image sets ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Task:
    """Images (n, height, width), float32 in 0 … 1, and labels of both parts."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    seed: int

    @property
    def shape(self):
        """Height and width."""
        return self.X.shape[1:]


def _file(name):
    return np.load(pathlib.Path(os.environ["SPARLOW_DATA"]) / f"{name}.npz")


def official(name, scale, train=None):
    """The standard split; of its training images so many, drawn by the seed."""

    def draw(seed):
        data = _file(name)
        by = float(data["scale"]) if scale is None else scale
        X, X_test = ((data[part] / by).astype(np.float32) for part in ("X_train", "X_test"))
        side = int(np.sqrt(X.shape[1]))
        rows = np.arange(len(X)) if train is None else np.random.RandomState(seed).permutation(len(X))[:train]
        return Task(X[rows].reshape(-1, side, side), data["y_train"][rows], X_test.reshape(-1, side, side),
                    data["y_test"], seed)  # fmt: skip

    draw.by_chance = train is not None
    return draw


def per_class(name, shape, count):
    """So many images of each class for learning, drawn by the seed, the others for the test."""

    def draw(seed):
        if name == "digits":
            X, y = load_digits(return_X_y=True)
            X = X / 16
        else:
            X, y = (_file(name)[part] for part in ("X", "y"))
            X = X / 255
        X, rng = X.reshape(-1, *shape).astype(np.float32), np.random.RandomState(seed)
        places = [rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y)]
        take = [len(place) // 2 if count is None else count for place in places]
        train = np.concatenate([place[:k] for place, k in zip(places, take, strict=True)])
        test = np.concatenate([place[k:] for place, k in zip(places, take, strict=True)])
        return Task(X[train], y[train], X[test], y[test], seed)

    draw.by_chance = True
    return draw


SETS = {
    "usps": official("usps", None),
    "mnist-10000": official("mnist", 255, 10_000),
    "mnist": official("mnist", 255),
    "fashion-5000": official("fashion_part", 255, 5000),
    "fashion-20000": official("fashion_part", 255),
    "pie-30": per_class("pie_32x32", (32, 32), 30),
    "pie-120": per_class("pie_32x32", (32, 32), 120),
    "orl-5": per_class("orl_32x32", (32, 32), 5),
    "ar-5": per_class("ar10p_60x40", (60, 40), 5),
    "digits": per_class("digits", (8, 8), None),
}


# ── features and reducers of the rivals ─────────────────────────────────────────────────────────────────────────────


def pixels(task):
    return tuple(normalize(part.reshape(len(part), -1)) for part in (task.X, task.X_test))


def hog(images, orientations=9, clip=0.2):
    """Histograms of unsigned gradient directions: cells of 4 pixels, blocks of 2 × 2 cells, clipped norm."""
    n, height, width = images.shape
    cell = 4 if min(height, width) >= 16 else 2
    dy, dx = np.gradient(images, axis=(1, 2))
    size, angle = np.hypot(dx, dy), np.mod(np.arctan2(dy, dx), np.pi) * (orientations / np.pi)
    low = np.floor(angle - 0.5).astype(int)
    share = angle - 0.5 - low
    rows, columns = height // cell, width // cell
    cells = np.zeros((n, rows, columns, orientations), np.float32)
    where = (slice(None), slice(0, rows * cell), slice(0, columns * cell))
    for bin_, weight in ((low % orientations, 1 - share), ((low + 1) % orientations, share)):
        for o in range(orientations):
            part = np.where(bin_ == o, size * weight, 0)[where]
            cells[..., o] += part.reshape(n, rows, cell, columns, cell).sum(axis=(2, 4))
    corners = [cells[:, i : rows - 1 + i, j : columns - 1 + j] for i in (0, 1) for j in (0, 1)]
    blocks = np.concatenate(corners, axis=3)
    for _ in range(2):
        blocks = blocks / np.sqrt(np.sum(blocks**2, axis=3, keepdims=True) + 1e-4)
        blocks = np.minimum(blocks, clip)
    return normalize(blocks.reshape(n, -1))


def hogs(task):
    return hog(task.X), hog(task.X_test)


def scattering(task):
    from sparlow.images import Scattering

    options = {"log": True} if "log" in inspect.signature(Scattering).parameters else {}
    if "shape" in inspect.signature(Scattering).parameters:
        options["shape"] = task.shape
    fixed = Scattering(**options)
    rows = [part.reshape(len(part), -1) for part in (task.X, task.X_test)]
    return normalize(fixed.fit_transform(rows[0])), normalize(fixed.transform(rows[1]))


def whitened_lda(F, y, F_new, shares=(0.3, 0.1, 0.03)):
    """Directions of LDA, the within-class scatter and a ridge made the unit matrix; the ridge by leaving one out.

    With Y the class indicators, each column of unit norm and then centred, and K the centred products of samples,
    S = (K + λ)⁻¹Y and the eigenvectors V of YᵀKS with eigenvalues ρ give the coefficients S V / √(ρ(1 − ρ)). λ is a
    share of the mean squared distance from the mean. Many samples: the same through the covariance of the features.
    """
    labels, place = np.unique(y, return_inverse=True)
    Y = np.zeros((len(y), len(labels)), np.float32)
    Y[np.arange(len(y)), place] = 1
    one = Y - Y.mean(axis=0)
    Y = Y / np.sqrt(Y.sum(axis=0))
    Y = Y - Y.mean(axis=0)
    mean = F.mean(axis=0)
    F, F_new = (F - mean).astype(np.float32), (F_new - mean).astype(np.float32)
    unit = float(np.einsum("ij,ij->", F, F)) / len(F)
    few = np.random.RandomState(0).permutation(len(F))[:3000]
    K = F[few] @ F[few].T
    errors = []
    for share in shares:
        M = K.copy()
        M.flat[:: len(M) + 1] += share * unit * len(few) / len(F)
        inverse = scipy.linalg.inv(M, overwrite_a=True, check_finite=False)
        errors.append(np.mean((inverse @ one[few] / np.diag(inverse)[:, None]) ** 2))
    ridge = shares[int(np.argmin(errors))] * unit
    if len(F) <= SPAN or len(F) <= F.shape[1]:
        K = F @ F.T
        K.flat[:: len(K) + 1] += ridge
        W = F.T @ scipy.linalg.solve(K, Y, assume_a="pos", overwrite_a=True, check_finite=False)
    else:
        C = F.T @ F
        C.flat[:: len(C) + 1] += ridge
        W = scipy.linalg.solve(C, F.T @ Y, assume_a="pos", overwrite_a=True, check_finite=False)
    rho, V = np.linalg.eigh(np.asarray((Y.T @ F) @ W, float))
    rho, V = np.clip(rho[1:], 1e-6, 1 - 1e-6), V[:, 1:]
    W = W @ (V / np.sqrt(rho * (1 - rho))).astype(np.float32)
    return F @ W, F_new @ W


# ── methods ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Answer:
    """Embeddings of both parts, or labels of the test images."""

    train: np.ndarray | None = None
    test: np.ndarray | None = None
    labels: np.ndarray | None = None
    about: dict | None = None


def with_svm(features):
    def method(task):
        F, F_test = features(task)
        return Answer(labels=support_vectors(F, task.y, F_test, seed=task.seed, n_jobs=1))

    return method


def with_lda(features):
    def method(task):
        F, F_test = features(task)
        return Answer(*whitened_lda(F, task.y, F_test), about={"width": F.shape[1]})

    return method


def raw(task):
    return Answer(*pixels(task))


def model_of(task, **options):
    from sparlow.views import Patches

    square = task.shape[0] == task.shape[1]
    views = Patches() if square else Patches(shape=task.shape)
    return SparLow("lda", views=views, random_state=task.seed, n_jobs=1, **options)


def whole(task):
    return embedded(SparLow("lda", random_state=task.seed, n_jobs=1), task)


def local(task):
    return embedded(model_of(task), task)


def local_start(task):
    return embedded(model_of(task, max_iter=0, embedding="whitened"), task)


def local_svm(task):
    answer = local_start(task)
    return Answer(labels=support_vectors(answer.train, task.y, answer.test, seed=task.seed, n_jobs=1))


def embedded(model, task):
    X, X_test = (part.reshape(len(part), -1) for part in (task.X, task.X_test))
    model.fit(X, task.y)
    about = {"atoms": len(getattr(model, "dictionary_", ())), "steps": int(getattr(model, "n_iter_", 0) or 0)}
    return Answer(model.transform(X), model.transform(X_test), about=about)


def net(task, epochs=30, fewest=600):
    """Two layers of convolutions and two of full connections, Adam, thirty epochs, at least 600 steps."""
    import torch
    from torch import nn

    torch.manual_seed(task.seed)
    torch.set_num_threads(1)
    labels, y = np.unique(task.y, return_inverse=True)
    X, X_test = (torch.from_numpy(part[:, None]).float() for part in (task.X, task.X_test))
    layers = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.25),
        nn.LazyLinear(128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, len(labels)),
    )  # fmt: skip
    layers(X[:2])
    steps = torch.optim.Adam(layers.parameters(), 1e-3)
    y, rng = torch.from_numpy(y), torch.Generator().manual_seed(task.seed)
    layers.train()
    for _ in range(max(epochs, -(-fewest * 64 // len(X)))):
        for rows in torch.randperm(len(X), generator=rng).split(64):
            steps.zero_grad()
            nn.functional.cross_entropy(layers(X[rows]), y[rows]).backward()
            steps.step()
    layers.eval()
    with torch.no_grad():
        guesses = torch.cat([layers(part).argmax(dim=1) for part in X_test.split(1000)])
    return Answer(labels=labels[guesses.numpy()])


METHODS = {
    "raw 1NN": raw,
    "raw + SVM": with_svm(pixels),
    "LDA": with_lda(pixels),
    "LDA-SparLow, whole images": whole,
    "HOG + LDA": with_lda(hogs),
    "HOG + SVM": with_svm(hogs),
    "scattering + LDA": with_lda(scattering),
    "scattering + SVM": with_svm(scattering),
    "small net": net,
    "patch codes + LDA": local_start,
    "patch codes + LDA + SVM": local_svm,
    "LDA-SparLow, local": local,
}
NEEDS = {"scattering": ("sparlow.images", "Scattering"), "net": ("torch", None), "local": ("sparlow.views", "Patches"),
         "patch": ("sparlow.views", "Patches")}  # fmt: skip


def missing(method):
    """What a method needs and is not there, or None."""
    for word, (module, name) in NEEDS.items():
        if word in method:
            if importlib.util.find_spec(module) is None:
                return module
            if name and not hasattr(importlib.import_module(module), name):
                return f"{module}.{name}"
    return None


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def by_angle(Z, y, Z_new):
    Z, Z_new = normalize(Z), normalize(Z_new)
    parts = [y[np.argmax(Z_new[at : at + 2000] @ Z.T, axis=1)] for at in range(0, len(Z_new), 2000)]
    return np.concatenate(parts)


def measure(name, method, seed):
    task = SETS[name](seed)
    begin, cpu = time.perf_counter(), time.process_time()
    answer = METHODS[method](task)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    labels = by_angle(answer.train, task.y, answer.test) if answer.labels is None else answer.labels
    return {
        "set": name,
        "method": method,
        "seed": seed,
        "accuracy": share_right(labels, task.y_test),
        "judge": "1NN by angle" if answer.labels is None else "its own",
        "dimension": None if answer.test is None else int(answer.test.shape[1]),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "n_train": len(task.y),
        "n_test": len(task.y_test),
        "about": answer.about or {},
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "sparlow": sparlow.__version__},
    }


def markdown(*lines):
    """Return lines of cells as a table in Markdown, the first as its head."""
    head, *others = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|---" * len(lines[0]) + "|", *others])


TITLES = {
    "usps": "USPS",
    "mnist-10000": "MNIST, 10 000",
    "mnist": "MNIST, 60 000",
    "fashion-5000": "Fashion, 5000",
    "fashion-20000": "Fashion, 20 000",
    "pie-30": "PIE, 30",
    "pie-120": "PIE, 120",
    "orl-5": "ORL, 5",
    "ar-5": "AR, 5",
    "digits": "digits, half",
    "LDA-SparLow, local": "LDA-SparLow, `Patches()`",
}


def cell(rows, name, method):
    """Return the mean over seeds, in per cent, and median CPU seconds; a star marks a single draw."""
    found = [row for row in rows if (row["set"], row["method"]) == (name, method)]
    star = "*" if len(found) == 1 and SETS[name].by_chance else ""
    right, seconds = ([row[key] for row in found] for key in ("accuracy", "cpu_seconds"))
    return f"{100 * np.mean(right):.2f}{star} · {np.median(seconds):.0f} s" if found else "–"


def table(rows, sets, methods):
    """Return a table of these rows in Markdown."""
    lines = [["method", *(TITLES[name] for name in sets)]]
    lines += [[TITLES.get(method, method), *(cell(rows, name, method) for name in sets)] for method in methods]
    return markdown(*lines)


def page(rows):
    """Return the table of docs/evidence/local_codes.md: all sets, and the methods that have rows."""
    return table(rows, SETS, [method for method in METHODS if any(row["method"] == method for row in rows)])


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Rows:
    """Rows in a file of JSON lines, each written as soon as it is known; ``keys`` name what makes a row."""

    def __init__(self, path, keys):
        self.path, self.keys = path, keys
        self.rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def missing(self, *values):
        """Whether there is no row with these values of the keys."""
        return values not in [tuple(row[key] for key in self.keys) for row in self.rows]

    def add(self, row):
        """Keep a row, here and in the file."""
        self.rows.append(row)
        with self.path.open("a") as lines:
            lines.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)

    def mean(self, **where):
        """The mean accuracy of rows with these values, as text."""
        found = [100 * row["accuracy"] for row in self.rows if all(row[key] == where[key] for key in where)]
        return f"{np.mean(found):.1f}" if found else "–"


def compared(options):
    """Measure all methods on all sets."""
    rows = Rows(options.output or RESULTS / "local.jsonl", ("set", "method", "seed"))
    methods = [method for method in options.methods if not missing(method)]
    for method in set() if options.table else set(options.methods) - set(methods):
        print(f"{method}: left out, {missing(method)} is not there")
    for seed, name, method in itertools.product(options.seeds, options.sets, methods):
        fixed = not SETS[name].by_chance and seed != options.seeds[0]
        if not (options.table or fixed) and rows.missing(name, method, seed):
            rows.add(measure(name, method, seed))
    print("\n" + (page(rows.rows) if options.table == "page" else table(rows.rows, options.sets, options.methods)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--table", nargs="?", const="all", choices=("all", "page"), help="print rows at hand instead")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    compared(options)


if __name__ == "__main__":
    main()
