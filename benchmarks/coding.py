"""Speed, growth and exactness of `encode` and `pullback`, as ratios measured in one run.

The rivals are SPAMS (`spams.lasso`, LARS in C++) and scikit-learn's `sparse_encode`; the floor is the product X Dᵀ.
Run with ``make bench``. USPS, MNIST and PIE are read from the folder named by SPARLOW_DATA (usps.npz, mnist.npz,
pie_32x32.npz); without it scikit-learn's digits, enlarged by shifts and noise, stand in, and the tables say so.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import time
import warnings

import numpy as np
import scipy
import sklearn
import spams
from sklearn.datasets import load_digits
from sklearn.decomposition import sparse_encode
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from sparlow import __version__, encode, objective, optimality_gap, pullback
from sparlow.priors import ElasticNet

DATA = os.environ.get("SPARLOW_DATA")


def load(name):
    """Unit-norm rows and labels of a set; digits with shifts and noise where the folder is not named."""
    if not DATA:
        rng = np.random.default_rng(0)
        images, labels = load_digits(return_X_y=True)
        big = np.kron(images.reshape(-1, 8, 8), np.ones((1, 2, 2)))
        X = np.vstack([np.roll(big, s, axis=(1, 2)).reshape(len(big), -1) for s in ((0, 0), (0, 1), (1, 0), (1, 1))])
        return normalize(X + 0.5 * rng.random(X.shape)), np.tile(labels, 4)
    arrays = np.load(pathlib.Path(DATA) / {"usps": "usps.npz", "mnist": "mnist.npz", "pie": "pie_32x32.npz"}[name])
    key = ("X_train", "y_train") if "X_train" in arrays else ("X", "y")
    return normalize(arrays[key[0]].astype(float)), arrays[key[1]]


def class_wise_dictionary(X, y, per_class):
    """Atoms learned for each class by SPAMS' online method, so that no rival is favoured by ours."""
    parts = [
        spams.trainDL(
            np.asfortranarray(X[y == c].T),
            K=per_class,
            lambda1=0.1,
            iter=200,
            numThreads=1,
            batchsize=256,
            verbose=False,
        ).T
        for c in np.unique(y)
    ]
    return normalize(np.vstack(parts))


