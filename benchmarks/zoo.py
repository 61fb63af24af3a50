"""The zoo: default SparLow and its rivals on many unlike sets, by one command.

    SPARLOW_DATA=data python -m benchmarks.zoo --sets usps isolet --methods sparlow lda --seeds 0 1 2

Each run of a method on a set is one line of JSON in ``benchmarks/results/zoo.jsonl``. Runs that are there already are
not repeated. Accuracies are those of the nearest training sample, by angle (both sides centred by the training mean)
and by distance, in per cent. At most 2000 test samples are used, evenly spaced.

``--criteria`` runs every criterion without labels, and with five labels per class, beside its classical counterpart.
``--atoms`` runs the default with 8, 32, 128, 512 and 1000 atoms, before and after joint learning. Both have
a file of rows of their own. ``--table`` prints a table of the rows, ``--page`` writes all of them to
docs/evidence/zoo.md.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import normalize
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC

from benchmarks.zoo_sets import SETS, Array, Split, drawn, standardised
from benchmarks.zoo_tables import ATOMS, CLASSICAL, RESULTS, TABLES, kept_rows, printed, whole_page

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


def parts_of(y: Array) -> Any:
    """Return three folds of the training samples, two where a class has two; None where one has a single sample."""
    least = int(np.bincount(y).min())
    return StratifiedKFold(max(2, min(3, least)), shuffle=True, random_state=0) if least > 1 else None


def tuned_lda(X: Array, y: Array, count: int | None = None) -> tuple[float, Callable[[Array], Array]]:
    """LDA, its shrinkage chosen by the nearest neighbours of held-out thirds; what these say of it, and the map."""
    total = np.zeros(len(SHRINKAGES))
    folds = parts_of(y)
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
    return float(total.max()), lambda Z: (Z - mean) @ W


def lda_by_folds(X: Array, y: Array, count: int | None = None) -> Callable[[Array], Array]:
    return tuned_lda(X, y, count)[1]


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


def lda_chosen(split: Split, seed: int) -> dict[str, float]:
    """LDA on rows as they are or of unit norm, as held-out thirds say."""
    tried = [(*tuned_lda(scaled.X, scaled.y), scaled) for scaled in (split, unit(split))]
    _, embed, scaled = max(tried, key=lambda found: found[0])
    return accuracies(embed(scaled.X), scaled.y, embed(scaled.X_test), scaled.y_test)


def raw_chosen(split: Split, seed: int) -> dict[str, float]:
    """The nearest raw sample, rows as they are or of unit norm, as held-out thirds say."""
    folds = parts_of(split.y)

    def score(X: Array) -> float:
        parts = folds.split(X, split.y) if folds else ()
        return sum(sum(accuracies(X[fit], split.y[fit], X[held], split.y[held]).values()) for fit, held in parts)

    return raw(max((split, unit(split)), key=lambda scaled: score(scaled.X)), seed)


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


def criterion(split: Split, seed: int, name: str, classical: bool, wide: bool = False) -> dict[str, float]:
    """A criterion by its default, or the classical method of the same name, on rows of unit norm.

    Without labels, the nearest training sample tells the class. With five labels per class, the nearest labelled one.
    ``wide``: the classical method with as many columns as SparLow has, where that is more.
    """
    from sparlow import SparLow, TraceQuotient

    split = unit(split)
    count = min(48, split.X.shape[1]) if wide else None
    if wide and count == min(48, split.X.shape[1] // 4):
        raise NotImplementedError("it has as many columns by default")
    model = TraceQuotient(name, n_components=count) if classical else SparLow(name, random_state=seed, n_jobs=1)
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


FREE, SEMI = ("pca", "lap", "lle"), ("sda", "slap", "smvr")  # without labels, with few

METHODS: dict[str, Callable[..., dict[str, float]]] = {
    "raw": raw,
    "raw_unit": lambda split, seed: raw(unit(split), seed),
    "pca": pca,
    "lda": lda,
    "lda_unit": lambda split, seed: lda(unit(split), seed),
    "lda_chosen": lda_chosen,
    "raw_chosen": raw_chosen,
    "lda2": lambda split, seed: lda(unit(split), seed, min(2, len(np.unique(split.y)) - 1)),
    "svm": svm,
    "logistic": logistic,
    "nca": nca,
    "umap": umap,
    "sparlow": sparlow,
    "spreading": spreading,
    **{f"{name}-sparlow": functools.partial(criterion, name=name, classical=False) for name in CLASSICAL},
    **{CLASSICAL[name]: functools.partial(criterion, name=name, classical=True) for name in CLASSICAL},
    **{f"{CLASSICAL[name]}-wide": functools.partial(criterion, name=name, classical=True, wide=True) for name in FREE},
    **{f"atoms{count}": functools.partial(with_atoms, count=count) for count in ATOMS},
}
CRITERIA = [method for name in CLASSICAL for method in (f"{name}-sparlow", CLASSICAL[name])]
CRITERIA += ["spreading", *(f"{CLASSICAL[name]}-wide" for name in FREE)]


# ── running ────────────────────────────────────────────────────────────────────────────────────────────────────────


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["open"], help="names, or open, reserve, last, all")
    default = ["raw", "raw_unit", "raw_chosen", "pca", "lda", "lda_unit", "lda_chosen", "sparlow"]
    parser.add_argument("--methods", nargs="+", default=default, choices=METHODS)
    parser.add_argument("--criteria", action="store_true", help="the criteria without labels and with few instead")
    parser.add_argument("--atoms", action="store_true", help="the default with other numbers of atoms instead")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--rows", type=Path, help="file of rows; by default one in benchmarks/results")
    parser.add_argument("--table", choices=TABLES, help="print a table of the rows instead")
    parser.add_argument("--page", action="store_true", help="write docs/evidence/zoo.md instead")
    options = parser.parse_args()
    if options.page:
        page = Path(__file__).parent.parent / "docs" / "evidence" / "zoo.md"
        page.write_text(whole_page(), encoding="utf-8")
        return
    if options.table:
        print(printed(options.table, options.rows))
        return
    kind = "_criteria" if options.criteria else "_atoms" if options.atoms else ""
    rows = options.rows or RESULTS / f"zoo{kind}.jsonl"
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
