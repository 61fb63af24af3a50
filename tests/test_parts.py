"""Samples in parts: the algebra of codes, gradients, and models that do not depend on who computes."""

import dataclasses
import pathlib
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.datasets import load_digits

from sparlow import SparLow, constants, load
from sparlow import problem as joint
from sparlow.app import main
from sparlow.app.dataset import Dataset
from sparlow.app.large import mapped
from sparlow.estimators import OnStep
from sparlow.graphs import Structure
from sparlow.labels import Labels
from sparlow.problem import begin, learn
from sparlow.rows import Local, Samples, chunks, pairwise_sum, rows_per_chunk, stores, streams
from sparlow.solvers import Solver
from sparlow.views import Bound, Patches
from tests import cases

N, M, R = 36, 9, 14
BOUNDS = np.array([0, 5, 5, 6, 20, 36])  # of unequal size, one of them empty
PATCHES = Patches(size=2, stride=1, cells=2, padding="none", shape=(3, 3))
FITTED = ("dictionary_", "projection_", "embedding_", "components_")


def in_memory(views=None, weights=(1.0, 0.0), sparse=False, dtype=float):
    X, y, D = cases.labelled(N, M, R)
    X = X.astype(dtype)
    bound = Bound() if views is None else views.bind(X)
    D = cases.unit(D[:, : bound.n_inputs(M)])
    X = sp.csr_array(X) if sparse else X
    return Samples(X, cases.priors(R)["elastic net"], bound, weights), y, D


def in_parts(samples, **options):
    store = Local(samples.X, 2, BOUNDS)
    return Samples(store, samples.prior, samples.views, samples.weights, **options)


def structures(y):
    rng = np.random.default_rng(0)
    graph = sp.random_array((N, N), density=0.2, rng=rng)
    factors = rng.standard_normal((N, 2))
    yield Structure(rng.standard_normal(N))
    yield Structure(np.zeros(N), None, factors, np.eye(2))
    yield Structure(rng.standard_normal(N), sp.csr_array(graph + graph.T), factors, np.eye(2))


@pytest.mark.parametrize(
    ("views", "weights", "sparse"),
    [(None, (1.0, 0.0), False), (None, (0.7, 0.4), False), (None, (1.0, 0.5), True), (PATCHES, (1.0, 0.0), False)],
    ids=["codes", "beside samples", "sparse", "patches"],
)
def test_algebra_is_that_of_all_samples_at_once(views, weights, sparse):
    samples, y, D = in_memory(views, weights, sparse)
    whole, cut = samples.coded(D), in_parts(samples).coded(D)
    rng = np.random.default_rng(1)
    w = whole.shape[1]
    U, E, basis = rng.standard_normal((w, 3)), rng.standard_normal((N, 2)), np.linalg.qr(rng.standard_normal((w, 4)))[0]
    assert cut.shape == whole.shape
    near = dict(rtol=1e-10, atol=1e-12)
    for name in ("mean", "squares", "used", "empty", "nonzeros", "largest"):
        np.testing.assert_allclose(getattr(cut, name), getattr(whole, name), **near)
    np.testing.assert_allclose(cut @ U, whole @ U, **near)
    np.testing.assert_allclose(cut.rmatmul(E), whole.rmatmul(E), **near)
    np.testing.assert_allclose(cut.scatter_product(U), whole.scatter_product(U), **near)
    np.testing.assert_allclose(cut.take(np.array([3, 30])) @ U, (whole @ U)[[3, 30]], **near)
    for S in structures(y):
        np.testing.assert_allclose(cut.form(S), whole.form(S), **near)
        np.testing.assert_allclose(cut.projected(basis).form(S), basis.T @ whole.form(S) @ basis, **near)
    slope = whole.pullback(E, rng.standard_normal((2, w)), 0.3)
    rng = np.random.default_rng(1)
    rng.standard_normal((w, 3)), rng.standard_normal((N, 2)), rng.standard_normal((w, 4))
    np.testing.assert_allclose(cut.pullback(E, rng.standard_normal((2, w)), 0.3), slope, **near)
    each, right = rng.uniform(0, 2, N), rng.standard_normal((2, w))
    slope = sum(  # a scale for each sample
        dataclasses.replace(samples, store=samples.X[i : i + 1]).coded(D).pullback(E[i : i + 1], right, each[i])
        for i in range(N)
    )
    for coded in (whole, cut):
        np.testing.assert_allclose(coded.pullback(E, right, each), slope, **near)
    heavier = dataclasses.replace(samples, weights=(1.0, 0.0)).coded(D)
    np.testing.assert_allclose(cut.weighted((1.0, 0.0)).mean, heavier.mean, **near)


