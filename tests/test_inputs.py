"""Inputs that no method can use are refused by a message that says what to do; what was asked in vain is said."""

import errno
import signal

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from sparlow import Coder, DictionaryLearner, SparLow, TraceQuotient, encode, pullback, trace_ratio
from sparlow._kernels import compilation
from sparlow.classifiers import SRC, LapRLS
from sparlow.criteria import LAP
from sparlow.estimators import choosing
from sparlow.evaluation import support_vectors
from sparlow.images import Codebook, DenseSIFT, Scattering
from sparlow.images.bags import ArrayCache
from sparlow.parallel import Finishing
from sparlow.priors import ElasticNet, KLDivergence
from sparlow.quadratic import solved_forms
from sparlow.views import Patches

DATA, TARGET = load_digits(return_X_y=True)
X, Y = DATA[:60], TARGET[:60]
D = X[:20] / np.linalg.norm(X[:20], axis=1, keepdims=True)
L1 = ElasticNet(0.1)


def small(criterion="lda", **options):
    return SparLow(criterion, **{"n_atoms": 20, "max_iter": 0, "random_state": 0, **options})


def damaged(matrix, kind="csr"):
    matrix = sp.coo_array(matrix).asformat(kind).copy()
    if kind == "coo":
        matrix.col[3] = 10**6
    else:
        matrix.indices[3] = 10**6
    return matrix


CALLS = {
    "encode": lambda X: encode(X, D, L1),
    "pullback": lambda X: pullback(X, D, L1, encode(DATA[:60], D, L1), np.ones((60, 20))),
    "SparLow": lambda X: small().fit(X, Y),
    "transform": lambda X: small().fit(DATA[:60], Y).transform(X),
    "TraceQuotient": lambda X: TraceQuotient().fit(X, Y),
    "TraceQuotient.transform": lambda X: TraceQuotient().fit(DATA[:60], Y).transform(X),
    "DictionaryLearner": lambda X: DictionaryLearner(10).fit(X),
    "SRC": lambda X: SRC().fit(X, Y),
    "LapRLS": lambda X: LapRLS().fit(X, Y),
}


@pytest.mark.parametrize("name", CALLS)
def test_masked_entries_and_foreign_indices_are_refused(name):
    with pytest.raises(ValueError, match=r"masked array, and \d+ of its entries are masked: fill"):
        CALLS[name](np.ma.masked_array(X, mask=X > 15))
    for kind in ("csr", "csc", "coo"):
        with pytest.raises(ValueError, match=r"not a valid sparse matrix of shape \(60, 64\)"):
            CALLS[name](damaged(X, kind))


def test_damaged_codes_starts_and_graphs_are_refused():
    codes = encode(X, D, L1)
    with pytest.raises(ValueError, match="start is not a valid sparse matrix"):
        encode(X, D, L1, start=damaged(codes))
    with pytest.raises(ValueError, match="codes is not a valid sparse matrix"):
        pullback(X, D, L1, damaged(codes), codes)
    with pytest.raises(ValueError, match="gradient is not a valid sparse matrix"):
        pullback(X, D, L1, codes, damaged(codes))
    graph = sp.random_array((60, 60), density=0.2, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="graph is not a valid sparse matrix"):
        TraceQuotient(LAP(graph=damaged(graph + graph.T))).fit(X)
    y, weights = np.ma.masked_array(Y, mask=Y > 8), np.ma.masked_array(np.ones(len(Y)), mask=Y > 8)
    pictures = np.ma.masked_array(X.reshape(-1, 8, 8) / 16, mask=X.reshape(-1, 8, 8) > 15)
    model = small(max_iter=0)
    for call in (
        lambda: TraceQuotient().fit(X, y),
        lambda: model.fit(X, Y, sample_weight=weights),
        lambda: model.fit(X, Y).score(X, y),
        lambda: small().partial_fit(X, y),
        lambda: Scattering(J=1).fit_transform(pictures),
        lambda: list(DenseSIFT(patch=8, step=4).fit_transform(list(pictures))),  # read when they are asked for
    ):
        with pytest.raises(ValueError, match="is a masked array"):
            call()


A, B = np.diag([3.0, 2.0, 1.0]), np.diag([1.0, 1.0, 4.0])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"start": 2 * np.eye(3)[:, :2]}, "orthonormal columns, but UᵀU differs from the identity by 3"),
        ({"start": np.eye(3)[:, [0, 0]]}, "orthonormal"),
        ({"start": np.eye(3)}, r"shape \(3, 2\), got \(3, 3\)"),
        ({"max_iter": 0}, "max_iter must be a positive whole number, got 0"),
        ({"max_iter": 2.5}, "max_iter must be a positive whole number"),
        ({"tol": float("nan")}, "tol must be zero or a positive number, got nan"),
        ({"n_components": True}, "n_components must be a whole number from 1 to 3"),
    ],
)
def test_trace_ratio_checks_what_it_is_given(options, said):
    with pytest.raises(ValueError, match=said):
        trace_ratio(A, B, **{"n_components": 2, **options})


