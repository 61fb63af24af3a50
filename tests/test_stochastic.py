"""Small stochastic steps: derivatives of a batch, running sums, epochs, copies; streams make the same steps."""

import pickle

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import sklearn
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from sparlow import Copies, DictionaryLearner, SparLow, constants, stochastic, stream
from sparlow.constants import BATCH
from sparlow.criteria import criterion_named
from sparlow.estimators import epochs, streaming
from sparlow.labels import Labels
from sparlow.rows import Rows, Samples
from sparlow.solvers import Solver
from sparlow.stochastic import Batch, Learner, Moments, Pairs, targets_of
from tests import cases

N, M, R = 60, 9, 14
STEPS = ("lda", "mfa", "mvr", "sda", "slap", "smvr", "lap", "lle")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order].astype(np.float32), y[order]


def sums_of(name, samples, y):
    """Empty sums of a criterion, and the batch of some rows."""
    criterion = criterion_named(name)
    if stochastic.of_targets(criterion):
        T, known = targets_of(Labels(y, np.arange(4)), 4)
        return Moments.zero(R, 4), lambda rows: Batch(T[rows], known[rows] * 1.0, rows)
    bound = None if criterion.supervision == "none" else y
    begin = Pairs.zero(criterion.bind(samples.X, bound), 3)
    return begin, lambda rows: Batch(np.zeros((len(rows), 0)), np.ones(len(rows)), rows)


def scene(name, prior="elastic net"):
    """Samples, half of whose codes are in the sums, a dictionary, the sums and the batch of all rows."""
    X, y, D = cases.labelled(N, M, R)
    y = cases.hide_labels(y) if criterion_named(name).supervision == "semi" else y
    samples = Samples(X, cases.priors(R)[prior])
    sums, batch = sums_of(name, samples, y)
    rows = np.arange(N)
    return samples, D, sums.added(samples.coded(D), batch(rows)), batch, rows


@pytest.mark.parametrize("prior", ["elastic net", "positive elastic net", "KL", "user's own"])
@pytest.mark.parametrize("name", STEPS)
def test_the_gradient_of_a_batch_agrees_with_central_differences_through_the_solver(name, prior):
    """At a fixed projection the pull is the derivative of the loss that its class states."""
    samples, D, sums, batch, rows = scene(name, prior)
    solution, one = sums.solved(0.1), batch(rows[::2])
    part = samples.take(rows[::2])

    def loss(D):
        coded = part.coded(D)
        if isinstance(sums, Moments):
            W, intercept, scale = solution
            error = coded @ W + intercept - one.targets * scale
            return 0.5 * float(np.sum(one.weights * np.sum(error**2, axis=1))) / one.size
        W, values = solution
        Y, out = coded @ W, 0.0
        for structure, crossed, factor in zip(
            sums.parts, (sums.crossed, sums.crossed_rest), (values - 1, values), strict=True
        ):  # quadratic forms of the batch; what stands for the other samples is held fixed, and counts once
            local = structure.restricted(one) @ Y
            out += 0.5 * float(np.sum(factor * Y * local))
            if structure.factors is not None:
                mean = structure.factors[one.rows] @ (structure.core @ (crossed / sums.weight @ W))
                out += float(np.sum(factor * Y * mean))
        return out / len(Y)

    coded = part.coded(D)
    pull = sums.pull(solution, coded, one)
    slope = coded.pullback(pull.left, pull.right, 0.0)
    rng = np.random.default_rng(0)
    for _ in range(3):
        E = rng.standard_normal(D.shape)
        step = 1e-6
        numeric = (loss(D + step * E) - loss(D - step * E)) / (2 * step)
        np.testing.assert_allclose(np.vdot(slope, E), numeric, rtol=2e-4, atol=1e-8)


@pytest.mark.parametrize("name", ["lda", "mvr"])
def test_the_gradients_of_all_batches_add_to_that_of_all_samples(name):
    samples, D, sums, batch, rows = scene(name)
    solution = sums.solved(0.1)

    def slope(rows):
        coded = samples.take(rows).coded(D)
        pull = sums.pull(solution, coded, batch(rows))
        return len(rows) / N * coded.pullback(pull.left, pull.right, 0.0)

    parts = sum(slope(part) for part in np.array_split(rows, 7))
    np.testing.assert_allclose(parts, slope(rows), rtol=1e-9, atol=1e-12)


