"""What the page of the zoo says is what its rows say."""

import json

import numpy as np
import pytest

from benchmarks import accuracy, zoo_tables
from benchmarks.zoo_sets import SETS
from tests import cases


def test_the_page_is_that_of_the_rows():
    page = (cases.ROOT / "docs" / "evidence" / "zoo.md").read_text()
    assert page == zoo_tables.whole_page(), "python -m benchmarks.zoo --page"


def test_the_page_of_results_is_that_of_the_rows():
    page = (cases.ROOT / "docs" / "evidence" / "results.md").read_text()
    assert page == accuracy.whole_page(json.loads(accuracy.RESULTS.read_text())), "python -m benchmarks.accuracy --page"


@pytest.mark.parametrize("file", dict.fromkeys(file for file, _ in zoo_tables.TABLES.values()))
def test_no_run_has_two_rows(file):
    rows = zoo_tables.kept_rows(zoo_tables.RESULTS / f"{file}.jsonl")
    keys = [(row["set"], row["method"], row["seed"]) for row in rows]
    assert len(set(keys)) == len(keys) > 0
    assert all(SETS[row["set"]].part == row["part"] for row in rows)


def test_differences_are_paired():
    """The rival is the better of two scalings; draws that only one method has do not count."""
    ours, theirs, other = [90.0, 80.0, 70.0], [88.0, 81.0, 67.0], [80.0, 85.0, 60.0]
    rows = [
        {"set": "wine", "method": method, "seed": seed, "angle": value}
        for method, values in (("sparlow", ours), ("lda", [*theirs, 0.0]), ("lda_unit", [*other, 100.0]))
        for seed, value in enumerate(values)
    ]
    means = zoo_tables.Means(rows)
    gain, error = means.gain("wine", zoo_tables.LDA)
    assert gain == pytest.approx(np.mean([2, -1, 3]))
    assert error == pytest.approx(np.std([2, -1, 3], ddof=1) / np.sqrt(3))
    assert zoo_tables.signed((gain, error)) == "+1.3 ± 1.2"
    assert zoo_tables.signed((-0.04, np.nan)) == "0.0"
    assert zoo_tables.clearly({"a": (-2.0, 0.9), "b": (-2.0, 1.1), "c": (-2.0, np.nan)}, 2) == {"a": (-2.0, 0.9)}
