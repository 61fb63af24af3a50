"""The page in a real browser: it draws, answers to the pointer and asks the network for nothing."""

import base64
import io
import json
import re
import time

import numpy as np
import pytest
import scipy.sparse as sp
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from sparlow import SparLow, load
from sparlow.app import main
from sparlow.app.dataset import Dataset, ReadOptions
from sparlow.app.page import Section, document, figure, packing, report, table
from sparlow.app.page.document import confusion, curve
from sparlow.app.pictures import look_at
from sparlow.evaluation import compare, rivals
from sparlow.models import ModelFile, save
from sparlow.solvers import EarlyStopping
from sparlow.views import Patches

DIGITS = load_digits()
X, Y = DIGITS.data[:240], DIGITS.target[:240]


@pytest.fixture(scope="module")
def held():
    options = {"embedding": "orthonormal", "early_stopping": EarlyStopping(0.3), "random_state": 0}
    model = SparLow("lda", n_atoms=30, max_iter=2, **options).fit(X, Y)
    return ModelFile(model, (8, 8), Y, version="0")


@pytest.fixture(scope="module")
def page(held, tmp_path_factory):
    """A page of images with everything on it."""
    rows = list(compare({"LDA-SparLow": held.model}, X[:160], Y[:160], X[160:], Y[160:]))
    path = tmp_path_factory.mktemp("page") / "report.html"
    names = tuple(f"<b>{k}</b>.png" for k in range(len(X)))
    samples = Dataset(X, Y, (8, 8), names=names, source="digits")
    path.write_text(report(held, samples, judgements=rows, protocol="by a split"))
    return path


def wait(browser, script):
    for _ in range(600):
        found = browser.execute_script(f"return {script}")
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited in vain for {script}")


def open_page(browser, path):
    """Open a file; afterwards the logs hold only what belongs to it."""
    browser.get("about:blank")
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(path.as_uri())
    wait(browser, "document.readyState === 'complete'")


def open_plot(browser, path):
    open_page(browser, path)
    wait(browser, "document.getElementById('plot').dataset.visible && document.getElementById('plot').dataset.ready")
    return browser.find_element(By.ID, "plot")


def settle(browser):
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(() => arguments[0]()))")


def pixels(browser):
    settle(browser)
    return browser.execute_script("return document.getElementById('plot').toDataURL()")


def point(browser, plot, sample):
    """Move the pointer onto a sample."""
    x, y = browser.execute_script(
        "const [x, y] = sparlow.place(arguments[1]), box = arguments[0];"
        "return [x - box.clientWidth / 2, y - box.clientHeight / 2]", plot, sample
    )  # fmt: skip
    ActionChains(browser).move_to_element_with_offset(plot, round(x), round(y)).perform()
    settle(browser)


def click(browser, name):
    element = browser.find_element(By.ID, name)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()


def assert_silent(browser):
    """No message on the console, no request but for the file itself."""
    assert browser.get_log("browser") == []
    sent = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in sent if m["method"] == "Network.requestWillBeSent"]
    asked = [url for url in asked if not url.startswith(("data:", "blob:", "chrome"))]
    assert len(asked) == 1
    assert asked[0].startswith("file:")


def grey_levels(browser, selector):
    """How many levels of grey a picture has: one would be an empty canvas."""
    return browser.execute_script(
        "const c = document.querySelector(arguments[0]);"
        "return new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size", selector
    )  # fmt: skip


HOSTILE = """</script><img src=x onerror="window.ran=1"><script>window.ran=1</script>'"{{window.ran=1}}"""


