"""List every method by its name: a function of :class:`MethodInput` that returns a :class:`MethodOutput`.

A method sees training samples, their labels and the test samples without labels. Its options are those of its
estimator, and six more:

- ``tune``: parameters and their candidate values, chosen on training folds
- ``landmarks``: fit on so many random samples and map the others
- ``shifts``: add copies of the training images, moved by so many pixels
- ``averaged``: take the mean embedding of a test image and its copies, moved by so many pixels
- ``views``: average codes over images moved by up to so many pixels, see :class:`sparlow.views.Shifts`; other methods
  average the images
- ``spread``: let the model fill in missing labels of the training samples for the classifier

``prior`` is written (l1, l2), as a multiple of the default l1, or as a dict of the parameters of KLDivergence;
``criterion`` as a dict of its parameters. SparLow's and the classical methods' options are those of
:mod:`evidence.models`.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.decomposition import PCA
from sklearn.manifold import Isomap, LocallyLinearEmbedding
from sklearn.preprocessing import FunctionTransformer, normalize
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import LinearSVC

from sparlow import SparLow
from sparlow.classifiers import BMDDL, DKSVD, FDDL, LCKSVD, SRC, TDDL, LapRLS
from sparlow.constants import TRIED
from sparlow.criteria import CRITERIA
from sparlow.evaluation import divided, own_embedding, part, searched
from sparlow.images import Scattering, kspm, llc, lsc, scspm
from sparlow.priors import ElasticNet, KLDivergence
from sparlow.views import Patches, Shifts

from .adapted import DecidingLDA, GaussianKernelPCA, LabelledLDA, ReducedNCA, ScaledSparsePCA
from .contract import Method, MethodInput, MethodOutput, NotApplicable, StepListener, found_of
from .defaults import default_prior, kinship
from .eigenmaps import LaplacianEigenmaps
from .models import Classical, Joint
from .printed import printed

Array = NDArray[Any]

_SCATTERED = 500  # principal components of scattering coefficients
_TUNING_STEPS = 5  # of SparLow, where folds choose its parameters


# ── estimators of any kind ──────────────────────────────────────────────────────────────────────────────────────────


def of_estimator(build: Callable[[MethodInput], Any], grid: Mapping[str, Any] | None = None, note: str = "") -> Method:
    """Return the method of an estimator: parameters of ``grid`` by training folds, then a fit on all of them."""

    def method(given: MethodInput) -> MethodOutput:
        options = dict(given.options)
        given = _averaged(given, options.pop("views", 0))
        choices = {**(grid or {}), **options.pop("tune", {})}
        landmarks, shifts = options.pop("landmarks", None), options.pop("shifts", 0)
        estimator = build(given).set_params(**options)
        choices = {name: values for name, values in choices.items() if name not in options}
        began = time.perf_counter()
        estimator = _tuned(estimator, choices, given)
        chosen = time.perf_counter()
        X, y = _with_copies(given, shifts)
        said = note
        if landmarks is not None and len(y) > landmarks:
            X, y = part(X, y, given.seed, landmarks)
            said = f"{note}; " * bool(note) + f"fitted on {landmarks} training samples, its map for the others"
        estimator.fit(X, y)
        seconds = {"tuning": chosen - began, "fit": time.perf_counter() - chosen}
        known = {name: getattr(estimator, name) for name in choices}
        shown = dataclasses.replace(given, X=X, y=y) if shifts else given
        return _output(estimator, shown, {**options, **known}, seconds, said)

    return method


def _tuned(estimator: Any, choices: Mapping[str, Any], given: MethodInput) -> Any:
    """Return the estimator with parameters chosen on folds, where dictionaries are smaller and steps fewer."""
    known = estimator.get_params()
    final = {name: known[name] for name in ("n_atoms", "max_iter") if "n_atoms" in known and known.get(name)}
    fewer = {"n_atoms": min(len(given.y), TRIED) // 3, "max_iter": _TUNING_STEPS}
    if choices:
        estimator.set_params(**{name: min(value, fewer[name]) for name, value in final.items()})
    kept = {name: value for name, value in final.items() if name not in choices}
    folds = given.folds or functools.partial(divided, given.X, given.y, given.seed)
    return searched(estimator, choices, folds).set_params(**kept)


def _output(estimator: Any, given: MethodInput, parameters: Mapping[str, Any], seconds: Any, note: str) -> MethodOutput:
    if is_classifier(estimator) and not hasattr(estimator, "transform"):
        predicted = estimator.predict(given.X_test)
        return MethodOutput(predicted=predicted, parameters=parameters, seconds=seconds, note=note)
    train, test = own_embedding(estimator, given.X), estimator.transform(given.X_test)
    arrays = {"components": estimator.components_} if hasattr(estimator, "components_") else {}
    return MethodOutput(train, test, labels=given.y, parameters=parameters, seconds=seconds, note=note, arrays=arrays)


def raw(given: MethodInput) -> Any:
    """Return the samples themselves."""
    return FunctionTransformer()


def pca(given: MethodInput) -> Any:
    """Return PCA, with no more components than the samples have features."""
    asked, there = given.options.get("n_components", 1), given.X.shape[1]
    if asked > there:
        raise NotApplicable(f"{asked} components of {there} numbers")
    return PCA(random_state=0)


def lda(given: MethodInput) -> Any:
    """Return scikit-learn's LDA with shrinkage, on the labelled samples."""
    if np.unique(given.y[given.y != -1], return_counts=True)[1].max() < 2:
        raise NotApplicable("one label per class: there is no scatter within classes")
    return LabelledLDA(solver="eigen", shrinkage=0.1)