def test_the_projection_of_sums_is_that_of_the_criterion():
    """With sums over all samples, W spans what LDA finds for the same ridge."""
    samples, D, sums, _, _ = scene("lda")
    W = sums.solved(0.1)[0]
    Z = samples.coded(D).features.toarray()
    y = cases.labelled(N, M, R)[1]
    C, B = Z - Z.mean(axis=0), np.cov(Z.T, bias=True)
    T = np.eye(4)[y] / np.sqrt(np.bincount(y) / N)
    expected = np.linalg.solve(B + 0.1 * np.trace(B) / R * np.eye(R), C.T @ T / N)
    np.testing.assert_allclose(W, expected, atol=1e-9)


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_components_are_the_leading_ones_of_the_ratio_trace(count):
    samples, D, sums, batch, rows = scene("lda")
    sums = Moments.zero(R, 4, True, count).added(samples.coded(D), batch(rows))
    W = sums.solved(0.1)[0]
    assert np.linalg.matrix_rank(W, 1e-9) == count
    B, C = sums.scatter(), sums.deviations()
    B[np.diag_indices(R)] += 0.1 * np.trace(B) / R
    expected = scipy.linalg.eigh(C.T @ C, B)[1][:, -count:]
    assert scipy.linalg.subspace_angles(scipy.linalg.orth(W, 1e-9), expected).max() < 1e-5


def test_a_step_moves_no_atom_off_its_sphere_and_none_before_the_sums_are_warm():
    samples, D, _, batch, rows = scene("lda")
    learner = Learner(0.1)
    state = learner.init(D, Moments.zero(R, 4))
    state = learner.step(state, samples.take(rows[:20]).coded(D), batch(rows[:20]), 1.0)
    np.testing.assert_array_equal(state.dictionary, D)  # 20 samples are fewer than two for each feature
    state = learner.step(state, samples.take(rows[20:]).coded(D), batch(rows[20:]), 1.0)
    state = learner.step(state, samples.coded(D), batch(rows), 1.0)
    assert state.moved > 0
    np.testing.assert_allclose(np.linalg.norm(state.dictionary, axis=1), 1, rtol=1e-12)
    other = learner.init(D, Moments.zero(R, 4)).restored(state.arrays())
    # what a checkpoint keeps is all that a step depends on
    ends = [learner.step(half, samples.coded(state.dictionary), batch(rows), 0.5).dictionary for half in (state, other)]
    np.testing.assert_array_equal(*ends)


@pytest.mark.parametrize("cut", [[1], [7, 20, 21], list(range(1, 40))])
def test_sums_do_not_depend_on_how_later_rows_are_cut(cut):
    rng = np.random.default_rng(0)
    first, later = rng.standard_normal((20, 5)), rng.standard_normal((40, 5))
    T, U = np.eye(3)[rng.integers(0, 3, 20)], np.eye(3)[rng.integers(0, 3, 40)]

    def seen(cuts):
        moments = Moments.zero(5, 3).added(Rows(first), Batch(T, np.ones(20)))
        for rows in np.split(np.arange(40), cuts):
            moments = moments.added(Rows(later[rows]), Batch(U[rows], np.ones(len(rows))))
        return moments

    whole, parts = seen([]), seen(cut)
    for name in ("second", "total", "by_target", "targets", "weight", "seen", "first"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12, err_msg=name)
    weights = (np.maximum(np.arange(1, 61), 20) / 60) ** constants.FORGETTING
    rows = np.vstack([first, later])
    np.testing.assert_allclose(whole.second, (rows.T * weights) @ rows)


