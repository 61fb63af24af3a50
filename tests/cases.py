"""The one list of priors, dictionary learners, dictionaries and samples that the laws run over; pictures to draw."""

import dataclasses
import functools
import importlib.util
import pathlib
import sys

import numpy as np

from sparlow import criteria
from sparlow import optimize as manifolds
from sparlow.dictionaries import ksvd, online, rls_dla, samples
from sparlow.priors import ElasticNet, KLDivergence

ROOT = pathlib.Path(__file__).parents[1]


def load_example(name):
    """An example as a module, loaded once."""
    if name in sys.modules:
        return sys.modules[name]
    path = next((ROOT / "examples").glob(f"*{name}.py"))
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


OwnPrior = load_example("own_prior").WeightedSmoothL1


def priors(r):
    return {
        "elastic net": ElasticNet(0.1, 0.01),
        "lasso": ElasticNet(0.1, 0.0),
        "ridge": ElasticNet(0.0, 0.2),
        "positive elastic net": ElasticNet(0.05, 0.01, positive=True),
        "stiff": ElasticNet(0.05, 40.0),
        "KL": KLDivergence(0.05, mean=0.01),
        "sparse KL": KLDivergence(0.05, mean=0.01, threshold=0.03),
        "user's own": OwnPrior(tuple(np.linspace(0.05, 0.2, r).tolist()), 0.1),
    }


PRIORS = list(priors(1))


def unit(D):
    return D / np.linalg.norm(D, axis=1, keepdims=True)


def gaussian(n, m, r, seed=0):
    rng = np.random.default_rng(seed)
    return unit(rng.standard_normal((n, m))), unit(rng.standard_normal((r, m)))


def degenerate_dictionaries(m, rng):
    """Duplicate, opposite, nearly equal and collinear-in-a-plane atoms, an orthonormal basis, a single atom."""
    D = unit(rng.standard_normal((6, m)))
    return {
        "duplicate": np.vstack([D, D]),
        "opposite": np.vstack([D, -D]),
        "nearly equal": unit(np.vstack([D, D + 1e-7 * rng.standard_normal(D.shape)])),
        "in a plane": unit(rng.standard_normal((8, 2)) @ D[:2]),
        "orthonormal": np.eye(m),
        "single": D[:1],
    }


LEARNERS = {
    "ksvd": functools.partial(ksvd, n_nonzero=3),
    "online": functools.partial(online, prior=ElasticNet(0.2)),
    "rls": functools.partial(rls_dla, prior=ElasticNet(0.2)),
}
ALL_LEARNERS = {**LEARNERS, "samples": samples}


def planted(n, m, r, k, noise=0.01, seed=0):
    """Samples that are combinations of k atoms each, with a little noise, and the dictionary."""
    rng = np.random.default_rng(seed)
    D = unit(rng.standard_normal((r, m)))
    codes = np.zeros((n, r))
    for row in codes:
        row[rng.choice(r, k, replace=False)] = rng.choice([-1, 1], k) * rng.uniform(0.5, 1.5, k)
    return codes @ D + noise * rng.standard_normal((n, m)), D


CRITERIA = {
    "pca": criteria.PCA(),
    "lle": criteria.LLE(k=4),
    "lap": criteria.LAP(k=4),
    "lda": criteria.LDA(),
    "mfa": criteria.MFA(k_within=3, k_between=4),
    "mvr": criteria.MVR(),
    "sda": criteria.SDA(k=4),
    "slap": criteria.SLAP(k_within=3, k_between=4, k=4),
    "smvr": criteria.SMVR(k=4),
}


def labelled(n, m, r, seed=0, n_classes=4):
    """Unit-norm samples around class means of unequal sizes, their labels, and a dictionary."""
    rng = np.random.default_rng(seed)
    y = np.sort(np.r_[np.repeat(np.arange(n_classes), 3), rng.integers(0, n_classes, n - 3 * n_classes)])
    X = unit(rng.standard_normal((n_classes, m))[y] + 0.5 * rng.standard_normal((n, m)))
    return X, y, unit(rng.standard_normal((r, m)))


def hide_labels(y):
    """A third of the labels replaced by −1, two of each class kept for certain."""
    hidden = y.copy()
    hidden[2::3] = -1
    return hidden


MANIFOLDS = {
    "spheres": manifolds.Spheres(5, 4),
    "grassmann": manifolds.Grassmann(7, 3),
    "product": manifolds.Product((manifolds.Spheres(5, 4), manifolds.Grassmann(7, 3))),
}


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """The least an optimiser needs of a problem's evaluation."""

    point: object
    value: float


def stripes(kind, seed, size=(40, 48)):
    """A texture with edges across (0), down (1) or along a diagonal (2), with noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: size[0], : size[1]]
    wave = np.sin(0.9 * (y, x, x + y)[kind] + rng.uniform(0, 6))
    return (127 + 90 * wave + rng.normal(0, 8, size)).clip(0, 255).astype(np.uint8)
