"""What features of pictures are worth, on training pictures of 15-Scenes held out: words, grids, sizes, pooling.

Of 100 training pictures of each class 70 are learned from and 30 judged by; codebook, principal components and
classifiers know the first alone. Test pictures take no part. Run with
``SPARLOW_DATA=<folder> python -m benchmarks.features``: a row for each kind of features and split is added to
``benchmarks/results/features.json``, those that are there are not measured again.
"""

import json
import pathlib
import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from evidence import datasets
from evidence.adapted import LabelledLDA
from evidence.models import Joint
from sparlow import __version__
from sparlow.evaluation import nearest_neighbour
from sparlow.images import Codebook, DenseSIFT, PrincipalComponents, SpatialPyramid

OUTPUT = pathlib.Path(__file__).parent / "results" / "features.json"
SPLITS = 3


def chain(words=1024, coding="llc", pooling="max", patches=(16, 24, 32), step=8):
    """Pictures to pyramids."""
    book = Codebook(words, coding, n_samples=50_000, max_iter=15, random_state=0, n_jobs=-1)
    return make_pipeline(DenseSIFT(patches, step), book, SpatialPyramid((1, 2, 4), pooling, n_jobs=-1))


def roots(rows):
    """Signed square roots, scaled to unit norm."""
    rows = rows.copy()
    rows.data = np.sign(rows.data) * np.sqrt(np.abs(rows.data))
    return normalize(rows)


def plain(rows):
    """The rows themselves."""
    return rows


HISTOGRAMS = (lambda: chain(coding="hard", pooling="mean"), roots)
KINDS = {
    "as in the tables": [(chain, plain)],
    "2048 words": [(lambda: chain(2048), plain)],
    "a grid of 4 pixels": [(lambda: chain(step=4), plain)],
    "patches up to 48 pixels": [(lambda: chain(patches=(16, 24, 32, 48)), plain)],
    "square roots": [(chain, roots)],
    "roots of histograms": [HISTOGRAMS],
    "both, side by side": [(chain, plain), HISTOGRAMS],
}


def judged(X, y, X_new, y_new):
    """Shares of right labels by 1NN: LDA at the best of three shrinkages, SparLow as it is and not scaled."""
    shares = {"LDA": 0.0}
    for shrinkage in (0.3, 0.6, 0.9):
        model = LabelledLDA(solver="eigen", shrinkage=shrinkage).fit(X, y)
        shares["LDA"] = max(shares["LDA"], float(np.mean(nearest_neighbour(*embedded(model, X, y, X_new)) == y_new)))
    for name, scaled in (("LDA-SparLow", True), ("LDA-SparLow, not scaled", False)):
        model = Joint("lda", n_atoms=9 * len(X) // 10, random_state=0, normalize_embedding=scaled, n_jobs=-1).fit(X, y)
        shares[name] = float(np.mean(nearest_neighbour(*embedded(model, X, y, X_new)) == y_new))
    return shares


def embedded(model, X, y, X_new):
    """What 1NN needs."""
    return model.transform(X), y, model.transform(X_new)


def measured(kind, split, data):
    """One row."""
    began = time.perf_counter()
    rows, labels = data.split(100, split)[0], data.labels
    known, held = train_test_split(rows, test_size=0.3, stratify=labels[rows], random_state=0)
    images = np.asarray(data.images, dtype=object)
    parts = []
    for build, after in KINDS[kind]:
        steps = build().fit(images[known])
        parts.append([after(steps.transform(images[part])) for part in (known, held)])
    A, B = (sp.hstack(blocks, "csr") for blocks in zip(*parts, strict=True))
    svm = max(LinearSVC(C=C).fit(A, labels[known]).score(B, labels[held]) for C in (0.3, 1.0, 3.0))
    components = PrincipalComponents().fit(A)
    X, X_new = (normalize(components.transform(rows)) for rows in (A, B))
    shares = {"pyramids, linear SVM": svm, **judged(X, labels[known], X_new, labels[held])}
    return dict(
        features=kind,
        split=split,
        accuracy={name: round(100 * share, 2) for name, share in shares.items()},
        seconds=round(time.perf_counter() - began, 1),
        sparlow=__version__,
    )


def main():
    """Measure what is missing, then tell the means."""
    warnings.simplefilter("ignore")  # LinearSVC on 21 000 columns
    rows = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else []
    data = datasets.load("scenes15")
    for split in range(SPLITS):
        for kind in KINDS:
            if not any((row["features"], row["split"]) == (kind, split) for row in rows):
                rows.append(measured(kind, split, data))
                OUTPUT.write_text(json.dumps(rows, indent=1) + "\n")
                print(rows[-1], file=sys.stderr, flush=True)
    names = list(rows[0]["accuracy"])
    print("| features | " + " | ".join(names) + " |\n|" + " --- |" * (len(names) + 1))
    for kind in KINDS:
        own = [row["accuracy"] for row in rows if row["features"] == kind]
        means = [f"{np.mean([one[name] for one in own]):.1f}" for name in names]
        print(f"| {kind} | " + " | ".join(means) + " |")


if __name__ == "__main__":
    main()
