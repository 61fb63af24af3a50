"""Pictures without a screen, closed after each test; the same property examples on every run; a model; a browser."""

import os
import shutil
import signal

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when scikit-learn is imported: two processes share the cores

import matplotlib
import pytest
from hypothesis import settings
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tests import digits

matplotlib.use("Agg")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")


def pytest_collection_modifyitems(items):
    """Tests that drive a browser are slow, and need one."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(autouse=True, scope="session")
def _patient_terminal():
    """Commands name stages that take long; what tests expect on stderr must not depend on time."""
    from sparlow.app.terminal import Terminal

    Terminal.PATIENCE = float("inf")


@pytest.fixture(scope="session")
def fitted():
    """LDA-SparLow of 150 digits; not to be fitted again."""
    return digits.small().fit(digits.X, digits.Y)


FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
         "--disable-component-update", "--no-first-run", "--window-size=1280,1100"]  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    programs = [next(filter(None, map(shutil.which, names)), None)
                for names in (("chromium", "chromium-browser", "google-chrome"), ("chromedriver",))]  # fmt: skip
    if None in programs:
        pytest.fail("The tests of pages need a browser: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(programs[1]))
    yield driver
    driver.quit()