def test_weights_of_samples_are_repeated_samples():
    samples, D, _, batch, rows = scene("lda")
    counts = np.arange(N) % 3
    coded = samples.coded(D)
    weighted = Moments.zero(R, 4).added(coded, batch(rows)._replace(weights=counts * 1.0))
    repeated = np.repeat(rows, counts)
    plain = Moments.zero(R, 4).added(samples.take(repeated).coded(D), batch(repeated))
    for one, other in zip(weighted.solved(0.1), plain.solved(0.1), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_a_stream_makes_the_steps_of_epochs():
    """The same rows in the same order lead to the same dictionary, bit for bit."""
    X, y, D = cases.labelled(BATCH * 4, M, R)
    T = np.eye(4)[y]
    prior = cases.priors(R)["elastic net"]
    running = stream.Stream(criterion_named("lda"), prior, D, 3, 4, True, True, 0.1, 0)
    running.update(X, T, np.ones(len(X), bool))
    learner = Learner(0.1)
    state = learner.init(D, Moments.zero(R, 4))
    for first in range(0, len(X), BATCH):
        rows = slice(first, first + BATCH)
        coded = Samples(X[rows], prior).coded(state.dictionary)
        state = learner.step(state, coded, Batch(T[rows], np.ones(BATCH)), 1.0)
    np.testing.assert_array_equal(running.dictionary, state.dictionary)
    assert np.abs(state.dictionary - D).max() > 1e-3


# ── epochs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["lda", "mfa", "mvr", "sda", "slap", "smvr"])
def test_steps_help_on_samples_not_learned_from(name, digits):
    X, y = digits
    few = np.where(np.arange(900) % 9, -1, y[:900]) if name in ("sda", "slap", "smvr") else y[:900]
    options = {"n_atoms": 30, "random_state": 0, "early_stopping": False, "solver": "stochastic"}
    start, end = (SparLow(name, max_iter=passes, **options).fit(X[:900], few) for passes in (0, 10))
    assert end.n_iter_ == 10
    assert np.abs(end.dictionary_ - start.dictionary_).max() > 0.01
    right = [model.score(X[900:], y[900:]) for model in (start, end)]
    assert right[1] > right[0] - 0.01
    explained = end.history_["quotient"][1:]
    assert np.nanmean(explained[-3:]) > np.nanmean(explained[:3])


def test_epochs_have_the_same_bits_for_any_number_of_threads_and_after_an_interruption(digits, tmp_path, monkeypatch):
    X, y = digits

    def model(**options):
        options = {"n_atoms": 30, "random_state": 0, "max_iter": 3, "early_stopping": False, **options}
        return SparLow("lda", **options)

    whole = model(n_jobs=1).fit(X[:600], y[:600])
    np.testing.assert_array_equal(model(n_jobs=2).fit(X[:600], y[:600]).dictionary_, whole.dictionary_)
    solver = Solver("stochastic", checkpoint=tmp_path / "fit.checkpoint")
    keep = epochs.Checkpoint.keep_pass

    def killed(checkpoint, *given):
        keep(checkpoint, *given)
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(epochs.Checkpoint, "keep_pass", killed)
        with pytest.raises(MemoryError):
            model(solver=solver).fit(X[:600], y[:600])
    again = model(solver=solver).fit(X[:600], y[:600])
    np.testing.assert_array_equal(again.dictionary_, whole.dictionary_)
    np.testing.assert_array_equal(again.projection_, whole.projection_)


def test_a_criterion_without_steps_takes_the_ascent_and_says_so():
    X, _, _ = cases.labelled(N, M, R)
    with pytest.warns(UserWarning, match="the ascent of all samples is taken"):
        model = SparLow("pca", solver="stochastic", n_atoms=R, max_iter=2, random_state=0).fit(X)
    assert model.n_iter_ == 2


# ── copies ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_copies_move_pictures_and_leave_labels_alone(digits):
    X, y = digits
    rng = np.random.RandomState(0)
    picture = np.zeros((1, 8, 8))
    picture[0, 3, 4] = 1.0
    places = {tuple(np.argwhere(Copies(shift=1).draw(picture.reshape(1, -1), rng).reshape(8, 8))[0]) for _ in range(99)}
    assert places == {(i, j) for i in (2, 3, 4) for j in (3, 4, 5)}
    mirrored = [Copies(mirror=True).draw(picture.reshape(1, -1), rng).reshape(8, 8) for _ in range(20)]
    assert {tuple(np.argwhere(one)[0]) for one in mirrored} == {(3, 4), (3, 3)}
    turned = Copies(turn=10, scale=0.1).draw(X, rng)
    assert turned.shape == X.shape
    assert 0.05 < np.abs(turned - X).mean() / np.abs(X).mean() < 0.6
    mixed, noisy = Copies(mix=0.4).draw(X, rng), Copies(noise=0.5).draw(X, rng)
    assert np.all(np.linalg.norm(mixed - X, axis=1) < np.linalg.norm(X - X.mean(axis=0), axis=1).max())
    spread = np.sqrt(np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=1)))
    np.testing.assert_allclose(np.sqrt(np.mean(np.sum((noisy - X) ** 2, axis=1))), 0.5 * spread, rtol=0.02)
    before = X.copy(), y.copy()
    model = SparLow("lda", n_atoms=30, copies=Copies(shift=1), max_iter=2, early_stopping=False, random_state=0)
    model.fit(X[:300], y[:300])
    for one, other in zip(before, (X, y), strict=True):
        np.testing.assert_array_equal(one, other)
    assert model.n_iter_ == 2


