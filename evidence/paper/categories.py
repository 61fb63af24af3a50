"""Specify the evidence on object and scene categories: Tables 2 and 3, Figure 11, with the printed values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..specification import LATER, Entry, Experiment, Setting, Size
from .digits_and_faces import QUICK_MODEL, SCENES, printed_1nn

_PICTURES = "Features: pyramids of LLC codes of dense SIFT at three scales over 1024 words, reduced by PCA"
_HALF = _PICTURES + " to half as many components as training pictures."
_ATOMS = " SparLow with nine atoms for ten training pictures, up to 2000."
_LIGHT = (
    " SDA- and SMVR-SparLow with a weight of 0.1 of the neighbour graph. Both chosen on pictures held out of 15-Scenes."
)
# codes below the threshold are zero; around 0.1 it is as curved as the usual elastic net
_KL = {"strength": 0.02, "mean": 1e-3, "threshold": 1e-2}

_VECTORS = (
    " Fisher vectors: the same methods on sparlow.images.fisher_features, whose mixture is learned from pictures of "
)
_FIXED = (
    "; two thirds as many components as training pictures; LDA with a shrinkage of 0.15, the linear SVM with C = 10, "
    "chosen on held-out training pictures of 15-Scenes and of forty classes of Caltech-101, tuned by training folds; "
    "present LDA-SparLow with the library's defaults of today and embeddings of unit norm."
)

_QUICK_OBJECTS = {"per_class": 3, "test": 150, "classes": tuple(range(1, 71))}

# ── Tables 2 and 3, Figure 11: pictures ─────────────────────────────────────────────────────────────────────────────

# method: printed 1NN, or the method's own decision
_TABLE3: dict[str, float | None] = {
    "KSPM": 83.50,
    "ScSPM": 80.28,
    "LLC": 89.2,
    "SRC": 91.8,
    "LC-KSVD": 92.9,
    "FDDL": 90.2,
    "raw pixels": None,
    "LDA": 91.69,
    "SparLDA": 95.89,
    "LDA-SparLow": 97.47,
    "MFA": 92.82,
    "SparMFA": 96.65,
    "MFA-SparLow": 98.46,
    "MVR": 93.10,
    "SparMVR": 96.32,
    "MVR-SparLow": 97.55,
}
_TABLE3_SVM = 72.2  # on the features
_TABLE3_SEMI = {
    "SDA": 97.28,
    "SDE": 97.66,
    "LapRLS": 94.86,
    "SDA-SparLow": 99.18,
    "SLap-SparLow": 99.25,
    "SMVR-SparLow": 99.12,
}
_SCENES_PICTURES = 15 * 100
_FROM_FILES = ("KSPM", "ScSPM", "LLC")
_OWN_DICTIONARY = {"LC-KSVD": {"n_atoms": 750}, "FDDL": {"n_atoms": 750}}  # as many atoms as the paper's


def _categories(setting: Setting, methods: dict[str, float | None], panel: str = "") -> list[Entry]:
    """Return supervised rows: pipelines that begin with the pictures, and methods on pyramids of LLC codes."""
    entries = []
    for method, printed in methods.items():
        own = method in (*_FROM_FILES, "SRC", *_OWN_DICTIONARY)
        where = replace(setting, features="pictures") if method in _FROM_FILES else setting
        label = "features" if method == "raw pixels" else ""
        shown = {"svm": _TABLE3_SVM} if printed is None else {"own" if own else "1nn": printed}
        entries.append(Entry(method, where, _atoms(method, _SCENES_PICTURES), shown, panel=panel, label=label))
    return entries


def _fisher(setting: Setting, panel: str = "") -> list[Entry]:
    """Return rows on Fisher vectors: what users would take, and SparLow with the defaults of today."""
    where = replace(setting, features="fisher")
    rows: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("linear SVM", "", {"C": 10.0}),
        ("LDA decision", "", {"shrinkage": 0.15}),
        ("LDA decision", ", tuned", {"tune": {"shrinkage": [0.15, 0.3, 0.6, 0.9]}}),
        ("LDA", "", {"shrinkage": 0.15}),
        ("present LDA-SparLow decision", "", {}),
        ("present LDA-SparLow", "", {}),
    )
    return [Entry(m, where, o, panel=panel, label=f"{m}{how}, Fisher vectors", open=LATER) for m, how, o in rows]


def _cost(setting: Setting, method: str) -> str:
    """Return why a row has not been measured, with its minutes where they are known."""
    return LATER + _COSTS.get((setting.data, setting.per_class, method), "")


def _family(setting: Setting, printed: dict[str, float], n_atoms: int, panel: str = "") -> list[Entry]:
    """Return rows of further rivals by dictionaries, of which not all have been affordable; SRC takes all samples."""
    return [
        Entry(
            method,
            setting,
            {} if method == "SRC" else {"n_atoms": n_atoms},
            {"own": value},
            panel=panel,
            open=_cost(setting, method),
        )
        for method, value in printed.items()
    ]


def _atoms(method: str, pictures: int) -> dict[str, Any]:
    """Return SparLow's options: nine atoms for ten training pictures, at most 2000, a light neighbour graph."""
    ours = {"n_atoms": min(9 * pictures // 10, 2000), **_lightly(method)}
    return ours if "Spar" in method else _OWN_DICTIONARY.get(method, {})


def _lightly(method: str) -> dict[str, Any]:
    """Return less weight of neighbours than the default: a third of the nearest pictures are of other classes."""
    weights = {"SDA-SparLow": {"alpha": 0.1}, "SMVR-SparLow": {"rho": 0.1}}
    return {"criterion": weights[method]} if method in weights else {}


_TUNED = {"tune": {"normalize_embedding": [True, False], "shrinkage": [0.1, 0.3, 1.0]}}
_TUNED_OBJECTS = {"prior": [1.0, [0.02, 0.2], [0.01, 0.1]], "shrinkage": [0.1, 0.3]}  # 1: the default


def _tuned(setting: Setting) -> list[Entry]:
    """Return SparLow with parameters from training folds, as those of the rivals are."""
    methods = ("LDA-SparLow", "MFA-SparLow")
    return [Entry(m, setting, {**_atoms(m, _SCENES_PICTURES), **_TUNED}, label=f"{m}, tuned") for m in methods]


def _not_scaled(setting: Setting) -> list[Entry]:
    """Return SparLow with embeddings that keep their norms, which are informative with 100 pictures per class."""
    methods = ("LDA-SparLow", "MFA-SparLow", "MVR-SparLow")
    plain = {"normalize_embedding": False}
    return [Entry(m, setting, {**_atoms(m, _SCENES_PICTURES), **plain}, label=f"{m}, not scaled") for m in methods]


def _few_labels(setting: Setting, methods: dict[str, float | None], panel: str = "") -> list[Entry]:
    """Return semi-supervised rows, with the test pictures learned from without labels, and without."""
    with_test = replace(setting, transductive=True)
    entries = [
        Entry(
            method,
            with_test,
            _atoms(method, _SCENES_PICTURES),
            printed_1nn(value),
            panel=panel,
            label=f"{method}, transductive",
        )
        for method, value in methods.items()
    ]
    return entries + [
        Entry(method, setting, _atoms(method, _SCENES_PICTURES), panel=panel, label=f"{method}, inductive")
        for method in methods
        if "-" in method
    ]


# images per class: printed for LDA + SVM, SparLDA, LDA-, MFA-, MVR-, SDA-, SMFA-, SMVR-SparLow
_TABLE2A: dict[int, tuple[float | None, ...]] = {
    5: (50.49, 54.60, 56.44, 57.52, 54.79, 67.42, 68.66, 66.43),
    15: (64.28, 70.05, 73.82, 73.95, 70.56, 76.12, 76.02, 75.48),
    30: (72.40, 75.82, 76.86, 77.32, 76.15, 78.25, 78.42, 77.76),
}
_TABLE2B: dict[int, tuple[float | None, ...]] = {15: (None, 35.62, 38.05, 38.82, 36.29)}
_TABLE2_FILES: dict[str, dict[str, dict[int, float]]] = {
    "caltech101": {
        "LLC": {5: 51.15, 15: 65.43, 30: 73.44},
        "KSPM": {15: 56.40, 30: 64.40},
        "ScSPM": {15: 67.0, 30: 73.2},
    },
    "caltech256": {"LLC": {15: 34.36}, "ScSPM": {15: 27.73}, "LSc": {15: 29.99}},
}
_TABLE2_FAMILY: dict[str, dict[str, dict[int, float]]] = {
    "caltech101": {
        "SRC": {5: 48.8, 15: 64.9, 30: 70.7},
        "LC-KSVD": {5: 54.0, 15: 67.7, 30: 73.6},
        "FDDL": {5: 51.1, 15: 65.6, 30: 71.0},
        "D-KSVD": {5: 49.6, 15: 65.1, 30: 73.0},
        "BMDDL": {5: 56.10, 15: 69.56, 30: 75.54},
    },
    "caltech256": {"SRC": {15: 27.86}, "LC-KSVD": {15: 28.9}, "BMDDL": {15: 35.41}, "TDDL": {15: 33.14}},
}
# CPU time of cells, estimated from other sizes and sets
_COSTS: dict[tuple[str, int | None, str], str] = {
    ("caltech101", 15, "KSPM"): ", about 4 min",
    ("caltech101", 15, "ScSPM"): ", about 15 min",
    ("caltech101", 15, "SRC"): ", about 20 min",
    ("caltech101", 30, "KSPM"): ", about 5 min",
    ("caltech101", 30, "ScSPM"): ", about 20 min",
    ("caltech101", 30, "SRC"): ", up to 2 h",
    ("caltech101", 30, "FDDL"): ", about 15 min",
    ("caltech101", 30, "BMDDL"): ", about 20 min",
    ("caltech256", 15, "ScSPM"): ", about 15 min",
    ("caltech256", 15, "SRC"): ", up to 2 h",
    ("caltech256", 15, "LC-KSVD"): ", about 15 min",
    ("caltech256", 15, "BMDDL"): ", about 25 min",
    ("caltech256", 15, "TDDL"): ", about 25 min",
}
_CLASSES = {"caltech101": 102, "caltech256": 257}
_OBJECTS = ("LDA", "SparLDA", *(f"{name}-SparLow" for name in ("LDA", "MFA", "MVR", "SDA", "SLap", "SMVR")))


def _table2(
    data: str, printed: dict[int, tuple[float | None, ...]], prior: dict[str, float] | None = None
) -> tuple[Entry, ...]:
    entries = []
    for count, values in printed.items():
        setting = Setting(data, per_class=count, features="pyramids")
        panel = f"{count} per class"
        for method, value in zip(_OBJECTS, values, strict=False):
            semi = method.startswith("S") and method != "SparLDA"
            where = replace(setting, transductive=semi)
            label = f"{method}, transductive" if semi else ""
            shown = {} if value is None else {"svm": value}
            options = _atoms(method, _CLASSES[data] * count) | ({"prior": prior} if prior and "Spar" in method else {})
            if method == "LDA" and data == "caltech256":
                options = {"tune": {"shrinkage": [0.1, 0.3, 0.6, 0.9]}}
            entries.append(Entry(method, where, options, shown, panel=panel, label=label))
        if prior is None:
            entries += _beside(setting, _CLASSES[data] * count, panel)
        entries.append(Entry("raw pixels", setting, panel=panel, label="features"))
        pictures = replace(setting, features="pictures")
        for method, value in _published(_TABLE2_FILES[data], count).items():
            entries.append(Entry(method, pictures, printed={"own": value}, panel=panel, open=_cost(setting, method)))
        published = _published(_TABLE2_FAMILY[data], count)
        entries += _family(setting, published, min(_CLASSES[data] * min(count, 15), 2000), panel)
        entries += _fisher(setting, panel) if count != 5 else []
    return tuple(entries)


def _published(values: dict[str, dict[int, float]], count: int) -> dict[str, float]:
    """Return what the paper prints for so many pictures of each class."""
    return {method: printed[count] for method, printed in values.items() if count in printed}


def _beside(setting: Setting, pictures: int, panel: str) -> list[Entry]:
    """Return rows that the paper does not have: parameters by folds, semi-supervised methods without test pictures."""
    tuned = {**_atoms("LDA-SparLow", pictures), "tune": _TUNED_OBJECTS}
    return [Entry("LDA-SparLow", setting, tuned, panel=panel, label="LDA-SparLow, tuned")] + [
        Entry(method, setting, _atoms(method, pictures), panel=panel, label=f"{method}, inductive")
        for method in ("SDA-SparLow", "SLap-SparLow")
    ]


_MANY = Setting("caltech256", per_class=15, features="pyramids")
_FURTHER = (
    *(
        Entry(method, _MANY, _atoms(method, 257 * 15) | {"prior": _KL}, {"svm": value}, panel="15 per class")
        for method, value in (("SparMFA", 36.42), ("SparMVR", 32.90))
    ),
    Entry("LDA-SparLow", _MANY, panel="15 per class", label="LDA-SparLow, elastic net"),
)

_FIG11: dict[str, dict[int, float]] = {
    "LDA-SparLow": {64: 68.3, 3000: 76.9},
    "SDA-SparLow": {64: 68.0, 3000: 79.1},
    "SMVR-SparLow": {64: 68.5, 3000: 78.0},
    "SparLDA": {64: 72.5, 3000: 75.8},
}


def _fig11() -> tuple[Entry, ...]:
    entries = []
    for dimension in (64, 128, 256, 512, 1000, 2000, 3000):
        setting = Setting("caltech101", per_class=30, features=f"pyramids {dimension}")
        for method, values in _FIG11.items():
            where = replace(setting, transductive=method.startswith("S") and method != "SparLDA")
            options = _atoms(method, 30 * _CLASSES["caltech101"])
            same = "with class labels it is SDA-SparLow" if method == "SMVR-SparLow" else ""
            entries.append(Entry(method, where, options, printed_1nn(values.get(dimension)), x=dimension, open=same))
    return tuple(entries)


CATEGORIES: tuple[Experiment, ...] = (
    Experiment(
        "table2a",
        "Caltech-101",
        "table",
        _table2("caltech101", _TABLE2A),
        Size(1, 90),
        Size(1, 1.7, _QUICK_OBJECTS, QUICK_MODEL),
        ("1nn", "svm"),
        remark=_HALF
        + _ATOMS
        + _LIGHT
        + " Tuned: the prior (the default, l1 = 0.02 and l2 = 0.2, or 0.01 and 0.1) and shrinkage (0.1 or 0.3) by "
        "training folds. Inductive: learned from the training pictures alone, all with their labels. "
        "Means of the classes' accuracies; the paper's classifier is an SVM. Three of its seven numbers of "
        "pictures; the system of Griffin et al., for which it quotes 44.2, 59.0 and 67.6, is not built here."
        + _VECTORS
        + "Caltech-256"
        + _FIXED,
        mean_over_classes=True,
    ),
    Experiment(
        "table2b",
        "Caltech-256, the part at hand",
        "table",
        (*_table2("caltech256", _TABLE2B, _KL), *_FURTHER),
        Size(1, 25),
        Size(1, 1.3, _QUICK_OBJECTS, QUICK_MODEL),
        ("1nn", "svm"),
        remark=_HALF
        + _ATOMS
        + " Means of the classes' accuracies. SparLow with the KL prior; λ is the library's. LDA's shrinkage "
        "among four values by folds, where the other tables have seven: 257 covariances take minutes. 20 to 26 "
        "pictures of most classes, where the paper has all 30 607: too few for 30, 45 and 60 pictures to learn from. "
        "The system of Griffin et al., for which it quotes 28.3, is not built here."
        + _VECTORS
        + "Caltech-101"
        + _FIXED,
        mean_over_classes=True,
    ),
    Experiment(
        "table3",
        "15-Scenes",
        "table",
        (
            *_categories(SCENES, _TABLE3),
            Entry("LDA", replace(SCENES, features="pyramids 1000"), label="LDA, 1000 components"),
            *_tuned(SCENES),
            *_not_scaled(SCENES),
            *_few_labels(SCENES, dict(_TABLE3_SEMI)),
            *_family(SCENES, {"D-KSVD": 89.01, "BMDDL": 96.9}, 750),
            Entry("LSc", replace(SCENES, features="pictures"), {}, {"own": 89.7}, open=LATER),
            *_fisher(SCENES),
        ),
        Size(3, 90),
        Size(1, 2, {"per_class": 20, "test": 150}, QUICK_MODEL),
        ("1nn", "svm"),
        remark=_HALF
        + _ATOMS
        + _LIGHT
        + " Tuned: shrinkage, and whether embeddings are scaled to unit norm, by training folds."
        " Not scaled: embeddings as projected, which gets 0.8 points more of four times 450 training pictures held out."
        " The printed values rest on ready-made features that are not at hand. K-SVD + LDA, for which 92.6 is printed, "
        "is SparLDA; the system of Lobel et al. (86.3) is not built here." + _VECTORS + "Caltech-256" + _FIXED,
    ),
    Experiment(
        "fig11",
        "By PCA dimension: Caltech-101, 30 per class",
        "lines",
        _fig11(),
        Size(1, 35, points=(64, 256, 1000, 3000)),
        Size(1, 0.1, _QUICK_OBJECTS, QUICK_MODEL, points=(64, 128)),
        axes=("PCA dimension", "1NN accuracy (%)"),
        remark=_PICTURES
        + "."
        + _ATOMS
        + _LIGHT
        + " Means of the classes' accuracies, as in Table 2. At four of the seven dimensions.",
        mean_over_classes=True,
    ),
)
