"""The method as printed against the formulas of the paper's Section 4, written out densely and apart from the library.

Columns are samples here, as in the paper. Codes come from a coordinate descent of their own.
"""

import numpy as np
import pytest
from scipy.special import wrightomega

import sparlow
from sparlow import as_printed
from sparlow.printed import RECORDS, SETTINGS, Printed
from sparlow.priors import ElasticNet, KLDivergence
from sparlow.problem import begin
from sparlow.rows import Samples
from tests import cases
from tests.test_problem import central_difference, problem

N, M, R, L = 33, 7, 10, 2
K1, K2, K = 3, 4, 4
MU1, MU2, SIGMA, ALPHA, ALPHA1, ALPHA2, RHO1, RHO2, T = 0.02, 0.3, 0.05, 0.4, 0.3, 0.2, 0.15, 0.25, 0.7
WEIGHTS = {"alpha": ALPHA, "alpha_1": ALPHA1, "alpha_2": ALPHA2, "rho_1": RHO1, "rho_2": RHO2, "t": T, "sigma": SIGMA}
PARAMETERS = {**WEIGHTS, "k": K, "k_within": K1, "k_between": K2}
PRIOR = ElasticNet(0.1, 0.05)
KL = KLDivergence(0.05, 0.01, 1e-9)
ROUNDED = MU1 * 2e-6 * R * (R - 1) / 2  # the library keeps 1 − cos² from zero by 1e-6
WAYS = [
    (name, mended)
    for name in RECORDS
    for mended in ((False, True) if name in ("lle", "mvr", "slap", "smvr") else (False,))
]


