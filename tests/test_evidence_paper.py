"""The specifications of the paper's tables and figures, and that docs/evidence.md says what the rows say."""

import dataclasses
import json

import numpy as np
import pytest

from evidence.claims import NOT_RUN, claims_table, counts, gain, level, narrower, printed_cells, range_within, verdict
from evidence.contract import MethodInput, NotApplicable
from evidence.methods import METHODS
from evidence.paper import EXPERIMENTS, named
from evidence.rows import RULES
from evidence.specification import LATER
from evidence.tables import TABLES, MeasuredEntry, gather
from tests import cases


@pytest.mark.parametrize("one", EXPERIMENTS, ids=lambda one: one.name)
def test_quick_sizes_leave_enough_to_learn_from(one):
    counts = {"pie": 68, "scenes15": 15, "caltech101": 102, "caltech256": 256, "usps": 10, "mnist": 10}
    for entry in one.at(one.quick):
        classes = len(entry.setting.classes) or counts[entry.setting.data]
        n = min(entry.setting.train or np.inf, classes * (entry.setting.per_class or np.inf))
        assert n >= entry.options.get("n_atoms", classes) >= classes, entry  # an atom of each class at least
        assert n >= 3 * classes, entry


def test_what_sets_or_panels_share_is_one_on_another_set():
    one = named("fig3")[0]
    assert [(e.panel, e.name) for e in one.at(one.quick, "digits") if "setting" not in e.options][:3] == [
        ("digits", "K-SVD"),
        ("digits", "ODL"),
        ("digits", "RLS-DLA"),
    ]
    one = named("table2a")[0]
    moved = one.at(one.quick, "digits")
    assert {e.panel for e in moved} == {"digits"}
    assert len({e.name for e in moved}) == len(moved)
    assert not {"LLC", "KSPM", "ScSPM"} & {e.method for e in moved + named("table3")[0].at(one.quick, "digits")}
    one = named("fig7")[0]  # panels of different methods stay
    assert [e.panel for e in one.at(one.quick, "digits")] == [e.panel for e in one.at(one.quick)]


def test_every_entry_names_a_method_a_form_and_known_options():
    for one in EXPERIMENTS:
        assert one.kind in TABLES, one.name
        assert set(one.measures) <= {"1nn", "svm"}
        for entry in one.entries:
            assert entry.method in METHODS, entry.method
            assert set(entry.printed) <= {"1nn", "svm", "own", "first"}
            assert json.loads(json.dumps(dict(entry.options))) is not None
        for size in (one.full, one.quick):
            assert one.at(size)
    assert len({one.name for one in EXPERIMENTS}) == len(EXPERIMENTS)
    table1 = {entry.name: entry.printed for entry in named("table1")[0].entries if entry.panel == "USPS"}
    assert table1["PCA-SparLow"] == {"1nn": 92.18, "svm": 96.82}
    assert [one.name for one in named("fig6")] == ["fig6a", "fig6b", "fig6c", "fig6d"]
    with pytest.raises(ValueError, match=r"no experiment 'fig99'; there are printed, printed2b"):
        named("fig99")


RESULTS = cases.ROOT / "evidence" / "results"
KEPT = [one for one in EXPERIMENTS if (RESULTS / f"{one.name}.jsonl").exists()]


DOCS = cases.ROOT / "docs"
ANEW = "python -m evidence report --document docs/evidence.md fills it anew"


@pytest.mark.parametrize("experiment", KEPT, ids=lambda e: e.name)
def test_pages_say_what_the_rows_say(experiment):
    page = (DOCS / "evidence" / f"{experiment.name}.md").read_text()
    table = TABLES[experiment.kind](experiment, gather(experiment, experiment.full, RESULTS))
    assert table.markdown() in page, ANEW
    assert experiment.remark in page
    assert f"evidence/{experiment.name}.md" in (DOCS / "evidence.md").read_text()


def test_claims_and_counts_are_those_of_the_rows():
    text = (DOCS / "evidence.md").read_text()
    table = claims_table(RESULTS)
    assert table.markdown() in text, ANEW
    assert counts(RESULTS) in text, ANEW
    assert len(text.split()) <= 2500
    assert len(table.rows) == 14
    assert all(len(cell.split()) <= 12 for row in table.rows for cell in row)
    assert {row[4] for row in table.rows} <= {f"**{word}**" for word in ("holds", "partly", "fails", "open")}


