"""Models in files: the same after a round trip, and nothing but models is read."""

import pickle
import warnings
import zipfile

import joblib
import numpy as np
import pytest
import skops.io
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer

import sparlow
from sparlow import DictionaryLearner, SparLow, TraceQuotient, classifiers
from sparlow.app import main
from sparlow.classifiers import SRC
from sparlow.estimators import OnStep
from sparlow.images import Codebook, DenseSIFT, Scattering, SpatialPyramid
from sparlow.models import ModelFile, ModelFileError, load, load_file, save
from sparlow.priors import ElasticNet, KLDivergence
from sparlow.solvers import EarlyStopping, Solver
from sparlow.views import Patches, Shifts
from tests import cases

X, Y, _ = cases.labelled(60, 12, 20)


def fitted(criterion="lda", y=Y, **options):
    options = {"n_atoms": 20, "max_iter": 2, "random_state": 0, **options}
    return SparLow(criterion, **options).fit(X, y)


def assert_close(found, expected):
    """Files keep matrices in single precision."""
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def assert_same(model, again):
    assert_close(model.transform(X), again.transform(X))
    for name in ("dictionary_", "projection_", "components_", "embedding_", "transduction_"):
        if name == "transduction_" and not hasattr(model, name):
            continue
        if getattr(model, name).dtype.kind == "f":
            assert_close(getattr(model, name), getattr(again, name))
    assert model.history_.keys() == again.history_.keys()
    for name, values in model.history_.items():
        np.testing.assert_array_equal(values, again.history_[name])
    assert (again.criterion_, again.prior_, again.stop_reason_) == (model.criterion_, model.prior_, model.stop_reason_)


@pytest.mark.parametrize("name", cases.CRITERIA)
def test_every_criterion_comes_back(name, tmp_path):
    criterion = cases.CRITERIA[name]
    y = cases.hide_labels(Y) if criterion.supervision == "semi" else Y
    model = fitted(criterion, y)
    save(model, tmp_path / "m.sparlow")
    again = load(tmp_path / "m.sparlow")
    assert_same(model, again)
    assert model.score(X, Y) == again.score(X, Y)
    assert again.get_params()["criterion"] == criterion
    if hasattr(model, "predict_proba"):
        assert_close(model.predict_proba(X), again.predict_proba(X))


