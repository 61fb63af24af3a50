"""A few digits, and models that are learned from them in a moment."""

import numpy as np
from sklearn.datasets import load_digits

from sparlow import SparLow
from tests import cases

N_ATOMS = 30
X, Y = load_digits(return_X_y=True)
X_NEW, Y_NEW = X[300:500], Y[300:500]
X, Y = X[:150], Y[:150]
SEMI = cases.hide_labels(Y)
UNIT = cases.unit(X)


def labels_for(name):
    return SEMI if cases.CRITERIA[name].supervision == "semi" else Y


def small(criterion="lda", n_components=None, **options):
    """A model that is learned in a moment."""
    usual = {"max_iter": 2, "random_state": 0}
    if isinstance(options.get("dictionary", ""), str):
        usual["n_atoms"] = N_ATOMS
    return SparLow(criterion, n_components, **usual | options)


def plain(criterion="lda", n_components=None, **options):
    """The plain model: all steps are made, and U, which is orthonormal, projects the codes alone."""
    return small(criterion, n_components, **{"embedding": "orthonormal", "early_stopping": False} | options)


def features_of(model):
    """The features of the training samples: codes, and samples beside them where the model has both."""
    alpha, gamma = model.weights_
    codes = [alpha * model.encode(X).toarray()] if alpha else []
    return np.hstack(codes + ([gamma * UNIT] if gamma else []))


def linear_data(seed=0):
    """Samples in ten dimensions and two targets that are linear in them."""
    rng = np.random.default_rng(seed)
    samples = rng.standard_normal((300, 10))
    return samples, samples @ rng.standard_normal((10, 2)) + [3, -1]
