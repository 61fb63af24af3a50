"""How many samples of unknown classes are turned away where 95 % of those of known classes are kept.

    [SPARLOW_DATA=<folder>] python -m benchmarks.rejection [--seeds 0 1 2] [--network lite0.onnx]

Some classes are left out of training: two of scikit-learn's digits, ten of the forty persons of ORL (where the folder
has orl_32x32.npz), 24 of the 101 objects of Caltech-101 as vectors of a network. Half of the samples of the others are
learned from, the other half are the known new ones. A score turns away what it has below its 5 % quantile on the known
new samples: the probability of the predicted class, and the likeness that ``sparlow predict`` prints. ``auroc`` is the
probability that a known sample has the larger score. ``kept`` is the share of known new samples above ``--reject
0.05``, whose threshold is set without them. Rows are in benchmarks/results/rejection.jsonl.
"""

import argparse
import json
import os
import pathlib
import time
import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from evidence.networks import vectors
from sparlow import SparLow
from sparlow.app.confidence import held_out_unlikeness, unlikeness
from sparlow.app.dataset import Dataset
from sparlow.views import Patches

RESULTS = pathlib.Path(__file__).parent / "results" / "rejection.jsonl"
KEPT = 0.95
MOST = 60  # photographs of a class


def sets(network):
    """Yield name, samples, labels, how many classes are unknown, and the views of the samples."""
    digits, both = load_digits(), (("local", Patches()), ("whole", None))
    yield "digits", digits.data.astype(np.float32), digits.target, 2, both
    path = pathlib.Path(os.environ.get("SPARLOW_DATA", "")) / "orl_32x32.npz"
    if path.is_file():
        faces = np.load(path)
        yield "orl", faces["X"].reshape(len(faces["X"]), -1).astype(np.float32), faces["y"].ravel(), 10, both
    if network is not None:
        X, y = vectors("caltech101", network)
        objects = np.unique(y)[1:]  # the pictures of the first class are of everything
        rows = np.concatenate([np.flatnonzero(y == c)[:MOST] for c in objects])
        yield "caltech101 vectors", X[rows], y[rows], 24, (("whole", None),)


def rejected(known, unknown):
    """Return the share of unknown samples with a score below the one that 95 % of the known ones have."""
    return float(np.mean(unknown < np.quantile(known, 1 - KEPT)))


def auroc(known, unknown):
    """Return how often a known sample has the larger score."""
    return float(roc_auc_score(np.repeat([1, 0], [len(known), len(unknown)]), np.r_[known, unknown]))


def row(X, y, n_unknown, views, seed):
    """Return the figures of one split."""
    rng = np.random.default_rng(seed)
    unknown = np.isin(y, rng.permutation(np.unique(y))[:n_unknown])
    rows = rng.permutation(np.flatnonzero(~unknown))
    train, new = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    began = time.perf_counter()
    model = SparLow("lda", views=views, max_iter=0, random_state=seed).fit(X[train], y[train])
    fitted = time.perf_counter()
    measured = held_out_unlikeness(model, Dataset(X[train], y[train]))
    seconds = {"fit_seconds": fitted - began, "likeness_seconds": time.perf_counter() - fitted}
    sure = [model.predict_proba(part).max(axis=1) for part in (X[new], X[unknown])]
    like = [-unlikeness(model.transform(part), model.embedding_) for part in (X[new], X[unknown])]
    return {
        "accuracy": model.score(X[new], y[new]),
        "auroc_probability": auroc(*sure),
        "auroc_likeness": auroc(*like),
        "rejected_by_probability": rejected(*sure),
        "rejected_by_likeness": rejected(*like),
        "kept": float(np.mean(-like[0] <= np.quantile(measured, KEPT))),
        "rejected": float(np.mean(-like[1] > np.quantile(measured, KEPT))),
        **seconds,
    }


def main():
    """Write a row for each set, model and seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--network", type=pathlib.Path)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    with RESULTS.open("w") as file:
        for name, X, y, n_unknown, models in sets(arguments.network):
            for model, views in models:
                for seed in arguments.seeds:
                    found = {"set": name, "model": model, "seed": seed, **row(X, y, n_unknown, views, seed)}
                    line = json.dumps({key: round(v, 4) if isinstance(v, float) else v for key, v in found.items()})
                    print(line, flush=True)
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