@pytest.mark.slow
def test_other_models_priors_and_labels_come_back(tmp_path):
    path = tmp_path / "m.sparlow"
    words = np.array(["ant", "bee", "cat", "dog"])[Y]
    hidden = np.where(cases.hide_labels(Y) < 0, -1, words.astype(object))
    for model in (
        fitted(prior=KLDivergence(0.05, mean=0.01, threshold=0.03)),
        fitted("lda", words, prior=ElasticNet(0.05, 0.01, positive=True), n_components=2),
        fitted("sda", hidden),
        fitted("mvr", X[:, :2] + 0.1),
        fitted("lda", dictionary=X[:15], n_atoms=None, early_stopping=EarlyStopping(0.3)),
        fitted("lda", solver=Solver(mu_proximity=1.0), embedding="orthonormal"),
        fitted("lda", views=Shifts(1, (3, 4))),
        fitted("lda", views=Patches(2, cells=2, padding="none", shape=(3, 4))),
    ):
        save(model, path)
        again = load(path)
        assert_same(model, again)
        if hasattr(model, "classes_"):
            assert again.classes_.tolist() == model.classes_.tolist()
    for model in (TraceQuotient("lda").fit(X, Y), DictionaryLearner(10, random_state=0).fit(X)):
        save(model, path)
        np.testing.assert_allclose(load(path).transform(X).sum(), model.transform(X).sum(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", classifiers.__all__)
def test_classifiers_come_back_alone(kind, tmp_path):
    model = getattr(classifiers, kind)()
    words = np.array(["ant", "bee", "cat", "dog"])[Y]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(**{name: 0 for name in model.get_params() if name == "random_state"}).fit(X, words)
    save(model, tmp_path / "m.sparlow")
    again = load(tmp_path / "m.sparlow")
    assert type(again) is type(model)
    assert again.classes_.tolist() == model.classes_.tolist()
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert_close(again.decision_function(X), model.decision_function(X))
    assert main(["predict", str(tmp_path / "m.sparlow"), str(tmp_path)]) == 2
    with pytest.raises(ValueError, match="not fitted"):
        save(getattr(classifiers, kind)(), tmp_path / "m.sparlow")


def test_steps_from_pictures_to_rows_come_back_alone(tmp_path):
    images = np.stack([cases.stripes(kind, 0)[:16, :16] for kind in range(3)]).astype(np.uint8)
    scattering = Scattering(2, 4).fit(images)
    save(scattering, tmp_path / "m.sparlow")
    np.testing.assert_array_equal(load(tmp_path / "m.sparlow").transform(images), scattering.transform(images))


def test_what_is_kept_beside_the_model_comes_back(tmp_path):
    held = ModelFile(fitted("pca"), (3, 4), Y, ("a", "b"), {"source": "here", "n_samples": 60})
    save(held, tmp_path / "m.sparlow")
    again = load_file(tmp_path / "m.sparlow")
    assert (again.image_shape, again.feature_names, again.data) == ((3, 4), ("a", "b"), held.data)
    assert again.version == sparlow.__version__
    np.testing.assert_array_equal(again.training_labels(), Y)
    assert ModelFile(fitted("pca", None)).training_labels() is None
    known = ModelFile(fitted("sda", cases.hide_labels(Y))).training_labels()
    assert known.tolist() == cases.hide_labels(Y).tolist()


def test_callbacks_are_code_and_stay_behind(tmp_path):
    model = SparLow(n_atoms=20, max_iter=2, random_state=0).set_callbacks(OnStep(lambda row, model: False)).fit(X, Y)
    save(model, tmp_path / "m.sparlow")
    assert not hasattr(load(tmp_path / "m.sparlow"), "_skl_callbacks")
    assert hasattr(model, "_skl_callbacks")


@pytest.mark.parametrize("coding", ["hard", "llc", "sparse", "laplacian", "fisher"])
def test_pipelines_from_pictures_to_labels_come_back(coding, tmp_path):
    pictures = [cases.stripes(kind, seed) for kind in range(3) for seed in range(4)]
    pyramid = SpatialPyramid((1, 2), pooling="mean" if coding == "fisher" else "max")
    features = make_pipeline(DenseSIFT(), Codebook(16, coding, random_state=0), pyramid, TruncatedSVD(6), Normalizer())
    model = SparLow("lda", n_atoms=9, max_iter=1, random_state=0)
    model.set_callbacks(OnStep(lambda row, model: False))
    whole = make_pipeline(features, model, KNeighborsClassifier(1, algorithm="kd_tree"))
    whole.fit(pictures, np.repeat(["across", "down", "slant"], 4))
    save(whole, tmp_path / "m.sparlow")
    assert hasattr(model, "_skl_callbacks")
    again = load(tmp_path / "m.sparlow")
    assert not hasattr(again[1], "_skl_callbacks")
    assert_close(again[:2].transform(pictures), whole[:2].transform(pictures))
    assert again.predict(pictures).tolist() == whole.predict(pictures).tolist()


def test_pipelines_with_code_are_refused(tmp_path):
    with pytest.warns(UserWarning, match=r"must be told to trust.*hide_labels"):
        save(make_pipeline(FunctionTransformer(cases.hide_labels), fitted("pca")), tmp_path / "m.sparlow")
    with pytest.raises(ModelFileError, match="hide_labels"):
        load(tmp_path / "m.sparlow")


def test_what_belongs_to_one_run_stays_behind_in_pipelines_too(tmp_path):
    inner = fitted().set_callbacks(OnStep(lambda row, model: False))
    union = FeatureUnion([("codes", inner), ("nothing", "passthrough")]).fit(X, Y)
    whole = Pipeline([("first", "passthrough"), ("union", union), ("rival", SRC())])
    whole.fit(X, Y).memory = joblib.Memory(tmp_path)  # which would keep a lambda by its pickle
    save(whole, tmp_path / "m.sparlow")
    again = load(tmp_path / "m.sparlow")
    assert again.memory is None
    assert not hasattr(again["union"].transformer_list[0][1], "_skl_callbacks")
    np.testing.assert_array_equal(again.predict(X), whole.predict(X))
    assert whole.memory is not None
    pyramid = SpatialPyramid(memory=tmp_path)
    features = make_pipeline(DenseSIFT(), Codebook(8, random_state=0), pyramid)
    features.fit([cases.stripes(kind, 0) for kind in range(3)])
    save(features, tmp_path / "m.sparlow")
    assert load(tmp_path / "m.sparlow")[-1].memory is None
    assert pyramid.memory == tmp_path


def test_pipelines_are_saved_when_every_step_is_fitted(tmp_path):
    with pytest.raises(NotFittedError):
        save(make_pipeline(TruncatedSVD(3), Normalizer()), tmp_path / "m.sparlow")
    assert not any(tmp_path.iterdir())


def test_indices_of_a_file_lead_nowhere(tmp_path):
    path = tmp_path / "m.sparlow"
    features = make_pipeline(DenseSIFT(), Codebook(8, "laplacian", random_state=0), SpatialPyramid())
    features.fit([cases.stripes(kind, 0) for kind in range(3)])
    features[1]._coder.templates.codes.indices[:] = 2**30
    save(features, path)
    with pytest.raises(ModelFileError, match="damaged"):
        load(path)
    whole = make_pipeline(fitted(), KNeighborsClassifier(1, algorithm="kd_tree")).fit(X, Y)
    expected, tree = whole.predict(X), whole[-1]._tree
    data, places, *rest = tree.__getstate__()
    tree.__setstate__((data, places + 2**40, *rest))
    save(whole, path)
    assert load(path).predict(X).tolist() == expected.tolist()


def test_types_of_ones_own_must_be_named(tmp_path):
    model = fitted(prior=cases.OwnPrior(tuple(np.full(20, 0.1).tolist()), 0.1))
    with pytest.warns(UserWarning, match=r"must be told to trust.*WeightedSmoothL1"):
        save(model, tmp_path / "m.sparlow")
    with pytest.raises(ModelFileError, match=r"WeightedSmoothL1.*trusted"):
        load(tmp_path / "m.sparlow")
    assert_same(model, load(tmp_path / "m.sparlow", trusted=[cases.OwnPrior]))


class Evil:
    """Pickled, it would raise an alarm when loaded."""

    def __reduce__(self):
        return (pytest.fail, ("code from a file was run",))


def test_foreign_files_are_refused_and_never_run(tmp_path):
    path = tmp_path / "m.sparlow"
    with pytest.raises(FileNotFoundError, match="no model file"):
        load(path)
    for content in (b"", b"hello", pickle.dumps(Evil())):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match="not a SparLow model, or it is damaged"):
            load(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("notes.txt", "hello")
    with pytest.raises(ModelFileError, match="not a SparLow model"):
        load(path)
    for content in ([1, 2], {"format": "sparlow model 99"}, {"format": "sparlow model 3"}):
        skops.io.dump(content, path)
        with pytest.raises(ModelFileError, match=r"expected 'sparlow model 3'|something else|damaged"):
            load(path)
    skops.io.dump({"format": "sparlow model 3", "model": ElasticNet(0.1)}, path)
    with pytest.raises(ModelFileError):
        load(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_damaged_files_are_refused(share, tmp_path):
    path = tmp_path / "m.sparlow"
    save(fitted(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ModelFileError):
        load(path)
    spot = int(share * len(whole))
    path.write_bytes(whole[:spot] + bytes(64) + whole[spot + 64 :])
    with pytest.raises(ModelFileError):
        load(path)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere to save m\.sparlow in"):
        save(fitted(), tmp_path / "nowhere" / "m.sparlow")


def test_only_fitted_models_are_saved_and_nothing_is_left_half_done(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="not fitted"):
        save(SparLow(), tmp_path / "m.sparlow")
    with pytest.raises(
        TypeError, match=r"SparLow, TraceQuotient.*a classifier or step of sparlow, or a Pipeline, got nd"
    ):
        save(X, tmp_path / "m.sparlow")
    save(fitted(), tmp_path / "m.sparlow")
    before = (tmp_path / "m.sparlow").read_bytes()

    def broken(content, path, **_):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(skops.io, "dump", broken)
    with pytest.raises(OSError, match="disk full"):
        save(fitted("pca"), tmp_path / "m.sparlow")
    assert (tmp_path / "m.sparlow").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["m.sparlow"]


def test_searches_are_told_to_save_their_best(tmp_path):
    search = GridSearchCV(SparLow("lda", n_atoms=20, max_iter=0), {"prior": [None]}, cv=StratifiedKFold(2)).fit(X, Y)
    with pytest.raises(TypeError, match=r"got GridSearchCV\. Save its best_estimator_\."):
        save(search, tmp_path / "m.sparlow")
    with pytest.raises(TypeError, match=r"got KNeighborsClassifier\.$"):
        save(KNeighborsClassifier().fit(X, Y), tmp_path / "m.sparlow")


@pytest.mark.parametrize(
    ("coding", "change"), [("hard", {"words": np.ones((500, 128), np.float32)}), ("llc", {"k": 0})]
)
def test_a_codebook_that_would_lead_a_compiled_loop_astray_is_refused(coding, change, tmp_path):
    images = [np.random.RandomState(seed).randint(0, 255, (48, 48)).astype(np.uint8) for seed in range(2)]
    chain = make_pipeline(DenseSIFT(), Codebook(8, coding, random_state=0), SpatialPyramid((1,))).fit(images)
    vars(chain[1]._coder).update(change)
    save(chain, tmp_path / "m.sparlow")
    with pytest.raises(ValueError, match=r"words of a coder must have the shape|1 to 8 of the words"):
        load(tmp_path / "m.sparlow")