@pytest.mark.parametrize("views", [None, PATCHES], ids=["whole", "patches"])
@pytest.mark.parametrize("method", joint.METHODS)
@pytest.mark.parametrize("name", cases.CRITERIA)
def test_gradient_over_parts_meets_central_differences(name, method, views, monkeypatch):
    monkeypatch.setattr(joint, "PROJECTION_TOL", 1e-13)
    criterion = cases.CRITERIA[name]
    samples, y, D = in_memory(views)
    y = cases.hide_labels(y) if criterion.supervision == "semi" else y
    options = {"mu_coherence": 0.3, "mu_proximity": 0.2, "anchor": cases.unit(D + 0.1), "shrinkage": 0.1}
    task, first = begin(method, in_parts(samples), criterion.bind(samples.X, y), D, 3, **options)
    task, first = task.refreshed(first)
    manifold, point = task.manifold, first.point
    gradient = manifold.gradient(point, task.gradient(first))
    noise = manifold.project(point, manifold.random_point(np.random.default_rng(1)))
    for direction in (gradient, noise):
        length = 1e-5 / manifold.norm(point, direction)
        ends = [
            task.evaluate(manifold.retract(point, manifold.combine(s * length, direction, 0, direction)))
            for s in (1, -1)
        ]
        measured = (ends[0].value - ends[1].value) / (2 * length)
        scale = manifold.norm(point, gradient) * manifold.norm(point, direction)
        assert abs(measured - manifold.inner(point, gradient, direction)) < 2e-5 * scale + 1e-8


@pytest.mark.parametrize("name", cases.CRITERIA)
def test_learning_in_parts_is_learning(name):
    """The steps are those of all samples at once, up to rounding, and to the bit for any number of threads."""
    criterion = cases.CRITERIA[name]
    samples, y, D = in_memory()
    y = cases.hide_labels(y) if criterion.supervision == "semi" else y
    quotient = criterion.bind(samples.X, y)

    def learned(samples):
        return learn(*begin("eliminate", samples, quotient, D, 3, shrinkage=0.1, mu_proximity=1.0), max_iter=3)[1]

    whole = learned(samples)
    some, others = (learned(Samples(Local(samples.X, n_jobs, BOUNDS), samples.prior)) for n_jobs in (1, 3))
    np.testing.assert_allclose(some.evaluation.value, whole.evaluation.value, rtol=1e-5)
    assert some.evaluation.value == others.evaluation.value
    np.testing.assert_array_equal(some.evaluation.dictionary, others.evaluation.dictionary)


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.7, 0.4)])
def test_a_step_of_lda_reads_the_samples_three_times(weights, monkeypatch):
    """Codes and all sums come in one pass, the embedding in a second, the gradient in a third, whatever is balanced."""
    samples, y, D = in_memory(weights=weights)
    cut = in_parts(samples)
    task, first = begin("eliminate", cut, cases.CRITERIA["lda"].bind(samples.X, y), D, 2, shrinkage=0.1)
    task, first = task.refreshed(first)
    passes = []
    each = Local.each
    monkeypatch.setattr(
        Local, "each", lambda self, task, local: passes.append(task.function) or each(self, task, local)
    )
    second = task.evaluate(cases.unit(D + 0.05), first)
    assert len(passes) == 2
    task.gradient(second)
    assert len(passes) == 3
    task, again = task.refreshed(second)
    assert len(passes) == 4  # the embedding alone
    anew = in_parts(samples).coded(second.dictionary)
    for S in (task.quotient.above, task.quotient.below):
        np.testing.assert_array_equal(again.coded.form(S), anew.form(S))
        np.testing.assert_array_equal(again.coded.rmatmul(S.factors), anew.rmatmul(S.factors))