@pytest.mark.slow
def test_names_of_strangers_run_no_script(browser, tmp_path):
    """Class names, file names, the source and the protocol of a report are shown as they are, and never run."""
    y = np.array([f"{HOSTILE}{k}" for k in range(3)])[Y % 3]
    model = SparLow("lda", n_atoms=20, max_iter=0, random_state=0).fit(X, y)
    rows = list(compare({HOSTILE: model}, X[:160], y[:160], X[160:], y[160:], classifiers=("1NN",)))
    names = tuple(f"{HOSTILE}{k}" for k in range(len(X)))
    samples = Dataset(X, y, (8, 8), names=names, source=HOSTILE)
    path = tmp_path / "report.html"
    path.write_text(report(ModelFile(model, (8, 8), y, version=HOSTILE), samples, judgements=rows, protocol=HOSTILE))
    plot = open_plot(browser, path)
    point(browser, plot, 11)
    assert "</script><img" in browser.find_element(By.ID, "hover").text
    browser.execute_script("sparlow.explain(7)")
    settle(browser)
    assert browser.execute_script("return window.ran === undefined")
    assert browser.find_elements(By.CSS_SELECTOR, "img[src=x]") == []
    assert_silent(browser)


@pytest.mark.slow
def test_page_loads_silently_and_draws(browser, page):
    plot = open_plot(browser, page)
    assert plot.get_attribute("data-visible") == "240"
    inside = browser.execute_script(
        "const c = document.getElementById('plot'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "let n = 0; for (let k = 3; k < d.length; k += 4) n += d[k] > 0; return n"
    )
    assert inside > 240 * 10
    titles = [title.text for title in browser.find_elements(By.TAG_NAME, "h2")]
    assert titles == ["Embedding", "Doubtful", "Atoms", "Factors", "Course of learning", "Accuracy", "Rivals", "Model"]
    assert len(browser.find_elements(By.CSS_SELECTOR, "#atomsheet canvas")) == 30
    assert len(browser.find_elements(By.CSS_SELECTOR, "#factorsheet canvas")) == 9
    assert grey_levels(browser, "#atomsheet canvas") > 5
    assert len(browser.find_elements(By.CSS_SELECTOR, "#rivals tbody tr")) == 1 + len(rivals())
    assert_silent(browser)


def test_hovering_shows_the_image_of_the_sample(browser, page):
    plot = open_plot(browser, page)
    box = browser.find_element(By.ID, "hover")
    assert not box.is_displayed()
    point(browser, plot, 11)
    assert box.is_displayed()
    assert ".png" in box.text
    assert grey_levels(browser, "#hover canvas") > 3
    shown = int(re.search(r"<b>(\d+)</b>", box.text)[1])
    values = browser.execute_script(
        "const c = document.querySelector('#hover canvas');"
        "return [...c.getContext('2d').getImageData(0, 0, 8, 8).data].filter((_, k) => k % 4 === 0)"
    )
    assert np.corrcoef(values, X[shown])[0, 1] > 0.95  # the very image, but for compression
    ActionChains(browser).move_to_element_with_offset(plot, -380, 250).perform()
    settle(browser)
    assert not box.is_displayed()


def test_classes_are_switched_by_pointer_and_by_keyboard(browser, page):
    plot = open_plot(browser, page)
    before = pixels(browser)
    button = browser.find_element(By.CSS_SELECTOR, "#classes button")
    button.click()
    settle(browser)
    assert button.get_attribute("aria-pressed") == "false"
    assert int(plot.get_attribute("data-visible")) == np.sum(Y != 0)
    without = pixels(browser)
    assert without != before
    button.send_keys(" ")
    settle(browser)
    assert int(plot.get_attribute("data-visible")) == 240
    click(browser, "none")
    settle(browser)
    assert int(plot.get_attribute("data-visible")) == 0
    click(browser, "all")
    assert pixels(browser) not in (without, "")
    assert_silent(browser)


def test_three_dimensions_turn_and_views_change(browser, page):
    plot = open_plot(browser, page)
    flat = pixels(browser)
    click(browser, "three")
    deep = pixels(browser)
    ActionChains(browser).drag_and_drop_by_offset(plot, 120, 40).perform()
    turned = pixels(browser)
    plot.send_keys("+")
    near = pixels(browser)
    click(browser, "reset")
    assert pixels(browser) == deep
    notes = set()
    for option in browser.find_elements(By.CSS_SELECTOR, "#view option"):
        option.click()
        notes.add(browser.find_element(By.ID, "viewnote").text)
    assert len(notes) == 3
    assert len({flat, deep, turned, near}) == 4
    assert_silent(browser)


