"""Speed of the way from pictures to rows, as ratios of CPU time measured in one run, one thread each.

Descriptors against OpenCV's ``SIFT.compute`` at the same points; LLC against a plain implementation, descriptor by
descriptor; a whole image, from its file to its row, against the decoding of its JPEG. Run with
``python benchmarks/images.py --output benchmarks/results/images.json``. Pictures are crops of the two photographs of
scikit-learn.
"""

import argparse
import io
import json
import os
import pathlib
import platform
import time

import cv2
import numpy as np
import sklearn
from PIL import Image
from sklearn.datasets import load_sample_images
from threadpoolctl import threadpool_limits

from sparlow import __version__
from sparlow.images import DHOG, Codebook, DenseSIFT, SpatialPyramid, fisher_features, read_gray

SIDE, STEP = 300, 8


def pictures():
    """A crop of SIDE × SIDE pixels of each photograph."""
    corners = ((100, 200), (50, 150))
    photographs = [np.asarray(Image.fromarray(image).convert("L")) for image in load_sample_images().images]
    crops = [photographs[i % 2][y : y + SIDE, x : x + SIDE] for i, (y, x) in enumerate(corners)]
    return [np.ascontiguousarray(crop) for crop in crops]


def best_seconds(functions, repeats):
    """The least CPU time of each function, in turns: other work on the machine does not count, nor do pauses for it."""
    times = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            began = time.process_time()
            function()
            times[name].append(time.process_time() - began)
    return {name: float(np.min(values)) for name, values in times.items()}


def keypoints(patches):
    """OpenCV's keypoints at the grid of our patches, cells of the same size."""
    blank, points = np.zeros((SIDE, SIDE)), []
    for patch in patches:
        for x, y in DenseSIFT(patch, STEP).transform([blank])[0].positions:
            points.append(cv2.KeyPoint(float(x), float(y), patch / 6, 0.0, 0.0, 0))
    return points


def descriptors(images, repeats):
    """Seconds per image of DenseSIFT and DHOG against OpenCV, which blurs as part of ``compute``."""
    sift, rows = cv2.SIFT_create(), []
    for kind, patches in ((DenseSIFT, (16,)), (DHOG, (16,)), (DHOG, (25,)), (DHOG, (31,)), (DHOG, (16, 25, 31))):
        points, bags = keypoints(patches), kind(patches, STEP).transform(images)
        seconds = best_seconds(
            {
                "opencv": lambda: [sift.compute(image, points) for image in images],  # noqa: B023
                "sparlow": lambda: [bags[i] for i in range(len(images))],  # noqa: B023
            },
            repeats,
        )
        rows.append(
            dict(
                what=kind.__name__,
                patches=list(patches),
                points=len(points),
                opencv_ms=1e3 * seconds["opencv"] / len(images),
                sparlow_ms=1e3 * seconds["sparlow"] / len(images),
                ratio=seconds["opencv"] / seconds["sparlow"],
            )
        )
        print(
            "| {what} {patches} | {points} | {opencv_ms:.2f} | {sparlow_ms:.2f} | {ratio:.1f} |".format(**rows[-1]),
            flush=True,
        )
    return rows


def plain_llc(X, words, k, ridge):
    """As in the authors' program: all distances at once, then one small system per descriptor."""
    distances = np.sum(X * X, axis=1)[:, None] - 2 * X @ words.T + np.sum(words * words, axis=1)
    codes = np.zeros((len(X), len(words)))
    for i, x in enumerate(X):
        near = np.argsort(distances[i])[:k]
        shifted = words[near] - x
        C = shifted @ shifted.T
        C += np.eye(k) * ridge * np.trace(C)
        w = np.linalg.solve(C, np.ones(k))
        codes[i, near] = w / w.sum()
    return codes


def loop_llc(X, words, k, ridge):
    """Descriptor by descriptor throughout, distances too."""
    return np.vstack([plain_llc(x[None], words, k, ridge) for x in X])