def nca(given: MethodInput) -> Any:
    """Return neighbourhood components analysis, with one component less than classes."""
    return ReducedNCA(min(50, len(np.unique(given.y)) - 1), max_iter=50, random_state=given.seed)


def spreading(given: MethodInput) -> Any:
    """Return scikit-learn's label spreading over the graph of neighbours."""
    return LabelSpreading(kernel="knn", max_iter=300, n_jobs=given.threads)


def quotient(criterion: str) -> Callable[[MethodInput], Any]:
    """Return the classical method of a criterion."""

    def build(given: MethodInput) -> Any:
        _refuse_single_labels(criterion, given.y)
        return Classical(CRITERIA[criterion](), n_jobs=given.threads)

    return build


def _refuse_single_labels(criterion: str, y: Array) -> None:
    """Raise NotApplicable where a criterion compares samples of the same class and there are none."""
    kind = CRITERIA[criterion]
    if kind.supervision == "none":
        return
    counts = np.unique(y[y != -1], return_counts=True)[1]
    if counts.min() < max(kind.fewest_per_class, 2 if kind.supervision == "full" else 1):
        raise NotApplicable("one label per class: no two samples of the same class to compare")


# ── SparLow ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def model(criterion: str, sequential: bool = False) -> Method:
    """Return SparLow with a criterion; ``sequential`` takes no step and keeps the first dictionary."""

    def method(given: MethodInput) -> MethodOutput:
        _refuse_single_labels(criterion, given.y)
        options = dict(given.options)
        options |= {"max_iter": 0} if sequential else {}
        tune, shifts, averaged = options.pop("tune", {}), options.pop("shifts", 0), options.pop("averaged", 0)
        spread = options.pop("spread", False)
        X, y = _with_copies(given, shifts)
        estimator = Joint(criterion, random_state=given.seed, n_jobs=given.threads)
        written = {**options, "views": _shifts(given.shape, options["views"])} if "views" in options else options
        estimator.set_params(**_arguments(criterion, X, y, written))
        began = time.perf_counter()
        choices = {
            name: [_arguments(criterion, X, y, {**written, name: value})[name] for value in tune[name]] for name in tune
        }
        estimator = _tuned(estimator, choices, given)
        chosen = time.perf_counter()
        test = list(copies(given.X_test, given.shape, averaged))
        _fit(estimator, X, y, test, given.on_step)
        seconds = {"tuning": chosen - began, "fit": time.perf_counter() - chosen}
        return MethodOutput(
            estimator.embedding_,
            _mean_embedding(estimator, test),
            labels=estimator.transduction_ if spread else y,
            parameters={**options, **{name: getattr(estimator, name) for name in tune}, **found_of(estimator)},
            seconds=seconds,
            arrays={"components": estimator.components_},
        )

    return method


