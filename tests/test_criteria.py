"""The nine criteria: A and B against dense algebra written from the formulas, equivalences, balancing, own graphs."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import subspace_angles
from scipy.spatial.distance import cdist
from sklearn.manifold._locally_linear import barycenter_kneighbors_graph

from sparlow import SparLow, TraceQuotient, graphs, trace_ratio
from sparlow.criteria import CRITERIA, LAP, LDA, LLE, MFA, MVR, PCA, SDA, SLAP, SMVR, Quotient, criterion_named
from sparlow.rows import Rows
from tests import cases
from tests.test_graphs import degree_minus, mean_degree_one, nearest, scatters

N, M, R = 30, 6, 8
CENTRING = np.eye(N) - np.ones((N, N)) / N


def sample(hidden):
    X, y, _ = cases.labelled(N, M, R, seed=4)
    order = np.random.default_rng(0).permutation(N)
    X, y = X[order], y[order]
    codes = sp.random_array((N, R), density=0.5, rng=np.random.default_rng(1), format="csr")
    return X, cases.hide_labels(y) if hidden else y, codes


def padded(structure, y):
    """Scatter as an n × n matrix: the form of the identity."""
    return structure(np.eye(N), y)


def either(edges):
    return (edges | edges.T).astype(float)


def heat(X, k):
    edges, squares = nearest(X, k), cdist(X, X) ** 2
    return either(edges) * np.exp(-squares / squares[edges].mean())


def margins(X, y, k_within, k_between):
    known = np.outer(y >= 0, y >= 0)
    same = (y[:, None] == y) & known
    L = [degree_minus(either(nearest(X, k, pairs))) for k, pairs in ((k_between, known & ~same), (k_within, same))]
    return mean_degree_one(L[0]), mean_degree_one(L[1])


def class_targets(y):
    """Indicators of the labelled samples divided by √n_c, centred over them, zero elsewhere."""
    known = y >= 0
    T = np.zeros((N, y.max() + 1))
    T[np.flatnonzero(known), y[known]] = 1
    T = T / np.sqrt(T.sum(axis=0))
    return np.where(known[:, None], T - T[known].mean(axis=0), 0)


def labelled_scatter(y):
    known = (y >= 0).astype(float)
    return np.diag(known) - np.outer(known, known) / known.sum()


def dense_pca(X, y):
    return CENTRING, None


def dense_lle(X, y):
    residual = np.eye(N) - barycenter_kneighbors_graph(X, 4, reg=1e-3).toarray()
    return CENTRING, residual.T @ residual


def dense_lap(X, y):
    W = heat(X, 4)
    v = W.sum(axis=1)
    constant = np.outer(v, v) / v.sum()
    return (W - constant) / v.mean(), (np.diag(v) - constant) / v.mean()


def dense_lda(X, y):
    between, within, _ = scatters(np.eye(N), y)
    return between, within


def dense_mfa(X, y):
    return margins(X, y, 3, 4)


def dense_mvr(X, y):
    T = class_targets(y)
    return T @ T.T, CENTRING


def dense_sda(X, y):
    between, _, total = scatters(np.eye(N), y)
    return between, total + np.mean(y >= 0) * mean_degree_one(degree_minus(heat(X, 4)))


def dense_slap(X, y):
    apart, close = margins(X, y, 3, 4)
    joined = either(nearest(X, 4))
    L = degree_minus(joined)
    strange = N * np.eye(N) - 1 - L
    return apart + 0.1 * mean_degree_one(strange), close + 0.1 * mean_degree_one(L)


def dense_smvr(X, y):
    T = class_targets(y)
    return T @ T.T, labelled_scatter(y) + np.mean(y >= 0) * mean_degree_one(degree_minus(heat(X, 4)))


DENSE = {name: globals()[f"dense_{name}"] for name in ("pca", "lle", "lap", "lda", "mfa", "mvr", "sda", "slap", "smvr")}


@pytest.mark.parametrize("name", cases.CRITERIA)
def test_matrices_against_dense_algebra(name):
    criterion = cases.CRITERIA[name]
    X, y, codes = sample(hidden=criterion.supervision == "semi")
    quotient = dataclasses.replace(criterion.bind(X, None if criterion.supervision == "none" else y), ridge=0.25)
    A, B = quotient.matrices(Rows(codes))
    above, below = DENSE[name](X, y)
    Phi = codes.toarray()
    expected = Phi.T @ above @ Phi / N
    np.testing.assert_allclose(A, expected, atol=1e-9)
    B_expected = np.trace(expected) * np.eye(R) if below is None else Phi.T @ below @ Phi / N
    np.testing.assert_allclose(B, B_expected + 0.25 * np.eye(R), atol=1e-9)


@pytest.mark.parametrize("name", cases.CRITERIA)
@pytest.mark.parametrize("layout", ["sparse", "dense", "float32", "blocks"])
def test_value_and_derivatives_for_fixed_codes(name, layout):
    """The value is the quotient of traces; derivatives with respect to codes and U meet central differences."""
    criterion = cases.CRITERIA[name]
    X, y, codes = sample(hidden=criterion.supervision == "semi")
    quotient = dataclasses.replace(criterion.bind(X, y), ridge=0.1)
    U = np.linalg.qr(np.random.default_rng(0).standard_normal((R, 3)))[0]
    halves = codes[:, :5], codes[:, 5:].toarray()
    blocks = {"sparse": (codes,), "dense": (codes.toarray(),), "float32": (codes.astype(np.float32),), "blocks": halves}
    given = Rows(*blocks[layout])
    value = quotient.value(given, U)
    above, below = DENSE[name](X, y)

    def f(Phi, U):
        A = Phi.T @ above @ Phi / N
        B = np.trace(A) * np.eye(R) if below is None else Phi.T @ below @ Phi / N
        return np.trace(U.T @ A @ U) / np.trace(U.T @ B @ U + 0.1 * np.eye(3))

    Phi = codes.toarray()
    assert value.quotient == pytest.approx(f(Phi, U), rel=1e-5 if layout == "float32" else 1e-9)
    if layout == "float32":
        return
    A, B = quotient.matrices(given)
    assert value.quotient == pytest.approx(np.trace(U.T @ A @ U) / np.trace(U.T @ B @ U), rel=1e-9)
    left, right, scale = quotient.features_gradient(given, U, value)
    gradient = left @ right + scale * Phi
    rng = np.random.default_rng(2)
    E, step = rng.standard_normal(Phi.shape), 1e-6
    difference = (f(Phi + step * E, U) - f(Phi - step * E, U)) / (2 * step)
    assert np.vdot(gradient, E) == pytest.approx(difference, rel=1e-6, abs=1e-8)
    H = rng.standard_normal(U.shape)
    H -= U @ (U.T @ H)
    ends = [np.linalg.qr(U + s * H)[0] for s in (step, -step)]
    difference = (f(Phi, ends[0]) - f(Phi, ends[1])) / (2 * step)
    assert np.vdot(quotient.projection_gradient(given, U, value), H) == pytest.approx(difference, rel=1e-6, abs=1e-8)


# ── where two criteria are one ──────────────────────────────────────────────────────────────────────────────────────


def test_sda_without_smoothing_is_lda_seen_through_f_over_one_plus_f():
    """Total = between + within, so b/(b + w) = f/(1 + f), and both have the same best subspace."""
    X, y, codes = sample(hidden=False)
    f = LDA().bind(X, y).matrices(Rows(codes))
    g = SDA(alpha=0).bind(X, y).matrices(Rows(codes))
    for count in (1, 2, 3):
        one, two = trace_ratio(*f, count), trace_ratio(*g, count)
        assert two.value == pytest.approx(one.value / (1 + one.value), rel=1e-9)
        assert subspace_angles(one.projection, two.projection).max() < 1e-5


@pytest.mark.parametrize(
    ("semi", "full"),
    [
        (SLAP(k_within=3, k_between=4, far=0, near=0), MFA(k_within=3, k_between=4)),
        (SMVR(rho=0), MVR()),
    ],
    ids=["slap", "smvr"],
)
def test_semi_supervised_with_all_labels_and_no_smoothing_is_supervised(semi, full):
    X, y, codes = sample(hidden=False)
    for one, two in zip(semi.bind(X, y).matrices(Rows(codes)), full.bind(X, y).matrices(Rows(codes)), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-12)


@pytest.mark.parametrize("name", ["sda", "slap", "smvr"])
def test_without_smoothing_unlabelled_samples_do_not_matter(name):
    none = {"sda": {"alpha": 0}, "slap": {"far": 0, "near": 0}, "smvr": {"rho": 0}}[name]
    criterion = dataclasses.replace(cases.CRITERIA[name], **none)
    X, y, codes = sample(hidden=True)
    rows = np.flatnonzero(y >= 0)
    with_all, alone = (
        criterion.bind(X, y).matrices(Rows(codes)),
        criterion.bind(X[rows], y[rows]).matrices(Rows(codes[rows])),
    )
    ratios = [np.trace(one) / np.trace(two) for one, two in zip(with_all, alone, strict=True)]
    assert ratios[0] == pytest.approx(ratios[1])
    for one, two in zip(with_all, alone, strict=True):
        np.testing.assert_allclose(one / np.trace(one), two / np.trace(two), atol=1e-12)


def test_regression_on_two_classes_is_the_difference_of_their_means():
    X, y, codes = sample(hidden=False)
    y = (y > 1).astype(int)
    A, _ = MVR().bind(X, y).matrices(Rows(codes))
    Phi = codes.toarray()
    gap = Phi[y == 0].mean(axis=0) - Phi[y == 1].mean(axis=0)
    values, vectors = np.linalg.eigh(A)
    assert values[-2] < 1e-12 * values[-1]
    assert abs(vectors[:, -1] @ gap) == pytest.approx(np.linalg.norm(gap))


def test_real_targets_are_centred_and_rows_of_nan_are_unlabelled():
    X, _, codes = sample(hidden=False)
    T = np.random.default_rng(0).standard_normal((N, 2)) + 5
    Phi = codes.toarray()
    A, _ = MVR().bind(X, T).matrices(Rows(codes))
    C = T - T.mean(axis=0)
    np.testing.assert_allclose(A, Phi.T @ C @ C.T @ Phi / N, atol=1e-10)
    T[::4] = np.nan
    known = np.isfinite(T[:, 0])
    A, B = SMVR(rho=0).bind(X, T).matrices(Rows(codes))
    C = np.where(known[:, None], T - T[known].mean(axis=0), 0)
    np.testing.assert_allclose(A, Phi.T @ C @ C.T @ Phi / N, atol=1e-10)
    np.testing.assert_allclose(B, Phi.T @ labelled_scatter(np.where(known, 0, -1)) @ Phi / N, atol=1e-10)


# ── the number of components ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", cases.CRITERIA)
def test_the_usual_number_of_components_is_possible(name):
    criterion = cases.CRITERIA[name]
    _, y, _ = sample(hidden=criterion.supervision == "semi")
    for n_features in (1, 2, 5, 1000):
        assert 1 <= criterion.usual_components(n_features, y) <= criterion.most_components(n_features, y) <= n_features


def test_discriminants_are_one_fewer_than_classes():
    _, y, _ = sample(hidden=True)
    for criterion in (LDA(), SDA()):
        assert criterion.most_components(100, y) == criterion.usual_components(100, y) == 3
        assert criterion.most_components(2, y) == 2
    for criterion in (MVR(), SMVR()):
        assert criterion.usual_components(100, y) == 3
        assert criterion.usual_components(100, np.random.default_rng(0).standard_normal((N, 2))) == 2
    assert PCA().most_components(100, None) == 100


# ── a graph of one's own ────────────────────────────────────────────────────────────────────────────────────────────

WITH_GRAPH = {"lap": LAP, "sda": SDA, "slap": SLAP, "smvr": SMVR}


def ring():
    """Each sample joined to the next, with weight 2."""
    forth = sp.diags_array([2.0, 2.0], offsets=[1, -(N - 1)], shape=(N, N))
    return sp.csr_array(forth + forth.T)


@pytest.mark.parametrize(
    "form", [sp.csr_array, sp.coo_matrix, sp.csc_array, np.asarray], ids=lambda form: form.__name__
)
@pytest.mark.parametrize("name", WITH_GRAPH)
def test_own_graph_is_used_as_given(name, form):
    X, y, codes = sample(hidden=True)
    graph = form(ring().toarray())
    A, B = WITH_GRAPH[name](graph=graph).bind(X, y).matrices(Rows(codes))
    W = ring().toarray()
    L, Phi = mean_degree_one(degree_minus(W)), codes.toarray()
    if name == "lap":
        centred = W / 4 - np.ones((N, N)) / N
        np.testing.assert_allclose(A, Phi.T @ centred @ Phi / N, atol=1e-10)
        np.testing.assert_allclose(B, Phi.T @ CENTRING @ Phi / N, atol=1e-10)
        return
    weight = 0.1 if name == "slap" else np.mean(y >= 0)
    none = {"sda": {"alpha": 0}, "slap": {"far": 0, "near": 0}, "smvr": {"rho": 0}}[name]
    plain = WITH_GRAPH[name](**none).bind(X, y).matrices(Rows(codes))[1]
    np.testing.assert_allclose(B - plain, weight * Phi.T @ L @ Phi / N, atol=1e-10)


def test_slap_asks_an_own_graph_for_its_edges_only():
    X, y, codes = sample(hidden=True)
    W = heat(X, 4)
    weighted = sp.coo_array(W)
    stored = sp.coo_array((np.r_[weighted.data, 0.0], (np.r_[weighted.row, 0], np.r_[weighted.col, 0])), W.shape)
    for graph in (sp.csr_array(weighted), sp.csr_array(stored)):
        matrices = SLAP(graph=graph).bind(X, y).matrices(Rows(codes))
        for one, two in zip(matrices, SLAP(graph=W > 0).bind(X, y).matrices(Rows(codes)), strict=True):
            np.testing.assert_allclose(one, two, atol=1e-12)


def changed(i, j, value):
    graph = ring().tolil()
    graph[i, j] = value
    return sp.csr_array(graph)


@pytest.mark.parametrize("name", WITH_GRAPH)
@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (ring()[:, :5], rf"graph must have shape \({N}, {N}\), one row for each sample, got \({N}, 5\)"),
        (changed(3, 9, 1.0), r"symmetric.*graph.maximum\(graph.T\)"),
        (ring() * -1.0, "no negative weights"),
        (changed(0, 0, np.nan), "graph contains NaN"),
    ],
    ids=["shape", "asymmetric", "negative", "nan"],
)
def test_errors_of_an_own_graph(name, graph, message):
    X, y, _ = sample(hidden=True)
    with pytest.raises(ValueError, match=message):
        WITH_GRAPH[name](graph=graph).bind(X, y)


def test_a_graph_without_edges():
    X, y, _ = sample(hidden=True)
    with pytest.raises(ValueError, match="no edges"):
        LAP(graph=sp.csr_array((N, N))).bind(X, y)
    SDA(graph=sp.csr_array((N, N))).bind(X, y)


@pytest.mark.parametrize("model", [TraceQuotient, SparLow])
def test_estimators_take_an_own_graph(model):
    X, _, _ = sample(hidden=False)
    options = {"n_atoms": 8, "max_iter": 1, "random_state": 0} if model is SparLow else {}
    assert model(LAP(graph=ring()), 2, **options).fit(X).transform(X).shape == (N, 2)


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_names_and_objects():
    assert isinstance(criterion_named("smfa"), SLAP)
    assert {type(criterion_named(name)) for name in CRITERIA} == {PCA, LLE, LAP, LDA, MFA, MVR, SDA, SLAP, SMVR}
    assert {type(criterion) for criterion in cases.CRITERIA.values()} == {type(criterion_named(n)) for n in CRITERIA}
    own = MFA(k_within=2)
    assert criterion_named(own) is own
    with pytest.raises(ValueError, match=r"one of pca, lle.*or a Criterion such as MFA\(\), got 'ica'"):
        criterion_named("ica")


@pytest.mark.parametrize("name", cases.CRITERIA)
def test_samples_and_labels_are_left_as_they_are(name):
    X, y, _ = sample(hidden=cases.CRITERIA[name].supervision == "semi")
    copies = X.copy(), y.copy()
    cases.CRITERIA[name].bind(X, y)
    np.testing.assert_array_equal(X, copies[0])
    np.testing.assert_array_equal(y, copies[1])
    T = np.random.default_rng(0).standard_normal((N, 2))
    if cases.CRITERIA[name].targets:
        kept = T.copy()
        cases.CRITERIA[name].bind(X, T)
        np.testing.assert_array_equal(T, kept)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: MFA(k_within=0),
        lambda: LAP(k=2.5),
        lambda: LLE(k="a"),
        lambda: SDA(alpha=-1),
        lambda: LDA(balance="x"),
        lambda: SDA(propagate=1.5),
    ],
)
def test_parameters_of_criteria_are_checked(wrong):
    with pytest.raises(ValueError, match="must be a"):
        wrong()


def test_criteria_with_graphs_can_be_compared():
    assert LAP(graph=sp.eye_array(3)) == LAP(graph=sp.eye_array(4))
    assert LAP(k=3) != LAP(k=4)


@pytest.mark.parametrize(("n", "k"), [(60, 3), (200, 4), (2000, 10)])
def test_fewer_neighbours_in_small_sets(n, k):
    samples = np.random.default_rng(0).standard_normal((n, 5))
    y = np.arange(n) % 10
    y[n // 2 :] = -1
    ours, named = (SDA(k=given).bind(samples, y).below for given in (None, k))
    np.testing.assert_array_equal(ours.graph.toarray(), named.graph.toarray())
    assert not np.array_equal(ours.graph.toarray(), SDA(k=k + 1).bind(samples, y).below.graph.toarray())


def test_class_weights_count_like_repeated_samples():
    rng = np.random.default_rng(0)
    X, y, times = rng.normal(size=(40, 6)), rng.integers(0, 3, 40), np.array([1, 3, 2])
    again = np.repeat(np.arange(40), times[y])
    weighted, repeated = LDA(class_weight=(1, 3, 2)).bind(X, y), LDA().bind(X[again], y[again])
    for ours, theirs in zip(weighted.matrices(Rows(X)), repeated.matrices(Rows(X[again])), strict=True):
        np.testing.assert_allclose(40 * ours, len(again) * theirs, atol=1e-10)
    ours = weighted.balanced(weighted.value(Rows(X), np.eye(6)[:, :2])).above.form(X)
    theirs = repeated.balanced(repeated.value(Rows(X[again]), np.eye(6)[:, :2])).above.form(X[again])
    np.testing.assert_allclose(ours, theirs, atol=1e-10)
    unlike = [TraceQuotient(LDA(class_weight=weights)).fit(X, y).components_ for weights in (None, (1, 3, 2))]
    same = TraceQuotient("lda").fit(X[again], y[again]).components_
    assert subspace_angles(unlike[1].T, same.T).max() < 1e-6 < subspace_angles(unlike[0].T, same.T).max()


def test_balanced_classes_do_not_depend_on_their_number_of_samples():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 5)), np.repeat([0, 1, 2], 10)
    more = np.r_[np.arange(30), np.arange(10)]  # the first class twice
    once, twice = (LDA(class_weight="balanced").bind(X[rows], y[rows]) for rows in (np.arange(30), more))
    for ours, theirs in zip(once.matrices(Rows(X)), twice.matrices(Rows(X[more])), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_class_weights_are_checked():
    for wrong in ("even", (1.0, -1.0), (), [1.0, 2.0]):
        with pytest.raises(ValueError, match="class_weight of LDA must be"):
            LDA(class_weight=wrong)
    with pytest.raises(ValueError, match="class_weight has 2 numbers, but there are 3 classes"):
        LDA(class_weight=(1.0, 2.0)).bind(np.eye(6), np.array([0, 0, 1, 1, 2, 2]))
    assert SparLow("lda").set_params(criterion__class_weight="balanced").criterion.class_weight == "balanced"


@dataclasses.dataclass(frozen=True)
class _Broken(LDA):
    part: str = "nan"

    def bind(self, X, y, n_jobs):
        found = super().bind(X, y, n_jobs)
        if self.part == "below":
            return Quotient(graphs.centring(len(y)), None)
        if self.part == "trace form":
            return Quotient(found.above, None)
        return dataclasses.replace(found, above=found.above + graphs.Structure(np.full(len(y), np.nan)))


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("nan", "NaN or infinite"),
        ("below", 'embedding="orthonormal"'),
        ("trace form", r"_Broken.bind: below=None .* needs above=centring"),
    ],
)
def test_structures_that_cannot_be_used_are_refused(part, said):
    X, y, _ = cases.labelled(60, 12, 20)
    with pytest.raises(ValueError, match=said):
        SparLow(_Broken(part=part), n_atoms=20, max_iter=0, random_state=0).fit(X, y)
    with pytest.raises(TypeError, match="positional"):
        Quotient(None, None, 0.1)