def test_a_click_tells_which_atoms_explain_the_sample(browser, page, held):
    open_plot(browser, page)
    browser.execute_script("sparlow.explain(7)")
    code = held.model.encode(X[[7]]).toarray().ravel()
    largest = np.argsort(-np.abs(code))[:6]
    captions = [c.text for c in browser.find_elements(By.CSS_SELECTOR, "#largest figcaption")]
    for caption, atom in zip(captions, largest, strict=True):
        assert f"no. {atom})" in caption
        assert float(caption.split()[0].replace("−", "-")) == pytest.approx(code[atom], abs=0.006)
    rebuilt = browser.execute_script(
        "const c = document.querySelectorAll('#pair canvas')[1];"
        "return [...c.getContext('2d').getImageData(0, 0, 8, 8).data].filter((_, k) => k % 4 === 0)"
    )
    assert np.corrcoef(rebuilt, code @ held.model.dictionary_)[0, 1] > 0.99
    first = browser.find_element(By.CSS_SELECTOR, "#pair").text
    assert f"from all {np.count_nonzero(code)} atoms" in first
    browser.execute_script(
        "const s = document.getElementById('most'); s.value = 1; s.dispatchEvent(new Event('input'))"
    )
    assert "largest 1 atom" in browser.find_element(By.ID, "pair").text != first
    before = pixels(browser)
    browser.execute_script("document.querySelector('#atomsheet button').click()")
    assert pixels(browser) != before
    assert "use atom" in browser.find_element(By.ID, "marked").text


def test_codes_that_are_cut_and_samples_that_are_left_out_are_told(browser, held, tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "MOST_CODES", 2)
    path = tmp_path / "report.html"
    path.write_text(report(held, Dataset(X, Y, (8, 8), source="digits"), max_points=50))
    open_plot(browser, path)
    rows = np.sort(np.random.default_rng(0).permutation(240)[:50])
    gap = int(np.flatnonzero(np.diff(rows) > 1)[0])  # the row after it is not shown
    count = np.count_nonzero(held.model.encode(X).toarray(), axis=1)
    for wanted, shown in ((rows[7], rows[7]), (rows[gap] + 1, rows[gap + 1]), (9999, rows[-1]), (-3, rows[0])):
        browser.execute_script(
            "const n = document.getElementById('number'); n.value = arguments[0]; n.dispatchEvent(new Event('change'))",
            int(wanted),
        )
        assert browser.find_element(By.ID, "number").get_property("value") == str(shown)
        assert browser.find_element(By.ID, "chosen").text == f"sample {shown} · {Y[shown]}"
        assert f"from the largest 2 atoms of {count[shown]}" in browser.find_element(By.ID, "pair").text
    browser.execute_script("document.querySelector('#atomsheet button').click()")
    assert "Only the 2 largest codes of a sample are kept" in browser.find_element(By.TAG_NAME, "body").text
    assert "among their largest" in browser.find_element(By.ID, "markedwords").text
    assert_silent(browser)


def test_themes_and_tabs(browser, page):
    open_plot(browser, page)
    colour = "return getComputedStyle(document.body).backgroundColor"
    before = browser.execute_script(colour)
    click(browser, "theme")
    assert browser.execute_script(colour) != before
    click(browser, "tab-SVM")
    assert browser.find_element(By.ID, "confusion-SVM").is_displayed()
    assert not browser.find_element(By.ID, "confusion-1NN").is_displayed()
    assert_silent(browser)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_samples_that_are_no_images_and_have_no_labels(width, browser, tmp_path):
    model = SparLow("pca", width, n_atoms=20, max_iter=1, random_state=0).fit(X)
    path = tmp_path / "report.html"
    path.write_text(report(ModelFile(model), Dataset(X, source="table.csv")))
    assert "The samples are rows of numbers, not images of one size" in path.read_text()
    plot = open_plot(browser, path)
    browser.execute_script("sparlow.explain(3)")
    point(browser, plot, 3)
    assert browser.find_element(By.ID, "hover").is_displayed()
    assert browser.find_element(By.ID, "three").is_enabled() == (width > 2)
    assert_silent(browser)