def test_copies_of_ones_own_and_colour(digits):
    X, y = digits
    options = {"n_atoms": 30, "max_iter": 2, "early_stopping": False, "random_state": 0}
    same = SparLow("lda", copies=lambda X, rng: X, **options).fit(X[:300], y[:300])
    np.testing.assert_allclose(same.dictionary_, SparLow("lda", **options).fit(X[:300], y[:300]).dictionary_, atol=1e-5)
    colour = np.arange(24.0).reshape(1, 24)
    mirrored = Copies(mirror=True, shape=(2, 4, 3)).draw(np.repeat(colour, 20, axis=0), np.random.RandomState(0))
    assert any(np.array_equal(one.reshape(2, 4, 3), colour.reshape(2, 4, 3)[:, ::-1]) for one in mirrored)


@pytest.mark.parametrize("options", [{"shift": -1}, {"mix": 0.8}, {"mirror": 1}, {"turn": "x"}, {"shape": (2,)}])
def test_copies_are_checked(options):
    with pytest.raises(ValueError, match="of Copies must be"):
        Copies(**options)


def test_copies_that_do_not_fit_say_what_was_expected(digits):
    X, y = digits
    with pytest.raises(ValueError, match="give Copies the shape"):
        SparLow("lda", n_atoms=30, copies=Copies(shift=1, shape=(4, 4))).fit(X[:300], y[:300])
    with pytest.raises(ValueError, match="normalize=True"):
        SparLow("lda", n_atoms=30, copies=Copies(shift=1)).fit(1000.0 ** np.arange(4) * X[:90, 20:24], y[:90])


# ── groups and validation samples ───────────────────────────────────────────────────────────────────────────────────


def test_groups_are_held_out_whole(digits, monkeypatch):
    X, y = digits
    groups = np.arange(300) // 10
    drawn = []
    plain = Labels.held_out

    def noted(labels, n, fraction, rng):
        rows = plain(labels, n, fraction, rng)
        drawn.append((set(labels.groups[rows]), set(np.delete(labels.groups, rows))))
        return rows

    monkeypatch.setattr(Labels, "held_out", noted)
    SparLow("lda", n_atoms=30, max_iter=0, random_state=0).fit(X[:300], y[:300], groups=groups)
    assert drawn
    assert all(not held & rest for held, rest in drawn)
    with pytest.raises(ValueError, match="groups has 5 entries"):
        SparLow("lda").fit(X[:300], y[:300], groups=np.arange(5))


