"""What a step of joint learning costs: against SPAMS, by number of samples, in memory, and by solver.

    SPARLOW_DATA=<folder> python -m benchmarks.joint [step growth memory solvers refresh]

Five measurements, each a list of rows in ``results/joint.json``:

- step: USPS, 1000 atoms, LDA: seconds per accepted step, line search included, over those of a cold ``spams.lasso``
  pass of the same samples and dictionary with the same prior, in the same run.
- growth: MNIST, 1000 atoms: seconds per step for 15 000, 30 000 and 60 000 samples.
- memory: MNIST, 60 000 samples, 1000 atoms: peak memory of a fit, for every criterion, in a process of its own.
- solvers: for every criterion, its pairs not reweighed and no labels spread, the cost J that the elimination of U and
  the paper's joint conjugate gradients reach after the same number of sparse codings.
- refresh: for every criterion as it is by default, with search directions that are kept when its weights are renewed,
  and with directions that are forgotten then: the J that is climbed, and J of the criterion as written.
"""

import argparse
import dataclasses
import json
import pathlib
import platform
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
import sklearn
import spams
from sklearn.preprocessing import normalize

from evidence import datasets
from sparlow import SparLow, __version__
from sparlow.criteria import CRITERIA, criterion_named
from sparlow.optimize import State
from sparlow.problem import METHODS, begin, learn
from sparlow.rows import Samples

RESULTS = pathlib.Path(__file__).parent / "results" / "joint.json"
NAMES = [name for name in CRITERIA if name != "smfa"]
PAPER = {"embedding": "orthonormal", "early_stopping": False, "n_jobs": 2}

warnings.filterwarnings("ignore")


def usps():
    data = datasets.load("usps")
    rows, _ = data.standard_split()
    return normalize(data.images[rows]), data.labels[rows]


def mnist(n):
    data = datasets.load("mnist")
    rows = np.random.RandomState(0).permutation(data.n_train)[:n]
    return normalize(data.images[rows]), data.labels[rows]


def some_labels(criterion, y):
    """Nine of ten labels hidden where the criterion takes unlabelled samples."""
    if criterion_named(criterion).supervision != "semi":
        return y
    return np.where(np.random.RandomState(0).rand(len(y)) < 0.1, y, -1)


def lasso_pass(X, model):
    """Seconds of a cold pass of SPAMS over all samples: its elastic net has lambda2/2 where ours has l2."""
    prior = model.prior_
    arguments = {"lambda1": prior.l1, "lambda2": 2 * prior.l2, "mode": 2, "numThreads": 2}
    A, D = np.asfortranarray(X.T), np.asfortranarray(model.dictionary_.T)
    began = time.perf_counter()
    codes = spams.lasso(A, D=D, **arguments)
    return time.perf_counter() - began, codes.nnz / len(X)


def step():
    X, y = usps()
    SparLow("lda", n_atoms=100, max_iter=2, random_state=0, **PAPER).fit(X[:500], y[:500])  # compiles
    rows = []
    for repeat in range(3):
        options = {**PAPER, "n_atoms": 1000, "random_state": repeat}
        start = SparLow("lda", max_iter=0, **options).fit(X, y)
        seconds, nonzeros = lasso_pass(X, start)
        model = SparLow("lda", max_iter=10, **options).fit(X, y)
        steps = np.diff(model.history_["seconds"])
        rows.append(
            {
                "repeat": repeat,
                "spams_seconds": seconds,
                "spams_nonzeros": nonzeros,
                "nonzeros": float(model.history_["nonzeros"].mean()),
                "step_seconds_median": float(np.median(steps)),
                "step_seconds_mean": float(np.mean(steps)),
                "ratio_median": float(np.median(steps) / seconds),
                "ratio_mean": float(np.mean(steps) / seconds),
                "evaluations_per_step": float(model.history_["evaluations"][1:].mean()),
                "dictionary_seconds": float(model.history_["seconds"][0]),
            }
        )
        print(rows[-1], flush=True)
    return rows


def growth():
    rows = []
    for criterion in ("lda", "mfa"):
        for n in (15_000, 30_000, 60_000):
            X, y = mnist(n)
            options = {**PAPER, "n_atoms": 1000, "dictionary": "samples", "random_state": 0}
            model = SparLow(criterion, max_iter=4, **options).fit(X, y)
            steps = np.diff(model.history_["seconds"]) / model.history_["evaluations"][1:]
            rows.append(
                {
                    "criterion": criterion,
                    "n": n,
                    "seconds_per_evaluation": float(np.median(steps)),
                    "microseconds_per_sample": float(1e6 * np.median(steps) / n),
                }
            )
            print(rows[-1], flush=True)
    return rows