def test_codes_that_were_lost_are_computed_again_to_the_same_bits():
    samples, _, D = in_memory(dtype=np.float32)
    rng = np.random.default_rng(0)
    U = rng.standard_normal((R, 3))
    cut = in_parts(samples)
    coded = cut.coded(cases.unit(D + 0.05 * rng.standard_normal(D.shape)), cut.coded(D))
    before = coded @ U, coded.pullback(samples.X[:, :3], U.T, 0.1)
    chunks.forget(cut.store.session.name)
    np.testing.assert_array_equal(coded @ U, before[0])
    np.testing.assert_array_equal(coded.pullback(samples.X[:, :3], U.T, 0.1), before[1])


def test_codes_are_kept_while_they_are_of_use_and_within_memory(monkeypatch):
    samples, _, D = in_memory()
    cut = in_parts(samples)
    first = cut.coded(D)
    second = cut.coded(cases.unit(D + 0.1), first)
    cache = chunks.caches[cut.store.session.name]
    assert {len(held) for held in cache.kept.values()} == {2}
    del first
    second = cut.coded(cases.unit(D + 0.2), second)
    assert {len(held) for held in cache.kept.values()} <= {1, 2}
    size = sum(chunks.bytes_of(*pair) for held in cache.kept.values() for pair in held.values())
    assert size == cache.size
    name = cut.store.session.name
    del second, cut
    assert name not in chunks.caches
    with sklearn.config_context(working_memory=0):
        tight = in_parts(samples)
        coded = tight.coded(D)
        assert chunks.caches[tight.store.session.name].size == 0
    np.testing.assert_allclose(coded @ np.eye(R), samples.coded(D) @ np.eye(R))


@pytest.mark.parametrize(("views", "weights"), [(None, (1.0, 0.0)), (None, (0.7, 0.4)), (PATCHES, (1.0, 0.0))])
def test_coding_that_was_lost_and_is_repeated_finds_the_same(views, weights):
    """Workers that are lost take results with them, while others still hold the codes of their parts."""
    samples, y, D = in_memory(views, weights)
    cut = in_parts(samples)
    first = cut.coded(D)
    for S in structures(y):
        first.form(S)  # sums that the next coding makes in the same pass
    second = cut.coded(cases.unit(D + 0.1), first)
    known, sums = second.place.counts, dict(second.place.sums)
    again = second.place.code_near(first.place)  # of codes that are kept now
    np.testing.assert_equal((again, second.place.sums), (known, sums))


def test_sums_are_pairwise_by_index():
    numbers = np.random.default_rng(0).standard_normal(11) * 10.0 ** np.arange(11)

    def halves(values):
        if len(values) == 1:
            return values[0]
        size = 2 ** int(np.ceil(np.log2(len(values))) - 1)
        return halves(values[:size]) + halves(values[size:])

    for count in range(1, 12):
        assert pairwise_sum(iter(numbers[:count])) == halves(numbers[:count])
        for group in (2, 4, 8):  # who adds up aligned groups by themselves gets the same bits
            sums = [pairwise_sum(numbers[:count][a : a + group]) for a in range(0, count, group)]
            assert pairwise_sum(sums) == halves(numbers[:count])