def test_validation_samples_make_the_choices(digits):
    X, y = digits
    options = {"n_atoms": 30, "max_iter": 2, "random_state": 0}
    model = SparLow("lda", **options).fit(X[:300], y[:300], X_val=X[300:600], y_val=y[300:600])
    assert set(model.held_out_) == {"start", "end"}
    wrong = SparLow("lda", **options).fit(X[:300], y[:300], X_val=X[300:600], y_val=np.roll(y[300:600], 1))
    assert model.held_out_["start"] > 0.8 > 0.4 > wrong.held_out_["start"]
    with pytest.raises(ValueError, match="come together"):
        SparLow("lda").fit(X[:300], y[:300], X_val=X[300:600])


# ── streams ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def streamed(X, y, size=150, **options):
    model = SparLow(**{"n_atoms": 60, "random_state": 0, **options})
    for first in range(0, len(X), size):
        model.partial_fit(X[first : first + size], y[first : first + size], classes=np.arange(10))
    return model


def test_streams_learn_and_the_order_of_rows_matters_little(digits):
    X, y = digits
    scores = [
        streamed(X[:1200][o], y[:1200][o]).score(X[1200:], y[1200:]) for o in (slice(None), slice(None, None, -1))
    ]
    whole = SparLow(n_atoms=60, random_state=0, max_iter=0).fit(X[:1200], y[:1200]).score(X[1200:], y[1200:])
    assert min(scores) > whole - 0.02
    assert abs(scores[0] - scores[1]) < 0.02


def test_the_first_samples_may_come_in_small_batches(digits, monkeypatch):
    """A stream begins again with all samples so far: then it is the one that began with them in one batch."""
    X, y = digits
    monkeypatch.setattr(streaming, "DRAWN", 600)
    small = streamed(X[:600], y[:600], size=100)
    whole = streamed(X[:600], y[:600], size=600)
    for half in (small, whole):
        half.partial_fit(X[600:900], y[600:900])
    assert small._stream["first"] is None
    np.testing.assert_array_equal(small.dictionary_, whole.dictionary_)
    assert small._stream["stream"].n_coded > whole._stream["stream"].n_coded  # what was coded in vain is counted
    sparse = SparLow(n_atoms=60, random_state=0)
    for first in range(0, 600, 100):
        sparse.partial_fit(sp.csr_array(X[first : first + 100]), y[first : first + 100], classes=np.arange(10))
    np.testing.assert_allclose(sparse.transform(X[:9]), streamed(X[:600], y[:600]).transform(X[:9]), atol=1e-4)
    early = streamed(X[:300], y[:300], size=100)._stream
    assert early["began_with"] == 100
    assert early["first"][0].shape == (300, 64)


def test_samples_are_coded_less_than_twice_and_the_oldest_codes_first(digits, monkeypatch):
    X, y = digits
    monkeypatch.setattr(streaming, "DRAWN", 150)
    running = streamed(X[:1200], y[:1200])._stream["stream"]
    assert 1.5 * 1200 < running.n_coded <= 1.9 * 1200
    assert len(running.kept) == 1200
    ages = [one.coded_at for one in running.kept]
    assert min(ages) > 300
    with sklearn.config_context(working_memory=0):
        monkeypatch.setattr(stream, "MANY", 200)
        assert len(streamed(X[:600], y[:600]).embedding_) == 200


def test_a_class_may_come_late_and_unlabelled_samples_are_passed_over(digits):
    X, y = digits
    early, late = np.flatnonzero(y[:900] != 7), np.flatnonzero(y == 7)[:80]
    model = streamed(X[early], y[early])
    assert 7 not in model.predict(X[900:1000])
    for _ in range(2):
        model.partial_fit(X[late], y[late])
    new = np.flatnonzero(y == 7)[80:]
    assert np.mean(model.predict(X[new]) == 7) > 0.8
    before, D = model.n_samples_seen_, model._stream["stream"].dictionary
    model.partial_fit(X[:50], np.full(50, -1))
    assert model.n_samples_seen_ == before
    np.testing.assert_array_equal(model._stream["stream"].dictionary, D)


def test_pickling_in_mid_stream(digits):
    X, y = digits
    model = streamed(X[:300], y[:300])
    other = pickle.loads(pickle.dumps(model))
    for half in (model, other):
        half.partial_fit(X[300:600], y[300:600])
    np.testing.assert_array_equal(model.dictionary_, other.dictionary_)
    np.testing.assert_array_equal(model.transform(X[:20]), other.transform(X[:20]))