def test_a_start_that_is_orthonormal_changes_nothing():
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 2)))[0]
    assert trace_ratio(A, B, 2, start=turned.astype(np.float32)).value == pytest.approx(2.5)


MIXED = np.array(["a", 1] * 30, dtype=object)


@pytest.mark.parametrize(
    "model", [small(), small("sda"), small("mvr"), SRC(), LapRLS(), DictionaryLearner(10, class_wise=True)], ids=repr
)
def test_labels_of_two_types_are_refused(model):
    with pytest.raises(ValueError, match=r"y mixes words and other labels \(first 'a' and 1\)"):
        model.fit(X, MIXED)


def test_labels_of_two_types_do_not_disturb_criteria_without_labels():
    assert not hasattr(small("pca").fit(X, MIXED), "classes_")


def test_labels_that_were_not_learned_count_as_wrong():
    model = small().fit(X, Y)
    with pytest.warns(UserWarning, match=r"1 of 3 samples have a label that the model has not learned .first: q"):
        assert model.score(X[:3], [*model.predict(X[:2]).astype(str), "q"]) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("model", "y", "said"),
    [
        (small("pca", max_iter=1, early_stopping=True), None, "PCA has no labels"),
        (small(max_iter=1, early_stopping=True), [0] * 59 + [1], "LDA needs at least 2 samples of each class"),
    ],
)
def test_early_stopping_that_is_impossible_is_said(model, y, said):
    with pytest.warns(
        UserWarning, match=f"early_stopping is left out, and all steps up to max_iter=1 are made: {said}"
    ):
        model.fit(X, y)
    assert model.n_iter_ == 1
    model.set_params(early_stopping="auto").fit(X, y)


def test_a_strong_divergence_is_no_wrong_prior():
    with pytest.warns(ConvergenceWarning, match="optimality gap"):
        codes = encode(X[:5], D, KLDivergence(1e12))
    np.testing.assert_allclose(codes.toarray(), 1e-3, rtol=1e-9)
    with pytest.raises(ValueError, match=r"equal up to rounding|are equal"), pytest.warns(ConvergenceWarning):
        small(prior=KLDivergence(1e12)).fit(X, Y)


def test_functions_without_a_module_are_compiled():
    scope = {"__name__": None}
    exec("def triple(x):\n    return 3 * x", scope)
    assert scope["triple"].__module__ is None
    assert compilation.kept(compilation.njit, scope["triple"])(3) == 9