def test_verdicts_follow_from_both_sides():
    met, missed = level(97.5, 97.9), level(97.3, 97.9)
    assert (verdict(met, met), verdict(met, missed), verdict(missed, missed)) == ("holds", "partly", "fails")
    assert (verdict(NOT_RUN, met), verdict(missed, NOT_RUN), verdict(NOT_RUN, NOT_RUN)) == ("holds", "fails", "open")
    assert [gain(90.0, after).meets for after in (90.2, 90.4, np.nan)] == [False, True, None]
    assert [range_within(90.0, top, 3.6).meets for top in (93.5, 93.7)] == [True, False]
    assert [narrower(1.0, other).meets for other in (5.0, 0.5)] == [True, False]


def test_all_printed_cells_of_the_tables_are_counted():
    """46, 108, 53 and 27 cells of Tables 1, 2a, 2b and 3."""
    measured, others = printed_cells(RESULTS)
    assert f"Of 234 printed cells of Tables 1 to 3 {measured} are measured." in counts(RESULTS)
    assert all(": " in place and not place.endswith("not measured") for place in others)


def test_rows_by_an_earlier_rule_are_told():
    one = named("table2b")[0]
    rows = ({"accuracy": {"svm": 1.0}}, {"accuracy": {"svm": 2.0}, "rules": RULES})
    told = [MeasuredEntry(one.entries[0], tuple(dict(row, per_class={"svm": [1.0]}) for row in rows), wanted=2)]
    table = TABLES[one.kind](one, told)
    assert "†, SVM: 1 of 2 rows by an earlier rule." in table.notes
    assert any("1.50 ± 0.71†" in cell for cell in table.rows[0])


def test_rows_whose_folds_knew_the_pictures_held_out_are_told():
    one = named("table2b")[0]
    chosen = {"setting": {"features": "pyramids"}, "seconds": {"tuning": 9.0}}
    rows = (
        chosen,
        chosen | {"rules": RULES},
        chosen | {"seconds": {"tuning": 0.0}},
        chosen | {"setting": {"features": "pyramids", "transductive": True}},
        chosen | {"setting": {}},
    )
    told = [
        MeasuredEntry(
            one.entries[0], tuple({"accuracy": {"1nn": 1.0}, "per_class": {"1nn": [1.0]}} | row for row in rows)
        )
    ]
    table = TABLES[one.kind](one, told)
    assert "‡, parameters by folds: 1 of 2 rows by an earlier rule." in table.notes
    assert any("1.00 ± 0.00‡" in cell for cell in table.rows[0])


def test_rows_on_earlier_fisher_vectors_are_told():
    one = named("table2b")[0]
    rows = ({}, {"rules": RULES}, {"setting": {"features": "pyramids"}})
    whole = {"accuracy": {"1nn": 1.0}, "per_class": {"1nn": [1.0]}, "setting": {"features": "fisher"}}
    table = TABLES[one.kind](one, [MeasuredEntry(one.entries[0], tuple(whole | row for row in rows))])
    assert "§, Fisher vectors: 1 of 2 rows by an earlier rule." in table.notes
    assert any("1.00 ± 0.00§" in cell for cell in table.rows[0])


def test_what_was_not_run_says_so_and_why():
    one = named("table2b")[0]
    entry = dataclasses.replace(one.entries[0], open="hours of work")
    table = TABLES[one.kind](one, [MeasuredEntry(entry, (), wanted=1)])
    assert table.rows[0][:2] == (entry.name, "not run: hours of work")
    assert f"{entry.name}: not run, hours of work." in table.notes
    entry = dataclasses.replace(entry, open=LATER)
    table = TABLES[one.kind](one, [MeasuredEntry(entry, (), wanted=1)])
    assert table.rows[0][:2] == (entry.name, "not run: cost")
    assert "Not run for their cost: 1 of 1 cells. Each takes minutes of CPU time." in table.notes
    entry = dataclasses.replace(entry, open=f"{LATER}, about 40 min")
    table = TABLES[one.kind](one, [MeasuredEntry(entry, (), wanted=1)])
    assert table.rows[0][:2] == (entry.name, "not run: cost, about 40 min")
    assert table.notes[0] == "Not run for their cost: 1 of 1 cells. Each takes minutes of CPU time."


def test_no_cell_silently_lacks_its_row():
    for one in EXPERIMENTS:
        for result in gather(one, one.full, RESULTS):
            assert result.rows or result.reason or result.entry.open, (one.name, result.entry.panel, result.entry.name)


def test_more_components_than_numbers_are_not_applicable():
    X = np.eye(6)[:, :4]
    with pytest.raises(NotApplicable, match="5 components of 4 numbers"):
        METHODS["PCA"](MethodInput(X, np.arange(6) % 2, X, options={"n_components": 5}))