def today(criterion: str, local: bool = False, decides: bool = False) -> Method:
    """Return SparLow with the library's present defaults, embeddings of unit norm; ``local`` with codes of patches.

    One that ``decides`` classifies by its own ``predict``.
    """

    def method(given: MethodInput) -> MethodOutput:
        _refuse_single_labels(criterion, given.y)
        views = Patches(shape=_one_shape(given)) if local else None
        estimator = SparLow(criterion, views=views, random_state=given.seed, n_jobs=given.threads)
        options = {name: value for name, value in given.options.items() if name != "tune"}
        estimator.set_params(**options)
        labels = None if CRITERIA[criterion].supervision == "none" else given.y
        began = time.perf_counter()
        estimator.fit(given.X, labels)
        seconds = {"tuning": 0.0, "fit": time.perf_counter() - began}
        found = {"n_atoms": len(estimator.dictionary_), "n_iter": estimator.n_iter_}
        found |= {"n_components": estimator.embedding_.shape[1], "ridges": str(estimator.ridges_)}
        if decides:
            predicted = estimator.predict(given.X_test)
            return MethodOutput(predicted=predicted, parameters={**options, **found}, seconds=seconds)
        train, test = (normalize(Z) for Z in (own_embedding(estimator, given.X), estimator.transform(given.X_test)))
        return MethodOutput(train, test, labels=given.y, parameters={**options, **found}, seconds=seconds)

    return method


def scattered(build: Callable[[MethodInput], Any], grid: Mapping[str, Any], note: str = "") -> Method:
    """Return the method of an estimator on 500 principal components of logarithms of scattering coefficients."""
    on_rows = of_estimator(build, grid, note)

    def method(given: MethodInput) -> MethodOutput:
        fixed = Scattering(log=True, shape=_one_shape(given), n_jobs=given.threads)
        X, X_test = (normalize(fixed.fit_transform(rows)) for rows in (given.X, given.X_test))
        reduced = PCA(min(_SCATTERED, len(X) - 1, X.shape[1]), svd_solver="randomized", random_state=0).fit(X)
        X, X_test = reduced.transform(X), reduced.transform(X_test)
        return on_rows(dataclasses.replace(given, X=X, X_test=X_test))

    return method


def _one_shape(given: MethodInput) -> tuple[int, int]:
    if given.shape is None:
        raise NotApplicable("patches and scattering need images of one shape")
    return given.shape


