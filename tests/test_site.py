"""The site, built without a network and clicked through in a browser: links, console, search, formulas, phones."""

import html.parser
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import sparlow
from benchmarks import local, local_curves
from sparlow import criteria, evaluation, priors, solvers, views
from tests import cases
from tests.test_page import open_page, wait

OPENED = ("index", "guide", "first_fit", "images", "how_it_works", "evidence", "command_line", "api", "gallery/index",
          "api/sparlow.SparLow", "gallery/plot_01_digits", "changelog")  # fmt: skip


def test_every_public_name_is_in_the_reference():
    said = set(re.findall(r"(?m)^   (\w+)$", (cases.ROOT / "docs" / "api.md").read_text()))
    modules = {name for name in sparlow.__all__ if inspect.ismodule(getattr(sparlow, name))}
    expected = set(sparlow.__all__) - modules | set(criteria.__all__) - {"CRITERIA"} | {"explain", "factors"}
    for module in (sparlow.classifiers, sparlow.export, sparlow.images, sparlow.plots):
        expected |= set(module.__all__)
    for module in (priors, solvers):
        expected |= {name for name, value in vars(module).items()
                     if isinstance(value, type) and value.__module__ == module.__name__}  # fmt: skip
    families = {
        name for name, value in vars(views).items() if isinstance(value, type) and issubclass(value, views.Views)
    }
    assert {"Patches", "Shifts"} <= families
    expected |= {name for name in families if not name.startswith("_")}
    assert expected <= said
    assert {"judge", "compare"} <= said & set(vars(evaluation))


def test_tables_of_local_codes_are_those_of_the_rows():
    page = (cases.ROOT / "docs" / "evidence" / "local_codes.md").read_text()
    rows = {kind: local.Rows(local.RESULTS / f"local{kind}.jsonl", ()) for kind in ("", "_joint", "_labels")}
    assert local.page(rows[""].rows) in page, "python benchmarks/local.py --table page"
    assert local_curves.joint_table(rows["_joint"]) in page, "python -m benchmarks.local_curves joint --table"
    assert local_curves.labels_table(rows["_labels"]) in page, "python -m benchmarks.local_curves labels --table"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site without running the gallery, built beside copies of what it shows, so that the clone stays as it is."""
    place = tmp_path_factory.mktemp("clone")
    for name in ("docs", "examples"):
        shutil.copytree(cases.ROOT / name, place / name, ignore=shutil.ignore_patterns("_build", "api"))
    shutil.rmtree(place / "docs" / "gallery", ignore_errors=True)
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/results/images.json"):
        if (cases.ROOT / name).exists():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(cases.ROOT / name, place / name)
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "2", "-D", "plot_gallery=0",
         "-d", str(place / "doctrees"), str(place / "docs"), str(place / "html")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(cases.ROOT / "src"), "PYTHONWARNINGS": "default"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return place / "html"


class Page(html.parser.HTMLParser):
    """What a page refers to, and the anchors it has."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif found.get("src") or (tag == "link" and found.get("rel") in ("stylesheet", "preload", "icon")):
            self.loaded.append(found.get("src") or found["href"])


@pytest.mark.slow
def test_no_link_is_broken_and_nothing_comes_from_elsewhere(site):
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    assert len(pages) > 100
    broken = []
    for path, page in pages.items():
        assert not [link for link in page.loaded if "//" in link], path
        for link in (*page.links, *page.loaded):
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            anchor = urllib.parse.unquote(parts.fragment)
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
                broken.append((path.name, link))
    assert broken == []


def requests(browser):
    """Addresses that were asked for since the last call."""
    sent = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [m["params"]["request"]["url"] for m in sent if m["method"] == "Network.requestWillBeSent"]


def errors(browser):
    return [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def test_pages_open_without_an_error_and_without_a_network(site, browser):
    for name in OPENED:
        open_page(browser, site / f"{name}.html")
        assert errors(browser) == [], name
        assert all(url.startswith(("file:", "data:", "blob:", "chrome")) for url in requests(browser)), name


def test_formulas_are_drawn(site, browser):
    open_page(browser, site / "how_it_works.html")
    assert wait(browser, "document.querySelectorAll('mjx-container svg').length") > 10


def test_search_finds_and_its_results_open(site, browser):
    open_page(browser, site / "index.html")
    browser.find_element(By.CSS_SELECTOR, "button.search-button").click()
    field = next(found for found in browser.find_elements(By.NAME, "q") if found.is_displayed())
    field.send_keys("unlabelled", Keys.ENTER)
    found = "[...document.querySelectorAll('ul.search li a')].find(a => a.textContent === 'Few labels')"
    wait(browser, found).click()
    wait(browser, "document.title.startsWith('Few labels')")
    assert errors(browser) == []


def test_menu_leads_through_the_site(site, browser):
    open_page(browser, site / "index.html")
    names = [found.text for found in browser.find_elements(By.CSS_SELECTOR, ".bd-header .navbar-nav a.nav-link")]
    assert names == ["User guide", "Gallery", "API reference", "Your own parts", "How it works", "Evidence", "Project"]
    for name in names:
        browser.find_element(By.LINK_TEXT, name).click()
        wait(browser, f"document.querySelector('h1').textContent.startsWith({name!r})")


def test_pages_fit_a_phone(site, browser):
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        for name in OPENED:
            open_page(browser, site / f"{name}.html")
            wide, window = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
            assert wide <= window == 390, name
            assert browser.execute_script("return parseFloat(getComputedStyle(document.body).fontSize)") >= 14
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_code_is_not_cut_on_a_laptop(site, browser):
    laptop = {"width": 1366, "height": 768, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", laptop)
    cut = "return [...document.querySelectorAll('article pre')].filter(e => e.scrollWidth > e.clientWidth).length"
    try:
        for name in ("index", "first_fit", "large_data", "coding", "serving", "add_a_criterion"):
            open_page(browser, site / f"{name}.html")
            assert browser.execute_script(cut) == 0, name
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
