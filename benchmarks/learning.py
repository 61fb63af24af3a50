"""What learning together adds: the same dictionary before and after the steps, on samples not learned from.

    SPARLOW_DATA=<folder> python -m benchmarks.learning [start copies few atoms course] [--seeds 0 1 2] [--sets …]

Each run is one line of JSON in ``results/learning.jsonl``; runs that are there already are not repeated. Accuracies
are those of the nearest training sample by angle in classes − 1 numbers of the codes alone, unless said, in per cent.

- start: fifteen sets, at the first dictionary and after twenty passes.
- copies: the default model, without and with copies moved by a pixel.
- few: sda, slap and smvr with ten labels of each class, at the first dictionary and after ten passes.
- atoms: models of r and of r/4 atoms, at the first dictionary and learned together, with microseconds per sample.
- course: accuracy after each pass, of the steps and of the ascent of all samples.

``--draw`` makes the picture of rows at hand, ``--page`` a page of tables.
"""

import argparse
import json
import pathlib
import time
import warnings

import numpy as np
from sklearn.preprocessing import normalize

from benchmarks.zoo import accuracies, discriminants
from benchmarks.zoo_sets import drawn
from sparlow import Coder, Copies, SparLow
from sparlow.estimators import OnStep

RESULTS = pathlib.Path(__file__).parent / "results" / "learning.jsonl"
PICTURE = pathlib.Path(__file__).parent.parent / "docs" / "images" / "generalisation.png"
PAGE = pathlib.Path(__file__).parent.parent / "docs" / "evidence" / "learning.md"
PASSES = 20
SHRINKAGE = 0.1  # of the discriminants of codes, that of the criterion
WITH_ROOM = ("usps", "usps2000", "mnist1000", "mnist10000", "pie30", "orl5", "fashion1000", "fashion5000", "isolet",
             "ar5", "pose27", "hog_usps", "hog_orl", "scenes", "leaves")  # fmt: skip
PIXELS = {"usps": 16, "mnist1000": 28, "mnist10000": 28, "fashion1000": 28, "fashion5000": 28, "fashion20000": 28}
COURSES = {"usps": "handwritten digits", "isolet": "spoken letters", "pie30": "faces", "fashion1000": "clothes"}
WIDE = {"usps": 1000, "isolet": 1000, "mnist1000": 500, "fashion1000": 500}


def by_codes(split, codes, codes_test):
    """Accuracy of linear discriminants of the codes, with one shrinkage for every dictionary."""
    Z, Z_test = codes.toarray(), codes_test.toarray()
    mean, W = discriminants(Z, split.y, None)(SHRINKAGE)
    return accuracies((Z - mean) @ W, split.y, (Z_test - mean) @ W, split.y_test)["angle"]


def at(dictionary, prior, split):
    """Accuracy of the codes at one dictionary, and microseconds that coding takes for a sample."""
    coder = Coder(dictionary, prior, n_jobs=1)
    X, X_test = normalize(split.X), normalize(split.X_test)
    codes = coder.encode(X)
    began = time.process_time()
    codes_test = coder.encode(X_test)
    return by_codes(split, codes, codes_test), 1e6 * (time.process_time() - began) / len(X_test)


