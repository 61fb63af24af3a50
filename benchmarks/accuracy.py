"""Does joint learning help? Accuracy of 1NN and RBF-SVM on embeddings, beside what people would use instead.

    SPARLOW_DATA=<folder> python -m benchmarks.accuracy [--sets usps orl-5 …] [--seeds 0 1 2] [--methods …]

Every row keeps set, method, seed, parameters, accuracies, seconds and versions, and is written as soon as it is known:
starting again goes on where the last run ended. Splits, methods, tuning and classifiers are those of
``evidence``; what these rows have beside is the accuracy of 1NN by angle, which scales every
embedding to unit norm. ``--page`` writes the means to docs/evidence/results.md.
"""

import argparse
import json
import pathlib
import warnings

import numpy as np

from evidence.methods import METHODS, WITHOUT_CHANCE, MethodInput
from evidence.rows import plain, versions
from evidence.specification import Setting
from evidence.splits import draw
from sparlow.evaluation import nearest_neighbour, share_right, support_vectors

RESULTS = pathlib.Path(__file__).parent / "results" / "accuracy.json"
SETS = {
    "orl-5": Setting("orl", per_class=5),
    "usps": Setting("usps"),
    "mnist-10000": Setting("mnist", train=10_000),
    "pie-30": Setting("pie", per_class=30),
    "pie-120": Setting("pie", per_class=120),
}
FAMILIES = {"LDA": "SparLDA", "MFA": "SparMFA", "PCA": "SparPCA", "Lap": "SparLap", "LLE": "SparLLE"}
TUNED = {"tune": {"prior": [0.5, 1.0, 2.0], "shrinkage": [0.1, 0.3, 1.0]}}
TUNED_FACES = {"tune": {"prior": [1.0, 2.0], "shrinkage": [0.1, 0.3, 1.0]}}  # of PIE: half the l1 takes hours
# name in the rows: name of the method, its options
ROWS = {"raw": ("raw pixels", {}), "PCA": ("PCA", {}), "LDA": ("LDA", {}), "NCA": ("NCA", {})}
for family, sequential in FAMILIES.items():
    ROWS |= {sequential: (sequential, {}), f"{family}-SparLow": (f"{family}-SparLow", {})}
ROWS |= {f"{family}-SparLow tuned": (f"{family}-SparLow", TUNED) for family in ("LDA", "MFA")}
ROWS["present LDA-SparLow"] = "present LDA-SparLow", {}  # the default fit; the others have the paper's form
MEASURES = ("1nn", "1nn_angle", "svm")

warnings.filterwarnings("ignore")


def angles(Z, centre):
    Z = Z - centre
    return Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)


def measure(name, method, seed):
    split = draw(SETS[name], seed)
    known, options = ROWS[method]
    options = TUNED_FACES if options is TUNED and SETS[name].data == "pie" else options
    found = METHODS[known](MethodInput(split.X, split.y, split.X_test, split.shape, seed, 2, options))
    centre = found.train.mean(axis=0)
    predicted = {
        "1nn": nearest_neighbour(found.train, split.y, found.test),
        "1nn_angle": nearest_neighbour(angles(found.train, centre), split.y, angles(found.test, centre)),
        "svm": support_vectors(found.train, split.y, found.test, seed=seed, n_jobs=2),
    }
    return {
        "set": name,
        "method": method,
        "seed": seed,
        **{key: share_right(labels, split.y_test) for key, labels in predicted.items()},
        "dimension": int(found.test.shape[1]),
        "tuning_seconds": round(found.seconds["tuning"], 2),
        "fit_seconds": round(found.seconds["fit"], 2),
        "n_train": len(split.y),
        "n_test": len(split.y_test),
        "parameters": plain(found.parameters),
        "versions": versions(),
    }


def table(rows):
    print(f"\n{'set':12} {'method':20} {'1NN':>13} {'1NN by angle':>13} {'SVM':>13} {'dim':>4} {'fit s':>7}  seeds")
    for name in SETS:
        for method in ROWS:
            found = [row for row in rows if (row["set"], row["method"]) == (name, method)]
            if found:
                cells = [np.array([100 * row[key] for row in found]) for key in MEASURES]
                text = " ".join(f"{cell.mean():6.2f} ± {cell.std():4.2f}" for cell in cells)
                seconds = np.mean([row["fit_seconds"] for row in found])
                print(f"{name:12} {method:20} {text} {found[0]['dimension']:4d} {seconds:7.1f}  {len(found)}")


PAGE = """\
# The paper's form on image sets

`SPARLOW_DATA=<folder> python -m benchmarks.accuracy` makes the rows, which are kept in
`benchmarks/results/accuracy.json`, and `--page` this page. SparLow has codes alone, an orthonormal projection and ten
steps of the paper's ascent; Spar… is its start. Prior and number of atoms are those of `evidence/defaults.py`,
embeddings have unit norm. `SparLow("lda")` has [other defaults](../defaults.md); [the zoo](zoo.md) has its accuracies
on these sets.

Accuracy in %, nearest neighbour / support vector machine, means over three seeds. All methods see the same images of
unit norm. Their settings are chosen on training images. NCA, on at most 3000 images, is the better of two settings.

{table}

The tuned rows choose l1 and shrinkage on training folds. Criteria without labels are held near their start.
"""


def whole_page(rows):
    """Return the page of the rows."""
    lines = ["| | " + " | ".join(SETS) + " |", "|---" * (len(SETS) + 1) + "|"]
    for method in ROWS:
        cells = []
        for name in SETS:
            found = [row for row in rows if (row["set"], row["method"]) == (name, method)]
            means = [100 * np.mean([row[key] for row in found]) for key in ("1nn", "svm")] if found else []
            cells.append(" / ".join(f"{mean:.2f}" for mean in means))
        if any(cells):
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return PAGE.format(table="\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--page", action="store_true", help="write docs/evidence/results.md instead")
    options = parser.parse_args()
    rows = json.loads(options.output.read_text()) if options.output.exists() else []
    if options.page:
        page = pathlib.Path(__file__).parent.parent / "docs" / "evidence" / "results.md"
        page.write_text(whole_page(rows), encoding="utf-8")
        return
    done = {(row["set"], row["method"], row["seed"]) for row in rows}
    for seed in options.seeds:
        for name in options.sets:
            for method in options.methods:
                chance = SETS[name].by_chance or ROWS[method][0] not in WITHOUT_CHANCE
                if (name, method, seed) in done or (not chance and seed != options.seeds[0]):
                    continue
                row = measure(name, method, seed)
                rows.append(row)
                options.output.write_text("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
                shown = " ".join(f"{key} {100 * row[key]:.2f}" for key in MEASURES)
                seconds = f"{row['tuning_seconds']} + {row['fit_seconds']} s"
                print(f"{name} {method} seed {seed}: {shown}, {seconds}", flush=True)
    table(rows)


if __name__ == "__main__":
    main()
