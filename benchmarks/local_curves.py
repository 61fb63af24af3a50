"""Local codes over atoms and labels, and what they cost.

    SPARLOW_DATA=<folder> python -m benchmarks.local_curves joint     accuracy over the number of atoms, start and joint
    … python -m benchmarks.local_curves labels                        USPS with few labels
    … python -m benchmarks.local_curves cost                          memory, growth, coding passes, one image
    python -m benchmarks.local_curves joint --table       a table of docs/evidence/local_codes.md; labels as well

Rows are lines of JSON, written as soon as they are known: starting again goes on where the last run ended.
"""

import argparse
import itertools
import pathlib
import resource
import time
import warnings

import numpy as np
from sklearn.preprocessing import normalize

from benchmarks.local import RESULTS, SETS, Rows, by_angle, markdown, model_of, official, per_class, scattering
from sparlow import SparLow
from sparlow.evaluation import share_right
from sparlow.graphs import affinities, spread_labels
from sparlow.rows import Samples
from sparlow.views import Patches

# ── accuracy over the number of atoms ───────────────────────────────────────────────────────────────────────────────

ATOMS = (8, 16, 32, 64, 128, 256)
SMALL = {
    "digits": per_class("digits", (8, 8), None),
    "orl-5": per_class("orl_32x32", (32, 32), 5),
    "ar-5": per_class("ar10p_60x40", (60, 40), 5),
    "usps-500": official("usps", None, 500),
    "mnist-500": official("mnist", 255, 500),
    "fashion-500": official("fashion_part", 255, 500),
    "pie27-5": per_class("pie_pose27_32x32", (32, 32), 5),
}
STEPS = 8


def with_atoms(task, atoms, steps):
    """The accuracy with so many atoms; every other place of images above 20 pixels, at most 1000 test images."""
    some = np.random.RandomState(task.seed).permutation(len(task.X_test))[:1000]
    X, X_test = (part.reshape(len(part), -1) for part in (task.X, task.X_test[some]))
    views = Patches(stride=1 if min(task.shape) <= 20 else 2, shape=task.shape)
    options = {"max_iter": steps, "early_stopping": False, "embedding": "whitened", "n_jobs": 1}
    model = SparLow("lda", n_atoms=atoms, views=views, random_state=task.seed, **options).fit(X, task.y)
    return share_right(by_angle(model.transform(X), task.y, model.transform(X_test)), task.y_test[some])


def joint(options):
    """Measure start and joint learning over sets, seeds and numbers of atoms."""
    rows = Rows(options.output or RESULTS / "local_joint.jsonl", ("set", "atoms", "steps", "seed"))
    for seed, name, atoms, steps in itertools.product(options.seeds, SMALL, ATOMS, (0, STEPS)):
        if not options.table and rows.missing(name, atoms, steps, seed):
            cpu = time.process_time()
            accuracy = with_atoms(SMALL[name](seed), atoms, steps)
            row = {"set": name, "atoms": atoms, "steps": steps, "seed": seed, "accuracy": accuracy}
            rows.add({**row, "cpu_seconds": round(time.process_time() - cpu, 2)})
    print("\n" + joint_table(rows) + "\n\n" + gains(rows))


def pairs(rows):
    """Return accuracies before and after the steps, in per cent, by set, atoms and seed; where both were measured."""
    by = {(row["set"], row["atoms"], row["seed"], row["steps"]): 100 * row["accuracy"] for row in rows.rows}
    return {key[:3]: (by[*key[:3], 0], by[key]) for key in by if key[3] == STEPS and (*key[:3], 0) in by}


def joint_table(rows):
    """Return means over seeds before and after the steps, and how many seeds there are of each set at least."""
    found, lines = pairs(rows), []
    for name in SMALL:
        each = [np.array([pair for key, pair in found.items() if key[:2] == (name, atoms)]) for atoms in ATOMS]
        cells = ["{:.1f} → {:.1f}".format(*some.mean(axis=0)) if len(some) else "–" for some in each]
        lines.append([name, *cells, str(min(len(some) for some in each if len(some)))])
    return markdown(["set", *(f"{atoms} atoms" for atoms in ATOMS), "seeds"], *lines)


def gains(rows):
    """Return what the steps change, over all pairs of rows, and what 32 atoms lack after them to 128 before."""
    found = pairs(rows)
    change = {key: after - before for key, (before, after) in found.items()}
    each = np.array(list(change.values()))
    told = f"{len(each)} pairs, {np.sum(each > 0)} gains, {np.sum(each < 0)} losses, {each.mean():+.2f} on average "
    told += f"({each.min():+.1f} to {each.max():+.1f})"
    for atoms in ATOMS:
        told += f"; {atoms} atoms {np.mean([value for key, value in change.items() if key[1] == atoms]):+.2f}"
    for name in SMALL:
        seeds = [key[2] for key in found if key[:2] == (name, 32) and (name, 128, key[2]) in found]
        short = [found[name, 32, seed][1] - found[name, 128, seed][0] for seed in seeds]
        told += f"\n32 atoms after the steps less 128 before, {name}: {np.mean(short):+.1f}" if short else ""
    return told


# ── few labels ──────────────────────────────────────────────────────────────────────────────────────────────────────

COUNTS = (1, 2, 4, 6, 10)


def _few(y, count, seed):
    """The labels of so many samples of each class, as they are drawn for Figure 5c, −1 for the others."""
    rng = np.random.RandomState(seed)
    kept = np.concatenate([rng.permutation(np.flatnonzero(y == label))[:count] for label in np.unique(y)])
    shown = np.full(len(y), -1)
    shown[kept] = y[kept]
    return shown


def local_sda(task, y):
    X, X_test = (part.reshape(len(part), -1) for part in (task.X, task.X_test))
    model = SparLow("sda", views=Patches(), random_state=task.seed, n_jobs=1).fit(X, y)
    return model.predict(X_test)