def test_parts_are_cut_by_features_and_memory_alone():
    assert rows_per_chunk(512) == 8192
    with sklearn.config_context(working_memory=512):
        assert rows_per_chunk(512) == 4096
    assert (rows_per_chunk(1), rows_per_chunk(10**9)) == (65536, 16)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Digits in a file, of which only the first part has the class 9, and few of it."""
    X, Y = load_digits(return_X_y=True)
    rows = np.r_[np.flatnonzero(Y == 9)[:12], np.flatnonzero(Y != 9)[:500]]
    path = tmp_path_factory.mktemp("parts") / "X.npy"
    np.save(path, X[rows].astype(np.float32))
    return np.load(path, mmap_mode="r"), Y[rows]


SMALL = 0.25  # MiB of working memory, which makes 32 parts of 16 rows of 64 features, and files of 64 KiB large


def fitted(data, y, criterion="lda", **options):
    with sklearn.config_context(working_memory=SMALL):
        assert streams(data)
        return SparLow(criterion, n_atoms=40, max_iter=2, random_state=0, **options).fit(data, y)


def assert_same(one, other):
    for name in FITTED:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize(
    ("criterion", "options"),
    [
        ("lda", {}),
        ("lda", {"early_stopping": False, "solver": "eliminate"}),
        ("pca", {}),
        ("mvr", {"early_stopping": False, "solver": "joint"}),
        ("mfa", {"early_stopping": False, "solver": "eliminate"}),
        ("lap", {"solver": Solver(mu_proximity=100.0)}),  # with the usual 3000 the second step is one of rounding
        ("lda", {"views": Patches(size=3, cells=2)}),
    ],
)
@pytest.mark.slow
def test_models_of_files_are_those_of_arrays_and_do_not_depend_on_threads(criterion, options, digits):
    data, y = digits
    one = fitted(data, y, criterion, **options)
    other = fitted(data, y, criterion, n_jobs=2, **options)
    assert_same(one, other)
    if not options and criterion == "lda":  # batches are drawn part by part
        return
    whole = SparLow(criterion, n_atoms=40, max_iter=2, random_state=0, **options).fit(np.array(data), y)
    assert one.ridges_ == whole.ridges_
    assert one.best_iter_ == whole.best_iter_
    np.testing.assert_allclose(one.dictionary_, whole.dictionary_, atol=2e-3)
    np.testing.assert_allclose(one.history_["cost"], whole.history_["cost"], rtol=2e-3)


def test_small_files_and_arrays_are_fitted_as_before(digits):
    data, y = digits
    options = {"n_atoms": 40, "max_iter": 2, "random_state": 0}
    assert not streams(data)
    assert_same(SparLow(**options).fit(data, y), SparLow(**options).fit(np.array(data), y))


def test_transform_takes_little_memory_beside_a_file_and_its_result(tmp_path):
    X, Y = load_digits(return_X_y=True)
    model = SparLow("lda", n_atoms=20, max_iter=0, random_state=0).fit(X, Y)
    np.save(tmp_path / "X.npy", np.tile(X, (20, 1)).astype(np.float32))
    data = np.load(tmp_path / "X.npy", mmap_mode="r")
    with sklearn.config_context(working_memory=48):
        assert not streams(data)  # a fit would hold it in memory
        tracemalloc.start()
        found = model.transform(data)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < found.nbytes + data.nbytes
    np.testing.assert_array_equal(found[:1797], found[-1797:])
    np.testing.assert_array_equal(found[:1797], model.transform(X.astype(np.float32)))


def test_transform_predict_and_encode_read_files_in_parts(digits):
    data, y = digits
    model = fitted(data, y)
    Z, codes = model.transform(np.array(data)), model.encode(np.array(data))
    with sklearn.config_context(working_memory=SMALL):
        np.testing.assert_allclose(model.transform(data), Z, rtol=1e-4, atol=1e-5)
        assert abs(model.encode(data) - codes).max() == 0
        assert model.transform(data).dtype == np.float32
        np.testing.assert_array_equal(model.predict(data), model.predict(np.array(data)))


@pytest.mark.parametrize("library", ["h5py", "zarr"])
def test_arrays_of_zarr_and_hdf5_are_read_in_parts(library, digits, tmp_path):
    data, y = digits
    module = pytest.importorskip(library)
    if library == "h5py":
        rows = module.File(tmp_path / "X.h5", "w").create_dataset("X", data=np.array(data), chunks=(100, 64))
    else:
        rows = module.create_array(str(tmp_path / "X.zarr"), shape=data.shape, chunks=(100, 64), dtype="f4")
        rows[:] = np.array(data)
    options = {"early_stopping": False, "embedding": "orthonormal"}
    model = fitted(rows, y, **options)
    assert_same(model, fitted(data, y, **options))
    with sklearn.config_context(working_memory=SMALL):
        np.testing.assert_array_equal(model.transform(rows), model.transform(data))


def test_sparse_rows_in_parts(digits):
    data, y = digits
    rows = sp.csr_array(np.array(data))
    with sklearn.config_context(working_memory=SMALL):
        one, other = (SparLow(n_atoms=40, max_iter=1, random_state=0, n_jobs=j).fit(rows, y) for j in (1, 2))
        assert_same(one, other)
        np.testing.assert_allclose(one.transform(rows), one.embedding_, rtol=1e-3, atol=1e-4)


def test_tables_in_parts_are_scaled_by_what_was_drawn(monkeypatch):
    """Of a table, whose rows may differ in norm by class, the labels looked at are those of the samples drawn."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 300)
    table = rng.standard_normal((600, 5)) + 1
    table[y == 1] *= 4
    monkeypatch.setattr(stores, "DRAWN", 200)
    with sklearn.config_context(working_memory=0.01):
        assert streams(table)
        model = SparLow(n_atoms=20, max_iter=0, random_state=0).fit(table, y)
    assert model.column_means_ is not None  # as for all of them
    assert SparLow(n_atoms=20, max_iter=0, random_state=0).fit(table, y).column_means_ is not None


