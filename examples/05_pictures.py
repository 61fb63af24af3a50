"""Picture files to classes: descriptors, codebook, pyramid, then joint learning or an SVM.

The example draws its pictures: five kinds of surface, of different sizes, turned a little, under uneven light, partly
hidden by a disc. One of the files is broken, as one of any large collection is.
"""

import argparse
import pathlib
import tempfile
import warnings

import numpy as np
from PIL import Image
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from sparlow import SparLow
from sparlow.images import Codebook, DenseSIFT, SpatialPyramid, kspm, llc, read_gray

KINDS = ("stripes", "checks", "bricks", "dots", "rings")


def surface(kind, x, y, period):
    """Grey values from −1 to 1 of a surface at the points x, y."""
    if kind == "stripes":
        return np.sign(np.sin(2 * np.pi * x / period))
    if kind == "checks":
        return np.sign(np.sin(2 * np.pi * x / period) * np.sin(2 * np.pi * y / period))
    if kind == "bricks":
        row = np.floor(2 * y / period)
        joint = np.minimum((x / period + 0.5 * (row % 2)) % 1, (2 * y / period) % 1)
        return np.where(joint < 0.15, 1.0, -0.6)
    u, v = x % period - period / 2, y % period - period / 2
    if kind == "dots":
        return np.where(np.hypot(u, v) < 0.3 * period, 1.0, -1.0)
    return np.sign(np.sin(8 * np.pi * np.hypot(u, v) / period))


def draw(kind, rng):
    """One picture: the surface turned a little, uneven light, noise, and a disc in front of it."""
    height, width = rng.integers(80, 140, size=2)
    y, x = np.mgrid[:height, :width].astype(float)
    angle = rng.uniform(-0.3, 0.3)
    turned = np.cos(angle) * x - np.sin(angle) * y, np.sin(angle) * x + np.cos(angle) * y
    shift = rng.uniform(0, 50, size=2)
    values = surface(kind, turned[0] + shift[0], turned[1] + shift[1], rng.uniform(14, 26))
    light = 0.6 + 0.4 * np.cos(x / width * rng.uniform(0, 3) + rng.uniform(0, 3))
    gray = 128 + 70 * values * light + rng.normal(0, 12, values.shape)
    radius, (cx, cy) = 0.3 * min(height, width), rng.uniform(0.3, 0.7, size=2) * (width, height)
    gray[np.hypot(x - cx, y - cy) < radius] = rng.uniform(0, 255)
    return Image.fromarray(gray.clip(0, 255).astype(np.uint8))


def write_pictures(folder, per_kind, rng):
    """JPEG files and their labels; the last file is broken."""
    paths, labels = [], []
    for number in range(per_kind):
        for kind in KINDS:
            paths.append(folder / f"{kind}_{number:03d}.jpg")
            labels.append(kind)
            draw(kind, rng).save(paths[-1], quality=85)
    paths[-1].write_bytes(paths[-1].read_bytes()[:300])
    return np.array(paths), np.array(labels)


def models(memory):
    """Thumbnails as the floor, two recipes that end in an SVM, and the chain into joint learning."""
    features = make_pipeline(
        DenseSIFT(patch=(16, 24), step=6, on_error="skip"),
        Codebook(128, coding="llc", random_state=0, n_jobs=-1),
        SpatialPyramid((1, 2), n_jobs=-1, memory=memory),
        PCA(20, random_state=0),
        Normalizer(),
    )
    joint = SparLow("mfa", n_components=4, n_atoms=60, random_state=0)
    recipe = {"random_state": 0, "n_jobs": -1, "on_error": "skip", "step": 6, "memory": memory}
    return {
        "KSPM": kspm(64, **recipe),
        "LLC": llc(128, **recipe),
        "LLC, PCA, MFA-SparLow, nearest neighbour": make_pipeline(features, joint, KNeighborsClassifier(1)),
    }


def thumbnails(paths):
    """The pictures at 16 × 16 pixels, zeros for one that cannot be read."""
    rows = np.zeros((len(paths), 256))
    for row, path in zip(rows, paths, strict=True):
        try:
            row[:] = np.asarray(Image.fromarray(read_gray(path)).resize((16, 16))).ravel()
        except ValueError as error:
            print(f"  left out: {str(error).split(': ', 1)[1]}")
    return rows


def main(output, per_kind=30):
    output.mkdir(parents=True, exist_ok=True)
    accuracies = {}
    with tempfile.TemporaryDirectory() as place:
        paths, labels = write_pictures(pathlib.Path(place), per_kind, np.random.default_rng(0))
        train, test = slice(None, len(paths) // 2), slice(len(paths) // 2, len(paths) - 1)
        everything = thumbnails(paths)
        nearest = KNeighborsClassifier(1).fit(everything[train], labels[train])
        accuracies["thumbnails, nearest neighbour"] = 100 * nearest.score(everything[test], labels[test])
        for name, model in models(pathlib.Path(place) / "rows").items():
            model.fit(paths[train], labels[train])
            accuracies[name] = 100 * model.score(paths[test], labels[test])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            rows = model[0][:3].transform(paths[test.stop - 2 :])
        print(f"  a broken file keeps its row, of {rows[[-1]].nnz} nonzeros, and is reported: {said[-1].message}")
        show(paths[: 2 * len(KINDS)], labels, output / "pictures.png")
    print(f"\n  {len(labels[train])} training and {len(labels[test])} test pictures")
    for name, accuracy in accuracies.items():
        print(f"  {name:42s} {accuracy:5.1f} %")
    print(f"\n  {output / 'pictures.png'}")
    return accuracies


def show(paths, labels, file):
    """Some of the pictures, side by side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(KINDS), figsize=(9, 3.8), layout="constrained")
    for ax, path, label in zip(axes.flat, paths, labels, strict=False):
        ax.imshow(read_gray(path), cmap="gray", vmin=0, vmax=1)
        ax.set_title(label)
        ax.set_axis_off()
    figure.savefig(file, dpi=100)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("demo"), help="folder for the picture")
    main(parser.parse_args().output)