def spread_over_scattering(task, y):
    """Labels spread over the ten nearest neighbours by scattering; a test image has the label of its nearest."""
    F, F_test = scattering(task)
    return by_angle(F, spread_labels(affinities(F.astype(float), 10), y).argmax(axis=1), F_test)


FEW = {"SDA-SparLow, local": local_sda, "label spreading, scattering": spread_over_scattering}


def labels(options):
    """Measure USPS with 1 to 10 labels per class."""
    rows = Rows(options.output or RESULTS / "local_labels.jsonl", ("method", "labels", "seed"))
    for seed, method, count in itertools.product(options.seeds, FEW, COUNTS):
        if not options.table and rows.missing(method, count, seed):
            task = SETS["usps"](seed)
            cpu = time.process_time()
            found = FEW[method](task, _few(task.y.astype(int), count, seed))
            row = {"method": method, "labels": count, "seed": seed, "accuracy": share_right(found, task.y_test)}
            rows.add({**row, "cpu_seconds": round(time.process_time() - cpu, 2)})
    print("\n" + labels_table(rows))


NAMES = {
    "SDA-SparLow, local": '`SparLow("sda", views=Patches())`',
    "label spreading, scattering": "label spreading over scattering features",
}


def labels_table(rows):
    """Return means over draws of the labels."""
    lines = ([NAMES[method], *(rows.mean(method=method, labels=count) for count in COUNTS)] for method in FEW)
    return markdown(["labels per class", *map(str, COUNTS)], *lines)


# ── cost ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def cost(options):
    """Measure peak memory, growth, coding passes, and one image beside its share of a batch."""
    rows = Rows(options.output or RESULTS / "local_cost.jsonl", ("what",))
    for what in options.what:
        if rows.missing(what):
            rows.add({"what": what, **COSTS[what]()})


def _of_mnist(count):
    """Fit so many images of MNIST in this process; its peak memory counts, so it is to be the first that is done."""
    task = SETS["mnist"](0)
    X, y = task.X[:count].reshape(count, -1), task.y[:count]
    begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    cpu = time.process_time()
    model_of(task).fit(X, y)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"images": count, "cpu_seconds": round(time.process_time() - cpu, 1), "peak_gb": round(peak, 2),
            "before_gb": round(begin, 2)}  # fmt: skip


def _passes():
    """The seconds of a fit of USPS, ten steps, in multiples of one cold coding of all its patches."""
    task = SETS["usps"](0)
    X = task.X.reshape(len(task.X), -1)
    cpu = time.process_time()
    model = model_of(task, max_iter=10, early_stopping=False).fit(X, task.y)
    fit = time.process_time() - cpu
    samples = Samples(normalize(X), model.prior_, model._views)
    samples.take(np.arange(200)).coded(model.dictionary_)
    times = []
    for _ in range(3):
        cpu = time.process_time()
        samples.coded(model.dictionary_)
        times.append(time.process_time() - cpu)
    return {"fit": round(fit, 2), "pass": round(min(times), 2), "passes": round(fit / min(times), 1),
            "evaluations": int(model.history_["evaluations"].sum())}  # fmt: skip


def _growth(settings):
    """CPU seconds of a default fit of 2000 images of MNIST, and of coding them, for atoms and strides."""
    task = SETS["mnist"](0)
    X, y = task.X[:2000].reshape(2000, -1), task.y[:2000]
    out = []
    for atoms, stride in settings:
        model = model_of(task, n_atoms=atoms).set_params(views=Patches(stride=stride))
        cpu = time.process_time()
        model.fit(X, y)
        fit = time.process_time() - cpu
        samples = Samples(normalize(X), model.prior_, model._views)
        cpu = time.process_time()
        samples.coded(model.dictionary_, keep=False)
        out.append({"atoms": atoms, "patches": model._views.n_views, "fit": round(fit, 2),
                    "pass": round(time.process_time() - cpu, 2)})  # fmt: skip
    return {"images": 2000, "settings": out}


def _one_image():
    """The time of one image through ``transform``, in multiples of its share of a batch of 2000."""
    task = SETS["usps"](0)
    X, X_test = (part.reshape(len(part), -1) for part in (task.X, task.X_test))
    model = model_of(task).fit(X[:1000], task.y[:1000])
    model.transform(X_test[:20])
    one, batch = [], []
    for at in range(50):
        cpu = time.process_time()
        model.transform(X_test[at : at + 1])
        one.append(time.process_time() - cpu)
        if at % 10 == 0:
            cpu = time.process_time()
            model.transform(X_test[:2000])
            batch.append((time.process_time() - cpu) / 2000)
    one, batch = float(np.median(one)), float(np.median(batch))
    return {"one_ms": round(1e3 * one, 3), "share_ms": round(1e3 * batch, 3), "ratio": round(one / batch, 2)}


COSTS = {
    "one image": _one_image,
    "passes": _passes,
    "atoms": lambda: _growth([(32, 2), (64, 2), (128, 2), (256, 2)]),
    "patches": lambda: _growth([(64, 3), (64, 2), (64, 1)]),
    "mnist 5000": lambda: _of_mnist(5000),
    "mnist 10000": lambda: _of_mnist(10_000),
    "mnist 20000": lambda: _of_mnist(20_000),
    "mnist 60000": lambda: _of_mnist(60_000),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = {"joint": joint, "labels": labels, "cost": cost}
    parser.add_argument("command", choices=list(commands))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--what", nargs="+", choices=list(COSTS), default=list(COSTS), help="of the cost")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--table", action="store_true", help="of joint and labels: print rows at hand instead")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    commands[options.command](options)


if __name__ == "__main__":
    main()