def test_errors_of_rows_in_parts(digits):
    data, y = digits
    damaged = np.array(data)
    damaged[300, 5] = np.nan
    with sklearn.config_context(working_memory=SMALL / 8):
        with pytest.raises(ValueError, match="NaN"):
            SparLow(n_atoms=40, max_iter=1, random_state=0).fit(damaged, y)
        with pytest.raises(ValueError, match="inconsistent"):
            SparLow(n_atoms=40).fit(np.array(data), y[:-1])


def test_neighbours_are_searched_in_a_projection_where_samples_are_too_many(digits):
    data, _ = digits
    with sklearn.config_context(working_memory=SMALL / 4):
        some = Samples(Local(data), cases.priors(R)["elastic net"]).for_neighbours()
        assert some.shape == (len(data), 32)
    exact = np.argsort(((data[:, None] - np.array(data)[None, :200]) ** 2).sum(axis=-1), axis=1)[:, :5]
    found = np.argsort(((some[:, None] - some[None, :200]) ** 2).sum(axis=-1), axis=1)[:, :5]
    assert np.mean([len({*a} & {*b}) / 5 for a, b in zip(exact, found, strict=True)]) > 0.95


class Killed(BaseException):
    """What ends a fit at once."""


def kill_at(step):
    def follow(row, model):
        if row["step_number"] == step:
            raise Killed

    return OnStep(follow)


@pytest.mark.parametrize(
    ("criterion", "options", "stream"),
    [
        ("lda", {"early_stopping": False}, True),
        ("lda", {"early_stopping": False}, False),
        ("lda", {}, True),
        ("mfa", {"early_stopping": False, "solver": "joint"}, False),
        ("sda", {"early_stopping": False}, False),
        ("pca", {}, False),
    ],
)
@pytest.mark.slow
def test_a_fit_that_was_ended_goes_on_to_the_same_bits(criterion, options, stream, digits, tmp_path):
    data, y = digits
    y = np.where(np.arange(len(y)) % 3 == 1, -1, y) if criterion == "sda" else y
    method = options.get("solver", "eliminate")

    def fit(checkpoint=None, ended=None, max_iter=4):
        solver = Solver(method, checkpoint=checkpoint)
        model = SparLow(criterion, n_atoms=30, max_iter=max_iter, random_state=0, **{**options, "solver": solver})
        model.set_callbacks(*([] if ended is None else [kill_at(ended)]))
        with sklearn.config_context(working_memory=SMALL if stream else 1024):
            return model.fit(data, y)

    whole = fit()
    path = tmp_path / "fit.npz"
    for ended in (2, 4):
        if whole.n_iter_ >= ended and "early_stopping" in options:
            with pytest.raises(Killed):
                fit(path, ended)
            assert path.exists()
    again = fit(path)
    assert_same(again, whole)
    np.testing.assert_array_equal(again.history_["cost"], whole.history_["cost"])
    assert again.stop_reason_ == whole.stop_reason_
    assert_same(fit(path), whole)  # a fit that ended by itself