def test_a_full_disk_costs_the_cache_not_the_run(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    cache = ArrayCache(tmp_path)
    monkeypatch.setattr("sparlow.files.os.fsync", full)
    with pytest.warns(RuntimeWarning, match=r"cache is not complete.*No space left on device"):
        cache.put("ab12", {"x": np.ones(3)})
    cache.put("ab13", {"x": np.ones(3)})  # said once
    assert cache.get("ab12") is None
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_an_interrupt_after_the_last_step_loses_nothing(monkeypatch):
    described = choosing.described

    def interrupted(*arguments):
        signal.raise_signal(signal.SIGINT)
        return described(*arguments)

    model = small(max_iter=2, early_stopping=False, embedding="orthonormal")
    whole = model.fit(X, Y).embedding_
    monkeypatch.setattr(choosing, "described", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted after 2 steps"):
        model.fit(X, Y)
    np.testing.assert_array_equal(model.embedding_, whole)
    assert model.stop_reason_ == "interrupted"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_ends_what_is_being_finished():
    with Finishing() as finishing:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        finishing.begin()
        signal.raise_signal(signal.SIGINT)
        assert finishing.came
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# ── what the fuzzer found ──────────────────────────────────────────────────────────────────────────────────────────


def test_more_classes_than_features_leave_codes_in_the_embedding():
    model = SparLow("mfa", max_iter=0, early_stopping=False, n_atoms=20, random_state=0).fit(X[:, 20:22] + 1, Y % 5)
    assert model.embedding_.shape[1] > 2


def test_more_components_than_samples_differ_in_are_made_up_of_wide_features():
    wide = small("pca", n_atoms=20, n_components=10, views=Patches(cells=(1, 2, 4), size=3))
    embedding = wide.fit(X[:6]).transform(X[:6])
    assert embedding.shape == (6, 10)
    assert np.isfinite(embedding).all()


def test_more_components_than_samples_are_refused_where_samples_span_the_embedding():
    with pytest.raises(ValueError, match="n_components=30 is more than 12 samples can give: choose 12 or less"):
        small("slap", n_components=30, views=Patches()).fit(X[:12], np.arange(12) % 3)


@pytest.mark.parametrize("size", [1e-14, 1e11])
def test_atoms_do_not_depend_on_the_size_of_samples(size):
    size = np.float32(2.0 ** np.round(np.log2(size)))
    plain, scaled = (DictionaryLearner(20, random_state=0).fit(X.astype("f4") * s).dictionary_ for s in (1, size))
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(scaled, plain, atol=1e-4)


@pytest.mark.parametrize("l2", [0.0, 1e-8])
def test_the_embedding_is_the_transform_of_the_samples_where_codes_are_not_unique(l2):
    atoms = np.repeat(D, 2, axis=0).astype(np.float32)
    model = small("pca", n_atoms=None, dictionary=atoms, prior=ElasticNet(0.1, l2), max_iter=2)
    model.fit(X.astype(np.float32))
    np.testing.assert_allclose(model.transform(X.astype(np.float32)), model.embedding_, atol=1e-5)


@pytest.mark.parametrize("prior", [ElasticNet(0.1, 4e-5), ElasticNet(0.1, 0.0), KLDivergence(0.1, 0.01, 0.05)])
@pytest.mark.parametrize("solver", ["joint", "eliminate"])
def test_the_embedding_is_the_transform_of_the_samples_where_codes_depend_on_their_start(prior, solver, monkeypatch):
    plain, started = Coder.codes, []

    def codes(self, X, start=None, n_jobs=None):
        started.append(start is not None)
        return plain(self, X, start, n_jobs) * (1.01 if start is not None else 1.0)

    monkeypatch.setattr(Coder, "codes", codes)
    model = small(prior=prior, max_iter=2, solver=solver, embedding="orthonormal", early_stopping=False).fit(X, Y)
    assert any(started)
    assert model.n_iter_ > 0
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-9 * np.abs(model.embedding_).max())


def test_flat_pictures_have_no_laplacian_codes():
    flat = np.full((16, 16), 9, np.uint8)
    flat[8:, 8:] = 200
    bags = DenseSIFT().fit([flat]).transform([flat])
    with pytest.raises(ValueError, match="only one descriptor that is not flat"):
        Codebook(1, "laplacian", random_state=0).fit(bags)


def test_patches_that_are_all_equal_are_refused_by_a_sentence():
    equal = np.tile(np.eye(9)[:1], (6, 1))
    with pytest.raises(ValueError, match=r"multiples of the same one|equal up to rounding"):
        small(views=Patches(size=3, stride=2, cells=(1, 2)), n_atoms=2).fit(equal, [0, 0, 0, 1, 1, 1])


def test_a_singular_system_names_what_to_change():
    with pytest.raises(ValueError, match="gamma_A=1e-09 is too small for a kernel with entries up to"):
        LapRLS(kernel="linear", gamma_A=1e-9, gamma_I=0.0).fit(1e12 * np.ones((10, 2)), [0, 1] * 5)


def test_one_class_is_all_that_a_machine_can_say():
    assert support_vectors(X[:4], np.array(["a"] * 4), X[4:6]).tolist() == ["a", "a"]


@pytest.mark.parametrize("embedding", ["quadratic", "auto"])
def test_samples_that_differ_by_rounding_have_no_quadratic_embedding(embedding):
    rng = np.random.default_rng(0)
    same = rng.random(16) + 1e-12 * rng.standard_normal((60, 16))
    with pytest.raises(ValueError, match=r"same features: there is no scatter|equal up to rounding|are equal"):
        small(views=Patches(size=2), n_atoms=5, embedding=embedding).fit(same, np.arange(60) % 3)


def test_five_sparse_samples_have_principal_components():
    for model in (TraceQuotient("pca"), SparLow("pca", max_iter=1, random_state=0)):
        assert np.all(np.isfinite(model.fit(sp.csr_array(X[:5])).transform(X[:5])))


def test_labels_of_two_types_are_refused_in_a_stream():
    with pytest.raises(ValueError, match="mixes words and other labels"):
        SparLow("lda", n_atoms=5).partial_fit(X[:40], np.array(["a", 1] * 20, dtype=object))


def test_samples_that_hardly_differ_have_a_quadratic_form():
    """Single precision is too coarse for the Gram matrix of these."""
    targets = np.eye(3)[np.arange(60) % 3] - 1 / 3
    for seed in range(20):
        rng = np.random.default_rng(seed)
        P = (rng.random(30) + 2e-3 * rng.standard_normal((60, 30))).astype(np.float32)
        S, fitted = solved_forms(P, targets, 2, 0.1)
        assert np.all(np.isfinite(np.hstack([S, fitted])))
