"""The same bits for any number of threads, of ours and of BLAS, for either order of arrays, and in every process."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from sparlow import Coder, DictionaryLearner, SparLow, TraceQuotient, encode, pullback, trace_ratio
from sparlow.classifiers import BMDDL, DKSVD, FDDL, LCKSVD, SRC, TDDL, LapRLS
from sparlow.images import Codebook, DenseSIFT, PrincipalComponents, Scattering, SpatialPyramid
from sparlow.priors import ElasticNet, KLDivergence
from sparlow.views import Patches
from tests import cases

RNG = np.random.default_rng(0)
N, M, R = 220, 100, 130  # large enough for BLAS to use its threads
Y = np.arange(N) % 4
X = RNG.standard_normal((N, M))
X[:, :4] += 3 * np.eye(4)[Y]
FEW = np.where(np.arange(N) % 3 == 0, Y, -1)
D = RNG.standard_normal((R, M))
D /= np.linalg.norm(D, axis=1, keepdims=True)
IMAGES = RNG.random((60, 64))
PICTURES = [cases.stripes(kind, 0) for kind in range(3)]
L1, KL = ElasticNet(1.0), KLDivergence(0.5, 0.1, 0.2)


def bits(*arrays):
    digest = hashlib.sha1()
    for array in arrays:
        parts = (array.data, array.indices, array.indptr) if hasattr(array, "indptr") else (array,)
        for part in parts:
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def of_joint(criterion, n_jobs, X=X, y=Y, **options):
    model = SparLow(criterion, **{"n_atoms": 60, "max_iter": 1, "random_state": 0, "n_jobs": n_jobs, **options})
    model.fit(X, y)
    return model.dictionary_, model.projection_, model.transform(X), model.predict(X)


def of_classical(criterion, n_jobs, order="C"):
    y = FEW if criterion.startswith("s") else Y
    model = TraceQuotient(criterion, n_jobs=n_jobs).fit(np.array(X, order=order), y)
    return model.projection_, model.transform(np.array(X, order=order)), model.predict(X)


def of_learner(method, n_jobs):
    model = DictionaryLearner(R, method, random_state=0, max_iter=1, n_jobs=n_jobs).fit(X)
    return model.dictionary_, model.transform(X[:20])


def of_classifier(model):
    return model.fit(X[:120], Y[:120]).decision_function(X), model.predict(X)


def of_pyramid(n_jobs):
    bags = DenseSIFT().fit(PICTURES).transform(PICTURES)
    bags = Codebook(8, random_state=0, n_jobs=n_jobs).fit(bags).transform(bags)
    rows = SpatialPyramid((1, 2), n_jobs=n_jobs).fit(bags).transform(bags)
    return rows, PrincipalComponents(2).fit(rows).transform(rows)


def of_pullback(n_jobs):
    return [pullback(X, D, L1, encode(X, D, L1), np.ones((N, R)), n_jobs=n_jobs)]


def of_trace_ratio():
    with threadpool_limits(1):
        A, B = X.T @ X, X[:N].T @ X[:N] + np.eye(M)
    return [trace_ratio((A + A.T) / 2, (B + B.T) / 2, 5).projection]


CLASSIFIERS = [SRC(), DKSVD(24, max_iter=1), LCKSVD(24, max_iter=1), FDDL(24, max_iter=1), TDDL(24, max_iter=1),
               BMDDL(24, max_iter=1), LapRLS()]  # fmt: skip
CASES = {
    "encode": lambda n_jobs: [encode(X, D, L1, n_jobs=n_jobs)],
    "encode one": lambda n_jobs: [Coder(D, L1, n_jobs=n_jobs).encode(X[[i]]) for i in range(20)],
    "encode KL": lambda n_jobs: [encode(np.abs(X[:50]), np.abs(D), KL, n_jobs=n_jobs)],
    "pullback": of_pullback,
    "trace_ratio": lambda n_jobs: of_trace_ratio(),
    "pca": lambda n_jobs: of_joint("pca", n_jobs),
    "lda": lambda n_jobs: of_joint("lda", n_jobs),
    "lda, orthonormal": lambda n_jobs: of_joint("lda", n_jobs, embedding="orthonormal", early_stopping=False),
    "lda, joint": lambda n_jobs: of_joint("lda", n_jobs, solver="joint", early_stopping=False),
    "sda": lambda n_jobs: of_joint("sda", n_jobs, y=FEW),
    "patches": lambda n_jobs: of_joint("lda", n_jobs, IMAGES, Y[:60], views=Patches()),
    "classical lda": lambda n_jobs: of_classical("lda", n_jobs),
    "classical slap": lambda n_jobs: of_classical("slap", n_jobs),
    "ksvd": lambda n_jobs: of_learner("ksvd", n_jobs),
    "online": lambda n_jobs: of_learner("online", n_jobs),
    "rls": lambda n_jobs: of_learner("rls", n_jobs),
    "scattering": lambda n_jobs: [Scattering(2, n_jobs=n_jobs).fit(IMAGES).transform(IMAGES)],
    "pyramid": of_pyramid,
    **{
        type(model).__name__: lambda n_jobs, model=model: of_classifier(
            model.set_params(n_jobs=n_jobs, **({"random_state": 0} if hasattr(model, "random_state") else {}))
        )
        for model in CLASSIFIERS
    },
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_the_number_of_threads_changes_no_bit(name):
    case = CASES[name]
    with threadpool_limits(1, user_api="blas"):
        alone = bits(*case(1))
        for n_jobs in (2, 4):
            assert bits(*case(n_jobs)) == alone, n_jobs
    with threadpool_limits(2, user_api="blas"):
        assert bits(*case(1)) == alone


@pytest.mark.parametrize("criterion", ["pca", "lle", "lap", "lda", "mfa", "mvr", "sda", "slap", "smvr"])
def test_the_order_of_an_array_changes_no_bit(criterion):
    assert bits(*of_classical(criterion, None, "F")) == bits(*of_classical(criterion, None))


def test_the_order_of_an_array_changes_no_bit_of_a_joint_model():
    options = {"embedding": "orthonormal", "early_stopping": False, "n_atoms": 20}
    assert bits(*of_joint("lda", None, np.asfortranarray(X), **options)) == bits(*of_joint("lda", None, X, **options))


def test_the_order_of_an_array_changes_no_bit_of_codes_and_gradients():
    codes = encode(X, D, L1)
    turned = encode(np.asfortranarray(X), np.asfortranarray(D), L1)
    assert bits(turned) == bits(codes)
    W = np.ones((N, R))
    slope = pullback(np.asfortranarray(X), np.asfortranarray(D), L1, turned, np.asfortranarray(W))
    assert bits(slope) == bits(pullback(X, D, L1, codes, W))


def test_what_the_order_of_samples_changes():
    """As docs/defaults.md says: nothing of codes, and models with atoms of one's own by rounding."""
    order = np.random.default_rng(1).permutation(N)
    assert bits(encode(X[order], D, L1)) == bits(encode(X, D, L1)[order])
    for criterion in ("pca", "lda", "mfa"):
        ours, theirs = (TraceQuotient(criterion).fit(X[rows], Y[rows]) for rows in (np.arange(N), order))
        np.testing.assert_allclose(theirs.embedding_, ours.embedding_[order], atol=1e-7 * np.abs(ours.embedding_).max())
    options = {
        "dictionary": D,
        "prior": ElasticNet(0.1),
        "max_iter": 2,
        "embedding": "orthonormal",
        "early_stopping": False,
    }
    ours, theirs = (SparLow("lda", **options).fit(X[rows], Y[rows]) for rows in (np.arange(N), order))
    np.testing.assert_allclose(theirs.embedding_, ours.embedding_[order], atol=1e-7 * np.abs(ours.embedding_).max())


@pytest.mark.slow
def test_two_processes_give_the_same_bits():
    code = """
import sys
from tests.test_determinism import bits, of_classical, of_joint
print(bits(*of_joint("lda", 2), *of_classical("mfa", 1)))
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **options}
        ).stdout
        for options in ({}, {"OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "1"})
    }
    assert len(found) == 1
