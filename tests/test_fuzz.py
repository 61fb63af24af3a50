"""A small part of the random calls of benchmarks/fuzz.py and of the forged files of benchmarks/model_files.py."""

import collections
import json

import pytest

from benchmarks import fuzz, interruptions, model_files
from tests import cases


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 100, 20))
def test_random_calls_give_sound_numbers_or_a_clear_refusal(first):
    rows = [fuzz.run_case(1, case) for case in range(first, first + 20)]
    assert [row for row in rows if row["outcome"] == "finding"] == []


def test_findings_are_noticed(monkeypatch):
    """A fuzzer that finds nothing must be able to find something."""

    def wrong(rng, caught):
        fuzz.finite([float("nan")], "a number")

    def unclear(rng, caught):
        [].pop()

    for target in (wrong, unclear):
        monkeypatch.setattr(fuzz, "TARGETS", {"wrong": (target, 1.0)})
        assert fuzz.run_case(0, 0)["outcome"] == "finding"


@pytest.mark.slow
def test_damaged_and_forged_files_are_refused_or_can_be_used(monkeypatch):
    monkeypatch.setenv("SPARLOW_MAX_BYTES", str(model_files.GROWTH))
    monkeypatch.setattr(model_files, "MEMORY", float("inf"))  # of this process, which has run other tests
    answers = model_files.Answers(1)
    rows = [answers(f"damage {case}") for case in range(60)] + [answers(f"forgery {case}") for case in range(40)]
    assert [row for row in rows if row["outcome"] == "finding"] == []
    assert sum(row["outcome"] == "refused" for row in rows) > 50


def test_the_rows_show_every_interruption_without_a_complaint():
    rows = [json.loads(line) for line in interruptions.RESULTS.read_text().splitlines()]
    counts = collections.Counter((row["task"], row["how"]) for row in rows if "skipped" not in row)
    assert counts == {(task, how): 20 for task in interruptions.TASKS for how in interruptions.HOWS}
    assert [row for row in rows if row["complaints"]] == []


def test_the_rows_show_what_is_stated_of_the_fuzzer_and_of_forged_files():
    for path in (fuzz.RESULTS, model_files.RESULTS):
        rows = map(json.loads, path.read_text().splitlines())
        assert [finding["case"] for row in rows for finding in row["findings"]] == []
    rows = [json.loads(line) for line in fuzz.RESULTS.read_text().splitlines()]
    assert len({(row["seed"], row["first"]) for row in rows}) == len(rows)
    count = sum(row["cases"] for row in rows)
    files = [json.loads(line) for line in model_files.RESULTS.read_text().splitlines()]
    damages, forgeries = (sum(sum(row[what].values()) for row in files) for what in ("damage", "forgery"))
    stated = (cases.ROOT / "SECURITY.md").read_text()
    for number in (count, damages, forgeries):
        assert f"{number:,}".replace(",", " " if number >= 10_000 else "") in stated
    assert max(row["slowest"] for row in rows) <= fuzz.LIMIT
    assert max(row["memory"] for row in files) < model_files.MEMORY
