"""Rows on other machines: models have the bits of one process over the same parts, whatever happens to the workers."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import clone
from sklearn.datasets import load_digits

from sparlow import SparLow
from sparlow.estimators import OnStep
from sparlow.solvers import Solver
from sparlow.views import Patches
from tests import cases

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

from sparlow import distributed as ours  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")
FITTED = ("dictionary_", "projection_", "embedding_", "components_")
CHUNKS = (100, 0, 3, 97, 120)  # of unequal size, one of them empty
OPTIONS = {"n_atoms": 30, "max_iter": 2, "random_state": 0, "early_stopping": False, "embedding": "orthonormal"}


def digits():
    X, y = load_digits(return_X_y=True)
    rows = np.r_[np.flatnonzero(y == 9)[:20], np.flatnonzero(y != 9)[:300]]  # only one part has the class 9
    return X[rows].astype(np.float32), y[rows]


X, Y = digits()
DX, DY = da.from_array(X, chunks=(CHUNKS, (64,))), da.from_array(Y, chunks=50)


def assert_same(one, other):
    for name in FITTED:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.fixture(scope="module")
def alone():
    """The model of one process over the same parts; there is no client yet."""
    return SparLow("lda", **OPTIONS).fit(DX, DY)


@pytest.fixture(scope="module")
def cluster(alone):
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        yield cluster


def pids(cluster):
    """Return the workers that answer; one that was killed before may still be listed."""
    return list(distributed.default_client().run(os.getpid, on_error="ignore").values())


def fitted_while(happens):
    """Return a model; ``happens()`` is called while its second step is computed."""
    threads = []

    def follow(row, model):
        if not threads:
            threads.append(threading.Timer(0.2, happens))
            threads[0].start()

    model = SparLow("lda", **OPTIONS).set_callbacks(OnStep(follow)).fit(DX, DY)
    threads[0].join()
    return model


@pytest.mark.slow
def test_one_two_and_three_workers_give_the_same_bits(alone, cluster):
    for count in (1, 2, 3):
        cluster.scale(count)
        distributed.default_client().wait_for_workers(count, timeout=60)
        assert_same(SparLow("lda", **OPTIONS).fit(DX, DY), alone)


@pytest.mark.parametrize(("count", "workers", "size"), [(15, 2, 4), (245, 2, 64), (245, 3, 16), (32, 3, 4), (2, 3, 1)])
def test_few_tasks_that_are_shared_evenly(count, workers, size):
    assert ours.group_size(count, workers, workers) == size


@pytest.mark.slow
def test_what_tasks_share_goes_with_them_where_it_is_small(alone, cluster, monkeypatch):
    """Data that are small go with the tasks. Large ones are sent before, with the same bits."""
    client = distributed.default_client()
    sent, scatter = [], client.scatter
    monkeypatch.setattr(client, "scatter", lambda data, **options: (sent.append(data), scatter(data, **options))[1])
    SparLow("lda", **OPTIONS).fit(DX, DY)
    assert not any(isinstance(data, bytes) for data in sent)
    monkeypatch.setattr(ours, "LIGHT", 0)
    assert_same(SparLow("lda", **OPTIONS).fit(DX, DY), alone)
    assert any(isinstance(data, bytes) for data in sent)


@pytest.mark.slow
def test_a_worker_killed_in_mid_step_changes_nothing(alone, cluster):
    victims = pids(cluster)
    assert_same(fitted_while(lambda: os.kill(victims[0], signal.SIGKILL)), alone)


@pytest.mark.slow
def test_all_workers_gone_and_back_change_nothing(alone, cluster):
    def kill():
        for victim in victims:
            os.kill(victim, signal.SIGKILL)

    victims = pids(cluster)
    assert_same(fitted_while(kill), alone)


@pytest.mark.slow
def test_a_worker_that_joins_changes_nothing(alone, cluster):
    cluster.scale(1)
    assert_same(fitted_while(lambda: cluster.scale(2)), alone)


@pytest.mark.slow
def test_transform_and_predict_give_dask_arrays(alone, cluster):
    Z = alone.transform(DX)
    assert isinstance(Z, da.Array)
    assert Z.chunks[0] == DX.chunks[0]
    np.testing.assert_allclose(Z.compute(), alone.embedding_, atol=1e-4)
    np.testing.assert_array_equal(alone.predict(DX).compute(), alone.predict(X))
    np.testing.assert_allclose(alone.predict_proba(DX).compute(), alone.predict_proba(X), atol=1e-6)
    assert alone.score(DX, DY) == alone.score(X, Y)
    codes = alone.encode(DX).blocks[0].compute()
    assert abs(codes - alone.encode(X[:100])).max() == 0


@pytest.mark.slow
def test_rows_of_files_graphs_and_sparse_blocks(cluster, tmp_path):
    np.save(tmp_path / "X.npy", X)
    rows = ours.from_npy(tmp_path / "X.npy")
    options = {**OPTIONS, "max_iter": 1}
    there = SparLow("mfa", **options).fit(rows, Y)
    blocks = DX.map_blocks(sp.csr_array, dtype=X.dtype)
    sparse = SparLow("lda", **options).fit(blocks, Y)
    damaged = X.copy()
    damaged[150, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        SparLow("lda", dictionary=there.dictionary_, **{**options, "n_atoms": None}).fit(
            da.from_array(damaged, chunks=(100, 64)), Y
        )
    with as_if_alone():
        assert_same(SparLow("mfa", **options).fit(rows, Y), there)
        assert_same(SparLow("lda", **options).fit(blocks, Y), sparse)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*cases.CRITERIA, "patches"])
def test_all_criteria_and_patches_have_the_bits_of_one_process(cluster, name):
    options = {**OPTIONS, "max_iter": 1, "n_atoms": 24, "n_components": 2}
    model = SparLow("lda" if name == "patches" else cases.CRITERIA[name], **options)
    if name == "patches":
        model.set_params(views=Patches(size=3, cells=2), early_stopping=True, embedding="auto")
    y = cases.hide_labels(Y) if name in ("sda", "slap", "smvr") else Y
    there = model.fit(DX, y)
    with as_if_alone():
        assert_same(clone(model).fit(DX, y), there)


def test_rows_of_a_file_can_be_cut(tmp_path):
    for order in "CF":
        np.save(tmp_path / "x.npy", np.asarray(X, order=order))
        rows = ours.from_npy(tmp_path / "x.npy")
        for cut in (slice(None, None, 2), slice(30, 200), slice(300, 10, -3), slice(5, 5), 7, [3, 300, 8]):
            np.testing.assert_array_equal(rows[cut].compute(), X[cut])
        np.testing.assert_array_equal(rows[10:50, 3:9].compute(), X[10:50, 3:9])


@pytest.mark.parametrize("criterion", ["lda", "mfa", "mvr", "sda", "slap", "smvr", "pca", "lap", "lle"])
def test_patches_with_more_features_than_samples(criterion):
    options = {"n_atoms": 20, "max_iter": 0, "random_state": 0, "early_stopping": False, "views": Patches()}
    parts = SparLow(criterion, **options).fit(DX, DY)
    whole = SparLow(criterion, **options).fit(X, Y)
    assert parts.projection_.shape[0] > len(X)
    ours, theirs = np.abs(parts.transform(X)), np.abs(whole.transform(X))
    np.testing.assert_allclose(ours, theirs, atol=0.02 * theirs.max())


def test_codes_and_masked_labels(alone):
    codes = alone.encode(DX)
    assert (codes.shape, codes.chunks[1]) == ((len(X), 30), (30,))
    assert abs(sp.vstack([codes.blocks[i].compute() for i in (0, 2, 3, 4)]) - alone.encode(X)).max() < 1e-6
    with pytest.raises(ValueError, match="no samples or no features"):
        SparLow("lda", **OPTIONS).fit(da.zeros((320, 0)), DY)
    masked = np.ma.masked_array(Y, mask=Y == 3)
    with pytest.raises(ValueError, match="masked"):
        SparLow("lda", **OPTIONS).fit(DX, da.from_array(masked, chunks=50))


def test_parquet_files_are_read_by_row_groups(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    codes = arrow.FixedSizeListArray.from_arrays(arrow.array(X[:, 1:].ravel()), 63)
    table = arrow.table({"a": X[:, 0], "rest": codes, "y": Y.astype(np.int32), "name": ["x"] * len(X)})
    (tmp_path / "many").mkdir()
    parquet.write_table(table[:200], tmp_path / "many" / "a.parquet", row_group_size=60)
    parquet.write_table(table[200:], tmp_path / "many" / "b.parquet", row_group_size=1000)
    rows = ours.from_parquet(tmp_path / "many", ["a", "rest"])
    assert rows.chunks[0] == (60, 60, 60, 20, 120)
    np.testing.assert_array_equal(rows.compute(), X)
    assert ours.from_parquet(tmp_path / "many").shape == (320, 65)
    labels = ours.from_parquet(tmp_path / "many" / "a.parquet", ["y"])[:, 0]
    np.testing.assert_array_equal(labels.compute(), Y[:200])
    same = SparLow("lda", **OPTIONS).fit(da.from_array(X, chunks=(rows.chunks[0], 64)), Y)
    assert_same(SparLow("lda", **OPTIONS).fit(rows, Y), same)
    for cut in (slice(None, 100), slice(70, 290), slice(None, None, 7), slice(300, 10, -3), slice(5, 5), 190):
        np.testing.assert_array_equal(rows[cut].compute(), X[cut])
    np.testing.assert_array_equal(rows[50:210, ::3].compute(), X[50:210, ::3])
    parquet.write_table(table[:0], tmp_path / "many" / "0.parquet")  # a file without rows
    np.testing.assert_array_equal(ours.from_parquet(tmp_path / "many", ["a", "rest"]).compute(), X)
    with pytest.raises(ValueError, match="has no rows"):
        ours.from_parquet(tmp_path / "many" / "0.parquet")
    (tmp_path / "mixed").mkdir()  # whole numbers, then others
    parquet.write_table(arrow.table({"x": [1, 2]}), tmp_path / "mixed" / "a.parquet")
    parquet.write_table(arrow.table({"x": [1.75, 2.5]}), tmp_path / "mixed" / "b.parquet")
    np.testing.assert_array_equal(ours.from_parquet(tmp_path / "mixed").compute().ravel(), [1, 2, 1.75, 2.5])
    parquet.write_table(arrow.table({"z": [1.75]}), tmp_path / "mixed" / "c.parquet")
    with pytest.raises(ValueError, match=r"c.parquet has no column of numbers named 'x'"):
        ours.from_parquet(tmp_path / "mixed")
    words = arrow.table({"kind": arrow.array(["a", "b"]).dictionary_encode(), "x": [1.0, 2.0]})
    parquet.write_table(words, tmp_path / "many" / "kinds")
    assert ours.from_parquet(tmp_path / "many" / "kinds").shape == (2, 1)
    with pytest.raises(ValueError, match="no column of numbers named 'name'"):
        ours.from_parquet(tmp_path / "many", ["name"])
    with pytest.raises(ValueError, match="no files"):
        ours.from_parquet(tmp_path)
    parquet.write_table(arrow.table({"a": [1.0, None]}), tmp_path / "gaps.parquet")
    with pytest.raises(ValueError, match="gaps"):
        ours.from_parquet(tmp_path / "gaps.parquet")


def test_results_go_to_a_file_block_by_block(alone, tmp_path):
    np.save(tmp_path / "X.npy", X)
    out = np.lib.format.open_memmap(tmp_path / "Z.npy", "w+", np.float32, (len(X), alone.n_components_))
    da.store(alone.transform(ours.from_npy(tmp_path / "X.npy")), out, scheduler="threads")
    np.testing.assert_allclose(np.load(tmp_path / "Z.npy"), alone.transform(X), atol=1e-5)
    damaged = tmp_path / "short.npy"
    damaged.write_bytes((tmp_path / "X.npy").read_bytes())
    rows = ours.from_npy(damaged)
    damaged.write_bytes(damaged.read_bytes()[:-1000])
    with pytest.raises(ValueError, match="ends before row"):
        rows.compute(scheduler="threads")


class as_if_alone:  # noqa: N801
    """No client is there within."""

    def __enter__(self):
        self.client = distributed.default_client()
        distributed.client._set_global_client(None)

    def __exit__(self, *error):
        distributed.client._set_global_client(self.client)


@pytest.mark.slow
def test_a_cluster_without_workers_is_given_up_in_time(alone):
    import dask

    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        dask.config.set({"sparlow.timeout": "1s", "distributed.comm.timeouts.connect": "2s"}),
    ):
        began = time.monotonic()
        with pytest.raises(ours.ClusterLostError, match="call fit again"):
            ours.Cluster(DX, client).take(np.arange(3))
        assert time.monotonic() - began < 60


class Apart:
    """A scheduler and a worker that are processes of their own."""

    def __init__(self, folder):
        self.file, self.running = folder / "scheduler.json", []
        self.start("dask_scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard")
        while not self.file.exists():
            time.sleep(0.1)
        self.start("dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard")

    def start(self, command, *words):
        words = [sys.executable, "-m", f"distributed.cli.{command}", "--scheduler-file", str(self.file), *words]
        self.running.append(subprocess.Popen(words, stderr=subprocess.DEVNULL))

    def end(self):
        for process in self.running:
            process.kill()
            process.wait()


@pytest.fixture
def apart(alone, tmp_path):
    processes = Apart(tmp_path)
    yield processes
    processes.end()


KILLED_DRIVER = """
import os, signal, sys
from distributed import Client
from sparlow import SparLow
from sparlow.estimators import OnStep
from sparlow.solvers import Solver
from sparlow.views import Patches
from tests import cases
from sparlow.solvers import Solver
from tests.test_distributed import DX, DY, OPTIONS