def test_ten_thousand_points_stay_light(browser, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(X), 10_000)
    images = np.clip(X[rows] + rng.normal(0, 0.5, (10_000, 64)), 0, 16)
    model = SparLow("lda", n_atoms=30, max_iter=0, random_state=0).fit(X, Y)
    path = tmp_path / "report.html"
    path.write_text(report(ModelFile(model), Dataset(images, Y[rows], (8, 8), source="many")))
    assert path.stat().st_size < 6e6
    plot = open_plot(browser, path)
    assert plot.get_attribute("data-visible") == "10000"
    assert_silent(browser)


def test_more_samples_than_can_be_shown_are_drawn_from(held):
    text = report(held, Dataset(X, Y, (8, 8), source="digits"), max_points=50)
    assert "rows of numbers" not in text
    assert "50 of 240 samples, drawn at random" in text
    assert json.loads(re.search(r'id="data" type="application/json">(.*?)</script>', text)[1])["n"] == 50


def test_documents_of_tables_and_figures(browser, tmp_path):
    png = b"\x89PNG\r\n\x1a\n" + bytes(20)
    sections = [
        Section("Table <1>", table([["PCA", "91.2", 3], ["ours & more", "97.0 ± 0.1", 4]], ["", "%", "s"], strong=[1])),
        Section("Figure", figure(curve([0, 1, 2], [1, 2, 3], "f"), "a <curve>"), "What it shows"),
        Section("Confusion", figure(confusion(np.array([[3, 1], [0, 4]]), ["a", "b"], "c"))),
    ]
    assert 'src="data:image/png;base64,' in figure(png, "a picture")
    path = tmp_path / "d.html"
    path.write_text(document("Evidence </title>", sections, facts={"runs": 3}, lead="of <all>"))
    open_page(browser, path)
    assert browser.title == "Evidence </title>"
    cells = [cell.text for cell in browser.find_elements(By.CSS_SELECTOR, "tr.ours td")]
    assert cells == ["ours & more", "97.0 ± 0.1", "4"]
    assert browser.find_element(By.CSS_SELECTOR, "figcaption").text == "a <curve>"
    assert [rect.text for rect in browser.find_elements(By.CSS_SELECTOR, "text.count")] == ["3", "1", "4"]
    assert_silent(browser)


def test_data_cannot_break_out_of_its_element():
    text = document("t", [], data={"name": "</script><script>alert(1)</script>"})
    assert "<script>alert" not in text
    found = re.search(r'application/json">(.*?)</script>', text)[1]
    assert json.loads(found) == {"name": "</script><script>alert(1)</script>"}


def test_codes_are_packed_largest_first():
    matrix = sp.csr_array(np.array([[0.0, 0.5, -2.0], [0, 0, 0], [1.0, 0, 0]]))
    packed = packing.pack_codes(matrix)
    decode = {"start": np.uint32, "atom": np.uint16, "value": np.int16, "all": np.uint32}
    import base64

    found = {name: np.frombuffer(base64.b64decode(packed[name]), kind) for name, kind in decode.items()}
    assert found["start"].tolist() == [0, 2, 2, 3]
    assert found["all"].tolist() == [2, 0, 1]
    assert found["atom"].tolist() == [2, 1, 0]
    np.testing.assert_allclose(found["value"] * packed["scale"], [-2, 0.5, 1], atol=1e-4)


def test_smaller_pictures_are_a_linear_map():
    rows = np.random.default_rng(0).random((3, 64)).astype(np.float32)
    small = packing.resized_vectors(rows, (8, 8), (4, 4))
    np.testing.assert_allclose(small[0], rows[0].reshape(4, 2, 4, 2).mean(axis=(1, 3)).ravel(), rtol=1e-5)
    both = packing.resized_vectors(rows[:1] + 2 * rows[1:2], (8, 8), (4, 4))
    np.testing.assert_allclose(both, small[:1] + 2 * small[1:2], rtol=1e-5)


