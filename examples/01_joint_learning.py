"""Dictionary and projection learned together, on scikit-learn's digits: what it gains, what it costs, how it looks.

Run it with ``make demo``. It compares eight representations by the accuracy of two classifiers on new images,
saves pictures of the atoms, the factor images, the embeddings and the course of learning, and writes a page to explore.
"""

import argparse
import pathlib
import time

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import FunctionTransformer, normalize

from sparlow import SparLow, plots
from sparlow.app import page
from sparlow.app.dataset import Dataset
from sparlow.estimators import OnStep
from sparlow.evaluation import judge, nearest_neighbour, share_right
from sparlow.models import ModelFile
from sparlow.views import Patches

SHAPE = (8, 8)


def methods(passes):
    """The representations to compare.

    The first two of SparLow have codes alone, at the first dictionary and after learning together. Its defaults have
    the image beside its code, and keep the steps unless held-out images are better without.
    """
    alone = {"embedding": "orthonormal", "early_stopping": False, "random_state": 0, "n_jobs": -1}
    return {
        "raw pixels": FunctionTransformer(),
        "PCA, 95 % of variance": PCA(0.95),
        "LDA, shrinkage": LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
        "codes alone, start": SparLow("lda", max_iter=0, **alone),
        "codes alone, end": SparLow("lda", solver="stochastic", max_iter=passes, **alone),
        "SparLow, start": SparLow(max_iter=0, random_state=0, n_jobs=-1),
        "SparLow, defaults": SparLow(random_state=0, n_jobs=-1),
        "SparLow, patches": SparLow(views=Patches(), random_state=0, n_jobs=-1),
    }


def compile_kernels(X, y):
    """Small fits, so that the seconds in the table are those of the methods and not of the compiler."""
    SparLow(n_components=2, n_atoms=20, max_iter=1, random_state=0, n_jobs=-1).fit(X[:200], y[:200])
    SparLow(n_atoms=8, views=Patches(), random_state=0, n_jobs=-1).fit(X[:200], y[:200])
    methods(1)["codes alone, end"].fit(X[:450], y[:450])  # a dictionary class by class has a kernel of its own


def compare(models, X_train, X_test, y_train, y_test):
    """Fit each model, judge it by the nearest neighbour and by a support vector machine tuned on training folds."""
    print(f"\n  {'':22s} numbers   1NN %   SVM %   fit (s)")
    rows = []
    for name, model in models.items():
        began = time.perf_counter()
        model.fit(X_train, y_train)
        seconds = time.perf_counter() - began
        Z_train, Z_test = model.transform(X_train), model.transform(X_test)
        rows.append(judge(name, Z_train, y_train, Z_test, y_test, fit_seconds=seconds))
        one, svm = (100 * share for share in rows[-1].accuracies().values())
        print(f"  {name:22s} {Z_train.shape[1]:7d} {one:7.1f} {svm:7.1f} {seconds:9.1f}", flush=True)
    return rows


