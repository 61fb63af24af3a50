"""Pictures without a screen, closed after each test; the same property examples on every run."""

import matplotlib
import pytest
from hypothesis import settings

matplotlib.use("Agg")
settings.register_profile("steady", derandomize=True)
settings.load_profile("steady")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")
