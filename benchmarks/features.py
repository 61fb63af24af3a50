"""What features of pictures are worth, on training pictures held out: scenes, and forty classes of objects.

Scenes: of 100 training pictures of each class of 15-Scenes 70 are learned from and 30 judged by. Objects: of 30 of each
of forty classes of Caltech-101 half are. Codebook, principal components and classifier know the first part alone. Test
pictures take no part. Run with ``SPARLOW_DATA=<folder> python -m benchmarks.features``: a row for each kind of
features, set and share of components is added to ``benchmarks/results/features.json``, those that are there are not
measured again. ``--table`` prints them.
"""

import json
import pathlib
import sys
import time

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from evidence import datasets
from sparlow import __version__
from sparlow.images import PrincipalComponents, fisher_features, pyramid_features

OUTPUT = pathlib.Path(__file__).parent / "results" / "features.json"
SHARES, SHRINKAGES = (0.5, 0.8), (0.05, 0.15, 0.3)
KINDS = {
    "LLC pyramids": lambda: pyramid_features(0, random_state=0),
    "Fisher vectors": lambda: fisher_features(0, random_state=0),
}
SETS = {"scenes": ("scenes15", 100, 0.3, None), "objects": ("caltech101", 30, 0.5, 40)}


def parts(name):
    """Pictures and labels to learn from, and to judge by."""
    source, count, share, classes = SETS[name]
    data = datasets.load(source)
    rows = data.split(count, 0)[0]
    if classes is not None:
        some = np.random.RandomState(5).permutation(np.unique(data.labels))[:classes]
        rows = rows[np.isin(data.labels[rows], some)]
    known, held = train_test_split(rows, test_size=share, stratify=data.labels[rows], random_state=0)
    images = np.asarray(data.images, dtype=object)
    return images[known], data.labels[known], images[held], data.labels[held]


def mean_of_classes(predicted, y):
    """Mean accuracy of the classes, in %."""
    return round(100 * float(np.mean([np.mean(predicted[y == c] == c) for c in np.unique(y)])), 1)


def judged(X, y, X_new, y_new, shrinkage):
    """LDA with the within-class scatter whitened: its own decision, and the nearest neighbour by angle."""
    classes = np.unique(y)
    means = np.array([X[y == c].mean(axis=0) for c in classes])
    spread = X - means[np.searchsorted(classes, y)]
    within = spread.T @ spread / len(X)
    within = (1 - shrinkage) * within + shrinkage * np.trace(within) / len(within) * np.eye(len(within))
    L = np.linalg.cholesky(within)
    A, B, M = (np.linalg.solve(L, (rows - X.mean(axis=0)).T).T for rows in (X, X_new, means))
    axes = np.linalg.svd(M, full_matrices=False)[2][: len(classes) - 1].T
    A, B, M = A @ axes, B @ axes, M @ axes
    own = classes[np.argmax(B @ M.T - 0.5 * np.sum(M * M, axis=1), axis=1)]
    near = y[np.argmax(normalize(B) @ normalize(A).T, axis=1)]
    return {"LDA": mean_of_classes(own, y_new), "1NN": mean_of_classes(near, y_new)}


def measured(kind, name):
    """Rows of one kind of features on one set."""
    pictures, y, new, y_new = parts(name)
    began = time.process_time()
    steps = KINDS[kind]()
    rows, rows_new = steps.fit_transform(pictures), steps.transform(new)
    seconds = round(time.process_time() - began, 1)
    for share in SHARES:
        components = PrincipalComponents(share=share).fit(rows)
        X, X_new = (normalize(np.asarray(components.transform(part), float)) for part in (rows, rows_new))
        accuracy = {f"{s:g}": judged(X, y, X_new, y_new, s) for s in SHRINKAGES}
        what = {"features": kind, "set": name, "share": share, "accuracy": accuracy}
        yield {**what, "seconds": seconds, "n": [len(y), len(y_new)], "sparlow": __version__}


def main(words):
    """Measure what is missing, then tell it."""
    rows = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else []
    for kind in KINDS:
        for name in SETS:
            if "--table" not in words and not any((row["features"], row["set"]) == (kind, name) for row in rows):
                rows += measured(kind, name)
                OUTPUT.write_text(json.dumps(rows, indent=1) + "\n")
    print("| features | set | components | shrinkage | LDA | 1NN |\n|" + " --- |" * 6)
    for row in rows:
        start = f"| {row['features']} | {row['set']} | {row['share']:g} n |"
        for shrinkage, found in row["accuracy"].items():
            print(f"{start} {shrinkage} | {found['LDA']} | {found['1NN']} |")


if __name__ == "__main__":
    main(sys.argv[1:])