def draw_images(first, last, path, title, remark="", size=0.5, **options):
    """Vectors before and after as two sheets of images, one above the other."""
    rows = -(-len(first) // options["columns"])
    fig, axes = plt.subplots(2, 1, figsize=(size * options["columns"], 2 * size * rows + 0.8), layout="constrained")
    words = f"{title} at the start", f"{title} learned together{remark}"
    for ax, vectors, said in zip(axes, (first, last), words, strict=True):
        plots.images(vectors, SHAPE, ax=ax, **options).set_title(said, fontsize=10)
    fig.savefig(path, dpi=120)


def draw_embedding(width, X_train, X_test, y_train, y_test, path):
    """Test images in two or three dimensions, before and after the ascent of the quotient of just these."""
    options = {"embedding": "orthonormal", "early_stopping": False, "random_state": 0, "n_jobs": -1}
    fig = plt.figure(figsize=(12, 5.4), layout="constrained")
    scores = []
    for place, steps in enumerate((0, 10)):
        model = SparLow("lda", width, solver="eliminate", max_iter=steps, **options).fit(X_train, y_train)
        scores.append(100 * model.score(X_test, y_test))
        ax = fig.add_subplot(1, 2, place + 1, projection="3d" if width == 3 else None)
        plots.embedding(model.transform(X_test), y_test, ax=ax, legend=steps > 0)
        if width == 3:
            ax.view_init(60, 120)  # from where most classes are seen apart
        ax.set_title(f"{f'learned together, {steps} steps' if steps else 'start'}: {scores[-1]:.1f} % right")
    fig.savefig(path, dpi=110)
    return scores


def draw_curves(passes, X_train, X_test, y_train, y_test, path):
    """What batches not yet known have explained, and accuracy on new images, pass by pass."""
    rows = []

    def follow(row, model):
        near = nearest_neighbour(model.transform(X_train), y_train, model.transform(X_test))
        rows.append((row["quotient"], 100 * share_right(near, y_test)))

    options = {"embedding": "orthonormal", "early_stopping": False, "random_state": 0, "n_jobs": -1}
    model = SparLow("lda", solver="stochastic", max_iter=passes, **options)
    model.set_callbacks(OnStep(follow)).fit(X_train, y_train)
    fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    names = "explained in new batches", "new images right, % (1NN)"
    for ax, values, name in zip(axes, np.transpose(rows), names, strict=True):
        ax.plot(np.arange(1, len(rows) + 1), values)
        ax.set(xlabel="passes", ylabel=name)
        ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=120)


def write_page(model, X, y, rows, path):
    """The model as one HTML file that opens without a network, with test images and the table of the methods."""
    rows = sorted(rows, key=lambda row: row.name != "codes alone, end")  # the model comes first
    shown = Dataset(X, y, SHAPE, source="new digits")
    protocol = f"All learned from the same images and judged on {len(y)} others."
    path.write_text(page.report(ModelFile(model, SHAPE), shown, judgements=rows, protocol=protocol), encoding="utf-8")


def main(output, n_samples=None, passes=30):
    began = time.perf_counter()
    output.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    X, y = normalize(digits.data)[:n_samples], digits.target[:n_samples]
    data = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)  # X_train, X_test, y_train, y_test
    print(f"{len(data[0])} training and {len(data[1])} test images of 8 × 8 pixels, ten classes")
    print("compiling the kernels (some seconds the first time, none later) …", flush=True)
    compile_kernels(X, y)
    models = methods(passes)
    print(f"  {time.perf_counter() - began:.0f} s")
    rows = compare(models, *data)
    print(
        "\n  numbers: how many describe an image. At the start the projection is the best for the first dictionary;\n"
        f"  then both learn together. One image is {100 / len(data[1]):.2f} %."
    )

    print("\ndrawing (five small models) …", flush=True)
    before, after = models["codes alone, start"], models["codes alone, end"]
    names = ("atoms", "factors", "embedding_2d", "embedding_3d", "curves")
    paths = {name: output / f"{name}.png" for name in names}
    first, last = before.dictionary_, after.dictionary_
    most = np.argsort(((first - last) ** 2).sum(axis=1))[::-1][:48]
    bent = ", bent towards what tells classes apart"
    draw_images(first[most], last[most], paths["atoms"], "the 48 atoms that move most,", bent, columns=16)
    draw_images(
        before.components_,
        after.components_,
        paths["factors"],
        "factor images (red +, blue −)",
        size=0.9,
        columns=9,
        signed=True,
    )
    for width in (2, 3):
        scores = draw_embedding(width, *data, paths[f"embedding_{width}d"])
        print(
            f"  {width} dimensions: nearest neighbour {scores[0]:.1f} % at the start, {scores[1]:.1f} % at the end",
            flush=True,
        )
    draw_curves(passes, *data, paths["curves"])
    plt.close("all")
    write_page(after, data[1], data[3], rows, output / "report.html")
    print("\npictures, and a page to turn the embedding, point at images and see the atoms that explain them:")
    for path in (*paths.values(), output / "report.html"):
        print(f"  {path}")
    print(f"\n{time.perf_counter() - began:.0f} s in all")
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("demo"))
    main(parser.parse_args().output)
