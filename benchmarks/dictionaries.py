"""Dictionary learners against SPAMS and scikit-learn: what new samples cost with the atoms, and how long they took.

All start from the same random samples. Atoms are judged on held-out samples, once by the lasso objective that all but
K-SVD minimise, once by the error of orthogonal matching pursuit at equal nonzeros. Run with ``make bench``; USPS is
read from the folder named by SPARLOW_DATA, see ``coding.py``. Where other work shares the cores, the threads of
SPAMS lose much time by waiting busily for each other; OMP_WAIT_POLICY=passive spares it that.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import platform
import time
import warnings

import numpy as np
import scipy
import sklearn
import spams
from sklearn.decomposition import DictionaryLearning, MiniBatchDictionaryLearning
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from coding import DATA, load, median_seconds
from sparlow import __version__, encode, objective
from sparlow.dictionaries import class_union, ksvd, omp, online, rls_dla, samples
from sparlow.priors import ElasticNet

LASSO = ElasticNet(0.1, 0.0)
NONZEROS = 6


def held_out():
    """Samples for training and for judging."""
    X, y = load("usps")
    if DATA:
        return X, y, normalize(np.load(pathlib.Path(DATA) / "usps.npz")["X_test"].astype(float))
    rows = np.random.default_rng(0).permutation(len(X))
    return X[rows[1000:]], y[rows[1000:]], X[rows[:1000]]


def quality(D, test):
    codes = omp(test, D, NONZEROS, n_jobs=-1)
    return dict(
        objective=float(objective(test, D, LASSO, encode(test, D, LASSO, n_jobs=-1)).mean()),
        error=float(0.5 * np.sum((test - codes @ D) ** 2) / len(test)),
    )


def sparlow_learners(X, start, seed, threads):
    common = dict(start=start, random_state=seed, n_jobs=threads)
    r = len(start)
    yield "sparlow online", 3, lambda: online(X, r, LASSO, n_iter=3, **common)
    yield "sparlow online", 10, lambda: online(X, r, LASSO, n_iter=10, **common)
    yield "sparlow rls_dla", 3, lambda: rls_dla(X, r, LASSO, n_iter=3, **common)
    yield "sparlow rls_dla", 10, lambda: rls_dla(X, r, LASSO, n_iter=10, **common)
    # with the same seed K-SVD draws the same samples by itself, and then takes its head start
    for passes in (3, 10):
        options = dict(n_nonzero=NONZEROS, n_iter=passes, random_state=seed, n_jobs=threads)
        yield "sparlow ksvd", passes + 2, lambda options=options: ksvd(X, r, **options)


def spams_learners(X, start, threads):
    X_f, D_f = np.asfortranarray(X.T), np.asfortranarray(start.T)
    batch = 512

    def train(passes, **mode):
        iterations = passes * len(X) // batch
        options = dict(D=D_f, iter=iterations, batchsize=batch, numThreads=threads, verbose=False, **mode)
        return normalize(spams.trainDL(X_f, **options).T)

    for passes in (3, 10):
        yield "spams trainDL", passes, lambda passes=passes: train(passes, lambda1=LASSO.l1, mode=2)
    yield "spams trainDL L0", 20, lambda: train(20, lambda1=NONZEROS, mode=3)


def sklearn_learners(X, start, seed, threads, full):
    common = dict(n_components=len(start), alpha=LASSO.l1, dict_init=start, random_state=seed)
    for passes in (1, 3):
        mini = MiniBatchDictionaryLearning(batch_size=512, max_iter=passes, fit_algorithm="cd", **common)
        yield "sklearn MiniBatch cd", passes, lambda mini=mini: normalize(mini.fit(X).components_)
    lars = MiniBatchDictionaryLearning(batch_size=512, max_iter=1, fit_algorithm="lars", **common)
    yield "sklearn MiniBatch lars", 1, lambda: normalize(lars.fit(X).components_)
    if full:
        batch = DictionaryLearning(max_iter=3, fit_algorithm="cd", n_jobs=threads, **common)
        yield "sklearn DictionaryLearning cd", 3, lambda: normalize(batch.fit(X).components_)


HEAD = "| learner | atoms | seed | passes | s | lasso objective, held out | OMP error, held out |\n" + "|---" * 7 + "|"


def learned(X, test, r, seed, threads, full):
    """A row per learner."""
    start = samples(X, r, random_state=seed)
    rows = [dict(learner="start", atoms=r, seed=seed, passes=0, seconds=0.0, **quality(start, test))]
    runs = [
        *sparlow_learners(X, start, seed, threads),
        *spams_learners(X, start, threads),
        *sklearn_learners(X, start, seed, threads, full),
    ]
    for name, passes, learn in runs:
        with threadpool_limits(1 if name.startswith("spams") else threads, user_api="blas"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rivals that stop at their number of passes say so
            began = time.perf_counter()
            D = learn()
            seconds = time.perf_counter() - began
        rows.append(dict(learner=name, atoms=r, seed=seed, passes=passes, seconds=seconds, **quality(D, test)))
        line = "| {learner} | {atoms} | {seed} | {passes} | {seconds:.2f} | {objective:.5f} | {error:.5f} |"
        print(line.format(**rows[-1]), flush=True)
    return rows


def class_wise_cost(X, y, repeats, threads):
    """K-SVD of 100 atoms per class in units of one cold pass of `spams.lasso` with about ten nonzeros."""
    D, _ = class_union(X, y, 1000, samples, random_state=0)
    X_f, D_f = np.asfortranarray(X.T), np.asfortranarray(D.T)
    weight = 0.1
    with threadpool_limits(1, user_api="blas"):
        while (codes := spams.lasso(X_f, D=D_f, lambda1=weight, mode=2, numThreads=threads)).nnz < 10 * len(X):
            weight *= 0.9
    functions = {"spams_pass": lambda: spams.lasso(X_f, D=D_f, lambda1=weight, mode=2, numThreads=threads)}
    functions["ksvd"] = lambda: class_union(X, y, 1000, ksvd, random_state=0, n_jobs=threads)
    with threadpool_limits(1, user_api="blas"):  # SPAMS is slower when its BLAS has threads of its own, too
        seconds = median_seconds(functions, repeats)
    row = dict(
        l1=weight, nonzeros=codes.nnz / len(X), seed=0, **seconds, passes=seconds["ksvd"] / seconds["spams_pass"]
    )
    print("| {l1:.3f} | {nonzeros:.1f} | {spams_pass:.2f} | {ksvd:.2f} | **{passes:.2f}** |".format(**row), flush=True)
    return row


def main(repeats, threads, seeds, output):
    versions = dict(
        sparlow=__version__,
        numpy=np.__version__,
        scipy=scipy.__version__,
        sklearn=sklearn.__version__,
        spams=importlib.metadata.version("spams-bin"),
    )
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {threads} threads"
    source = "USPS" if DATA else "scikit-learn's digits, enlarged"
    X, y, test = held_out()
    for learner in (ksvd, lambda *a: online(*a, LASSO), lambda *a: rls_dla(*a, LASSO)):
        learner(X[:100], 20)  # compiled beforehand
    results = dict(versions=versions, machine=machine, data=source)
    print(f"## Class-wise K-SVD, 1000 atoms: {source}, n = {len(X)}, {machine}\n")
    print("| λ₁ | nonzeros | SPAMS pass (s) | K-SVD (s) | K-SVD ÷ pass |\n" + "|---" * 5 + "|")
    results["class_wise"] = class_wise_cost(X, y, repeats, threads)
    print(f"\n## Learners, judged on {len(test)} held-out samples\n\n{HEAD}")
    results["learned"] = [
        row
        for r in (200, 500)
        for seed in range(seeds)
        for row in learned(X, test, r, seed, threads, seed == 0 and r == 200)
    ]
    if output:
        output.parent.mkdir(exist_ok=True)
        output.write_text(json.dumps(results, indent=1) + "\n")
    print("\n── benchmarks of dictionaries finished")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--output", type=pathlib.Path, help="also write all rows to this JSON file")
    arguments = parser.parse_args()
    main(arguments.repeats, arguments.threads, arguments.seeds, arguments.output)
