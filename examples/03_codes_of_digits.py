"""The first layer by hand, on scikit-learn's digits: how few atoms explain an image, and training through the codes.

What `SparLow` does inside, in its simplest form and for a loss of one's own. It takes images of the training half as
atoms, encodes all images, classifies the other half from their codes, and then moves the atoms along the gradient that
`pullback` gives, so that the codes separate better.
"""

import argparse
import pathlib
import time

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import LabelBinarizer, normalize

from sparlow import encode, optimality_gap, plots, pullback
from sparlow.priors import ElasticNet


def class_wise_atoms(X, y, per_class, rng):
    """Training images, the same number of each class, as unit-norm atoms."""
    return np.vstack([X[rng.choice(np.flatnonzero(y == label), per_class, replace=False)] for label in np.unique(y)])


def ridge_loss(codes, targets, penalty):
    """½‖ΦW − T‖² at the best W, and its gradient with respect to Φ as two factors: (ΦW − T) Wᵀ."""
    gram = (codes.T @ codes).toarray()
    gram.flat[:: len(gram) + 1] += penalty
    weights = np.linalg.solve(gram, codes.T @ targets)
    error = codes @ weights - targets
    return 0.5 * np.sum(error**2) / len(error), (error / len(error), weights.T)


def train(X, targets, D, prior, steps, rate):
    """Gradient steps on the spheres; every encoding starts from the codes before."""
    codes, losses = encode(X, D, prior, n_jobs=-1), []
    for step in range(steps + 1):
        loss, factors = ridge_loss(codes, targets, penalty=1.0)
        losses.append(loss)
        print(f"  step {step:2d}: loss {loss:.4f}, {codes.nnz / len(X):.1f} atoms per image")
        if step < steps:
            gradient = pullback(X, D, prior, codes, factors, n_jobs=-1)
            gradient -= np.sum(gradient * D, axis=1, keepdims=True) * D
            D = normalize(D - rate * gradient / np.linalg.norm(gradient, axis=1).max())
            codes = encode(X, D, prior, start=codes, n_jobs=-1)
    return D, losses


def main(output, steps):
    output.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    digits = load_digits()
    X_train, X_test, y_train, y_test = train_test_split(
        normalize(digits.data), digits.target, test_size=0.5, random_state=0, stratify=digits.target
    )
    targets = LabelBinarizer().fit_transform(y_train).astype(float)
    prior = ElasticNet(l1=0.05, l2=0.01)
    D_first = class_wise_atoms(X_train, y_train, 12, rng)

    print(f"{len(X_train)} training and {len(X_test)} test images of 8 × 8 pixels, {len(D_first)} atoms, {prior}")
    print("compiling the kernels (the first time only) and encoding …", flush=True)
    encode(X_train[:2], D_first, prior)
    began = time.perf_counter()
    codes_test = encode(X_test, D_first, prior, n_jobs=-1)
    seconds = time.perf_counter() - began
    gap = optimality_gap(X_test, D_first, prior, codes_test).max()
    print(f"  {1e6 * seconds / len(X_test):.0f} µs per image, largest optimality gap {gap:.0e}")
    print("moving the atoms along the gradient of a ridge regression on the codes:")
    D, losses = train(X_train, targets, D_first, prior, steps, rate=0.05)

    rows = []
    for name, classifier, atoms in [
        ("pixels, nearest neighbour", KNeighborsClassifier(1), None),
        ("pixels, ridge", RidgeClassifier(), None),
        ("codes of training images, ridge", RidgeClassifier(), D_first),
        ("codes of moved atoms, ridge", RidgeClassifier(), D),
    ]:
        A, B = (X_train, X_test) if atoms is None else (encode(X, atoms, prior).tocsr() for X in (X_train, X_test))
        rows.append((name, 100 * classifier.fit(A, y_train).score(B, y_test)))
    print("\naccuracy on the test half")
    for name, accuracy in rows:
        print(f"  {name:33s} {accuracy:5.1f} %")
    print(
        "Ridge is linear: moving the atoms makes the classes of the codes linearly separable, which the pixels are not."
    )

    plots.images(D_first, (8, 8), columns=12).set_title("first atoms: training images, a class a row")
    plt.savefig(output / "atoms_first.png", dpi=120, bbox_inches="tight")
    plots.images(D, (8, 8), columns=12).set_title("atoms after the gradient steps")
    plt.savefig(output / "atoms_moved.png", dpi=120, bbox_inches="tight")
    plots.explanation(X_test[3], D, encode(X_test[3:4], D, prior).toarray()[0], (8, 8))
    plt.savefig(output / "explanation.png", dpi=120, bbox_inches="tight")
    ax = plt.subplots(figsize=(5, 3))[1]
    ax.plot(losses, "o-", markersize=3)
    ax.set(xlabel="gradient step", ylabel="ridge loss on the training half", ylim=(0, None))
    plt.savefig(output / "loss.png", dpi=120, bbox_inches="tight")
    print("\npictures:")
    for name in ("atoms_first", "atoms_moved", "explanation", "loss"):
        print(f"  {output / name}.png")
    return dict(rows), losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("demo/codes"))
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    main(arguments.output, arguments.steps)
