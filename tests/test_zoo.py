"""What docs/zoo.md says of the zoo is what its rows say."""

import numpy as np
import pytest

from benchmarks import zoo_tables
from benchmarks.zoo_sets import SETS
from tests import cases


@pytest.mark.parametrize("name", zoo_tables.TABLES)
def test_the_page_shows_what_the_command_prints(name):
    page = (cases.ROOT / "docs" / "zoo.md").read_text()
    assert zoo_tables.printed(name) in page


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