def median_seconds(functions, repeats, threads):
    """Median time of each function; they take turns, so that a slow moment of the machine meets all of them.

    With one thread it is the processor's time, which others at work on the machine change less.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    times = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            began = clock()
            function()
            times[name].append(clock() - began)
    return {name: float(np.median(values)) for name, values in times.items()}


def lasso(X, D, prior, threads):
    """`spams.lasso` on arrays laid out as it wants them beforehand."""
    return lambda: spams.lasso(X, D=D, lambda1=prior.l1, lambda2=2 * prior.l2, mode=2, numThreads=threads)


def speed(X, y, dtype, weights, repeats, threads):
    """One row per λ₁: seconds and ratios."""
    D = class_wise_dictionary(X, y, 100)
    rng = np.random.default_rng(0)
    moved = rng.standard_normal(D.shape)
    moved = normalize(D + 0.01 * moved / np.linalg.norm(moved, axis=1, keepdims=True))
    X, D, moved = (np.ascontiguousarray(a.astype(dtype)) for a in (X, D, moved))
    X_f, D_f = np.asfortranarray(X.T), np.asfortranarray(D.T)
    factors = rng.standard_normal((len(X), 9)).astype(dtype), rng.standard_normal((9, len(D))).astype(dtype)
    rows = []
    for l1 in weights:
        prior = ElasticNet(l1, 1e-3)
        codes = encode(X, D, prior, n_jobs=threads)
        pullback(X, D, prior, codes, factors, n_jobs=threads)
        with threadpool_limits(threads, user_api="blas"):
            seconds = median_seconds(
                {
                    "product": lambda: X @ D.T,
                    "spams": lasso(X_f, D_f, prior, threads),
                    "cold": lambda: encode(X, D, prior, n_jobs=threads),  # noqa: B023
                    "warm": lambda: encode(X, moved, prior, start=codes, n_jobs=threads),  # noqa: B023
                    "pullback": lambda: pullback(X, D, prior, codes, factors, n_jobs=threads),  # noqa: B023
                },
                repeats,
                threads,
            )
        rival = spams.lasso(X_f, D=D_f, lambda1=l1, lambda2=2e-3, mode=2, numThreads=threads).T.tocsr()
        rows.append(
            dict(
                dtype=np.dtype(dtype).name,
                l1=l1,
                threads=threads,
                nonzeros=codes.nnz / len(X),
                **seconds,
                objective=float(objective(X, D, prior, codes).mean()),
                objective_spams=float(objective(X, D, prior, rival).mean()),
                gap=float(optimality_gap(X, D, prior, codes).max()),
                gap_spams=float(optimality_gap(X, D, prior, rival).max()),
            )
        )
        print(speed_line(rows[-1]), flush=True)
    return rows


SPEED_HEAD = (
    "| precision | λ₁ | nonzeros | X Dᵀ (s) | SPAMS (s) | cold (s) | warm (s) | pullback (s) "
    "| cold ÷ X Dᵀ | SPAMS ÷ cold | SPAMS ÷ warm | pullback ÷ cold | objective | SPAMS | gap | SPAMS |\n"
    + "|---" * 16
    + "|"
)


def speed_line(row):
    return (
        "| {dtype} | {l1} | {nonzeros:.1f} | {product:.3f} | {spams:.3f} ".format(**row)
        + "| {cold:.3f} | {warm:.3f} | {pullback:.3f} ".format(**row)
        + f"| {row['cold'] / row['product']:.1f} | **{row['spams'] / row['cold']:.1f}** "
        f"| **{row['spams'] / row['warm']:.1f}** | **{row['pullback'] / row['cold']:.2f}** "
        f"| {row['objective']:.6f} | {row['objective_spams']:.6f} | {row['gap']:.0e} | {row['gap_spams']:.0e} |"
    )


def page(rows):
    """Return the table of docs/coding.md; the last column is the most that a warm start could reach.

    It would leave nothing to do but the product X Dᵀ in single precision.
    """
    floor = min(row["product"] for row in rows if row["dtype"] == "float32")
    head = "precision | λ₁ | atoms per image | `spams.lasso` (s) | `encode` (s) | faster | warm start (s) | faster "
    lines = [f"| {head}| `pullback` ÷ `encode` | ÷ X Dᵀ | at most |", "|---" * 11 + "|"]
    for row in rows:
        cold, warm, most = (f"{row['spams'] / part:.1f} ×" for part in (row["cold"], row["warm"], floor))
        lines.append(
            "| {dtype} | {l1} | {nonzeros:.0f} | {spams:.2f} | {cold:.2f} ".format(**row)
            + f"| {cold} | {row['warm']:.3f} | {warm} "
            f"| {row['pullback'] / row['cold']:.2f} | {row['cold'] / row['product']:.1f} | {most} |"
        )
    return "\n".join(lines)


LOCAL = (  # set, side of a patch, atoms, λ₁, λ₂
    ("usps", 5, 32, 0.1, 0.1),
    ("usps", 5, 128, 0.1, 0.1),
    ("mnist", 7, 64, 0.1, 0.1),
    ("mnist", 7, 128, 0.1, 0.1),
    ("mnist", 7, 128, 0.05, 1e-3),
    ("mnist", 8, 256, 0.1, 0.1),
    ("mnist", 8, 256, 0.1, 1e-3),
)
LOCAL_HEAD = (
    "| set | m | atoms | precision | λ₁ | λ₂ | nonzeros | X Dᵀ (µs) | SPAMS (µs) | cold (µs) | warm (µs) "
    "| cold ÷ X Dᵀ | SPAMS ÷ cold | SPAMS ÷ warm | scikit-learn ÷ cold | gap |\n" + "|---" * 16 + "|"
)


def patches(X, size, n):
    """Patches of square pictures without their mean, scaled to unit norm unless nearly constant."""
    rng = np.random.default_rng(0)
    side = int(np.sqrt(X.shape[1]))
    pad = size // 2
    pictures = np.pad(X.reshape(-1, side, side), ((0, 0), (pad, pad), (pad, pad)))
    places = rng.integers(0, (len(X), side + 2 * pad - size + 1, side + 2 * pad - size + 1), (n, 3))
    P = np.stack([pictures[i, a : a + size, b : b + size].ravel() for i, a, b in places])
    P -= P.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(P, axis=1)
    return P / np.maximum(norms, 0.1 * np.sqrt(np.mean(norms**2)))[:, None]


def local(repeats, n=100_000):
    """Codes of patches: microseconds of one thread for each, and ratios."""
    rows = []
    for name, size, r, l1, l2 in LOCAL:
        plain = patches(load(name)[0], size, n)
        atoms = spams.trainDL(
            np.asfortranarray(plain.T), K=r, lambda1=0.1, iter=300, numThreads=1, batchsize=256, verbose=False
        )
        D_plain, prior = normalize(atoms.T), ElasticNet(l1, l2)
        change = np.random.default_rng(0).standard_normal(D_plain.shape)
        moved_plain = normalize(D_plain + 0.01 * change / np.linalg.norm(change, axis=1, keepdims=True))
        for dtype in (np.float64, np.float32):
            X, D, moved = (np.ascontiguousarray(a, dtype) for a in (plain, D_plain, moved_plain))
            codes = encode(X, D, prior, n_jobs=1)
            functions = {
                "product": lambda: X @ D.T,  # noqa: B023
                "spams": lasso(np.asfortranarray(X.T), np.asfortranarray(D.T), prior, 1),
                "cold": lambda: encode(X, D, prior, n_jobs=1),  # noqa: B023
                "warm": lambda: encode(X, moved, prior, start=codes, n_jobs=1),  # noqa: B023
            }
            with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seconds = median_seconds(functions, repeats, 1)
                part = X[::100]
                rival = {"sklearn": lambda: sparse_encode(part, D, algorithm="lasso_cd", alpha=l1, n_jobs=1)}  # noqa: B023
                seconds["sklearn"] = median_seconds(rival, 1, 1)["sklearn"] * len(X) / len(part)
            row = dict(set=name, m=size * size, atoms=r, dtype=np.dtype(dtype).name, l1=l1, l2=l2, samples=n)
            row |= dict(nonzeros=codes.nnz / n, **seconds, gap=float(optimality_gap(X, D, prior, codes).max()))
            rows.append(row)
            micro = {key: 1e6 * value / n for key, value in seconds.items()}
            print(
                f"| {name} | {size * size} | {r} | {row['dtype']} | {l1} | {l2} | {row['nonzeros']:.1f} "
                f"| {micro['product']:.2f} | {micro['spams']:.2f} | {micro['cold']:.2f} | {micro['warm']:.2f} "
                f"| {micro['cold'] / micro['product']:.1f} | **{micro['spams'] / micro['cold']:.1f}** "
                f"| **{micro['spams'] / micro['warm']:.1f}** | {micro['sklearn'] / micro['cold']:.0f} "
                f"| {row['gap']:.0e} |",
                flush=True,
            )
    return rows


def against_sklearn(X, y, threads):
    """The best of scikit-learn's exact algorithms on a part of the samples (it needs minutes for all)."""
    D = class_wise_dictionary(X, y, 100)
    part = X[:: max(1, len(X) // 2000)]
    rows = []
    for l1 in (0.2, 0.05):
        functions = {"sparlow": lambda: encode(part, D, ElasticNet(l1, 0.0), n_jobs=threads)}  # noqa: B023
        for algorithm in ("lasso_cd", "lasso_lars"):
            functions[algorithm] = lambda a=algorithm: sparse_encode(part, D, algorithm=a, alpha=l1, n_jobs=threads)  # noqa: B023
        functions["sparlow"]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # lasso_cd stops at its 1000 iterations: in its favour
            seconds = median_seconds(functions, 3, threads)
        best = min(seconds["lasso_cd"], seconds["lasso_lars"])
        rows.append(dict(l1=l1, samples=len(part), **seconds, ratio=best / seconds["sparlow"]))
        print(
            "| {l1} | {samples} | {sparlow:.3f} | {lasso_cd:.2f} | {lasso_lars:.2f} | **{ratio:.0f}** |".format(
                **rows[-1]
            )
        )
    return rows


def exactness():
    """The largest optimality gap over sets, sizes and λ₁."""
    rows = []
    for name in ("usps", "pie", "mnist") if DATA else ("digits",):
        X, _ = load(name)
        rng = np.random.default_rng(0)
        for r in (50, 500, 2000):
            D, part = X[rng.choice(len(X), r, replace=False)], X[rng.choice(len(X), 100, replace=False)]
            D = normalize(D + 0.05 * rng.standard_normal(D.shape) / np.sqrt(D.shape[1]))
            for l1 in (0.5, 0.1, 0.02, 0.005):
                codes = encode(part, D, ElasticNet(l1, 1e-3), n_jobs=-1)
                gap = float(optimality_gap(part, D, ElasticNet(l1, 1e-3), codes).max())
                rows.append(dict(set=name, atoms=r, l1=l1, nonzeros=codes.nnz / len(part), gap=gap))
                print("| {set} | {atoms} | {l1} | {nonzeros:.1f} | {gap:.1e} |".format(**rows[-1]), flush=True)
    return rows


GROWTH = """
import json, resource, sys, time
sys.path.insert(0, {here!r})
import numpy as np
from coding import load
from sparlow import encode
from sparlow.priors import ElasticNet
X, y = load("mnist")
order = np.random.default_rng(0).permutation(len(X))
D = X[order[:1000]]
X = np.ascontiguousarray(X[order[-{n}:]])
encode(X[:600], D, ElasticNet(0.1), n_jobs=2)
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
ballast = np.ones(max(0, peak() - int(open("/proc/self/statm").read().split()[1]) * 4096) // 8 + 1)
before = int(open("/proc/self/statm").read().split()[1]) * 4096
times = []
for _ in range(max(5, 120_000 // {n})):
    began = time.perf_counter()
    codes = encode(X, D, ElasticNet(0.1), n_jobs=2)
    times.append(time.perf_counter() - began)
result = codes.data.nbytes + codes.indices.nbytes + codes.indptr.nbytes
beyond = (peak() - before - result) / 1e6
print(json.dumps(dict(n=len(X), seconds=float(np.median(times)), beyond=beyond, nonzeros=codes.nnz / len(X))))
"""


def growth():
    """Time per sample and peak memory beyond X and the result, each n in a process of its own."""
    rows = []
    for n in (5000, 20_000, 60_000):
        code = GROWTH.format(here=str(pathlib.Path(__file__).parent), n=n)
        rows.append(
            json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        )
        rows[-1]["microseconds"] = 1e6 * rows[-1]["seconds"] / rows[-1]["n"]
        print(
            "| {n} | {nonzeros:.1f} | {seconds:.2f} | {microseconds:.1f} | {beyond:.0f} |".format(**rows[-1]),
            flush=True,
        )
    return rows


STARTUP = """
import json, os, tempfile, time
os.environ["NUMBA_CACHE_DIR"] = {cache!r}
import sklearn.base, sklearn.utils, scipy.sparse
began = time.perf_counter(); import sparlow; imported = time.perf_counter() - began
import numpy as np
X = np.eye(4)
began = time.perf_counter()
prior = sparlow.priors.ElasticNet(0.1)
codes = sparlow.encode(X, X, prior)
sparlow.pullback(X, X, prior, codes, (X, X))
print(json.dumps([imported, time.perf_counter() - began]))
"""


def startup(tmp):
    """Seconds to import beyond scikit-learn, and to the first result, in a first and a second process."""
    rows = []
    for process in ("first", "second"):
        code = STARTUP.format(cache=str(tmp))
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        imported, first_result = json.loads(out)
        rows.append(dict(process=process, imported=imported, first_result=first_result))
        print("| {process} | {imported:.2f} | {first_result:.2f} |".format(**rows[-1]), flush=True)
    return rows


def plot(results, path):
    """Draw how many times as fast as SPAMS codes are, cold and from a start near by, over their nonzeros."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharey=True)
    parts = {"speed": "USPS digits, m = 256, 1000 atoms", "local": "Patches, m = 25 to 64, 32 to 256 atoms"}
    for axis, (part, title) in zip(axes, parts.items(), strict=True):
        for dtype, colour in (("float64", "#1b6ca8"), ("float32", "#d1495b")):
            rows = sorted((row for row in results[part] if row["dtype"] == dtype), key=lambda row: row["nonzeros"])
            for way, style in (("cold", "o-"), ("warm", "s--")):
                points = [(row["nonzeros"], row["spams"] / row[way]) for row in rows]
                style = style if part == "speed" else style[0]
                axis.plot(*zip(*points, strict=True), style, color=colour, label=f"{dtype}, {way}")
        axis.axhline(1, color="#888888", linewidth=0.8)
        axis.set(title=title, xlabel="nonzeros per sample", ylim=(0, None))
    axes[0].set(ylabel="times as fast as SPAMS", xscale="log")
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=110)


PARTS = ("speed", "local", "sklearn", "growth", "exactness", "startup")


def main(parts, repeats, threads, output):
    """Measure some parts; of a file of rows only these are renewed."""
    import tempfile

    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    versions = dict(sparlow=__version__, numpy=np.__version__, scipy=scipy.__version__, sklearn=sklearn.__version__)
    source = "USPS" if DATA else "scikit-learn's digits, enlarged (name the folder of USPS with SPARLOW_DATA)"
    X, y = load("usps")
    results = json.loads(output.read_text()) if output and output.exists() else {}
    results |= dict(machine=machine, data=source)
    results.setdefault("versions", versions)
    results["renewed"] = results.get("renewed", {}) | dict.fromkeys(parts, versions)  # by part, where files are older
    if "speed" in parts:
        about = f"n = {len(X)}, m = {X.shape[1]}, r = 1000, {threads} threads, {machine}"
        print(f"## Speed: {source}, {about}\n\n{SPEED_HEAD}")
        results["speed"] = speed(X, y, np.float64, (0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005), repeats, threads)
        results["speed"] += speed(X, y, np.float32, (0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005), repeats, threads)
    if "local" in parts:
        patch_source = "USPS and MNIST" if DATA else source
        print(f"\n## Patches: {patch_source}, 100 000 of them, one thread, warm after a 1 % move\n\n{LOCAL_HEAD}")
        results["local"] = local(repeats)
    if "sklearn" in parts:
        print("\n## scikit-learn's `sparse_encode`\n")
        print("| λ₁ | samples | sparlow (s) | lasso_cd (s) | lasso_lars (s) | best ÷ sparlow |\n" + "|---" * 6 + "|")
        results["sklearn"] = against_sklearn(X, y, threads)
    if "growth" in parts:
        print("\n## Growth in n (MNIST, r = 1000, λ₁ = 0.1)\n")
        print("| n | nonzeros | s | µs per sample | MB beyond X and codes |\n" + "|---" * 5 + "|")
        results["growth"] = growth() if DATA else print("| needs MNIST: name its folder with SPARLOW_DATA |||||")
    if "exactness" in parts:
        print("\n## Exactness: largest optimality gap of 100 samples\n\n| set | atoms | λ₁ | nonzeros | gap |")
        print("|---" * 5 + "|")
        results["exactness"] = exactness()
    if "startup" in parts:
        print(
            "\n## Start\n\n| process | import beyond scikit-learn (s) | first codes and pullback (s) |\n|---|---|---|"
        )
        with tempfile.TemporaryDirectory() as tmp:
            results["startup"] = startup(tmp)
    if output:
        output.write_text(json.dumps(results, indent=1))
    print("\n── benchmarks finished")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--output", type=pathlib.Path, help="also write rows to this JSON file; other parts in it stay")
    parser.add_argument("--table", action="store_true", help="print the table of docs/coding.md from --output instead")
    parser.add_argument("--plot", metavar="FILE", help="draw the rows of --output instead")
    arguments = parser.parse_args()
    if arguments.plot:
        sys.exit(plot(json.loads(arguments.output.read_text()), arguments.plot))
    if arguments.table:
        print(page(json.loads(arguments.output.read_text())["speed"]))
        sys.exit()
    main(arguments.parts, arguments.repeats, arguments.threads, arguments.output)