def test_a_first_batch_of_single_samples_says_what_it_lacks():
    with pytest.raises(ValueError, match="No class has two samples in the first batch"):
        SparLow("lda", n_atoms=5).partial_fit(np.random.default_rng(0).random((10, 8)), np.arange(10))


def test_a_stream_that_drops_a_fitted_model_says_so(digits):
    X, y = digits
    model = SparLow("lda", n_atoms=30, max_iter=0, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="drops the fitted model"):
        model.partial_fit(X[:300], y[:300])
    model.partial_fit(X[300:600], y[300:600], classes=np.arange(10))  # warnings are errors
    with pytest.raises(ValueError, match="classes must be those of the first batch"):
        model.partial_fit(X[300:600], y[300:600], classes=[0, 1])


def test_streams_of_targets_and_of_nothing(digits):
    X, _ = digits
    targets = np.c_[X[:, 20], X[:, 30] - X[:, 42]]
    model = SparLow("mvr", n_atoms=60, random_state=0)
    for first in range(0, 900, 300):
        model.partial_fit(X[first : first + 300], targets[first : first + 300])
    assert model.score(X[900:], targets[900:]) > 0.8
    plain = SparLow("pca", n_atoms=60, random_state=0).partial_fit(X[:300]).partial_fit(X[300:600])
    assert plain.transform(X).shape == (len(X), plain.n_components_)


@pytest.mark.parametrize("name", ["mfa", "lap", "lle", "sda", "slap", "smvr"])
def test_other_criteria_say_why_they_cannot(name, digits):
    X, y = digits
    assert not hasattr(SparLow(name), "partial_fit")
    with pytest.raises(AttributeError) as error:
        SparLow(name).partial_fit(X[:100], y[:100], classes=np.arange(10))
    assert "compares each sample with its neighbours" in str(error.value.__cause__)


def test_many_classes_in_small_batches():
    """A list of classes, or a small batch, may have one of each without a warning."""
    X, y = np.random.default_rng(0).standard_normal((115, 12)), np.arange(115) % 30
    model = SparLow(n_atoms=20, random_state=0).partial_fit(X[:90], y[:90], classes=np.arange(30))
    model.partial_fit(X[90:], y[90:])
    assert model.n_samples_seen_ == 115


def test_errors_of_streams(digits):
    X, y = digits
    model = SparLow(n_atoms=40).partial_fit(X[:100][y[:100] < 5], y[:100][y[:100] < 5])
    with pytest.raises(ValueError, match="Name all labels"):
        model.partial_fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="not among classes"):
        SparLow(n_atoms=60).partial_fit(X[:100], y[:100], classes=[0, 1])
    with pytest.raises(ValueError, match="n_atoms=200"):
        SparLow(n_atoms=200).partial_fit(X[:100], y[:100], classes=np.arange(10))
    model = SparLow(n_atoms=60).partial_fit(X[:100], y[:100], classes=np.arange(10))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:100, :5], y[:100])
    with pytest.raises(ValueError, match="two classes"):
        SparLow(n_atoms=20).partial_fit(X[y == 1], y[y == 1], classes=np.arange(10))
    with pytest.raises(NotFittedError):
        SparLow().transform(X)


def test_dictionaries_learn_from_streams(digits):
    X, _ = digits
    learner = DictionaryLearner(50, "online", random_state=0)
    costs = []
    for _ in range(3):
        for first in range(0, 900, 300):
            learner.partial_fit(X[first : first + 300])
        codes = learner.transform(X[900:])
        costs.append(float(np.sum((X[900:] - learner.inverse_transform(codes)) ** 2)))
    assert costs[0] > costs[1] > costs[2]
    np.testing.assert_allclose(np.linalg.norm(learner.dictionary_, axis=1), 1, rtol=1e-5)
    with pytest.raises(AttributeError) as error:
        DictionaryLearner(50).partial_fit(X)
    assert "online" in str(error.value.__cause__)
