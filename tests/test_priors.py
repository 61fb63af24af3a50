"""Laws of priors: derivatives meet differences, minimisers minimise, objects behave as values."""

import copy
import math
import pickle

import numpy as np
import pytest
import scipy.optimize
import scipy.special
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from sparlow import _kernels, encode
from sparlow.priors import ElasticNet, KLDivergence
from tests import cases

pytestmark = pytest.mark.interpreted
R = 7


@pytest.fixture(params=cases.PRIORS)
def prior(request):
    return cases.priors(R)[request.param]


def points(prior):
    magnitudes = np.array([1e-4, 3e-3, 0.02, 0.3, 1.0, 5.0])
    return magnitudes if prior.positive else np.concatenate([-magnitudes, magnitudes])


@pytest.mark.parametrize("atom", [0, R - 1])
def test_derivatives_meet_central_differences(prior, atom):
    p = prior.parameters(R)
    for code in points(prior):
        h = 1e-6 * abs(code)
        slope = (prior.value(code + h, atom, p) - prior.value(code - h, atom, p)) / (2 * h)
        bend = (prior.derivative(code + h, atom, p) - prior.derivative(code - h, atom, p)) / (2 * h)
        assert prior.derivative(code, atom, p) == pytest.approx(slope, rel=1e-6, abs=1e-7)
        assert prior.curvature(code, atom, p) == pytest.approx(bend, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("target", [-3.0, -0.4, -0.12, 0.0, 0.03, 0.12, 0.4, 3.0])
def test_coordinate_minimiser_beats_every_other_code(prior, target):
    p = prior.parameters(R)

    def cost(code):
        return 0.5 * (code - target) ** 2 + (prior.value(code, 0, p) if code != 0 else 0.0)

    best = prior.minimiser(target, 0, p)
    lower = 0.0 if prior.positive else -5.0
    rival = scipy.optimize.minimize_scalar(cost, bounds=(lower, 5.0), method="bounded", options={"xatol": 1e-10})
    assert cost(best) <= min(rival.fun, cost(0.0)) + 1e-14


def test_interval_holds_the_slopes_at_zero(prior):
    p = prior.parameters(R)
    low, high = prior.interval(R)
    tiny = 1e-12
    for atom in range(R):
        assert prior.derivative(tiny, atom, p) == pytest.approx(high[atom], abs=1e-9)
        if prior.positive:
            assert low[atom] == -np.inf
        else:
            assert prior.derivative(-tiny, atom, p) == pytest.approx(low[atom], abs=1e-9)


def test_priors_are_values(prior):
    twin = copy.deepcopy(prior)
    assert twin == prior
    assert hash(twin) == hash(prior)
    assert pickle.loads(pickle.dumps(prior)) == prior
    assert type(prior).__name__ in repr(prior)
    with pytest.raises(AttributeError):
        prior.positive = True
    holder = clone(SelectKBest(k=prior))  # any estimator: a parameter that is a prior survives clone
    assert holder.get_params()["k"] == prior


class Coder(TransformerMixin, BaseEstimator):
    """The smallest estimator with a prior as parameter."""

    def __init__(self, prior=None):
        self.prior = prior

    def fit(self, X, y=None):
        self.dictionary_ = cases.unit(X[:20])
        return self

    def transform(self, X):
        return encode(X, self.dictionary_, self.prior)


def test_grid_search_over_priors():
    X, _ = cases.gaussian(60, 6, 1)
    grid = {"coder__prior": [ElasticNet(5.0), ElasticNet(0.01), KLDivergence(0.05)]}
    pipeline = Pipeline([("coder", Coder()), ("ridge", Ridge(1e-3))])
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, X[:, 0])
    assert search.best_params_["coder__prior"] == ElasticNet(0.01)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ElasticNet(-0.1),
        lambda: ElasticNet(0.1, -1.0),
        lambda: ElasticNet(math.nan),
        lambda: ElasticNet(math.inf),
        lambda: ElasticNet("0.1"),
        lambda: ElasticNet(True),
        lambda: ElasticNet(0.0, 0.0),
        lambda: ElasticNet(0.1, 0.1, positive="no"),
        lambda: KLDivergence(0.0),
        lambda: KLDivergence(0.1, mean=0.0),
        lambda: KLDivergence(0.1, threshold=-1.0),
    ],
)
def test_bad_parameters_are_named(make):
    with pytest.raises(ValueError, match=r"ElasticNet|KLDivergence"):
        make()


def broken(**changes):
    """The user's own prior with some of its parts replaced."""
    return type("Broken", (cases.OwnPrior,), changes)((0.1,) * R)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(parameters=lambda self, r: [0.1, 0.1]), "fails for atom 6"),
        (dict(interval=lambda self, r: (np.zeros(3), np.ones(3))), "two arrays of 7 numbers"),
        (dict(interval=lambda self, r: (np.ones(r), -np.ones(r))), "lower end"),
        (dict(interval=lambda self, r: (-1.0, 1.0)), "not optimal by derivative and interval"),
        (dict(minimiser=staticmethod(lambda target, atom, p: target)), "not optimal by derivative and interval"),
        (dict(curvature=staticmethod(lambda code, atom, p: -1.0)), "curvature is negative"),
        (dict(derivative=lambda code, atom, p: 0.1), "fails for atom"),
    ],
)
def test_a_prior_whose_parts_do_not_fit_is_refused(changes, message):
    X, D = cases.gaussian(3, 5, R)
    with pytest.raises(ValueError, match=message):
        encode(X, D, broken(**changes))


def test_wright_omega_equals_scipy():
    x = np.concatenate([np.linspace(-80, 80, 401), np.linspace(-3, 4, 401), [1e3, 1e8, 1e17]])
    ours = np.array([_kernels.wright_omega(v) for v in x])
    np.testing.assert_allclose(ours, scipy.special.wrightomega(x), rtol=2e-14)


class _WrongCurvature(ElasticNet):
    def constant_curvature(self, n_atoms):
        return 0.5 * super().constant_curvature(n_atoms)


class _OneCurvature(ElasticNet):
    def constant_curvature(self, n_atoms):
        return 0.2


class _WrongValue(ElasticNet):
    @staticmethod
    def value(code, atom, parameters):
        return 3.0 * abs(code)


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        (_WrongCurvature(0.1, 0.2), "constant_curvature is 0.2 for atom 0, but curvature is 0.4"),
        (_OneCurvature(0.1, 0.2), "array of 5 numbers"),
        (_WrongValue(0.1, 0.2), "differences of value"),
    ],
)
def test_parts_of_a_prior_that_contradict_each_other_are_refused(prior, said):
    with pytest.raises(ValueError, match=said):
        encode(np.eye(5), np.eye(5), prior)
