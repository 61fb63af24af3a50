"""Call every public function and estimator with random, mostly odd arguments, and judge what comes back.

    python -m benchmarks.fuzz --cases 20000 --seed 0

Each case is a function of the seed and its number. Cases run in worker processes, so that a crash or a hang ends one
worker and not the run. A case is fine if it returns sound numbers, or if it is refused by a ValueError or TypeError
that the library, or a check of scikit-learn, has written. Everything else is a finding:

- a crash, or more than ``--limit`` seconds (a second try is allowed: the first may have compiled kernels);
- an error of another type, or one that comes from the inside of another library;
- numbers that are not finite, without an error or a warning;
- codes whose optimality gap is above ``tol`` without a ConvergenceWarning;
- an embedding that differs from the transform of the same samples.

A case is repeated by ``python -m benchmarks.fuzz --only 123``. Rows are kept for every 250 cases; a run that was
stopped goes on.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import pickle
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from benchmarks.isolation import Worker, serve
from sparlow import (
    Coder,
    DictionaryLearner,
    SparLow,
    TraceQuotient,
    encode,
    evaluation,
    explanations,
    export,
    images,
    load,
    objective,
    pullback,
    save,
    trace_ratio,
)
from sparlow.classifiers import BMDDL, DKSVD, FDDL, LCKSVD, SRC, TDDL, LapRLS
from sparlow.coding import optimality_gap
from sparlow.criteria import LAP, LDA, LLE, MFA, MVR, PCA, SDA, SLAP, SMVR
from sparlow.priors import ElasticNet, KLDivergence, Prior
from sparlow.solvers import EarlyStopping, Solver
from sparlow.views import Patches, Shifts

RESULTS = pathlib.Path(__file__).parent / "results" / "fuzz.jsonl"
LIMIT = 10.0  # seconds
CHUNK = 250  # cases of a row
_LOST: dict[str, Any] = {"what": "?", "outcome": "finding", "message": "crash or hang", "seconds": LIMIT}
Rng = np.random.Generator


class FindingError(Exception):
    """Something that must not happen."""


# ── arguments ──────────────────────────────────────────────────────────────────────────────────────────────────────


def pick(rng: Rng, *values: Any) -> Any:
    return values[rng.integers(len(values))]


def power(rng: Rng, low: float, high: float) -> float:
    """Return a number between 10^low and 10^high."""
    return float(10 ** rng.uniform(low, high))


def samples(rng: Rng, n: int, m: int, sparse: bool = True) -> Any:
    """Return n rows of m numbers: of any scale, order and type, with zeros, repetitions and constant columns."""
    kind = pick(rng, "normal", "normal", "positive", "steps", "low rank", "constant", "counts", "one hot")
    X = rng.standard_normal((n, m))
    if kind == "positive":
        X = np.abs(X)
    elif kind == "steps":
        X = np.round(X)
    elif kind == "low rank":
        X = rng.standard_normal((n, 1)) @ rng.standard_normal((1, m)) + 1e-3 * X
    elif kind == "constant":
        X = np.ones((n, m)) + pick(rng, 0.0, 1e-12, 1e-3) * X
    elif kind == "counts":
        X = rng.poisson(1.0, (n, m)).astype(float)
    elif kind == "one hot":
        X = np.eye(m)[rng.integers(m, size=n)]
    if rng.random() < 0.15:
        X[rng.integers(n, size=max(1, n // 5))] = 0
    if rng.random() < 0.15:
        X[rng.integers(n, size=max(1, n // 4))] = X[0]
    if rng.random() < 0.15:
        X[:, rng.integers(m, size=max(1, m // 4))] = 0
    if rng.random() < 0.2:
        X *= power(rng, -12, 12)
    if rng.random() < 0.1:
        X *= 10 ** rng.uniform(-6, 6, (1, m))
    if rng.random() < 0.03:
        X[rng.integers(n), rng.integers(m)] = pick(rng, np.nan, np.inf, -np.inf)
    if rng.random() < 0.3:
        with np.errstate(over="ignore"):
            X = X.astype(np.float32)
    elif rng.random() < 0.05 and np.all(np.abs(X) < 1e9):
        X = X.astype(pick(rng, np.int64, np.int8, np.uint8, bool))
    if rng.random() < 0.1:
        X = np.asfortranarray(X)
    if sparse and rng.random() < 0.15:
        return pick(rng, sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix)(X)
    if rng.random() < 0.05:
        X.flags.writeable = False
    return X


def atoms(rng: Rng, r: int, m: int) -> Any:
    D = rng.standard_normal((r, m))
    kind = pick(rng, "normal", "normal", "positive", "equal", "close", "basis")
    if kind == "positive":
        D = np.abs(D)
    elif kind == "equal":
        D[rng.integers(r, size=r // 2)] = D[0]
    elif kind == "close":
        D[: r // 2] = D[0] + power(rng, -12, -2) * D[: r // 2]
    elif kind == "basis":
        D = np.eye(m)[rng.integers(m, size=r)]
    D = D / np.linalg.norm(D, axis=1, keepdims=True)
    return D.astype(np.float32) if rng.random() < 0.2 else D


def prior(rng: Rng) -> Prior:
    if rng.random() < 0.75:
        l1 = 0.0 if rng.random() < 0.05 else power(rng, -7, 1)
        l2 = 0.0 if rng.random() < 0.25 else power(rng, -9, 1)
        return ElasticNet(l1, l2 if l1 else l2 or 1.0, bool(rng.random() < 0.3))
    return KLDivergence(power(rng, -5, 3), power(rng, -5, 0), power(rng, -9, -1))


def labels(rng: Rng, n: int) -> Any:
    """Return labels of n samples: numbers, words or targets, some of them missing, some alone."""
    c = int(pick(rng, 2, 2, 3, 5, max(2, n // 2)))
    y: Any = rng.permutation(np.arange(n) % c) if rng.random() < 0.8 else rng.integers(c, size=n)
    kind = pick(rng, "words", "signs", "floats", "targets", "columns", "few", "one", "none")
    kind = kind if rng.random() < 0.4 else "numbers"
    if kind == "words":
        y = np.array([f"class {label}" for label in y])
    elif kind == "signs":
        y = np.where(y % 2, 1, -1)
    elif kind == "floats":
        y = y.astype(float)
    elif kind == "targets":
        y = rng.standard_normal(n) * power(rng, -3, 3)
    elif kind == "columns":
        y = rng.standard_normal((n, 2))
    elif kind == "few":
        y = np.where(rng.random(n) < 0.7, -1, y)
    elif kind == "one":
        y = np.zeros(n, int)
    elif kind == "none":
        y = pick(rng, None, np.full(n, np.nan), np.array([None] * n), np.array(["a", 1] * n, dtype=object)[:n])
    return y


def size(rng: Rng) -> tuple[int, int]:
    return int(pick(rng, 1, 2, 3, 5, 12, 12, 30, 30, 60, 60)), int(pick(rng, 1, 2, 4, 9, 9, 16, 16, 25))


# ── judgements ─────────────────────────────────────────────────────────────────────────────────────────────────────


def finite(values: Any, what: str) -> None:
    numbers = values.data if sp.issparse(values) else np.asarray(values)
    if numbers.dtype.kind == "f" and not np.all(np.isfinite(numbers)):
        raise FindingError(f"{what} is not finite")


def warned(caught: list[Any], category: type[Warning] = Warning) -> bool:
    return any(issubclass(entry.category, category) for entry in caught)


def check_codes(X: Any, D: Any, g: Prior, codes: Any, tol: float, caught: list[Any]) -> None:
    finite(codes, "a code")
    if warned(caught, ConvergenceWarning):
        return
    X64 = (X.toarray() if sp.issparse(X) else np.asarray(X)).astype(codes.dtype).astype(float)
    gaps = optimality_gap(X64, np.asarray(D, dtype=codes.dtype).astype(float), g, codes.astype(float))
    if np.max(gaps) > 1.1 * tol:  # the solver's own gap is rounded, too
        raise FindingError(f"gap {np.max(gaps):.2g} above tol={tol:.2g} without a warning")


def check_model(model: Any, X: Any, y: Any, caught: list[Any], rng: Rng) -> None:
    """Judge a fitted estimator: all that it offers is finite and fits together."""
    if hasattr(model, "transform"):
        Z = model.transform(X)
        finite(Z, "the transform")
        embedding = getattr(model, "embedding_", None)
        if embedding is not None and not warned(caught):
            scale, off = np.abs(embedding).max(), np.abs(Z - embedding).max()
            lost = np.abs(getattr(model, "_centre", 0.0)).max()  # where features are equal
            if off > 100 * np.finfo(embedding.dtype).eps * (scale + lost):
                raise FindingError(f"embedding_ differs from transform by {off:.2g}, its size is {scale:.2g}")
        if hasattr(model, "inverse_transform") and getattr(model, "views", None) is None:
            finite(model.inverse_transform(Z), "the inverse transform")
    if hasattr(model, "predict"):
        predicted = model.predict(X)
        finite(predicted, "a prediction")
        if hasattr(model, "classes_") and not set(np.unique(predicted)) <= set(model.classes_):
            raise FindingError("a class is predicted that was not learned")
    if hasattr(model, "predict_proba") and hasattr(model, "classes_"):
        P = model.predict_proba(X)
        finite(P, "a probability")
        if np.abs(P.sum(axis=1) - 1).max() > 1e-5:
            raise FindingError("probabilities do not sum to one")
    if hasattr(model, "decision_function"):
        finite(model.decision_function(X), "a score of a class")
    for name in ("dictionary_", "projection_", "components_", "quotient_"):
        if hasattr(model, name):
            finite(getattr(model, name), name)
    if rng.random() < 0.1:
        again = pickle.loads(pickle.dumps(model))
        if hasattr(model, "transform"):
            same(again.transform(X), model.transform(X))
    if isinstance(model, (SparLow, TraceQuotient, DictionaryLearner)) and rng.random() < 0.1:
        with tempfile.TemporaryDirectory() as folder:
            save(model, pathlib.Path(folder) / "m.sparlow")
            same(load(pathlib.Path(folder) / "m.sparlow").transform(X), model.transform(X), 1e-3)


def same(ours: Any, theirs: Any, tolerance: float = 0.0) -> None:
    """Compare what two models give; files keep single precision."""
    ours, theirs = (part.toarray() if sp.issparse(part) else np.asarray(part) for part in (ours, theirs))
    if not np.allclose(ours, theirs, rtol=tolerance, atol=tolerance * np.abs(theirs).max(initial=0)):
        raise FindingError("a model that was stored gives other numbers")


# ── what is called ─────────────────────────────────────────────────────────────────────────────────────────────────


def fuzz_encode(rng: Rng, caught: list[Any]) -> None:
    n, m = size(rng)
    r = int(pick(rng, 1, 2, 5, 20, 50))
    X, D, g = samples(rng, n, m), atoms(rng, r, m), prior(rng)
    tol = pick(rng, None, None, power(rng, -9, -2))
    start = sp.random_array((n, r), density=0.3, rng=rng) if rng.random() < 0.2 else None
    codes = encode(X, D, g, start=start, tol=tol, n_jobs=pick(rng, None, 1, 2))
    usual = 1e-9 if codes.dtype == np.float64 else 1e-5
    check_codes(X, D, g, codes, tol or usual, caught)
    finite(objective(X, D, g, codes), "the objective")


def fuzz_pullback(rng: Rng, caught: list[Any]) -> None:
    n, m = size(rng)
    r = int(pick(rng, 1, 2, 5, 20, 50))
    X, coder = samples(rng, n, m), Coder(atoms(rng, r, m), prior(rng), tol=pick(rng, None, 1e-2))
    codes = coder.encode(X)
    rank = int(rng.integers(1, 4))
    gradient = pick(
        rng,
        (rng.standard_normal((n, rank)), rng.standard_normal((rank, r))),
        (rng.standard_normal((n, rank)), rng.standard_normal((rank, r)), 0.5),
        rng.standard_normal((n, r)),
        sp.random_array((n, r), density=0.3, rng=rng),
    )
    slope = (
        pullback(X, coder.dictionary, coder.prior, codes, gradient)
        if rng.random() < 0.5
        else coder.pullback(X, codes, gradient)
    )
    finite(slope, "the gradient")


def fuzz_trace_ratio(rng: Rng, caught: list[Any]) -> None:
    r = int(pick(rng, 1, 2, 3, 10, 40))
    P, Q = samples(rng, r + 3, r, sparse=False).astype(float), samples(rng, r + 3, r, sparse=False).astype(float)
    A, B = P.T @ P, Q.T @ Q
    A, B = (A + A.T) / 2, (B + B.T) / 2
    if rng.random() < 0.2:
        A = pick(rng, 0 * A, np.eye(r), -A, A - B)
    if rng.random() < 0.2:
        B = pick(rng, 0 * B, np.eye(r), -B, B + 1e-9 * np.eye(r))
    count = int(pick(rng, 1, 1, 1, min(2, r), min(2, r), r, (r + 1) // 2, r + 1))
    start = None
    if rng.random() < 0.3:
        start = rng.standard_normal((r, count))
        start = np.linalg.qr(start)[0] if rng.random() < 0.9 else start
    found = trace_ratio(A, B, count, start=start, max_iter=1 if rng.random() < 0.1 else 100)
    finite(found.projection, "the projection")
    finite(found.value, "the quotient")
    if np.abs(found.projection.T @ found.projection - np.eye(count)).max() > 1e-6:
        raise FindingError("the projection is not orthonormal")


CRITERIA: tuple[Callable[[Rng], Any], ...] = (
    lambda rng: pick(rng, "pca", PCA()),
    lambda rng: pick(rng, "lle", LLE(k=int(pick(rng, 1, 3, 50)))),
    lambda rng: pick(rng, "lap", LAP(k=int(pick(rng, 1, 3, 50)))),
    lambda rng: pick(rng, "lda", LDA(shrinkage=pick(rng, 0.0, 0.3)), LDA(balance=pick(rng, 0.0, 2.0))),
    lambda rng: pick(rng, "mfa", MFA(k_within=int(pick(rng, 1, 20)), k_between=int(pick(rng, 1, 500)))),
    lambda rng: pick(rng, "mvr", MVR(balance=0.0)),
    lambda rng: pick(rng, "sda", SDA(alpha=power(rng, -3, 3), propagate=pick(rng, 0.0, 1.0))),
    lambda rng: pick(rng, "slap", SLAP(k=3, far=pick(rng, 0.0, 1.0))),
    lambda rng: pick(rng, "smvr", SMVR(rho=pick(rng, 0.0, 1.0))),
)


def criterion(rng: Rng) -> Any:
    return CRITERIA[rng.integers(len(CRITERIA))](rng)


def fuzz_trace_quotient(rng: Rng, caught: list[Any]) -> None:
    n, m = size(rng)
    X, y = samples(rng, n, m), labels(rng, n)
    model = TraceQuotient(criterion(rng), pick(rng, None, None, None, None, 1, 1, 2, 30), n_jobs=pick(rng, None, 2))
    check_model(model.fit(X, y), X, y, caught, rng)


def views(rng: Rng) -> Any:
    return pick(rng, Shifts(1), Shifts(2), Patches(), Patches(size=2), Patches(size=3, stride=2, cells=(1, 2)))


def fuzz_sparlow(rng: Rng, caught: list[Any]) -> None:
    n, m = size(rng)
    X, y = samples(rng, n, m), labels(rng, n)
    seen = views(rng) if rng.random() < 0.25 else None
    learner = pick(rng, "auto", "ksvd", "online", "rls", "samples")
    if rng.random() < 0.1:
        learner = atoms(rng, int(pick(rng, 2, 10)), m)
    solver = pick(rng, "eliminate", "joint")
    if rng.random() < 0.3:
        solver = Solver(solver, mu_coherence=pick(rng, 0.0, power(rng, -3, 3)), mu_proximity=pick(rng, None, 0.0, 1.0))
    chosen = criterion(rng)
    quadratic = "quadratic" if chosen == "lda" or isinstance(chosen, LDA) else "auto"
    embedding = pick(rng, "auto", "auto", "whitened", "orthonormal", quadratic)
    model = SparLow(
        chosen,
        pick(rng, None, None, None, None, None, None, 1, 1, 2, 30),
        n_atoms=pick(rng, None, None, None, 1, 5, 5, 5, 20),
        prior=prior(rng) if rng.random() < 0.5 else None,
        views=seen,
        dictionary=learner,
        max_iter=int(pick(rng, 0, 1, 3)),
        solver=solver,
        early_stopping=pick(rng, "auto", "auto", False, True, EarlyStopping(0.2)),
        embedding=embedding,
        normalize=pick(rng, "auto", "auto", True, False),
        random_state=int(rng.integers(100)),
        n_jobs=pick(rng, None, None, 2),
    )
    model.fit(X, y)
    check_model(model, X, y, caught, rng)
    finite(model.encode(X), "a code")


def fuzz_dictionary_learner(rng: Rng, caught: list[Any]) -> None:
    n, m = size(rng)
    X, y = samples(rng, n, m), labels(rng, n)
    model = DictionaryLearner(
        pick(rng, None, None, None, 1, 2, 5, 20),
        pick(rng, "ksvd", "online", "rls", "samples"),
        prior(rng) if rng.random() < 0.6 else None,
        n_nonzero=pick(rng, None, 1, 100),
        max_iter=pick(rng, None, 1, 3),
        class_wise=bool(rng.random() < 0.2),
        random_state=int(rng.integers(100)),
    )
    model.fit(X, y)
    norms = np.linalg.norm(model.dictionary_.astype(float), axis=1)
    if np.abs(norms - 1).max() > 1e-4:
        raise FindingError("an atom has not unit norm")
    check_model(model, X, y, caught, rng)


def fuzz_streams(rng: Rng, caught: list[Any]) -> None:
    n, m = size(rng)
    seed = int(rng.integers(100))
    if rng.random() < 0.3:
        learner = DictionaryLearner(pick(rng, None, 1, 5), "online", prior(rng) if rng.random() < 0.5 else None)
        for _ in range(int(rng.integers(1, 4))):
            learner.set_params(random_state=seed).partial_fit(samples(rng, n, m))
        finite(learner.dictionary_, "dictionary_")
        finite(learner.transform(samples(rng, 3, m)), "a code")
        return
    chosen = pick(rng, "lda", "lda", "mvr", "pca")
    solver = Solver("stochastic") if rng.random() < 0.3 else "eliminate"
    model = SparLow(
        chosen,
        pick(rng, None, None, 1, 2),
        n_atoms=pick(rng, None, 1, 5, 5, 20),
        prior=prior(rng) if rng.random() < 0.3 else None,
        max_iter=int(pick(rng, 0, 1, 3)),
        solver=solver,
        normalize=pick(rng, "auto", True, False),
        random_state=seed,
    )
    if isinstance(solver, Solver):
        X, y = samples(rng, n, m), labels(rng, n)
        check_model(model.fit(X, y), X, y, caught, rng)
        return
    y = labels(rng, n)
    classes = np.unique(y) if y is not None and y.dtype != object and rng.random() < 0.5 else None
    for batch in range(int(rng.integers(1, 4))):
        count = n if batch == 0 else int(rng.integers(1, n + 1))
        X = samples(rng, count, m if rng.random() < 0.97 else m + 1)
        model.partial_fit(X, None if y is None else y[:count], *([classes] if batch == 0 else []))
    finite(model.transform(X), "the transform")
    finite(model.dictionary_, "dictionary_")
    finite(model.projection_, "projection_")


def fuzz_explanations(rng: Rng, caught: list[Any]) -> None:
    n, side = int(pick(rng, 12, 30, 60)), int(pick(rng, 4, 5, 8))
    X, y = samples(rng, n, side**2, sparse=False), labels(rng, n)
    seen = Patches(size=pick(rng, None, 2, 3), stride=pick(rng, None, 1, 2), cells=pick(rng, None, 1, (1, 2)))
    model = SparLow(
        "lda",
        n_atoms=5,
        views=seen if rng.random() < 0.8 else pick(rng, None, Shifts(1)),
        max_iter=int(pick(rng, 0, 1)),
        embedding=pick(rng, "auto", "quadratic", "orthonormal"),
        random_state=0,
    )
    model.fit(X, y)
    classes = getattr(model, "classes_", (0,))
    label = pick(rng, None, None, classes[0], classes[-1], "no class")
    told = explanations.explain(model, X[int(rng.integers(n))], label, pick(rng, None, None, classes[-1]))
    finite(told.map, "the map of an explanation")
    found = explanations.factors(model, X)
    for what, values in (("maps", found.maps), ("atoms", found.atoms), ("pictures", found.pictures)):
        finite(values, f"the {what} of factors")


def fuzz_export(rng: Rng, caught: list[Any]) -> None:
    n, m = size(rng)
    Z = samples(rng, n, m, sparse=False)
    names = pick(rng, None, [f"=\udce9\t{i}\n" for i in range(n)], ["x"] * (n + 1))
    pictures = samples(rng, n, 12, sparse=False) if rng.random() < 0.4 else None
    shape = pick(rng, None, (3, 4), (3, 4), (5, 5))
    with tempfile.TemporaryDirectory() as folder:
        options = {"names": names, "images": pictures, "shape": shape}
        if rng.random() < 0.5:
            export.to_projector(pathlib.Path(folder) / "logs", Z, labels(rng, n), **options)
        else:
            export.to_parquet(pathlib.Path(folder) / "z.parquet", Z, labels(rng, n), **options)


def classifier(rng: Rng) -> Any:
    n_atoms, seed = pick(rng, None, None, None, 6, 6, 20), int(rng.integers(100))
    few = {"n_atoms": n_atoms, "random_state": seed}
    return pick(
        rng,
        lambda: SRC(**few),
        lambda: DKSVD(**few, max_iter=2, n_nonzero=int(pick(rng, 1, 16)), gamma=power(rng, -3, 3)),
        lambda: LCKSVD(**few, max_iter=2, alpha=power(rng, -3, 3), beta=power(rng, -3, 3)),
        lambda: FDDL(**few, max_iter=2, scheme=pick(rng, "global", "local"), lambda2=pick(rng, 0.0, 1.0)),
        lambda: TDDL(**few, max_iter=2, loss=pick(rng, "softmax", "square", "logistic"), nu=power(rng, -6, 1)),
        lambda: BMDDL(**few, max_iter=2, n_means=int(pick(rng, 1, 3, 9)), ridge=power(rng, -6, 2)),
        lambda: LapRLS(
            kernel=pick(rng, "rbf", "linear"),
            width=power(rng, -3, 3),
            gamma_A=power(rng, -9, 1),
            k=int(pick(rng, 1, 99)),
        ),
    )()


def fuzz_classifier(rng: Rng, caught: list[Any]) -> None:
    n, m = size(rng)
    X, y = samples(rng, n, m, sparse=rng.random() < 0.1), labels(rng, n)
    model = classifier(rng)
    check_model(model.fit(X, y), X, y, caught, rng)


def fuzz_scattering(rng: Rng, caught: list[Any]) -> None:
    h, w = int(pick(rng, 1, 4, 8, 8, 15)), int(pick(rng, 1, 4, 8, 8, 16))
    X = samples(rng, int(pick(rng, 1, 3)), h * w, sparse=False)
    J = int(pick(rng, 1, 1, 2, 2, 3, 9))
    given = (h, w) if h != w or rng.random() < 0.5 else None
    if given and rng.random() < 0.5:
        X = X.reshape(len(X), h, w)
    model = images.Scattering(
        J, int(pick(rng, 1, 4, 8)), max_order=int(pick(rng, 1, 2)), shape=given, log=pick(rng, False, True, 0.1)
    )
    finite(model.fit(X).transform(X), "the scattering")


def picture(rng: Rng) -> Any:
    h, w = (1 if rng.random() < 0.02 else int(pick(rng, 16, 17, 20, 33)) for _ in range(2))
    kind = pick(rng, "grey", "grey", "colour", "flat", "float", "bool", "deep")
    grey = rng.integers(256, size=(h, w)).astype(np.uint8)
    if kind == "colour":
        return rng.integers(256, size=(h, w, 3)).astype(np.uint8)
    if kind == "flat":
        return np.full((h, w), int(rng.integers(256)), np.uint8)
    if kind == "float":
        return rng.random((h, w)) * (255.0 if rng.random() < 0.1 else 1.0)
    if kind == "bool":
        return grey > 127
    return grey.astype(np.uint16) * 200 if kind == "deep" else grey


def fuzz_pyramid(rng: Rng, caught: list[Any]) -> None:
    pictures = [picture(rng) for _ in range(int(pick(rng, 1, 2, 4)))]
    kind = pick(rng, images.DenseSIFT, images.DHOG)
    described = kind(patch=pick(rng, 8, 16, (8, 16)), step=int(pick(rng, 4, 8, 50))).fit(pictures).transform(pictures)
    book = images.Codebook(
        int(pick(rng, 1, 4, 16)),
        pick(rng, "llc", "hard", "sparse", "laplacian"),
        n_neighbors=int(pick(rng, 1, 5, 20)),
        ridge=power(rng, -15, 1),
        n_templates=8,
        max_iter=2,
        random_state=0,
    )
    bags = book.fit(described).transform(described)
    pyramid = images.SpatialPyramid(
        pick(rng, (1,), (1, 2), (1, 2, 4)),
        pick(rng, "max", "mean", "sum"),
        norm=pick(rng, "auto", "l1", "l2", None),
        level_weights=pick(rng, None, "match"),
    )
    rows = pyramid.fit(bags).transform(bags)
    finite(rows, "the pyramid")
    if rng.random() < 0.5:
        reduced = images.PrincipalComponents(int(pick(rng, 1, 3))).fit(rows)
        finite(reduced.transform(rows), "principal components")
    elif rng.random() < 0.5:
        finite(images.histogram_intersection(rows), "the intersection")


def fuzz_evaluation(rng: Rng, caught: list[Any]) -> None:
    n, m = max(4, size(rng)[0]), int(pick(rng, 1, 4, 9))
    X = samples(rng, n, m, sparse=False).astype(float)
    y = rng.integers(int(pick(rng, 2, 3)), size=n)
    if not np.all(np.isfinite(X)):
        return
    train, test = evaluation.split(y, pick(rng, 0.3, 0.5), seed=int(rng.integers(9)))
    judged = evaluation.judge(
        "samples", X[train], y[train], X[test], y[test], classifiers=pick(rng, ("1NN",), ("1NN", "SVM"))
    )
    for name, accuracy in judged.accuracies().items():
        if not 0 <= accuracy <= 1:
            raise FindingError(f"the accuracy of {name} is {accuracy}")


TARGETS: dict[str, tuple[Callable[[Rng, list[Any]], None], float]] = {
    "encode": (fuzz_encode, 0.3),
    "pullback": (fuzz_pullback, 0.1),
    "trace_ratio": (fuzz_trace_ratio, 0.09),
    "TraceQuotient": (fuzz_trace_quotient, 0.1),
    "SparLow": (fuzz_sparlow, 0.15),
    "streams": (fuzz_streams, 0.05),
    "explanations": (fuzz_explanations, 0.015),
    "export": (fuzz_export, 0.005),
    "DictionaryLearner": (fuzz_dictionary_learner, 0.06),
    "classifiers": (fuzz_classifier, 0.08),
    "Scattering": (fuzz_scattering, 0.02),
    "pyramids": (fuzz_pyramid, 0.02),
    "evaluation": (fuzz_evaluation, 0.01),
}
_UNCLEAR = (  # words of errors that come from deep within
    "broadcast",
    "invalid literal",
    "cannot reshape",
    "out of bounds",
    "not supported between",
    "zero-size",
    "unpack",
    "NoneType",
    "not aligned",
    "singular matrix",
    "leading minor",
    "has no attribute",
    "unexpected keyword",
    "positional argument",
    "object is not",
)
_CHECKS = tuple(
    str(pathlib.Path("sklearn") / "utils" / name)
    for name in ("validation", "_param", "multiclass", "_array", "_set_output")
)


def run_case(seed: int, case: int) -> dict[str, Any]:
    """Run one case in this process and say what happened."""
    rng = np.random.default_rng([seed, case])
    names = list(TARGETS)
    name = names[rng.choice(len(names), p=np.array([TARGETS[key][1] for key in names]))]
    began, row = time.process_time(), {"case": case, "what": name}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            TARGETS[name][0](rng, caught)
            row["outcome"] = "fine"
        except FindingError as error:
            row |= {"outcome": "finding", "message": str(error)}
            if warned(caught) and "not finite" in str(error):
                row["outcome"] = "warned"
        except NotFittedError as error:
            row |= {"outcome": "finding", "message": f"NotFittedError: {error}"}
        except Exception as error:
            row |= _judged(error)
    return {**row, "seconds": round(time.process_time() - began, 3)}


def _judged(error: Exception) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    last = next((frame for frame in reversed(frames) if "<" not in frame.filename), frames[-1])
    inside = f"{os.sep}sparlow{os.sep}" in last.filename or any(part in last.filename for part in _CHECKS)
    clear = isinstance(error, (ValueError, TypeError)) and not isinstance(error, np.linalg.LinAlgError)
    clear = clear and not any(part in str(error) for part in _UNCLEAR)
    place = f"{pathlib.Path(last.filename).name}:{last.lineno}"
    message = f"{type(error).__name__} at {place}: {str(error)[:200]}"
    return {"outcome": "refused" if clear and inside else "finding", "message": message}


def run_all(seed: int, cases: range, limit: float, say: Callable[[str], None]) -> dict[str, Any]:
    """Run cases and return counts by target and outcome, and all findings."""
    worker = Worker("benchmarks.fuzz", "--worker", "--seed", str(seed))
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    findings, slowest = [], 0.0
    began = time.perf_counter()
    for case in cases:
        row = worker.answer(str(case), limit) or dict(_LOST, case=case)
        counts[row["what"], row["outcome"]] += 1
        slowest = max(slowest, row["seconds"])
        if row["outcome"] == "finding":
            findings.append(row)
            say(json.dumps(row))
    say(f"cases {cases.start} to {cases.stop}: {len(findings)} findings, {time.perf_counter() - began:.0f} s")
    worker.close()
    table: dict[str, dict[str, int]] = {}
    for (what, outcome), count in sorted(counts.items()):
        table.setdefault(what, {})[outcome] = count
    seconds = round(time.perf_counter() - began, 1)
    return {
        "seed": seed,
        "first": cases.start,
        "cases": len(cases),
        "limit": limit,
        "seconds": seconds,
        "slowest": slowest,
        "counts": table,
        "findings": findings,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds per case")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no part after so many")
    parser.add_argument("--only", type=int, help="run one case in this process")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.worker:
        serve(lambda line: run_case(arguments.seed, int(line)))
        return 0
    if arguments.only is not None:
        print(json.dumps(run_case(arguments.seed, arguments.only), indent=2))
        return 0
    lines = arguments.output.read_text().splitlines() if arguments.output.exists() else []
    known = {row["first"] for row in map(json.loads, lines) if row["seed"] == arguments.seed}
    began, findings = time.perf_counter(), 0
    for first in range(0, arguments.cases, CHUNK):
        if first in known or time.perf_counter() - began > arguments.seconds:
            continue
        cases = range(first, min(first + CHUNK, arguments.cases))
        row = run_all(arguments.seed, cases, arguments.limit, lambda words: print(words, flush=True))
        findings += len(row["findings"])
        with arguments.output.open("a") as file:
            file.write(json.dumps(row) + "\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
