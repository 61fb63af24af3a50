"""Errors of the estimators: what was wrong, and what would work."""

import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sparlow import SparLow, TraceQuotient, encode
from sparlow.criteria import LAP, Criterion, Quotient
from sparlow.graphs import between_classes, centring, within_classes
from sparlow.priors import ElasticNet, KLDivergence
from tests import cases
from tests.digits import UNIT, X_NEW, X, Y, labels_for, plain, small

BOTH = pytest.mark.parametrize("build", [small, TraceQuotient], ids=["SparLow", "TraceQuotient"])


@BOTH
@pytest.mark.parametrize("name", ["lda", "mfa", "mvr", "sda", "slap", "smvr"])
def test_one_class_only(build, name):
    with pytest.raises(ValueError, match=r"at least two classes, but y has 1 class.*3.*pca, lle or lap"):
        build(name).fit(X, np.full(150, 3))
    with pytest.raises(ValueError, match="requires y to be passed"):
        build(name).fit(X)


@BOTH
@pytest.mark.parametrize("name", ["sda", "slap", "smvr"])
def test_no_labels_at_all(build, name):
    with pytest.raises(ValueError, match="all unlabelled"):
        build(name).fit(X, np.full(150, -1))


@BOTH
@pytest.mark.parametrize("name", ["lda", "mfa", "mvr"])
def test_samples_without_label_among_words(build, name):
    y = Y.astype(str).astype(object)
    y[[5, 9]] = -1
    with pytest.raises(ValueError, match=r"2 sample\(s\) have no label .*row 5.*sda, slap or smvr"):
        build(name).fit(X, y)


@BOTH
@pytest.mark.parametrize("name", ["mfa", "slap"])
def test_a_class_with_one_sample(build, name):
    y = np.where(Y == 7, 6, Y)
    y[0] = 7
    with pytest.raises(ValueError, match=r"at least 2 of each; 1 sample has the label 7.*use lda"):
        build(name).fit(X, y)
    build("lda").fit(X, y)


@BOTH
def test_every_class_with_one_sample(build):
    with pytest.raises(ValueError, match="one sample only"):
        build("lda").fit(X[:10], np.arange(10))


@BOTH
@pytest.mark.parametrize("name", ["lda", "sda"])
def test_more_components_than_discriminants(build, name):
    with pytest.raises(
        ValueError, match=r"n_components=10 is more than .* can give here, which is 9 \(classes - 1 = 9\)"
    ):
        build(name, 10).fit(X, Y)
    assert build(name, 9).fit(X, Y).transform(X).shape == (150, 9)


def test_more_components_than_atoms_or_features():
    with pytest.raises(ValueError, match=r"n_components=31 .* which is 30 \(the 30 atoms\)"):
        small("pca", 31, embedding="orthonormal").fit(X)
    with pytest.raises(ValueError, match=r"n_components=95 .* which is 94 \(the 94 features\)"):  # samples beside codes
        small("pca", 95).fit(X)
    with pytest.raises(ValueError, match=r"n_components=65 .* which is 64 \(the 64 features\)"):
        TraceQuotient("pca", 65).fit(X)


@pytest.mark.parametrize("name", ["pca", "lda", "sda"])
def test_more_atoms_than_samples(name):
    with pytest.raises(ValueError, match=r"n_atoms=151.*150"):
        small(name, n_atoms=151).fit(X, labels_for(name))


@pytest.mark.parametrize("scale", [1.0, 16.0])
def test_all_codes_zero_names_a_weight_that_works(scale):
    samples = X if scale == 1 else scale * X
    model = small(prior=ElasticNet(1e4), normalize=scale == 1)
    with pytest.raises(ValueError, match=r"All codes are zero: l1=1e\+04 is too large") as caught:
        model.fit(samples, Y)
    below, example = re.search(r"l1 below (\S+), for instance ElasticNet\((\S+)\)", str(caught.value)).groups()
    fitted = clone(model).set_params(prior=ElasticNet(float(example))).fit(samples, Y)
    assert fitted.score(samples, Y) > 0.9
    assert encode(samples if scale > 1 else UNIT, fitted.dictionary_, ElasticNet(0.9 * float(below))).nnz
    with pytest.raises(ValueError, match="All codes are zero"):
        clone(model).set_params(prior=ElasticNet(1.01 * float(below))).fit(samples, Y)


@BOTH
@pytest.mark.parametrize("name", ["pca", "lda", "mfa", "mvr"])
def test_constant_samples(build, name):
    with pytest.raises(ValueError, match=r"All samples are zero or multiples of the same one|no scatter"):
        build(name).fit(np.full((20, 5), 0.1), np.arange(20) % 2)


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["lda", "mfa"])
def test_classes_of_one_sample_repeated(build, name, dtype):
    rows = np.repeat(np.arange(10), 10)  # what differs within a class is rounding
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((64, 64)))[0]
    with pytest.raises(ValueError, match="no scatter"):
        build(name, **({"n_atoms": 10} if build is small else {})).fit((X[:10] @ turned).astype(dtype)[rows], rows)