def test_report_command(held, tmp_path, browser, capsys):
    save(held, tmp_path / "m.sparlow")
    np.savez(tmp_path / "a.npz", images=DIGITS.images[240:400], labels=DIGITS.target[240:400])
    np.savez(tmp_path / "b.npz", images=DIGITS.images[:240], labels=Y)
    words = ["report", str(tmp_path / "m.sparlow"), str(tmp_path / "a.npz"), "-o", str(tmp_path / "r.html"), "--json"]
    assert main([*words, "--train", str(tmp_path / "b.npz"), "--classifiers", "1NN"]) == 0
    told = json.loads(capsys.readouterr().out)
    nearest = KNeighborsClassifier(1).fit(held.model.embedding_, Y)
    expected = nearest.score(held.model.transform(DIGITS.data[240:400]), DIGITS.target[240:400])
    assert told["accuracy"]["LDA-SparLow"]["1NN"] == expected
    assert [*told["accuracy"]] == ["LDA-SparLow", *rivals()]
    assert open_plot(browser, tmp_path / "r.html").get_attribute("data-visible") == "160"
    assert main([*words, "--classifiers", "1NN"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [*told["accuracy"]] == ["LDA-SparLow", *rivals()]
    assert "112 of the samples and judged on the other 48" in told["protocol"]


@pytest.mark.slow
def test_reports_read_training_samples_by_their_own_part_and_labels(tmp_path, capsys):
    def run(*words):
        code = main([*map(str, words), "--json"])
        said = capsys.readouterr()
        return code, json.loads(said.out or "{}").get("accuracy"), said.err

    new, labels = DIGITS.data[240:300], DIGITS.target[240:300]
    model, both = tmp_path / "m.sparlow", tmp_path / "both.npz"
    np.savez(both, X_train=X, y_train=Y, X_test=new, y_test=labels)
    for name, rows, classes in (("train", X, Y), ("test", new, labels), ("some", X[:200], Y[:200])):
        np.save(tmp_path / f"{name}.npy", rows)
        np.savetxt(tmp_path / f"{name}.txt", classes, fmt="%d")
    assert run("fit", both, "--part", "train", "-o", model, "--set", "n_atoms=30", "max_iter=0")[0] == 0
    few = ("--classifiers", "1NN", "-o", tmp_path / "page.html")
    parts = ("report", model, both, "--part", "test", *few)
    files = ("report", model, tmp_path / "test.npy", "--labels", tmp_path / "test.txt", *few)
    learned = load(model)
    nearest = KNeighborsClassifier(1).fit(learned.embedding_, Y)
    own = learned.score(new, labels)
    expected = {"predict": own, "1NN": nearest.score(learned.transform(new), labels)}
    code, told, said = run(*parts, "--train", both)
    assert (code, told["LDA-SparLow"], said) == (0, expected, "")
    assert [*told] == ["LDA-SparLow", *rivals()]
    code, told, said = run(*files, "--train", tmp_path / "train.npy")  # whose labels the model knows
    assert (code, told["LDA-SparLow"], said) == (0, expected, "")
    code, _, said = run(*files, "--train", tmp_path / "some.npy")
    assert (code, "has no labels to learn from" in said) == (2, True)
    # without TRAIN the saved model is judged on what it has not seen, and one learned anew where it has seen DATA
    assert run(*parts)[:2] == (0, {"LDA-SparLow": expected})
    assert "The saved model on the 60 samples" in (tmp_path / "page.html").read_text()
    assert run("report", model, both, "--part", "train", *few)[0] == 0
    assert "learned anew from 168 of the samples" in (tmp_path / "page.html").read_text()
    np.savez(tmp_path / "other.npz", X=new, y=np.where(labels > 4, "many", "few"))
    assert run("report", model, tmp_path / "other.npz", *few)[0] == 0
    assert "learned anew from 42 of the samples" in (tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_strong_cells_are_strong_numbers_and_not_stars():
    shown = table([["PCA", "**95.22 ± 0.10**"], ["a**b", "–"]], ["method", "1NN"])
    assert "<td class=number><strong>95.22 ± 0.10</strong></td>" in shown
    assert "<td>a**b</td><td class=number>–</td>" in shown


def test_a_page_of_a_local_model_says_what_speaks_for_a_class_and_where(browser, tmp_path):
    model = SparLow("lda", n_atoms=16, views=Patches(), random_state=0).fit(X[:160], Y[:160])
    new = Dataset(X[160:], Y[160:], (8, 8), source="digits")
    measured = {"unlikeness": np.linspace(0, 0.3, 30), "marks": np.array([], np.uint64)}
    path = tmp_path / "local.html"
    path.write_text(report(ModelFile(model, (8, 8), Y[:160], data=measured), new))
    open_plot(browser, path)
    browser.execute_script("sparlow.explain(3)")
    settle(browser)
    said = browser.find_element(By.ID, "largestwords").text
    assert re.match(r"What speaks for \d \(\+\) rather than \d", said)
    captions = [part.text for part in browser.find_elements(By.CSS_SELECTOR, "#largest figcaption")]
    assert len(captions) == 6
    assert all(re.fullmatch(r"[+−]\d+\.\d % (top|middle|bottom) (left|centre|right)", words) for words in captions)
    assert len(browser.find_elements(By.CSS_SELECTOR, "#pair canvas")) == 2  # the picture, and with its map
    assert not browser.find_element(By.ID, "most").is_displayed()  # nothing is rebuilt from patches
    assert len(browser.find_elements(By.CSS_SELECTOR, "#nearest figure")) == 5
    assert len(browser.find_elements(By.CSS_SELECTOR, "#factorsheet canvas")) == 18  # a factor, and where it looks
    doubts = browser.find_elements(By.CSS_SELECTOR, ".doubts button")
    assert doubts
    browser.execute_script("arguments[0].click()", doubts[0])
    assert browser.find_element(By.ID, "number").get_attribute("value") == doubts[0].get_attribute("data-sample")
    click_atom = browser.find_element(By.CSS_SELECTOR, "#atomsheet button")
    browser.execute_script("arguments[0].click()", click_atom)
    assert "among their largest" in browser.find_element(By.ID, "markedwords").text
    assert_silent(browser)


def payload(text):
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text)[1])


def test_colours_follow_the_classes_of_the_model(held):
    """A class has the same number, and so the same colour, whichever samples are shown; new classes come last."""
    some = Y >= 4
    assert payload(report(held, Dataset(X[some], Y[some], (8, 8))))["classes"] == [str(k) for k in range(10)]
    words = np.array(["zebra", "ant"])[Y % 2]
    found = payload(report(held, Dataset(X, words, (8, 8))))["classes"]
    assert found == [*(str(k) for k in range(10)), "ant", "zebra"]


def test_a_collapsed_model_says_so(held):
    assert "the model has collapsed" not in report(held, Dataset(X, Y, (8, 8)))
    twice = np.repeat(X[:2], 10, axis=0)
    assert "All these samples lie at two distinct points" in report(held, Dataset(twice, np.repeat(Y[:2], 10), (8, 8)))


def test_photographs_are_shown_in_colour(tmp_path):
    from PIL import Image

    files = []
    for place, colour in enumerate([(200, 0, 0), (0, 200, 0), (0, 0, 200)]):
        files.append(tmp_path / f"{place}.png")
        Image.new("RGB", (40, 20 + 30 * place), colour).save(files[-1])
    Image.fromarray(np.full((30, 30), 40000, np.uint16)).save(tmp_path / "deep.png")
    found = packing.sprite_of_pictures(look_at([*files, tmp_path / "deep.png"], ReadOptions()).files)
    sheet = Image.open(io.BytesIO(base64.b64decode(found["sprite"].split(",")[1]))).convert("RGB")
    side = found["shape"][0]
    centres = [sheet.getpixel((k % 2 * side + side // 2, k // 2 * side + side // 2)) for k in range(4)]
    assert [int(np.argmax(pixel)) for pixel in centres[:3]] == [0, 1, 2]
    assert np.ptp(centres[3]) < 12