def _arguments(criterion: str, X: Array, y: Array, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return SparLow's parameters from options as they are written in a specification."""
    made = dict(options)
    if isinstance(made.get("prior"), (int, float)):
        usual = default_prior(X, CRITERIA[criterion].mild_prior, kinship(X, y != -1), "views" in made)
        made["prior"] = ElasticNet(made["prior"] * usual.l1, usual.l2)
    elif isinstance(made.get("prior"), dict):
        made["prior"] = KLDivergence(**made["prior"])
    elif "prior" in made:
        made["prior"] = ElasticNet(*made["prior"])
    if "criterion" in made:
        made["criterion"] = CRITERIA[criterion](**made["criterion"])
    return made


def _fit(estimator: Joint, X: Array, y: Array, test: Sequence[Array], on_step: StepListener | None) -> None:
    """Fit the estimator; show its embeddings to ``on_step`` at the start and after each step."""
    if on_step is None:
        estimator.fit(X, y)
    else:

        def show(now: Joint) -> None:
            on_step(now.embedding_, y, _mean_embedding(now, test))

        steps = estimator.max_iter
        show(estimator.set_params(max_iter=0).fit(X, y))
        estimator.set_params(max_iter=steps, dictionary=estimator.dictionary_).fit_following(X, y, show)
    if estimator.stop_reason_ == "interrupted":
        raise KeyboardInterrupt


def _mean_embedding(estimator: Joint, views: Sequence[Array]) -> Array:
    """Return the mean embedding of the views, of unit norm where embeddings are."""
    if len(views) == 1:
        return estimator.transform(views[0])
    return estimator.scaled(np.mean([estimator.transform(view) for view in views], axis=0))


def _with_copies(given: MethodInput, pixels: int) -> tuple[Array, Array]:
    """Return the training images with their moved copies, and the labels of all."""
    X = np.concatenate(list(copies(given.X, given.shape, pixels))) if pixels else given.X
    return X, np.tile(given.y, len(X) // len(given.X))


def _shifts(shape: tuple[int, int] | None, pixels: int) -> Shifts:
    if shape is None:
        raise NotApplicable("shifts need images of one shape")
    return Shifts(pixels, shape)


def _averaged(given: MethodInput, pixels: int) -> MethodInput:
    """Return the input with images averaged over the views that SparLow averages codes over."""
    if not pixels:
        return given
    views, m = _shifts(given.shape, pixels).bind(given.X), given.X.shape[1]

    def means(X: Array) -> Array:
        cut = (views.cut(X[rows]).reshape(-1, views.n_views, m) for rows in views.parts(len(X), m))
        return np.asarray(normalize(np.vstack([some.mean(axis=1) for some in cut])))

    return dataclasses.replace(given, X=means(given.X), X_test=means(given.X_test))


def copies(X: Array, shape: tuple[int, int] | None, pixels: int) -> Iterator[Array]:
    """Yield the images, and these moved by up to so many pixels in eight directions; what moves in is black."""
    yield X
    if not pixels:
        return
    _, *moves = _shifts(shape, pixels).maps(X.shape[1])
    for T in reversed(moves):
        yield normalize(X @ T)


# ── by name ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_DIMENSIONS = {"n_components": [30, 50, 100, 150]}
_LDA_GRID = {"shrinkage": ["auto", 0.01, 0.03, 0.1, 0.3, 0.6, 0.9]}
_SHRINKAGE = [0.1, 1.0, 10.0, 100.0, 1000.0]  # multiples of the mean diagonal: faces bear much of it
_FEW_LABELS = [0.03, 0.3, 3.0, 30.0, 300.0]
_GRAPH = {"k": [5, 10, 20]}
_SPREADING = {"n_neighbors": [7, 10, 20], "alpha": [0.05, 0.2, 0.8, 0.99]}
_BY_GRAPH = "scikit-learn's LabelSpreading; test samples by their neighbours in the training graph"


def _criteria(name: str, **grid: Any) -> list[Any]:
    """Return the criterion with each value of a parameter."""
    ((parameter, values),) = grid.items()
    return [CRITERIA[name](**{parameter: value}) for value in values]


METHODS: dict[str, Method] = {
    "raw pixels": of_estimator(raw),
    "PCA": of_estimator(pca, _DIMENSIONS),
    "Sparse PCA": of_estimator(lambda p: ScaledSparsePCA(), {"sparsity": [0.0005, 0.002, 0.006, 0.02]}),
    "KPCA": of_estimator(lambda p: GaussianKernelPCA(), {"width": [0.3, 1.0, 3.0]}),
    "LLE": of_estimator(
        lambda p: LocallyLinearEmbedding(n_components=20, random_state=0, n_jobs=p.threads),
        {"n_neighbors": [10, 25, 40]},
        "new samples by the weights of their neighbours",
    ),
    "LE": of_estimator(
        lambda p: LaplacianEigenmaps(20, n_jobs=p.threads), _GRAPH, "new samples by the Nyström extension"
    ),
    "ISOMAP": of_estimator(
        lambda p: Isomap(n_components=20, n_jobs=p.threads),
        {"n_neighbors": [5, 10, 20]},
        "new samples by geodesic distances to the training samples",
    ),
    "LDA": of_estimator(lda, _LDA_GRID),
    "NCA": of_estimator(nca, {"init": ["lda", "pca"]}),
    "OLPP": of_estimator(quotient("lap"), {"criterion": _criteria("lap", k=[5, 10, 20]), "shrinkage": _SHRINKAGE}),
    "ONPP": of_estimator(quotient("lle"), {"criterion": _criteria("lle", k=[5, 10, 20]), "shrinkage": _SHRINKAGE}),
    "SDA": of_estimator(
        quotient("sda"), {"criterion": _criteria("sda", alpha=[0.1, 1.0, 10.0]), "shrinkage": _FEW_LABELS}
    ),
    "SDE": of_estimator(
        quotient("slap"), {"criterion": _criteria("slap", near=[0.001, 0.01, 0.1, 1.0]), "shrinkage": _FEW_LABELS}
    ),
    "LapRLS": of_estimator(
        lambda p: LapRLS(n_jobs=p.threads),
        {"width": [0.5, 1.0, 2.0], "gamma_A": [1e-5, 1e-3], "gamma_I": [0.1, 1.0, 10.0]},
    ),
    "LGC": of_estimator(spreading, _SPREADING, _BY_GRAPH),
    "SRC": of_estimator(lambda p: SRC(random_state=p.seed, n_jobs=p.threads), {"l1": [0.001, 0.01, 0.05]}),
    "LC-KSVD": of_estimator(
        lambda p: LCKSVD(random_state=p.seed, n_jobs=p.threads), {"alpha": [0.001, 0.1, 1.0], "n_nonzero": [30, 60]}
    ),
    "D-KSVD": of_estimator(
        lambda p: DKSVD(random_state=p.seed, n_jobs=p.threads), {"n_nonzero": [8, 16, 30], "gamma": [0.1, 1.0]}
    ),
    "TDDL": of_estimator(
        lambda p: TDDL(rho=3.0, random_state=p.seed, n_jobs=p.threads), {"lambda1": [0.05, 0.15], "nu": [1e-6, 1e-4]}
    ),
    "BMDDL": of_estimator(
        lambda p: BMDDL(random_state=p.seed, n_jobs=p.threads), {"alpha": [0.01, 0.05], "ridge": [0.1, 1.0]}
    ),
    "LDA decision": of_estimator(lambda p: DecidingLDA()),
    "linear SVM": of_estimator(lambda p: LinearSVC(random_state=0), {"C": [1.0, 10.0]}),
    "LSc": of_estimator(lambda p: lsc(random_state=p.seed, n_jobs=p.threads)),
    "scattering + PCA": scattered(pca, _DIMENSIONS),
    "scattering + LDA": scattered(lda, {"shrinkage": [0.03, 0.1, 0.3]}),
    "scattering + LGC": scattered(spreading, _SPREADING, _BY_GRAPH),
    "local PCA-SparLow": today("pca", local=True),
    "local LDA-SparLow": today("lda", local=True),
    "local SDA-SparLow": today("sda", local=True),
    "present LDA-SparLow decision": today("lda", decides=True),
    "KSPM": of_estimator(lambda p: kspm(random_state=p.seed, n_jobs=p.threads)),
    "ScSPM": of_estimator(lambda p: scspm(random_state=p.seed, n_jobs=p.threads)),
    "LLC": of_estimator(lambda p: llc(random_state=p.seed, n_jobs=p.threads)),
    "MFA": of_estimator(quotient("mfa"), {"shrinkage": [0.03, 0.1, 0.3, 1.0, 3.0, 10.0]}),
    "MVR": of_estimator(quotient("mvr"), {"shrinkage": [0.03, 0.1, 0.3, 1.0, 3.0, 10.0]}),
    "FDDL": of_estimator(
        lambda p: FDDL(random_state=p.seed, n_jobs=p.threads), {"lambda1": [0.001, 0.005], "w": [0.05, 0.5]}
    ),
}

for _name, _title in {
    "pca": "PCA",
    "lap": "Lap",
    "lle": "LLE",
    "lda": "LDA",
    "mfa": "MFA",
    "mvr": "MVR",
    "sda": "SDA",
    "slap": "SLap",
    "smvr": "SMVR",
}.items():
    METHODS[f"{_title}-SparLow"] = model(_name)
    METHODS[f"Spar{_title}"] = model(_name, sequential=True)
    METHODS[f"present {_title}-SparLow"] = today(_name)
    METHODS[f"{_title}-SparLow as printed"] = printed(_name)

# Methods whose output the seed cannot change, given the samples.
WITHOUT_CHANCE = frozenset(
    (
        "raw pixels",
        "PCA",
        "Sparse PCA",
        "KPCA",
        "LLE",
        "LE",
        "ISOMAP",
        "LDA",
        "OLPP",
        "ONPP",
        "SDA",
        "SDE",
        "LapRLS",
        "LGC",
        "linear SVM",
        "LDA decision",
        "scattering + PCA",
        "scattering + LDA",
        "scattering + LGC",
    )
)