@pytest.mark.parametrize("normalize", [True, False])
def test_samples_that_differ_in_scale_only(normalize):
    with pytest.raises(ValueError, match="multiples of the same one"):
        SparLow("pca", normalize=normalize).fit(np.outer(np.arange(1, 51), np.arange(1.0, 11)))


def test_codes_that_are_mostly_zero_are_worth_a_warning():
    model = plain(prior=ElasticNet(0.97))
    with pytest.warns(UserWarning, match=r"\d+% of the samples have a code of zeros.*l1=0.97 is large.*weaker one"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match=r"KLDivergence.*Choose a weaker one, or l1 below"):
        small(prior=KLDivergence(1e3, threshold=0.1)).fit(X, Y)


@BOTH
def test_minus_one_among_targets(build):
    real = X[:, :2].sum(axis=1) + 0.5
    real[::3] = -1.0
    with pytest.warns(UserWarning, match="50 rows of y are -1, which SMVR takes as a value.*write NaN") as told:
        build("smvr").fit(X, real)
    assert told[0].filename == __file__  # the caller's line, not one of the library
    with pytest.warns(UserWarning, match="which MVR takes as a value.*use smvr"):
        build("mvr").fit(X, real)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        build("smvr").fit(X, np.where(real == -1, np.nan, real))


def test_constant_targets():
    for build in (small, TraceQuotient):
        with pytest.raises(ValueError, match="constant or all missing"):
            build("mvr").fit(X, np.full(150, 0.5))
        with pytest.raises(ValueError, match="constant or all missing"):
            build("smvr").fit(X, np.full((150, 2), np.nan))
        with pytest.raises(ValueError, match=r"NaN.*smvr"):
            build("mvr").fit(X, np.where(Y > 4, np.nan, 0.5))


@pytest.mark.parametrize(
    ("dictionary", "message"),
    [
        (np.ones((5, 63)), "atoms of 63 features, but X has 64"),
        (np.zeros((5, 64)), "atoms of norm zero"),
        ("svd", "dictionary"),
    ],
)
def test_errors_of_an_own_dictionary(dictionary, message):
    with pytest.raises(ValueError, match=message):
        small(dictionary=dictionary).fit(X, Y)


def test_unknown_criterion():
    for model in (SparLow, TraceQuotient):
        with pytest.raises(ValueError, match="criterion"):
            model("ica").fit(X, Y)


def test_an_own_graph_and_samples_it_does_not_know():
    graph = sp.csr_array(np.ones((150, 150)) - np.eye(150))
    for model in (TraceQuotient(LAP(graph=graph), 2), small(LAP(graph=graph), 2)):
        with pytest.raises(ValueError, match="graph must have shape"):
            model.fit(X).quotient(X_NEW)


def test_what_contradicts_an_own_dictionary_is_refused():
    D = UNIT[:20]
    with pytest.raises(ValueError, match="n_atoms=7, but dictionary has 20 atoms"):
        SparLow("lda", dictionary=D, n_atoms=7).fit(X, Y)
    model = small(warm_start=True).fit(X, Y)
    with pytest.raises(ValueError, match="warm_start"):
        model.set_params(n_atoms=12).fit(X, Y)
    graph = sp.eye_array(len(X), format="csr")
    with pytest.raises(ValueError, match="one of your own"):
        small(LAP(graph=graph), early_stopping=True).fit(X)


def test_minus_one_as_a_class_is_pointed_out():
    with pytest.warns(UserWarning, match="-1 as a class of its own"):
        small().fit(X, cases.hide_labels(Y))


@pytest.mark.parametrize("model", [SparLow(), TraceQuotient()], ids=str)
def test_stacks_of_pictures_are_told_to_become_rows(model):
    with pytest.raises(ValueError, match=r"reshape\(len\(X\), -1\)"):
        model.fit(X.reshape(-1, 8, 8), Y)
    with pytest.raises(ValueError, match=r"reshape\(len\(X\), -1\)"):
        model.fit(list(X.reshape(-1, 8, 8)), Y)
    model.fit(X, Y)
    with pytest.raises(ValueError, match=r"reshape\(len\(X\), -1\)"):
        model.transform(X.reshape(-1, 8, 8))


def test_empty_texts_are_refused_with_the_right_mark():
    y = np.array([f"digit {c}" for c in Y], object)
    y[7] = ""
    for criterion in ("sda", "lda"):
        with pytest.raises(ValueError, match=r"first: row 7.*mark them by -1"):
            small(criterion, max_iter=0).fit(X, y)


@pytest.mark.parametrize("nothing", [None, float("nan")])
@BOTH
def test_every_sample_needs_a_label_where_the_criterion_is_supervised(build, nothing):
    y = np.array([f"digit {c}" for c in Y], object)
    y[7] = nothing
    with pytest.raises(ValueError, match=r"first: row 7.*use sda, slap or smvr"):
        build("lda").fit(X, y)


