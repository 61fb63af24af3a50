"""Growth with the number of samples: seconds, memory, the price of Dask, and what lost workers change.

Samples are MNIST's images, moved, turned and scaled by a seeded generator, in float32 in a file. Each measurement runs
in a process of its own and leaves a row. Time is CPU time, over all processes, so that other programs on the machine
count little; memory is the peak of the resident set of each process.

    python benchmarks/scale.py grow --sizes 60000 250000 1000000 --mnist mnist.npz
    python benchmarks/scale.py plain --sizes 60000 --mnist mnist.npz       # one process over the same parts
    python benchmarks/scale.py file                                        # 200 000 x 512 in a file, lda
    python benchmarks/scale.py command                                     # the same with --memory 2GB
    python benchmarks/scale.py graph                                       # the first step of mfa against that of lda
    python benchmarks/scale.py stream --mnist mnist.npz --seed 0           # partial_fit against fit
    python benchmarks/scale.py soak --minutes 10                           # workers killed at random

Rows are added to ``benchmarks/results/scale.json``; a row of the same measurement is replaced.
"""

import argparse
import json
import os
import pathlib
import platform
import resource
import subprocess
import sys
import threading
import time

import numpy as np

RESULTS = pathlib.Path(__file__).parent / "results" / "scale.json"
SEED, CHUNK = 0, 10_000
SETTINGS = {"n_atoms": 500, "random_state": 0, "early_stopping": False}


# ── samples ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def mnist(path, part="train"):
    data = np.load(path)
    return (data[f"X_{part}"].reshape(-1, 784) / np.float32(255)).astype(np.float32), data[f"y_{part}"].astype(int)


def deformed(images, rng):
    """Return images turned by up to 15 degrees, scaled by up to 15 % and moved by up to 2 pixels, bilinear."""
    n = len(images)
    turn, size = rng.uniform(-0.26, 0.26, n), rng.uniform(0.85, 1.15, n)
    move = rng.uniform(-2, 2, (n, 2))
    grid = np.mgrid[:28, :28].reshape(2, -1) - 13.5
    c, s = np.cos(turn) / size, np.sin(turn) / size
    down = (c[:, None] * grid[0] - s[:, None] * grid[1] + 13.5 - move[:, :1]).astype(np.float32)
    right = (s[:, None] * grid[0] + c[:, None] * grid[1] + 13.5 - move[:, 1:]).astype(np.float32)
    top, left = np.floor(down).astype(np.int32), np.floor(right).astype(np.int32)
    a, b = down - top, right - left
    padded = np.pad(images.reshape(n, 28, 28), ((0, 0), (8, 9), (8, 9))).reshape(n, -1)
    place = (np.clip(top, -8, 35) + 8) * 45 + np.clip(left, -8, 35) + 8
    rows = np.arange(n)[:, None]
    corner = [padded[rows, place + offset] for offset in (0, 1, 45, 46)]
    return (1 - a) * ((1 - b) * corner[0] + b * corner[1]) + a * ((1 - b) * corner[2] + b * corner[3])


def made(n, path, folder):
    """Return the files of n deformed images and their labels; the first 60 000 are MNIST's as they are."""
    X_path, y_path = folder / f"mnist_{n}.npy", folder / f"mnist_{n}_y.npy"
    if not y_path.exists():
        images, labels = mnist(path)
        rng = np.random.default_rng(SEED)
        out = np.lib.format.open_memmap(X_path, "w+", np.float32, (n, 784))
        y = np.empty(n, int)
        for first in range(0, n, CHUNK):
            rows = np.arange(first, min(first + CHUNK, n)) % len(images)
            plain = first + len(rows) <= len(images)
            out[first : first + len(rows)] = images[rows] if plain else deformed(images[rows], rng)
            y[first : first + len(rows)] = labels[rows]
        out.flush()
        np.save(y_path, y)
    return X_path, y_path


