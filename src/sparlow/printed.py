"""The method as the paper prints it: nine criteria of its Section 4, and one function that builds the model.

A and B are sums over samples, as printed. So are the regularizers, f has σ in its denominator, U is orthonormal and
projects the codes alone, and both are learned together on the product of spheres and Grassmann manifold. The paper is
Wei, Shen and Kleinsteuber, *Trace Quotient with Sparsity Priors for Learning Low Dimensional Image Representations*.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from . import graphs
from .checks import Array
from .criteria import Criterion, Quotient
from .criteria.base import count, weight
from .estimators import SparLow
from .graphs import Structure
from .labels import are_classes, are_known, n_classes
from .neighbours import neighbours
from .priors import ElasticNet, KLDivergence, Prior
from .solvers import Solver

SETTINGS: dict[str, dict[str, Any]] = {
    "digits": {"prior": ElasticNet(0.2, 2e-5), "mu_1": 5e-3, "mu_2": 4e-4},
    "few labels": {"prior": ElasticNet(0.2, 1e-3), "mu_1": 2.5e-4, "mu_2": 5e-3},
    "faces": {"prior": ElasticNet(1e-2, 1e-5), "mu_1": 2.5e-4, "mu_2": 5e-3},
    "caltech101": {"prior": ElasticNet(5e-2, 1e-5), "mu_1": 2.5e-4, "mu_2": 5e-3, "n_atoms": 1020},
    "caltech256": {"prior": KLDivergence(0.1), "mu_1": 2.5e-4, "mu_2": 5e-3, "n_atoms": 3128},
    "scenes15": {"prior": ElasticNet(5e-2, 1e-5), "mu_1": 2.5e-4, "mu_2": 5e-3, "n_atoms": 750, "k_between": 100},
}
"""What the paper prints for each of its experiments. It prints no μ₁ and μ₂ for pictures, and no λ for 15-Scenes."""


class Parts(NamedTuple):
    """S_A and S_B of a criterion, S_B None for the trace form, and the ridge of B; all of them sums."""

    above: Structure
    below: Structure | None
    ridge: float = 0.0


class Record(NamedTuple):
    """What is printed of a criterion: its labels, its dimension l on digits (None: classes − 1), A and B."""

    supervision: str
    n_components: int | None
    parts: Callable[..., Parts]
    targets: bool = False


@dataclass(frozen=True)
class Printed(Criterion):
    """One of the nine criteria with A and B as in Section 4 of the paper.

    Neighbours are those of the codes at the first dictionary; for lle those of the samples.

    Parameters
    ----------
    name : str
        "pca", "lle", "lap", "lda", "mfa", "mvr", "sda", "slap" or "smvr".
    n_components : int, optional
        Dimension l, by default as printed for digits, or classes − 1.
    mended : bool
        With the signs put right that make lle, mvr and smvr pointless, and with neighbours in the denominator of slap
        (errata 2, 3 and 8).
    sigma : float
        σ of the denominator.
    k : int
        Neighbours in the graph of all samples.
    k_within, k_between : int, optional
        k₁ and k₂, neighbours of the same class and of other classes; by default k.
    t : float, optional
        Width of the heat kernel, by default the mean squared distance of neighbours; the paper prints none.
    alpha, alpha_1, alpha_2 : float
        Weights of the graphs of sda and slap.
    rho_1, rho_2 : float
        Ridge of mvr and smvr, and the weight of the graph of smvr. The paper prints 0.1 for the second alone.

    """

    on_codes = True
    usual_shrinkage = 0.0
    name: str = "lda"
    n_components: int | None = count()
    mended: bool = False
    sigma: float = weight(1e-3)
    k: int = count(20)
    k_within: int | None = count()
    k_between: int | None = count()
    t: float | None = weight(None)
    alpha: float = weight(0.1)
    alpha_1: float = weight(0.1)
    alpha_2: float = weight(0.01)
    rho_1: float = weight(0.1)
    rho_2: float = weight(0.1)

    def __post_init__(self) -> None:
        if self.name not in RECORDS:
            raise ValueError(f"name of Printed must be one of {', '.join(RECORDS)}, got {self.name!r}.")
        super().__post_init__()
        for attribute in ("supervision", "targets"):  # of the criterion that is named
            object.__setattr__(self, attribute, getattr(RECORDS[self.name], attribute))

    def usual_components(self, n_features: int, y: Array | None) -> int:
        """Return l as given, as printed for digits, or classes − 1."""
        printed = self.n_components or RECORDS[self.name].n_components
        classes = None if y is None else n_classes(y) - 1 if are_classes(y) else np.shape(y)[1]
        return min(n_features, printed or max(1, classes or 1))

    def bind(self, X: Any, y: Array | None = None, n_jobs: int | None = None, codes: Any = None) -> Quotient:
        """Return the quotient of the printed sums, with σ in its ridge; neighbours are those of the codes (n, r)."""
        near = X if codes is None else codes
        near = near.toarray() if sp.issparse(near) else near
        above, below, ridge = RECORDS[self.name].parts(self, X, y, near, n_jobs)
        # the quotient is of means over the n samples, so that a sum s in B becomes s/n, and σ/(n l) on each diagonal
        n, width = X.shape[0], self.usual_components(near.shape[1], y)
        return Quotient(above, below, ridge=ridge / n + self.sigma / (n * width))

    def graph(self, X: Any, near: Array, n_jobs: int | None) -> sp.csr_array:
        """Return exp(−‖xᵢ − xⱼ‖²/t) for pairs that are adjacent among the codes."""
        n, k = X.shape[0], min(self.k, X.shape[0] - 1)
        _, indices = neighbours(near, k, n_jobs=n_jobs)
        rows = np.repeat(np.arange(n), k)
        squares = _squared_distances(X, rows, indices.ravel())
        t = self.t or float(squares.mean()) or 1.0
        return graphs.joined(n, rows, indices, np.maximum(np.exp(-squares / t), np.finfo(float).tiny))

    def class_graphs(self, y: Array, near: Array, n_jobs: int | None) -> tuple[Structure, Structure]:
        """Return L⁻ and L⁺, with 0/1 weights."""
        within, between = self.k_within or self.k, self.k_between or self.k
        same, other = graphs.class_neighbours(near, y, within, between, n_jobs)
        return laplacian(other), laplacian(same)


def _squared_distances(X: Any, rows: Array, columns: Array) -> Array:
    """Return ‖xᵢ − xⱼ‖² of pairs of samples."""
    squares = np.empty(len(rows))
    for first in range(0, len(rows), 1 << 15):
        some = slice(first, first + (1 << 15))
        difference = X[rows[some]] - X[columns[some]]
        difference = difference.toarray() if sp.issparse(difference) else difference
        squares[some] = np.einsum("im,im->i", difference, difference)
    return squares


def laplacian(graph: sp.csr_array) -> Structure:
    """Return L = Y − Z of weights Z and their degrees Y, as they are."""
    weights = graph.astype(float)
    return Structure(np.asarray(weights.sum(axis=1)).ravel(), weights * -1.0)


def non_neighbours(graph: sp.csr_array) -> Structure:
    """Return Lᴺ = nI − 11ᵀ − L of all pairs that a graph does not join, with 0/1 weights."""
    n, edges = graph.shape[0], sp.csr_array(graph > 0).astype(float)
    degrees = np.asarray(edges.sum(axis=1)).ravel()
    return Structure(n - degrees, edges, np.ones((n, 1)), np.array([[-1.0]]))


def between_classes(y: Array) -> Structure:
    """Return Lᵇ = Cᵇ Π_c (Cᵇ)ᵀ, Cᵇ one-hot / √n_c: scaled class means are centred with equal weights."""
    c, masses = n_classes(y), graphs.class_masses(y)
    scaled = graphs.class_means(y, c) * np.sqrt(masses)
    return Structure(np.zeros(len(y)), None, sp.csr_array(scaled), np.eye(c) - 1 / c)


def _one_hot(y: Array) -> Array:
    """Return targets (n, d), classes as one-hot rows; zero where there is no label."""
    known = are_known(y)
    if not are_classes(y):
        return np.where(known[:, None], np.reshape(y, (len(y), -1)), 0.0)
    return (y[:, None] == np.arange(n_classes(y))).astype(float)


def _targets(criterion: Printed, y: Array) -> Structure:
    """Return ZᵀZ of the targets, with a minus unless the sign is mended."""
    return graphs.outer(_one_hot(y)) * (1.0 if criterion.mended else -1.0)


def _pca(self: Printed, X: Any, y: Any, near: Array, n_jobs: int | None) -> Parts:
    return Parts(graphs.centring(X.shape[0]), None)


def _lle(self: Printed, X: Any, y: Any, near: Array, n_jobs: int | None) -> Parts:
    error = graphs.barycentric_residual(X, min(self.k, X.shape[0] - 1), n_jobs=n_jobs)
    return Parts(graphs.centring(X.shape[0]), error) if self.mended else Parts(error, None)


def _lap(self: Printed, X: Any, y: Any, near: Array, n_jobs: int | None) -> Parts:
    Z = self.graph(X, near, n_jobs)
    return Parts(Structure(np.zeros(X.shape[0]), Z), Structure(np.asarray(Z.sum(axis=1)).ravel()))


def _lda(self: Printed, X: Any, y: Array, near: Array, n_jobs: int | None) -> Parts:
    return Parts(between_classes(y), graphs.within_classes(y))


def _mfa(self: Printed, X: Any, y: Array, near: Array, n_jobs: int | None) -> Parts:
    return Parts(*self.class_graphs(y, near, n_jobs))


def _mvr(self: Printed, X: Any, y: Array, near: Array, n_jobs: int | None) -> Parts:
    return Parts(_targets(self, y), Structure(np.ones(X.shape[0])), self.rho_1)


def _sda(self: Printed, X: Any, y: Array, near: Array, n_jobs: int | None) -> Parts:
    between, L = between_classes(y), laplacian(self.graph(X, near, n_jobs))
    return Parts(between, graphs.within_classes(y) + between + L * self.alpha)


def _slap(self: Printed, X: Any, y: Array, near: Array, n_jobs: int | None) -> Parts:
    above, below = self.class_graphs(y, near, n_jobs)
    edges = self.graph(X, near, n_jobs)
    others = non_neighbours(edges)
    second = laplacian(sp.csr_array(edges > 0)) if self.mended else others
    return Parts(above + others * self.alpha_1, below + second * self.alpha_2)


def _smvr(self: Printed, X: Any, y: Array, near: Array, n_jobs: int | None) -> Parts:
    below = Structure(are_known(y).astype(float)) + laplacian(self.graph(X, near, n_jobs)) * self.rho_2
    return Parts(_targets(self, y), below, self.rho_1)


RECORDS = {
    "pca": Record("none", 50, _pca),
    "lle": Record("none", 20, _lle),
    "lap": Record("none", 20, _lap),
    "lda": Record("full", None, _lda),
    "mfa": Record("full", None, _mfa),
    "mvr": Record("full", None, _mvr, targets=True),
    "sda": Record("semi", None, _sda),
    "slap": Record("semi", None, _slap),
    "smvr": Record("semi", None, _smvr, targets=True),
}


def as_printed(
    criterion: str = "lda",
    n_components: int | None = None,
    *,
    setting: str = "digits",
    mu_1: float | None = None,
    mu_2: float | None = None,
    prior: Prior | None = None,
    n_atoms: int | None = None,
    dictionary: Any = "ksvd",
    max_iter: int = 20,
    tol: float = 1e-5,
    random_state: Any = None,
    n_jobs: int | None = None,
    **parameters: Any,
) -> SparLow:
    """Return the model that the paper prints, with the parameters that it prints.

    It is there for comparison: on the sets of the paper ``SparLow(criterion)`` is more accurate. Of the algorithm the
    following differs, without a change of what is maximised: U is stored in place of its projector, so that its
    retraction is the orthogonal factor of U + H and its transport a projection; the transport of the spheres has its
    sign mended; the line search is Armijo's with a growing first length; steps end at ``tol`` or ``max_iter``; the
    first U is that of all samples; atoms that no sample uses have no part in the first U; and log(1 − cos²) in g_c
    ends at 10⁻⁶, so that it is finite for equal atoms.

    Parameters
    ----------
    criterion : str, default="lda"
        "pca", "lle", "lap", "lda", "mfa", "mvr", "sda", "slap" or "smvr".
    n_components : int, optional
        Dimension l; 50 by default for pca and 20 for lle and lap, as printed for digits, classes − 1 for the others.
    setting : str, default="digits"
        The experiment whose parameters are taken: "digits", "few labels", "faces", "caltech101", "caltech256" or
        "scenes15".
    mu_1, mu_2 : float, optional
        Weights of g_c and g_d, which are sums over pairs of atoms and over atoms.
    prior : Prior, optional
        Sparsity prior.
    n_atoms : int, optional
        Number of atoms r.
    dictionary : str or array, default="ksvd"
        The first dictionary: K-SVD, class by class where there are labels. With few labels the paper starts from
        Lap-SparLow: give ``as_printed("lap").fit(X).dictionary_``.
    max_iter : int, default=20
        Steps of the ascent.
    tol : float, default=1e-5
        The ascent ends where J rises by less, relative to its size, in two steps.
    random_state : int or RandomState, optional
        First dictionary.
    n_jobs : int, optional
        Threads.
    **parameters : dict
        Of :class:`sparlow.printed.Printed`, such as ``alpha`` or ``mended``.

    Returns
    -------
    model : SparLow

    Examples
    --------
    >>> from sparlow import as_printed
    >>> as_printed("lda", n_atoms=500).prior
    ElasticNet(l1=0.2, l2=2e-05, positive=False)

    """
    if setting not in SETTINGS:
        raise ValueError(f"setting must be one of {', '.join(SETTINGS)}, got {setting!r}.")
    chosen = dict(SETTINGS[setting])
    own = {"prior": prior, "n_atoms": n_atoms, "mu_1": mu_1, "mu_2": mu_2}
    chosen |= {name: value for name, value in own.items() if value is not None}
    solver = Solver("joint", tol, mu_coherence=chosen.pop("mu_1"), mu_proximity=chosen.pop("mu_2"), sums=True)
    fields = {field.name for field in dataclasses.fields(Printed)}
    written = {name: chosen.pop(name) for name in tuple(chosen) if name in fields}
    return SparLow(
        Printed(name=criterion, n_components=n_components, **{**written, **parameters}),
        n_components,
        dictionary=dictionary,
        max_iter=max_iter,
        solver=solver,
        early_stopping=False,
        embedding="orthonormal",
        normalize=True,
        random_state=random_state,
        n_jobs=n_jobs,
        **chosen,
    )