def follow(row, model):
    if row["step_number"] == 2:
        os.kill(os.getpid(), signal.SIGKILL)

client = Client(scheduler_file=sys.argv[1], timeout=60)
SparLow("lda", **OPTIONS, solver=Solver(checkpoint=sys.argv[2])).set_callbacks(OnStep(follow)).fit(DX, DY)
"""


@pytest.mark.slow
def test_a_killed_driver_and_a_lost_scheduler_leave_a_checkpoint_to_go_on_from(alone, apart, tmp_path):
    import dask

    path = tmp_path / "fit.npz"
    solver = Solver(checkpoint=path)
    words = [sys.executable, "-c", KILLED_DRIVER, str(apart.file), str(path)]
    assert subprocess.run(words, cwd=cases.ROOT).returncode == -signal.SIGKILL
    assert path.exists()
    with distributed.Client(scheduler_file=str(apart.file), timeout=60):
        assert_same(SparLow("lda", **OPTIONS, solver=solver).fit(DX, DY), alone)
    path.unlink()

    def lose(row, model):
        if row["step_number"] == 1:
            apart.running[0].kill()

    quickly = {"sparlow.timeout": "2s", "distributed.comm.timeouts.connect": "5s"}
    with dask.config.set(quickly), distributed.Client(scheduler_file=str(apart.file)):
        began = time.monotonic()
        with pytest.raises(ours.ClusterLostError, match="call fit again"):
            SparLow("lda", **OPTIONS, solver=solver).set_callbacks(OnStep(lose)).fit(DX, DY)
        assert time.monotonic() - began < 120
    assert path.exists()
    assert_same(SparLow("lda", **OPTIONS, solver=solver).fit(DX, DY), alone)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (DX[DX[:, 20] > 3], "compute_chunk_sizes"),
        (DX[:, 0], "two dimensions"),
        (DX.astype(str), "real numbers"),
    ],
)
def test_arrays_that_will_not_do(wrong, said):
    with pytest.raises(ValueError, match=said):
        SparLow().fit(wrong, DY)


def test_chunks_split_along_features_and_large_ones_are_rechunked(alone):
    split = da.from_array(X, chunks=(CHUNKS, (32, 32)))
    assert ours.checked(split).chunks == DX.chunks
    large = da.zeros((200_000, 512), chunks=(100_000, 512))
    assert max(ours.checked(large).chunks[0]) == 8192
    with pytest.raises(ValueError, match="inconsistent"):
        SparLow().fit(DX, DY[:-1])