def features(folder, n=200_000, m=512, n_classes=50):
    """Return the files of features of 50 classes that overlap, and of their labels."""
    X_path, y_path = folder / f"features_{n}.npy", folder / f"features_{n}_y.npy"
    if not y_path.exists():
        rng = np.random.default_rng(SEED)
        means, mixed = rng.standard_normal((n_classes, m)), rng.standard_normal((64, m))
        y = rng.integers(0, n_classes, n)
        out = np.lib.format.open_memmap(X_path, "w+", np.float32, (n, m))
        for first in range(0, n, CHUNK):
            rows = slice(first, min(first + CHUNK, n))
            size = rows.stop - first
            noise = 0.3 * rng.standard_normal((size, 64)) @ mixed + 0.5 * rng.standard_normal((size, m))
            out[rows] = 0.6 * means[y[rows]] + noise
        out.flush()
        np.save(y_path, y)
    return X_path, y_path


# ── measuring ───────────────────────────────────────────────────────────────────────────────────────────────────────


def status(pid, field):
    """Return a field of a process in gigabytes, 0 once it has ended."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1e6 for line in lines if line.startswith(field)), 0.0)


def cpu(pids):
    """Return the CPU seconds of processes."""
    total = 0.0
    for pid in pids:
        try:
            words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return total


class Steps:
    """Seconds of each step, wall and CPU over some processes: a callback that does not ask for the model."""

    def __init__(self, pids):
        self.pids, self.marks = pids, [(time.time(), cpu(pids))]

    def setup(self, estimator, context):
        """Do nothing; part of the protocol."""

    teardown = on_fit_task_begin = setup

    def on_fit_task_end(self, estimator, context):
        """Note a step, or the end."""
        self.marks.append((time.time(), cpu(self.pids)))

    def of_each(self):
        """Return wall and CPU seconds of each step but the first, which has the start in it; the last mark ends all."""
        marks = np.array(self.marks[:-1])
        return np.diff(marks[:, 0])[1:], np.diff(marks[:, 1])[1:]


def described(model, steps, n, **more):
    wall, processor = steps.of_each()
    evaluations = model.history_["evaluations"][2:]
    return {
        **more,
        "n": n,
        "n_steps": model.n_iter_,
        "wall_per_step": float(np.mean(wall)),
        "cpu_per_step": float(np.mean(processor)),
        "evaluations_per_step": float(np.mean(evaluations)),
        "cpu_per_evaluation": float(processor.sum() / evaluations.sum()),
        "cpu_per_sample_and_evaluation": float(processor.sum() / evaluations.sum() / n),
        "nonzeros": float(model.history_["nonzeros"][-1]),
    }


def fitted(X, y, pids, criterion="lda", max_iter=3, **options):
    from sparlow import SparLow

    steps = Steps(pids)
    model = SparLow(criterion, max_iter=max_iter, **{**SETTINGS, **options}).set_callbacks(steps)
    began = time.time(), cpu(pids)
    model.fit(X, y)
    return model, steps, time.time() - began[0], cpu(pids) - began[1]


def atoms(arguments):
    """Return the first dictionary where one is given, which saves learning it."""
    return {} if arguments.dictionary is None else {"dictionary": np.load(arguments.dictionary), "n_atoms": None}


def grow(arguments, n):
    """Fit with two workers of one thread."""
    from distributed import Client, LocalCluster

    from sparlow.distributed import from_npy

    X_path, y_path = made(n, arguments.mnist, arguments.folder)
    options = {"n_workers": arguments.workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        workers = list(client.run(os.getpid).values())
        pids = [os.getpid(), *workers]
        before, began = cpu(pids), time.time()
        time.sleep(10)
        idle = (cpu(pids) - before) / (time.time() - began)  # what a cluster takes that does nothing
        X = from_npy(X_path)
        model, steps, wall, processor = fitted(X, np.load(y_path), pids, max_iter=arguments.steps, **atoms(arguments))
        peaks = [status(pid, "VmHWM") for pid in pids]
        row = described(model, steps, n, what="grow", workers=arguments.workers)
    test = mnist(arguments.mnist, "test")
    return {
        **row,
        "wall": wall,
        "cpu": processor,
        "idle_cpu_per_second": idle,
        "parts": len(X.chunks[0]),
        "peak_driver_gb": peaks[0],
        "peak_workers_gb": peaks[1:],
        "accuracy": model.score(*test),
    }


def plain(arguments, n):
    """Fit in one process over the same parts, on its threads."""
    from sparlow.distributed import from_npy

    X_path, y_path = made(n, arguments.mnist, arguments.folder)
    X, y, pids = from_npy(X_path), np.load(y_path), [os.getpid()]
    model, steps, wall, processor = fitted(X, y, pids, max_iter=arguments.steps, **atoms(arguments))
    row = described(model, steps, n, what="plain", workers=0)
    accuracy = model.score(*mnist(arguments.mnist, "test"))
    return {**row, "wall": wall, "cpu": processor, "peak_driver_gb": status(os.getpid(), "VmHWM"), "accuracy": accuracy}


def file(arguments, n):
    """Fit a file of 200 000 x 512."""
    X_path, y_path = features(arguments.folder)
    X, y = np.load(X_path, mmap_mode="r"), np.load(y_path)
    model, steps, wall, processor = fitted(X, y, [os.getpid()], max_iter=2)
    row = described(model, steps, len(X), what="file")
    return {**row, "wall": wall, "cpu": processor, "peak_gb": status(os.getpid(), "VmHWM")}


def command(arguments, n):
    """Fit the same file by the command line with --memory 2GB."""
    X_path, y_path = features(arguments.folder)
    model = arguments.folder / "features.sparlow"
    words = ["-m", "sparlow.app", "fit", X_path, "--labels", y_path, "--memory", "2GB", "-o", model]
    settings = ["--set", "n_atoms=500", "max_iter=2", "early_stopping=False", "--jobs", "1"]
    subprocess.run([sys.executable, *map(str, words), *settings], check=True, stdout=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"what": "command", "n": 200_000, "cpu": used.ru_utime + used.ru_stime, "peak_gb": used.ru_maxrss / 1e6}


def graph(arguments, n):
    """Fit one step of mfa and of lda on n x 512, in memory."""
    X_path, y_path = features(arguments.folder)
    X, y = np.array(np.load(X_path, mmap_mode="r")[:n]), np.load(y_path)[:n]
    rows = {}
    D = fitted(X[:5000], y[:5000], [os.getpid()], max_iter=0)[0].dictionary_
    for criterion in ("lda", "mfa"):
        options = {"dictionary": D, "n_atoms": None, "embedding": "orthonormal"}
        _, _, wall, processor = fitted(X, y, [os.getpid()], criterion, 1, **options)
        rows[f"{criterion}_cpu"], rows[f"{criterion}_wall"] = processor, wall
    return {"what": "graph", "n": len(X), **rows, "ratio": rows["mfa_cpu"] / rows["lda_cpu"]}


def stream(arguments, n):
    """Learn from MNIST by fit, and by partial_fit of 2000 images at a time, in one order."""
    from sparlow import SparLow

    X, y = mnist(arguments.mnist)
    order = np.random.default_rng(arguments.seed).permutation(len(X))
    X, y, test = X[order], y[order], mnist(arguments.mnist, "test")
    row = {"what": "stream", "n": len(X), "seed": arguments.seed}
    for name in ("fit", "partial_fit"):
        began = time.process_time()
        model = SparLow(n_atoms=500, random_state=arguments.seed)
        if name == "partial_fit":
            for rows in np.split(np.arange(len(X)), range(2000, len(X), 2000)):
                model.partial_fit(X[rows], y[rows], classes=np.arange(10))
        else:
            model.fit(X, y)
            row["fit_steps"] = model.best_iter_
        row |= {f"{name}_cpu": time.process_time() - began, f"{name}_accuracy": model.score(*test)}
    return row


def soak(arguments, n):
    """Fit again and again while workers are killed at random, and count models with other bits."""
    import dask
    from distributed import Client, LocalCluster
    from distributed.chaos import KillWorker
    from sklearn.datasets import load_digits

    from sparlow import SparLow
    from sparlow.distributed import da

    X, y = load_digits(return_X_y=True)
    rows = da.from_array(X.astype(np.float32), chunks=(300, 64))
    settings = {"n_atoms": 60, "max_iter": 2, "random_state": 0, "early_stopping": False}
    truth = SparLow(**settings).fit(rows, y)
    lost, differences = [], 0  # workers that died during each fit; fits with other bits
    dask.config.set({"distributed.comm.timeouts.connect": "3s"})  # a worker on this machine answers sooner or is dead
    with LocalCluster(n_workers=0, dashboard_address=None) as cluster, Client(cluster) as client:
        # each dies at a random time after it has come, and another takes its place: a nanny of Dask may give up to
        client.register_plugin(KillWorker(delay=f"{arguments.delay}s", mode="segfault"))
        words = ["-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--nthreads", "1", "--no-nanny"]
        started, going = [], threading.Event()

        def killed():
            return sum(worker.poll() is not None for worker in started)

        def keep_three():
            while not going.wait(0.5):
                for _ in range(3 - (len(started) - killed())):
                    worker = subprocess.Popen([sys.executable, *words, "--no-dashboard"], stderr=subprocess.DEVNULL)
                    started.append(worker)

        keeper = threading.Thread(target=keep_three, daemon=True)
        keeper.start()
        deadline = time.time() + 60 * arguments.minutes
        while time.time() < deadline:
            before = killed()
            model = SparLow(**settings).fit(rows, y)
            lost.append(killed() - before)
            names = ("dictionary_", "embedding_")
            differences += not all(np.array_equal(getattr(model, name), getattr(truth, name)) for name in names)
            said = f"{len(lost)} fits, {sum(lost)} workers killed meanwhile, {differences} differences"
            print(said, file=sys.stderr, flush=True)
        going.set()
        keeper.join()
        for worker in started:
            worker.kill()
    return {
        "what": "soak",
        "minutes": arguments.minutes,
        "mean_life_of_a_worker": arguments.delay,
        "fits": len(lost),
        "fits_that_lost_workers": sum(count > 0 for count in lost),
        "killed": sum(lost),
        "differences": differences,
    }


MEASUREMENTS = {f.__name__: f for f in (grow, plain, file, command, graph, stream, soak)}


def keep(row):
    """Add a row to the results, in place of an earlier one of the same measurement."""
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    names = ("what", "n", "n_steps", "seed")
    rows = [old for old in rows if [old.get(name) for name in names] != [row.get(name) for name in names]]
    order = list(MEASUREMENTS)
    rows.append(row)
    rows.sort(
        key=lambda row: (
            order.index(row["what"]),
            *(row.get(name, 0) for name in ("n", "n_steps", "seed")),
        )
    )
    report = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count(), "rows": rows}
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=MEASUREMENTS)
    parser.add_argument("--sizes", type=int, nargs="*", default=[60_000])
    parser.add_argument("--mnist", type=pathlib.Path, help="MNIST as .npz: X_train, y_train, X_test, y_test")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/tmp"), help="where samples are written")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--dictionary", type=pathlib.Path, help="the first dictionary, as .npy")
    parser.add_argument("--seed", type=int, default=SEED, help="of the order of a stream, and of its models")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--delay", type=float, default=15, help="mean seconds after which a worker is killed")
    parser.add_argument("--inner", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inner:
        print(json.dumps(MEASUREMENTS[arguments.what](arguments, arguments.sizes[0])), flush=True)
        return
    for n in arguments.sizes:
        if arguments.what in ("grow", "plain"):
            made(n, arguments.mnist, arguments.folder)  # here: what it takes is not to count as the fit's
        words = [sys.executable, __file__, *sys.argv[1:], "--inner", "--sizes", str(n)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        row = json.loads(done.stdout.strip().splitlines()[-1])
        keep(row)
        print(row, flush=True)


if __name__ == "__main__":
    main()