def coding(images, codebook, repeats):
    """LLC of the descriptors of an image over 1024 words."""
    bags = DenseSIFT(16, STEP).transform(images)
    bag = bags[0]
    coded = codebook.transform([bag])
    codes = coded[0].values
    error = np.abs(codes.toarray() - plain_llc(bag.values, codebook.words_, 5, 1e-4)).max(axis=1)
    seconds = best_seconds(
        {
            "loop": lambda: loop_llc(bag.values, codebook.words_, 5, 1e-4),
            "plain": lambda: plain_llc(bag.values, codebook.words_, 5, 1e-4),
            "sparlow": lambda: coded[0],
        },
        repeats,
    )
    row = dict(
        descriptors=len(bag),
        words=len(codebook.words_),
        loop_ms=1e3 * seconds["loop"],
        plain_ms=1e3 * seconds["plain"],
        sparlow_ms=1e3 * seconds["sparlow"],
        ratio=seconds["loop"] / seconds["sparlow"],
        ratio_shared_distances=seconds["plain"] / seconds["sparlow"],
        share_equal=float(np.mean(error < 1e-2)),
    )
    print(
        "| {descriptors} | {loop_ms:.1f} | {plain_ms:.1f} | {sparlow_ms:.2f} | {ratio:.1f} | "
        "{ratio_shared_distances:.1f} | {share_equal:.3f} |".format(**row),
        flush=True,
    )
    return [row]


def whole(images, codebook, repeats):
    """From the bytes of a JPEG to a row, and its parts: LLC of patches of 16, then the recipe of Fisher vectors."""
    files = []
    for image in images:
        stream = io.BytesIO()
        Image.fromarray(image).save(stream, "JPEG", quality=85)
        files.append(stream.getvalue())
    rows, fisher = [], fisher_features(0, random_state=0).fit(files)
    fisher.transform(files)  # compiles
    ways = [(kind, codebook, SpatialPyramid()) for kind in (DenseSIFT(16, STEP), DHOG((16,), STEP))]
    ways.append([step for _, step in fisher.steps])
    for kind, codes, pool in ways:
        bags = kind.transform(files)
        pyramid = pool.fit(codes.transform(bags))
        seconds = best_seconds(
            {
                "decode": lambda: [np.asarray(Image.open(io.BytesIO(file))) for file in files],
                "read": lambda: [read_gray(file, 300) for file in files],
                "descriptors": lambda: [bags[i] for i in range(len(files))],  # noqa: B023
                "row": lambda: pyramid.transform(codes.transform(bags)),  # noqa: B023
            },
            repeats,
        )
        row = {f"{name}_ms": 1e3 * value / len(files) for name, value in seconds.items()}
        name = "fisher_features" if codes is not codebook else type(kind).__name__
        rows.append(dict(what=name, **row, multiple=seconds["row"] / seconds["decode"]))
        print(
            "| {what} | {decode_ms:.2f} | {read_ms:.2f} | {descriptors_ms:.2f} | {row_ms:.2f} | {multiple:.1f}|".format(
                **rows[-1]
            ),
            flush=True,
        )
    return rows


def main(repeats, output):
    cv2.setNumThreads(1)
    images = pictures()
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    versions = dict(sparlow=__version__, numpy=np.__version__, sklearn=sklearn.__version__, opencv=cv2.__version__)
    results = dict(versions=versions, machine=machine, side=SIDE, step=STEP, repeats=repeats)
    codebook = Codebook(1024, random_state=0, max_iter=5).fit(DenseSIFT(16, 4).transform(images))
    SpatialPyramid().fit_transform(codebook.transform(DHOG().transform(images)))  # compiles what is not compiled yet
    with threadpool_limits(1):
        print(f"## Descriptors of {SIDE} × {SIDE} pixels, grid of step {STEP}, one thread, {machine}\n")
        print("| | points | OpenCV (ms) | sparlow (ms) | ratio |\n" + "|---" * 5 + "|")
        results["descriptors"] = descriptors(images, repeats)
        print("\n## LLC of an image, 1024 words, 5 neighbours\n")
        print("| descriptors | one by one (ms) | distances together (ms) | sparlow (ms) | ratio | ratio | equal |")
        print("|---" * 7 + "|")
        results["llc"] = coding(images, codebook, repeats)
        print("\n## File to row\n\n| | decode (ms) | grey (ms) | descriptors (ms) | row (ms) | × |")
        print("|---" * 6 + "|")
        results["whole"] = whole(images, codebook, repeats)
    if output:
        output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--output", type=pathlib.Path, help="also write all rows to this JSON file")
    arguments = parser.parse_args()
    main(arguments.repeats, arguments.output)