def samples(seed=0):
    """Three classes of unequal size; rows are samples."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], [6, 11, 16])
    X = cases.unit(rng.standard_normal((3, M))[y] + 0.7 * rng.standard_normal((N, M)))
    return X, rng.permutation(y), cases.unit(rng.standard_normal((R, M)))


def given_labels(name, y):
    if RECORDS[name].supervision == "none":
        return None
    return np.where(np.arange(N) % 3 == 0, -1, y) if RECORDS[name].supervision == "semi" else y


# ── the paper, densely ──────────────────────────────────────────────────────────────────────────────────────────────


def code(x, D, prior):
    """argmin ½‖x − Dφ‖² + g(φ) by coordinate descent; D has atoms as columns."""
    phi = np.zeros(D.shape[1])
    for _ in range(3000):
        before = phi.copy()
        for j in range(len(phi)):
            z = D[:, j] @ (x - D @ phi) + phi[j]
            if isinstance(prior, KLDivergence):
                phi[j] = prior.strength * wrightomega(z / prior.strength + np.log(prior.mean / prior.strength)).real
            else:
                phi[j] = np.sign(z) * max(abs(z) - prior.l1, 0) / (1 + 2 * prior.l2)
        if np.abs(phi - before).max() < 1e-15:
            break
    return phi


def distances(V):
    return ((V[:, :, None] - V[:, None, :]) ** 2).sum(axis=0)


def nearest(Q, i, k, among):
    return sorted((j for j in among if j != i), key=lambda j: Q[i, j])[:k]


def joined(Q, k, allowed):
    Z = np.zeros((N, N))
    for i in range(N):
        for j in nearest(Q, i, k, [j for j in range(N) if allowed(i, j)]):
            Z[i, j] = Z[j, i] = 1
    return Z


def degrees_less(Z):
    return np.diag(Z.sum(axis=1)) - Z


def structures(X, Phi, y):
    """Every n × n matrix of Section 4 by its formula."""
    Q, known = distances(Phi), [i for i in range(N) if y is not None and y[i] >= 0]
    adjacent = joined(Q, K, lambda i, j: True)
    found = {"Pi": np.eye(N) - 1 / N, "Z_lap": adjacent * np.exp(-distances(X) / T)}
    W = np.zeros((N, N))
    for i in range(N):
        near = nearest(distances(X), i, K, range(N))
        G = (X[:, near] - X[:, [i]]).T @ (X[:, near] - X[:, [i]])
        w = np.linalg.solve(G + 1e-3 * np.trace(G) * np.eye(K), np.ones(K))
        W[i, near] = w / w.sum()
    found["Z_lle"] = (np.eye(N) - W).T @ (np.eye(N) - W)
    found["L"] = degrees_less(found["Z_lap"])
    found["L_01"] = degrees_less(adjacent)
    found["L_N"] = degrees_less(1 - np.eye(N) - adjacent)
    if y is None:
        return found
    c = y.max() + 1
    C = np.zeros((N, c))
    within = np.zeros((N, N))
    for one in range(c):
        rows = np.flatnonzero(y == one)
        C[rows, one] = 1 / np.sqrt(len(rows))
        within[np.ix_(rows, rows)] = np.eye(len(rows)) - 1 / len(rows)
    found |= {"L_b": C @ (np.eye(c) - 1 / c) @ C.T, "L_w": within}
    found["L+"] = degrees_less(joined(Q, K1, lambda i, j: {i, j} <= set(known) and y[i] == y[j]))
    found["L-"] = degrees_less(joined(Q, K2, lambda i, j: {i, j} <= set(known) and y[i] != y[j]))
    found["ZtZ"] = np.array([[float(i in known and j in known and y[i] == y[j]) for j in range(N)] for i in range(N)])
    found["labelled"] = np.diag([float(i in known) for i in range(N)])
    return found


def printed_matrices(name, S, Phi, mended):
    """A(Φ) and B(Φ) of Section 4; ``mended``: errata 2, 3 and 8."""

    def of(Z):
        return Phi @ Z @ Phi.T

    eye = np.eye(len(Phi))
    sign = 1 if mended else -1
    return {
        "pca": lambda: (of(S["Pi"]), np.trace(of(S["Pi"])) * eye),
        "lle": lambda: (of(S["Pi"]), of(S["Z_lle"])) if mended else (of(S["Z_lle"]), np.trace(of(S["Z_lle"])) * eye),
        "lap": lambda: (of(S["Z_lap"]), of(np.diag(S["Z_lap"].sum(axis=1)))),
        "lda": lambda: (of(S["L_b"]), of(S["L_w"])),
        "mfa": lambda: (of(S["L-"]), of(S["L+"])),
        "mvr": lambda: (sign * of(S["ZtZ"]), Phi @ Phi.T + RHO1 * eye),
        "sda": lambda: (of(S["L_b"]), of(S["L_w"] + S["L_b"] + ALPHA * S["L"])),
        "slap": lambda: (
            of(S["L-"] + ALPHA1 * S["L_N"]),
            of(S["L+"] + ALPHA2 * (S["L_01"] if mended else S["L_N"])),
        ),
        "smvr": lambda: (sign * of(S["ZtZ"]), of(S["labelled"]) + RHO1 * eye + RHO2 * of(S["L"])),
    }[name]()


def objective(name, mended, S, X, D, U, anchor, prior=PRIOR):
    """J(D, P) = tr(PA)/(tr(PB) + σ) − μ₁ g_c − μ₂ g_d, D and X with columns."""
    Phi = np.array([code(x, D, prior) for x in X.T]).T
    A, B = printed_matrices(name, S, Phi, mended)
    P = U @ U.T
    f = np.trace(P @ A) / (np.trace(P @ B) + SIGMA)
    pairs = [(i, j) for j in range(R) for i in range(j)]
    g_c = -sum(0.5 * np.log(1 - (D[:, i] @ D[:, j]) ** 2) for i, j in pairs)
    return f - MU1 * g_c - MU2 * 0.5 * np.linalg.norm(D - anchor) ** 2


# ── the laws ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "mended"), WAYS)
def test_cost_of_a_fit_is_the_printed_objective(name, mended):
    """At the start and after steps, with the graphs of the codes at the first dictionary."""
    X, y, D = samples()
    y = given_labels(name, y)
    options = {"mu_1": MU1, "mu_2": MU2, "prior": PRIOR, "dictionary": D, "mended": mended, **PARAMETERS}
    S = structures(X.T, np.array([code(x, D.T, PRIOR) for x in X]).T, y)
    for steps in (0, 3):
        model = as_printed(name, L, max_iter=steps, **options).fit(X, y)
        there = model.dictionary_.T, np.linalg.qr(model.projection_)[0], D.T
        expected = objective(name, mended, S, X.T, *there)
        assert model.history_["cost"][-1] == pytest.approx(expected, rel=1e-7, abs=ROUNDED)
        np.testing.assert_allclose(model.projection_.T @ model.projection_, np.eye(L), atol=1e-8)
    assert np.all(np.diff(model.history_["cost"]) >= 0)


@pytest.mark.parametrize(
    ("name", "mended", "prior"), [*((*way, PRIOR) for way in WAYS), *((one, False, KL) for one in ("lda", "lle"))]
)
def test_gradient_is_that_of_the_printed_objective(name, mended, prior):
    """∂J/∂D and ∂J/∂U along random tangents, by central differences of the dense objective, away from the start."""
    X, y, D = samples(1)
    y = given_labels(name, y)
    rng = np.random.default_rng(2)
    anchor = cases.unit(D + 0.1 * rng.standard_normal(D.shape))
    codes = np.array([code(x, D.T, prior) for x in X])
    quotient = Printed(name, L, mended=mended, **PARAMETERS).bind(X, y, codes=codes)
    weights = {"mu_coherence": MU1, "mu_proximity": MU2, "sums": True, "anchor": anchor}
    task, _ = begin("joint", Samples(X, prior), quotient, D, L, **weights)
    U = np.linalg.qr(rng.standard_normal((R, L)))[0]
    now = task.evaluate((D, U))
    S = structures(X.T, codes.T, y)
    dense = (name, mended, S, X.T)
    assert now.value == pytest.approx(objective(*dense, D.T, U, anchor.T, prior), rel=1e-7, abs=ROUNDED)
    slopes = task.gradient(now)
    for place, step in ((0, 1e-6), (1, 1e-6)):
        noise = rng.standard_normal((D, U)[place].shape)
        noise -= D * (D * noise).sum(axis=1, keepdims=True) if place == 0 else U @ (U.T @ noise)
        ends = []
        for way in (step, -step):
            moved = [D, U]
            moved[place] = moved[place] + way * noise
            moved[0], moved[1] = cases.unit(moved[0]), np.linalg.qr(moved[1])[0]
            ends.append(objective(*dense, moved[0].T, moved[1], anchor.T, prior))
        expected = (ends[0] - ends[1]) / (2 * step)
        size = np.linalg.norm(slopes[place]) * np.linalg.norm(noise)
        assert np.vdot(slopes[place], noise) == pytest.approx(expected, abs=1e-5 * size + 1e-8)


@pytest.mark.parametrize("views", ["moved", "patches"])
def test_trace_form_of_a_graph_has_its_gradient_through_views(views):
    """The error of lle as printed, over pooled codes, along its own gradient."""
    task, first, _ = problem(Printed(name="lle", n_components=3, k=5), views=views)
    manifold, rng = task.manifold, np.random.default_rng(1)
    noise = manifold.project(first.point, manifold.random_point(rng))
    point = manifold.retract(first.point, manifold.combine(0.1, noise, 0, noise))
    gradient = manifold.gradient(point, task.gradient(task.evaluate(point)))
    step = (1e-8 if views == "patches" else 1e-6) / manifold.norm(point, gradient)
    expected, smooth = central_difference(task, point, gradient, step)
    assert smooth
    assert manifold.inner(point, gradient, gradient) == pytest.approx(expected, rel=1e-5)


def test_one_sample_per_class_is_enough_for_regression(tmp_path):
    X, _, D = samples()
    X, y = X[:12], np.arange(12)
    model = as_printed("mvr", L, dictionary=D, prior=PRIOR, max_iter=1, mended=True).fit(X, y)
    sparlow.save(model, tmp_path / "model.sparlow")
    np.testing.assert_allclose(sparlow.load(tmp_path / "model.sparlow").transform(X), model.transform(X), atol=1e-5)


def test_few_labels_start_from_the_dictionary_of_lap():
    X, y, _ = samples()
    start = as_printed("lap", L, n_atoms=R, prior=PRIOR, max_iter=1, random_state=0).fit(X).dictionary_
    model = as_printed("sda", L, dictionary=start, prior=PRIOR, max_iter=0).fit(X, given_labels("sda", y))
    np.testing.assert_allclose(model.dictionary_, start, atol=1e-12)


def test_settings_have_printed_numbers_and_wrong_names_are_refused():
    for setting, values in SETTINGS.items():
        model = as_printed("mfa", setting=setting)
        assert model.prior == values["prior"]
        assert (model.solver.method, model.solver.mu_coherence, model.embedding) == (
            "joint",
            values["mu_1"],
            "orthonormal",
        )
    with pytest.raises(ValueError, match="setting must be one of digits"):
        as_printed(setting="birds")
    with pytest.raises(ValueError, match="name of Printed must be one of pca"):
        as_printed("nca")
    with pytest.raises(TypeError, match="unexpected keyword argument 'beta'"):
        as_printed(beta=1)