def memory_of(criterion, n):
    X, y = mnist(n)
    began = time.perf_counter()
    model = SparLow(criterion, n_atoms=1000, max_iter=4, random_state=0, **PAPER).fit(X, some_labels(criterion, y))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "criterion": criterion,
        "n": n,
        "peak_mb": round(peak),
        "seconds": round(time.perf_counter() - began, 1),
        "seconds_to_start": round(float(model.history_["seconds"][0]), 1),
        "steps": model.n_iter_,
    }


def memory():
    rows = []
    for criterion in NAMES:
        command = [sys.executable, "-m", "benchmarks.joint", "--memory-of", criterion]
        rows.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        print(rows[-1], flush=True)
    return rows


def fixed(criterion):
    """The criterion without what changes it while it is maximised, so that J is one function for both solvers."""
    known = {field.name for field in dataclasses.fields(criterion)}
    return dataclasses.replace(criterion, **{name: 0.0 for name in ("balance", "propagate") if name in known})


def solvers():
    X, y = usps()
    X, y = X[:3000], y[:3000]
    rows = []
    for criterion in NAMES:
        labels = some_labels(criterion, y)
        first = SparLow(criterion, n_atoms=300, max_iter=0, random_state=0, normalize=False, **PAPER).fit(X, labels)
        samples, D = Samples(X, first.prior_, n_jobs=2), first.dictionary_.astype(float)
        weights = {"shrinkage": first.shrinkage_, "mu_proximity": first.mu_proximity_}
        for solver in METHODS:
            chosen = fixed(first.criterion_)
            quotient = chosen.bind(X, None if chosen.supervision == "none" else labels, 2)
            objective, start = begin(solver, samples, quotient, D, first.n_components_, **weights)
            reached = {}

            def note(objective, state, reached=reached):
                codings = 1 + state.n_evaluations
                reached[codings] = state.evaluation.value
                return "enough" if codings >= 40 else None

            began = time.perf_counter()
            learn(objective, start, max_iter=60, tol=0, callback=note)
            seconds = time.perf_counter() - began
            at = {n: max([start.value, *(v for k, v in reached.items() if k <= n)]) for n in (10, 20, 40)}
            row = {"criterion": criterion, "solver": solver, "start": start.value, "seconds": round(seconds, 1)}
            rows.append(row | {f"J_after_{n}_codings": value for n, value in at.items()})
            print(rows[-1], flush=True)
    return rows


def refresh():
    X, y = usps()
    X, y = X[:3000], y[:3000]
    rows, moved = [], State.moved
    for criterion in NAMES:
        labels = some_labels(criterion, y)
        first = SparLow(criterion, n_atoms=300, max_iter=0, random_state=0, normalize=False, **PAPER).fit(X, labels)
        samples, D = Samples(X, first.prior_, n_jobs=2), first.dictionary_.astype(float)
        weights = {"shrinkage": first.shrinkage_, "mu_proximity": first.mu_proximity_}
        for kept in (True, False):
            State.moved = moved if kept else lambda state, now: dataclasses.replace(moved(state, now), memory=None)
            chosen = first.criterion_
            quotient = chosen.bind(X, None if chosen.supervision == "none" else labels, 2)
            objective, start = begin("eliminate", samples, quotient, D, first.n_components_, **weights)
            reached = {1: (start.value, start.value)}

            def note(objective, state, reached=reached):
                now, codings = state.evaluation, 1 + state.n_evaluations
                as_written = now.value - now.quotient.quotient + objective.plain_quotient(now)
                reached[codings] = now.value, as_written
                return "enough" if codings >= 40 else None

            learn(objective, start, max_iter=60, tol=0, callback=note)
            at = {n: reached[max(k for k in reached if k <= n)] for n in (10, 20, 40)}
            row = {"criterion": criterion, "directions": "kept" if kept else "forgotten", "start": start.value}
            row |= {f"J_after_{n}_codings": values[0] for n, values in at.items()}
            rows.append(row | {f"as_written_after_{n}_codings": values[1] for n, values in at.items()})
            print(rows[-1], flush=True)
    State.moved = moved
    return rows


MEASUREMENTS = {"step": step, "growth": growth, "memory": memory, "solvers": solvers, "refresh": refresh}
NEEDED = {"step": "usps", "growth": "mnist", "memory": "mnist", "solvers": "usps", "refresh": "usps"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", nargs="*", help="names as above; all of them if none is named")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    options = parser.parse_args()
    if options.memory_of:
        print(json.dumps(memory_of(options.memory_of, 60_000)))
        return
    found = json.loads(options.output.read_text()) if options.output.exists() else {}
    for name in options.measurements or MEASUREMENTS:
        print(f"── {name}", flush=True)
        if not datasets.available(NEEDED[name]):
            print(f"left out: it needs {NEEDED[name]}, name its folder with SPARLOW_DATA")
            continue
        found[name] = MEASUREMENTS[name]()
        found["versions"] = {
            "sparlow": __version__,
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        }
        options.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