def learned(split, seed, **options):
    """Return a model that makes its passes whatever held-out samples say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SparLow(random_state=seed, early_stopping=False, normalize=True, n_jobs=1, **options)
        return model.fit(split.X, split.y)


def start(name, seed, options):
    """From the same start, codes alone."""
    split = drawn(name, seed)
    first = learned(split, seed, max_iter=0)
    began = time.process_time()
    moved = learned(split, seed, dictionary=first.dictionary_, prior=first.prior_, max_iter=PASSES)
    seconds = time.process_time() - began
    yield {
        "start": at(first.dictionary_, first.prior_, split)[0],
        "end": at(moved.dictionary_, first.prior_, split)[0],
        "atoms": len(first.dictionary_),
        "seconds": round(seconds, 1),
    }


def copies(name, seed, options):
    """The default, told what a sample may look like; each test sample is the mean of nine moved copies at the end."""
    split, side = drawn(name, seed), PIXELS[name]
    for what, drawing in (("none", None), ("shift", Copies(shift=1, shape=(side, side)))):
        began = time.process_time()
        model = SparLow(random_state=seed, copies=drawing, max_iter=PASSES, n_jobs=1).fit(split.X, split.y)
        seconds = time.process_time() - began
        Z = model.transform(split.X)
        row = {
            "copies": what,
            "angle": accuracies(Z, split.y, model.transform(split.X_test), split.y_test)["angle"],
            "predict": 100 * model.score(split.X_test, split.y_test),
            "held_out": model.held_out_,
            "seconds": round(seconds, 1),
        }
        if drawing is not None:
            pictures = split.X_test.reshape(-1, side, side)
            padded = np.pad(pictures, ((0, 0), (1, 1), (1, 1)), mode="edge")
            moved = [
                padded[:, i : i + side, j : j + side].reshape(len(pictures), -1) for i in range(3) for j in range(3)
            ]
            row["mean_of_nine"] = accuracies(
                Z, split.y, np.mean([model.transform(X) for X in moved], axis=0), split.y_test
            )["angle"]
        yield row


def few(name, seed, options):
    """Ten labels of each class, the other training samples unlabelled."""
    split = drawn(name, seed)
    rng = np.random.RandomState(seed)
    y = np.full(len(split.y), -1)
    for c in np.unique(split.y):
        rows = rng.permutation(np.flatnonzero(split.y == c))[:10]
        y[rows] = c
    for criterion in ("sda", "slap", "smvr"):
        targets = np.where(y[:, None] >= 0, np.eye(split.y.max() + 1)[y], np.nan) if criterion == "smvr" else y
        row = {"criterion": criterion}
        for when, passes in (("start", 0), ("end", 10)):
            model = learned(split._replace(y=targets), seed, criterion=criterion, max_iter=passes)
            Z, Z_test = model.transform(split.X), model.transform(split.X_test)
            row[when] = accuracies(Z[y >= 0], y[y >= 0], Z_test, split.y_test)["angle"]
        yield row


def atoms(name, seed, options):
    """A quarter of the atoms learned together beside all of them that are not."""
    split = drawn(name, seed)
    for r in (WIDE[name], WIDE[name] // 4):
        first = learned(split, seed, max_iter=0, n_atoms=r)
        moved = learned(split, seed, dictionary=first.dictionary_, prior=first.prior_, max_iter=PASSES)
        for when, D in (("start", first.dictionary_), ("end", moved.dictionary_)):
            accuracy, micros = at(D, first.prior_, split)
            yield {"atoms": r, "when": when, "angle": accuracy, "microseconds": round(micros, 1)}


def course(name, seed, options):
    """Accuracy after each pass over the samples, of both ways to climb."""
    split = drawn(name, seed)
    first = learned(split, seed, max_iter=0)
    fixed = {"dictionary": first.dictionary_, "prior": first.prior_, "max_iter": PASSES, "n_jobs": 1}
    for solver in ("stochastic", "eliminate"):
        passes, found = [0], [at(first.dictionary_, first.prior_, split)[0]]

        def follow(row, model, passes=passes, found=found):
            passes.append(passes[-1] + int(row["evaluations"]))
            found.append(at(model.dictionary_, first.prior_, split)[0])
            return passes[-1] >= PASSES

        embedding = "whitened" if solver == "stochastic" else "orthonormal"
        model = SparLow(
            solver=solver, early_stopping=False, embedding=embedding, normalize=True, random_state=seed, **fixed
        )
        model.set_callbacks(OnStep(follow)).fit(split.X, split.y)
        yield {"solver": solver, "passes": passes, "angle": found}


MEASURES = {"start": (start, WITH_ROOM), "copies": (copies, tuple(PIXELS)),
            "few": (few, ("digits", "usps2000", "isolet")),
            "atoms": (atoms, tuple(WIDE)), "course": (course, tuple(COURSES))}  # fmt: skip


def rows_of(path):
    """The rows at hand."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def draw(rows):
    """Draw accuracy over passes, the ascent beside the steps, for four sets."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(12, 3), layout="constrained")
    for axis, (name, title) in zip(axes, COURSES.items(), strict=True):
        for solver, label, colour in (
            ("stochastic", "small steps", "#0b6e4f"),
            ("eliminate", "ascent of all samples", "#b0413e"),
        ):
            for row in (
                row for row in rows if (row["measure"], row["set"]) == ("course", name) and row["solver"] == solver
            ):
                axis.plot(
                    row["passes"], row["angle"], color=colour, alpha=0.8, label=label if row["seed"] == 0 else None
                )
        axis.set(title=title, xlabel="passes over the samples", xlim=(0, PASSES))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("correct on new samples, %")
    axes[0].legend(frameon=False, loc="lower right")
    figure.savefig(PICTURE, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measures", nargs="*", default=list(MEASURES))
    parser.add_argument("--sets", nargs="+", default=[])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--draw", action="store_true", help="draw the rows at hand")
    parser.add_argument("--page", action="store_true", help="write docs/evidence/learning.md from the rows at hand")
    options = parser.parse_args()
    if options.draw:
        return draw(rows_of(options.rows))
    if options.page:
        return PAGE.write_text(table(rows_of(options.rows)), encoding="utf-8")
    for seed in options.seeds:
        for measure in options.measures:
            function, sets = MEASURES[measure]
            for name in options.sets or sets:
                key = (measure, name, seed)
                if any((row["measure"], row["set"], row["seed"]) == key for row in rows_of(options.rows)):
                    continue
                found = list(function(name, seed, options))
                with options.rows.open("a") as lines:
                    for row in found:
                        text = json.dumps({"measure": measure, "set": name, "seed": seed} | row)
                        lines.write(text + "\n")
                        print(text, flush=True)


def table(rows):
    """Return a page of means over the seeds, with the standard error of differences."""
    lines = [
        "# Start and end of learning together",
        "",
        "The same dictionary before and after twenty passes of stochastic steps, whatever held-out samples say.",
        "Accuracy in per cent of the nearest training sample by angle, in classes − 1 numbers of codes alone, with the",
        "shrinkage of the criterion for both. `SPARLOW_DATA=<folder> python -m benchmarks.learning` makes the rows,",
        "`--page` this page.",
        "",
        "| set | atoms | draws | start | end | gain |",
        "|---|---|---|---|---|---|",
    ]
    gains = []
    for name in WITH_ROOM:
        found = [row for row in rows if (row["measure"], row["set"]) == ("start", name)]
        if found:
            first, last = (np.array([row[when] for row in found]) for when in ("start", "end"))
            error = f" ± {(last - first).std(ddof=1) / len(found) ** 0.5:.1f}" if len(found) > 1 else ""
            gains.append((last - first).mean())
            lines.append(
                f"| {name} | {found[0]['atoms']} | {len(found)} | {first.mean():.1f} | {last.mean():.1f} "
                f"| {gains[-1]:+.1f}{error} |"
            )
    lines += ["", f"Mean gain over {len(gains)} sets: {np.mean(gains):+.2f}; the least is {np.min(gains):+.2f}.", ""]
    moved = [row for row in rows if row["measure"] == "copies"]
    if moved:
        lines += ["## Copies moved by a pixel", "", "The default model, `predict`, one draw."]
        lines += ["", "| set | without | with | mean of nine copies, by angle |", "|---|---|---|---|"]
        for name in dict.fromkeys(row["set"] for row in moved):
            none, shift = (
                [row for row in moved if (row["set"], row["copies"]) == (name, what)] for what in ("none", "shift")
            )
            if none and shift:
                before, after, nine = none[0]["predict"], shift[0]["predict"], shift[0]["mean_of_nine"]
                lines.append(f"| {name} | {before:.1f} | {after:.1f} | {nine:.1f} |")
        lines.append("")
    quarters = [row for row in rows if row["measure"] == "atoms"]
    if quarters:
        lines += ["## A quarter of the atoms", "", "Codes alone, one draw; microseconds to code a sample."]
        lines += ["", "| set | atoms | start | end | µs |", "|---|---|---|---|---|"]
        for name, r in dict.fromkeys((row["set"], row["atoms"]) for row in quarters):
            first, last = (
                next(row for row in quarters if (row["set"], row["atoms"], row["when"]) == (name, r, when))
                for when in ("start", "end")
            )
            lines.append(f"| {name} | {r} | {first['angle']:.1f} | {last['angle']:.1f} | {last['microseconds']:.0f} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