def test_checkpoints_of_another_fit_are_refused(digits, tmp_path):
    data, y = digits
    path = tmp_path / "fit.npz"

    def fit(data, y, criterion="lda", **options):
        options |= {"n_atoms": 30, "max_iter": 1, "random_state": 0, "early_stopping": False}
        return SparLow(criterion, solver=Solver(checkpoint=path), **options).fit(data, y)

    fit(data, y, "pca")
    with pytest.raises(ValueError, match="another fit: the settings differ"):
        fit(data, y, "pca", embedding="orthonormal")  # codes alone
    path.unlink()
    fit(data, y)
    with pytest.raises(ValueError, match="another fit: the settings differ"):
        fit(data, y, n_components=3)
    with pytest.raises(ValueError, match="another fit: the labels differ"):
        fit(data, np.roll(y, 1))
    with pytest.raises(ValueError, match="another fit: the samples and the labels"):
        fit(data[1:], y[1:])
    with sklearn.config_context(working_memory=SMALL), pytest.raises(ValueError, match="the samples differ"):
        fit(data, y)  # in parts, whose sums have other bits
    path.write_bytes(b"other")
    with pytest.raises(ValueError, match="no checkpoint"):
        fit(data, y)
    path = tmp_path / "nowhere" / "fit.npz"
    with pytest.raises(ValueError, match=r"folder of the checkpoint .* is not there"):
        fit(data, y)


def test_drawn_rows_hold_some_of_each_class():
    y = np.zeros(50_000, int)
    y[[7, 20_000, 49_999]] = 1
    rows = stores.drawn_rows(len(y), 784, Labels(y, np.arange(2)), 0)
    assert {7, 20_000, 49_999} <= set(rows.tolist())
    assert len(rows) <= constants.DRAWN + 3
    np.testing.assert_array_equal(rows, stores.drawn_rows(len(y), 784, Labels(y, np.arange(2)), 0))


@pytest.mark.slow
def test_commands_read_and_write_large_files_in_parts(digits, tmp_path, monkeypatch, capsys):
    data, y = digits
    monkeypatch.chdir(tmp_path)
    large = np.tile(np.array(data), (20, 1))  # 2.6 MB: large beside 2 MB of memory
    np.save("X.npy", large)
    np.save("y.npy", np.tile(y, 20))
    options = ["--set", "n_atoms=30", "max_iter=1", "early_stopping=False", "--jobs", "1"]
    read = []
    monkeypatch.setattr(Local, "take", lambda self, rows: read.append(len(rows)) or np.array(self.rows[rows]))
    fit = ["fit", "X.npy", "--labels", "y.npy", "--memory", "2MB", "--set", "checkpoint=c.npz", "-o", "m.sparlow"]
    assert main([*fit, *options]) == 0
    assert read
    assert pathlib.Path("c.npz").exists()
    assert main(["transform", "m.sparlow", "X.npy", "--memory", "2MB", "-o", "Z.npy"]) == 0
    said = capsys.readouterr().out
    assert "10240 samples" in said
    held = load("m.sparlow")
    np.testing.assert_allclose(np.load("Z.npy"), held.transform(large), atol=1e-4)
    assert held.solver.checkpoint is None
    np.save("bytes.npy", large.astype(np.uint8))
    assert main(["fit", "bytes.npy", "--labels", "y.npy", "--memory", "2MB", "-o", "b.sparlow", *options]) == 0
    assert main(["transform", "b.sparlow", "bytes.npy", "--memory", "2MB", "-o", "B.npy"]) == 0
    np.testing.assert_allclose(np.load("B.npy"), load("b.sparlow").transform(large.astype(np.uint8)), atol=1e-4)
    assert main(["fit", "y.npy", "--memory", "2MB", "-o", "n.sparlow"]) != 0
    assert main(["fit", "X.csv", "--memory", "2MB", "-o", "n.sparlow"]) != 0
    assert main(["fit", "X.npy", "--memory", "much", "-o", "n.sparlow"]) != 0


def test_digests_of_a_large_file_are_made_part_by_part(tmp_path, monkeypatch):
    """They are those of the same samples in memory, and no page of the file is left behind."""
    X = np.random.default_rng(0).standard_normal((900, 40)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    read, plain = [], Local.read
    monkeypatch.setattr(Local, "read", lambda self, rows: read.append(rows) or plain(self, rows))
    with sklearn.config_context(working_memory=1):
        held = mapped(str(tmp_path / "X.npy"))
        in_file = held.fingerprint, held.marks
        assert read == 2 * Local(held.X).slices
    assert len(read) > 2
    alone = Dataset(X)
    assert in_file[0] == alone.fingerprint
    np.testing.assert_array_equal(in_file[1], alone.marks)
    assert len(set(in_file[1].tolist())) == len(X)