@pytest.mark.slow
def test_minus_one_in_a_list_of_words_marks_unlabelled_samples():
    y = [-1 if i % 2 else f"digit {c}" for i, c in enumerate(Y)]
    for given in (y, np.array(y), np.array(y, object)):
        model = small("sda", max_iter=0).fit(X, given)
        assert len(model.classes_) == 10
        assert len(model.transduction_) == len(Y)
    with pytest.warns(UserWarning, match="-1 as a class of its own"):
        small("lda", max_iter=0).fit(X, y)


@pytest.mark.slow
def test_samples_that_are_nearly_their_mean_are_pointed_out():
    far = X + 3 * np.abs(X).max()
    for samples in (far, far.astype(np.float32), sp.csr_array(far)):
        with pytest.warns(UserWarning, match=r"all but a share of 0\.0\d+ of their squared norm.*StandardScaler"):
            small(max_iter=0).fit(samples, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small(max_iter=0).fit(far - far.mean(axis=0), Y)
        small(max_iter=0).fit(X, Y)


@BOTH
def test_labels_that_were_not_learned_are_pointed_out(build):
    model = build("lda").fit(X, Y)
    with pytest.warns(UserWarning, match=rf"{len(X)} of {len(X)} samples.*first: {Y[0] + 100}.*StratifiedKFold"):
        assert model.score(X, Y + 100) == 0
    with pytest.warns(UserWarning, match="have a label that the model has not learned"):
        assert model.score(X, Y + 0.5) == 0  # not rounded
    with pytest.raises(ValueError, match="0 sample"):
        model.score(X[:0], Y[:0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(X, Y[:-1])


def test_labels_of_other_lengths_are_other_labels():
    names = np.array(["a", "bb", "ccc"])[Y % 3]
    model = small(max_iter=0).fit(X, names)
    count = int(np.sum(names == "ccc"))
    with pytest.warns(UserWarning, match=f"{count} of 150 samples.*first: cccc"):
        share = model.score(X, np.where(names == "ccc", "cccc", names))
    assert share == np.mean((model.predict(X) == names) & (names != "ccc")) > 0.6
    numbers = small(max_iter=0).fit(X, Y)
    assert numbers.score(X, Y.astype(str)) == numbers.score(X, Y) > 0.98  # as read from a file of words


class _Wrong(Criterion):
    """A criterion whose ``bind`` returns what it is told to."""

    supervision = "full"

    def __init__(self, made):
        object.__setattr__(self, "made", made)

    def bind(self, X, y=None, n_jobs=None):
        return self.made


@pytest.mark.parametrize("build", [plain, TraceQuotient], ids=["SparLow", "TraceQuotient"])
@pytest.mark.parametrize(
    ("made", "error", "said"),
    [
        ((1, 2), TypeError, r"bind must return a Quotient\(above, below\), got tuple"),
        (Quotient(np.eye(150), np.eye(150)), TypeError, "must be a Structure of sparlow.graphs, got ndarray"),
        (Quotient(None, centring(150)), TypeError, "got NoneType"),
        (Quotient(centring(7), centring(7)), ValueError, "structure of 7 samples, but X has 150"),
        (Quotient(centring(150), -1 * centring(150)), ValueError, r"denominator is negative.*semi-definite"),
    ],
    ids=["type", "matrix", "nothing", "size", "sign"],
)
def test_criteria_that_cannot_be(build, made, error, said):
    with pytest.raises(error, match=said):
        build(_Wrong(made), n_components=2).fit(X, Y)


@pytest.mark.parametrize(
    ("attribute", "value", "said"),
    [
        (
            "supervision",
            "classes",
            r'must be "none" .*, "full" or "semi" .*; got .classes',
        ),
        ("supervision", None, "must be .*; got None"),
        ("targets", "yes", "must be True or False; got 'yes'"),
        ("weighted", 1, "must be True or False"),
        ("neighbours", None, "must be True or False"),
        ("mild_prior", 0, "must be True or False"),
        ("fewest_per_class", "two", "must be a number, not negative; got 'two'"),
        ("proximity", None, "must be a number, not negative; got None"),
        ("usual_shrinkage", -1.0, "must be a number, not negative"),
        ("bind", lambda self, X, y: None, r"must be defined as bind\(self, X, y=None, n_jobs=None\): too many"),
    ],
)
def test_class_attributes_of_an_own_criterion_are_named(attribute, value, said):
    with pytest.raises(TypeError, match=f"^{attribute} of Own {said}"):
        type("Own", (Criterion,), {"bind": lambda self, X, y=None, n_jobs=None: None, attribute: value})


class _Unsaid(Criterion):
    """A criterion of labels that does not say so."""

    def bind(self, X, y=None, n_jobs=None):
        return Quotient(between_classes(y), within_classes(y))


@pytest.mark.parametrize("build", [plain, TraceQuotient], ids=["SparLow", "TraceQuotient"])
def test_an_own_criterion_that_forgets_to_ask_for_labels_is_told(build):
    said = (
        r'_Unsaid.bind failed: .* given y=None, as supervision of _Unsaid is "none".*supervision = "full" in the class'
    )
    with pytest.raises(TypeError, match=said):
        build(_Unsaid(), n_components=2).fit(X, Y)
