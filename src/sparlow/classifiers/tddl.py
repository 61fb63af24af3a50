"""Task-driven dictionary learning (Mairal, Bach and Ponce 2012)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from ..checks import Array
from ..coding import Coder, encode
from ..constants import LEARNING_TOL, TDDL_FASTER
from ..derivative import factored_entries
from ..dictionaries import class_union, online, unit_samples
from ..dictionaries.atoms import unit_rows
from ..parallel import Threads
from ..priors import ElasticNet
from ..stochastic import Adam
from ..views import Views
from .base import COMMON, DictionaryClassifier, atoms_for, one_hot


class Loss(NamedTuple):
    """A loss of scores S (n, c) and one-hot targets T (n, c); its gradient in S is ``probabilities(S)`` − T."""

    values: Callable[[Array, Array], Array]  # (n,)
    probabilities: Callable[[Array], Array]


LOSSES = {
    "softmax": Loss(lambda S, T: -np.sum(T * log_softmax(S, axis=1), axis=1), lambda S: softmax(S, axis=1)),
    "logistic": Loss(lambda S, T: -np.sum(log_expit((2 * T - 1) * S), axis=1), expit),
}


class Linear(NamedTuple):
    """Scores AW + b of codes A."""

    W: Array  # (r, c)
    b: Array  # (c,)

    def scores(self, codes: sp.csr_array) -> Array:
        """Return AW + b."""
        return np.asarray(codes @ self.W + self.b)


class Descent:
    """Stochastic gradient descent with the rate min(ρ, ρ t₀/t) at step t."""

    def __init__(self, rho: float, t0: int) -> None:
        self.rho, self.t0, self.t = rho, t0, 0

    def moved(self, D: Array, linear: Linear, to_D: Array, to_W: Array, to_b: Array) -> tuple[Array, Linear]:
        """Return dictionary and classifier after a step against the gradients."""
        self.t += 1
        rate = D.dtype.type(self.rho * min(1, self.t0 / self.t))
        return moved_atoms(D, to_D, rate), Linear(linear.W - rate * to_W, linear.b - rate * to_b)


class Adaptive:
    """Adam (Kingma, Ba 2015) with a rate that falls from ρ to zero along a cosine, ten times as large for W and b.

    Gradients are averaged over steps and divided by the root of their mean square: that of an atom by one number, so
    that its direction is kept, that of W and b entry by entry.
    """

    def __init__(self, rho: float, n_steps: int) -> None:
        self.rho, self.n_steps, self.t = rho, n_steps, 0
        self.averages: list[Adam] = []

    def moved(self, D: Array, linear: Linear, to_D: Array, to_W: Array, to_b: Array) -> tuple[Array, Linear]:
        """Return dictionary and classifier after a step."""
        slopes = [tangent(D, to_D), to_W, to_b]
        before = self.averages or [Adam.begin(slope.shape, slope is slopes[0], slope.dtype) for slope in slopes]
        self.averages = [average.after(slope) for average, slope in zip(before, slopes, strict=True)]
        rate = D.dtype.type(self.rho * (1 + np.cos(np.pi * self.t / self.n_steps)) / 2)
        self.t += 1
        of_atoms, of_weights, of_bias = (rate * average.direction for average in self.averages)
        fast = D.dtype.type(TDDL_FASTER)
        return unit_rows(D - of_atoms), Linear(linear.W - fast * of_weights, linear.b - fast * of_bias)


@dataclass(eq=False, repr=False)
class TDDL(DictionaryClassifier):
    """Learn a dictionary and a linear classifier of its codes together, for one task.

    D, W and b minimise::

        E ℓ(y, a(x; D)W + b) + (ν/2)‖W‖²,
        a(x; D) = argmin over a of ½‖x − aD‖² + λ₁‖a‖₁ + (λ₂/2)‖a‖²

    Stochastic gradients on mini-batches, with atoms on the unit sphere. The gradient with respect to D passes through
    the codes: it is :func:`sparlow.pullback` of ∂ℓ/∂A = ∇ℓ Wᵀ, which is never formed. Learning starts with D by online
    dictionary learning and with the best W and b for its codes. Steps have the rate min(ρ, ρ t₀/t), as in the paper, or
    are those of Adam.

    Parameters
    ----------
    n_atoms : int, optional
        Atoms of a dictionary; by default 20 for each class.
    loss : {"softmax", "logistic"}, default="softmax"
        Softmax loss of all classes, or the sum of the logistic losses of each class against the others (one-vs-all), as
        in the paper.
    shared : bool, default=True
        Whether all classes share one dictionary. If not, each class has its own, as in the paper, for "logistic" only:
        training and prediction take as many times as long as there are classes.
    lambda1, lambda2 : float
        λ₁ and λ₂. Samples have unit norm.
    nu : float, default=1e-4
        ν.
    solver : {"sgd", "adam"}, default="sgd"
        How D, W and b follow the gradients. "adam" moves atoms further: it suits thousands of samples or moved copies,
        and overfits a few hundred.
    rho : float, optional
        ρ, the first rate; by default 1 for "sgd" and 0.01 for "adam". If the cost falls only towards the end of a fit
        by "adam", try a third of it.
    t0 : int, optional
        For "sgd": steps after which the rate falls; by default a tenth of all.
    max_iter : int, default=20
        Passes over the samples.
    batch_size : int, default=200
        Samples of a step.
    views : Views, optional
        For instance ``Shifts(1)``: each time a sample is drawn, it is moved by one of these maps or left as it is, at
        random. This is learning from moved copies, of which no more than a batch is held.
    average : bool, default=False
        Whether scores of a new sample are the mean over its views, which makes prediction as many times slower.
    random_state : int or RandomState, optional
        For the first dictionary and the order of samples.
    n_jobs : int, optional
        Threads. The result does not depend on it.
    verbose : int, default=0
        Print the mean loss of each pass.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Class labels.
    dictionary_ : array of shape (n_atoms, n_features), or (n_classes, n_atoms, n_features) if not shared
        D, atoms of unit norm.
    coef_ : array of shape (n_atoms, n_classes)
        W.
    intercept_ : array of shape (n_classes,)
        b.
    costs_ : array of shape (n_iter,)
        The mean objective that the batches of each pass met.
    n_iter_ : int
        Passes.
    n_features_in_ : int
        Number of features.

    References
    ----------
    J. Mairal, F. Bach, J. Ponce: Task-driven dictionary learning. IEEE Transactions on Pattern Analysis and Machine
    Intelligence 34(4), 2012.

    D. P. Kingma, J. Ba: Adam: a method for stochastic optimization. ICLR, 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sparlow.classifiers import TDDL
    >>> X, y = load_digits(return_X_y=True)
    >>> model = TDDL(100, max_iter=10, random_state=0).fit(X[:900], y[:900])
    >>> model.score(X[900:], y[900:]) > 0.92
    True
    >>> model.predict_proba(X[900:]).shape
    (897, 10)

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "loss": [StrOptions(set(LOSSES))],
        "shared": ["boolean"],
        "lambda1": [Interval(Real, 0, None, closed="neither")],
        "lambda2": [Interval(Real, 0, None, closed="left")],
        "nu": [Interval(Real, 0, None, closed="left")],
        "solver": [StrOptions({"sgd", "adam"})],
        "rho": [Interval(Real, 0, None, closed="neither"), None],
        "t0": [Interval(Integral, 1, None, closed="left"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "views": [Views, None],
        "average": ["boolean"],
    }

    n_atoms: int | None = None
    _: KW_ONLY
    loss: str = "softmax"
    shared: bool = True
    lambda1: float = 0.15
    lambda2: float = 1e-3
    nu: float = 1e-4
    solver: str = "sgd"
    rho: float | None = None
    t0: int | None = None
    max_iter: int = 20
    batch_size: int = 200
    views: Views | None = None
    average: bool = False
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def _learn(self, X: Array, labels: Array) -> None:
        if not self.shared and self.loss != "logistic":
            raise ValueError("shared=False, a dictionary for each class, needs loss='logistic'.")
        rng = check_random_state(self.random_state)
        self._views = () if self.views is None else self.views.maps(X.shape[1])
        T = one_hot(labels, len(self.classes_), X.dtype)
        D = self._first(X, labels, rng)
        with Threads(1):  # hold BLAS to one thread between the calls of encode
            if self.shared:
                self.dictionary_, linear, self.costs_ = self._descend(X, T, D, rng)
                self.coef_, self.intercept_ = linear
            else:
                parts = []
                for c in range(len(self.classes_)):
                    self._say(f"class {self.classes_[c]}")
                    parts.append(self._descend(X, T[:, [c]], D, rng))
                self.dictionary_ = np.stack([dictionary for dictionary, _, _ in parts])
                self.coef_ = np.hstack([linear.W for _, linear, _ in parts])
                self.intercept_ = np.concatenate([linear.b for _, linear, _ in parts])
                self.costs_ = np.sum([costs for _, _, costs in parts], axis=0)
        del self._views
        self.n_iter_ = self.max_iter

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        probabilities : array of shape (n_samples, n_classes)
            For "logistic" those of one class against the others, divided by their sum.

        """
        probabilities = LOSSES[self.loss].probabilities(self._scores(self._new_samples(X)))
        return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))

    def _scores(self, X: Array) -> Array:
        if not self.average or self.views is None:
            return self._scores_of(X)
        views = self.views.maps(X.shape[1])
        return np.asarray(sum(self._scores_of(unit_samples(X @ view.astype(X.dtype))) for view in views) / len(views))

    def _scores_of(self, X: Array) -> Array:
        def codes(D: Array) -> sp.csr_array:
            return encode(X, D, self._prior(), n_jobs=self.n_jobs)

        if self.shared:
            return Linear(self.coef_, self.intercept_).scores(codes(self.dictionary_))
        columns = [codes(D) @ w for D, w in zip(self.dictionary_, self.coef_.T, strict=True)]
        return np.stack(columns, axis=1) + self.intercept_

    def _prior(self) -> ElasticNet:
        """Return the elastic net of the codes."""
        return ElasticNet(self.lambda1, self.lambda2 / 2)

    def _first(self, X: Array, labels: Array, rng: Any) -> Array:
        """Return the first dictionary, learned without regard to the task but class by class."""
        n_atoms = atoms_for(self.n_atoms, X, labels, per_class=20)
        if n_atoms < len(self.classes_):
            return online(X, n_atoms, self._prior(), random_state=rng, n_jobs=self.n_jobs)
        options = {"prior": self._prior(), "random_state": rng, "n_jobs": self.n_jobs}
        return class_union(X, labels, n_atoms, online, **options)[0]

    def _descend(self, X: Array, T: Array, D: Array, rng: Any) -> tuple[Array, Linear, Array]:
        """Return dictionary, classifier and the mean objective of each pass."""
        loss, prior = LOSSES[self.loss], self._prior()
        linear = best_linear(encode(X, D, prior, tol=LEARNING_TOL, n_jobs=self.n_jobs), T, loss, self.nu)
        solver, coder, costs = self._solver(len(X)), Coder(D, prior, tol=LEARNING_TOL, n_jobs=self.n_jobs), []
        for iteration in range(self.max_iter):
            total = 0.0
            for rows, batch in self._batches(X, rng):
                value, *slopes = gradient(batch, T[rows], coder, linear, loss, self.nu)
                D, linear = solver.moved(coder.dictionary, linear, *slopes)
                coder = coder.at(D)
                total += value * len(rows)
            costs.append(total / len(X))
            self._say(f"pass {iteration + 1} of {self.max_iter}: cost {costs[-1]:.6g}")
        return D, linear, np.array(costs)

    def _solver(self, n: int) -> Descent | Adaptive:
        n_steps = self.max_iter * -(-n // self.batch_size)
        if self.solver == "adam":
            return Adaptive(0.01 if self.rho is None else self.rho, n_steps)
        t0 = max(1, n_steps // 10) if self.t0 is None else self.t0
        return Descent(1.0 if self.rho is None else self.rho, t0)

    def _batches(self, X: Array, rng: Any) -> Iterator[tuple[Array, Array]]:
        """Yield the rows of each batch in random order, and its samples, each in a random view."""
        order = rng.permutation(len(X))
        for first in range(0, len(X), self.batch_size):
            rows = order[first : first + self.batch_size]
            batch = X[rows]
            if self._views:
                which = rng.randint(len(self._views), size=len(rows))
                for v, view in enumerate(self._views):
                    batch[which == v] = batch[which == v] @ view.astype(X.dtype)
                batch = unit_samples(batch)
            yield rows, batch


def gradient(
    X: Array, T: Array, coder: Coder, linear: Linear, loss: Loss, nu: float
) -> tuple[float, Array, Array, Array]:
    """Return the mean loss plus (ν/2)‖W‖², and its gradients with respect to D, W and b.

    Parameters
    ----------
    X, T : arrays of shape (n, m) and (n, c)
        Samples and their targets.
    coder : Coder
        Of D, atoms of unit norm, taken as free: the gradient has a part across the spheres.
    linear : Linear
        W and b.
    loss : Loss
        One of ``LOSSES``.
    nu : float
        ν.

    Returns
    -------
    value : float
    to_D, to_W, to_b : arrays of shape (r, m), (r, c), (c,)

    """
    codes = coder.codes(X)
    scores = linear.scores(codes)
    slopes = ((loss.probabilities(scores) - T) / len(X)).astype(X.dtype)  # ∂/∂S
    value = float(np.mean(loss.values(scores, T))) + nu / 2 * float(np.sum(linear.W**2))
    to_D = coder.slope(X, codes, factored_entries(slopes, linear.W.T, 0.0, codes))
    to_W = np.asarray(codes.T @ slopes + X.dtype.type(nu) * linear.W)
    return value, to_D, to_W, slopes.sum(axis=0)


def tangent(D: Array, slope: Array) -> Array:
    """Return the part of the slope along the spheres."""
    return np.asarray(slope - np.einsum("ij,ij->i", slope, D)[:, None] * D)


def moved_atoms(D: Array, slope: Array, rate: float) -> Array:
    """Return the atoms after a step against the part of the slope along the spheres, at unit norm."""
    return unit_rows(D - rate * tangent(D, slope))


def best_linear(codes: sp.csr_array, T: Array, loss: Loss, nu: float) -> Linear:
    """Return the W and b of the smallest mean loss plus (ν/2)‖W‖² for these codes, by L-BFGS."""
    (n, r), c = codes.shape, T.shape[1]
    codes = codes.astype(np.float64)

    def cost(flat: Array) -> tuple[float, Array]:
        linear = Linear(flat[: r * c].reshape(r, c), flat[r * c :])
        scores = linear.scores(codes)
        slopes = (loss.probabilities(scores) - T) / n
        value = float(np.mean(loss.values(scores, T))) + nu / 2 * float(np.sum(linear.W**2))
        return value, np.concatenate([(codes.T @ slopes + nu * linear.W).ravel(), slopes.sum(axis=0)])

    flat = minimize(cost, np.zeros((r + 1) * c), jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    flat = flat.astype(T.dtype)
    return Linear(flat[: r * c].reshape(r, c), flat[r * c :])
