"""Read tables: .csv, .tsv, .txt and .parquet files."""

from __future__ import annotations

import csv
import gzip
import io
import pathlib
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ..files import check_growth, max_growth
from .dataset import FORMULA, DataError, Dataset, ReadOptions, is_number

Array = NDArray[Any]

LABEL_COLUMNS = ("label", "labels", "class", "target", "y")
NAME_COLUMN = "name"
_DATE = re.compile(r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{2,4})([T ]\d{1,2}:\d{2}.*)?")
_COMMA = re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?")


def _is_missing(cell: Any) -> bool:
    """Return whether a cell of a table is empty."""
    return cell is None or not str(cell).strip()


def _text(path: pathlib.Path) -> IO[str]:
    """Open a text, unpacked if it is a .gz file, up to the limit of size."""
    if path.suffix.lower() != ".gz":
        return path.open(newline="", encoding="utf-8-sig")
    with gzip.open(path) as file:
        content = file.read(path.stat().st_size + max_growth() + 1)
    check_growth(path, len(content))
    return io.StringIO(content.decode("utf-8-sig"), newline="")


def _point(cell: str) -> str:
    """Return a number with a decimal comma as one with a point."""
    return cell.replace(",", ".") if _COMMA.fullmatch(cell.strip()) else cell


def _plain(cell: str) -> str:
    """Return a cell without the apostrophe that keeps spreadsheets from taking it for a formula."""
    return cell[1:] if cell[:1] == "'" and cell[1:2] in FORMULA else cell


def read_table(path: pathlib.Path, how: ReadOptions) -> Dataset:
    """Read a table: columns of numbers, and one of labels."""
    return _table(*columns_of(path, how), path, how)


def columns_of(path: pathlib.Path, how: ReadOptions) -> tuple[list[Array], list[str] | None, list[int] | None]:
    """Return the columns of a table, their names, and the lines of the file that its rows stand in."""
    columns, names, lines = (_parquet if path.suffix.lower() == ".parquet" else _csv)(path, how)
    _refuse_repeated(names or [], path)
    return columns, names, lines


def _csv(path: pathlib.Path, how: ReadOptions) -> tuple[list[Array], list[str] | None, list[int] | None]:
    """Read cells between commas, semicolons or tabs, with or without a header."""
    with _text(path) as file:
        first = file.readline()
        delimiter = max(",;\t", key=first.count) if any(mark in first for mark in ",;\t") else ","
        file.seek(0)
        reader = csv.reader(file, delimiter=delimiter)
        cell = _plain if delimiter == "," else lambda cell: _point(_plain(cell))
        numbered = [(reader.line_num, [*map(cell, row)]) for row in reader if row]
    lines, rows = [line for line, _ in numbered], [row for _, row in numbered]
    if not rows:
        raise DataError(f"{path} is empty.")
    header = how.header
    if header is None:
        header = _is_header(rows, how)
    names = [cell.strip() for cell in rows[0]] if header else None
    body = rows[1:] if header else rows
    if not body:
        raise DataError(f"{path} has a header and no samples.")
    widths = {len(row) for row in body}
    if len(widths) > 1 or len(body[0]) != len(rows[0]):
        line, odd = next((line, row) for line, row in numbered if len(row) != len(rows[0]))
        raise DataError(f"{path}: line {line} has {len(odd)} cells, the first line {len(rows[0])}.")
    columns = [np.array(column) for column in zip(*body, strict=True)]
    if names is not None and len(names) > 1 and _is_indexed(rows):
        names, columns = names[1:], columns[1:]
    return columns, names, lines[-len(body) :]


def _is_indexed(rows: list[list[str]]) -> bool:
    """Return whether a column without a name counts the lines below from 0, as pandas writes it."""
    return not rows[0][0].strip() and [row[0] for row in rows[1:]] == [*map(str, range(len(rows) - 1))]


def _is_header(rows: list[list[str]], how: ReadOptions) -> bool:
    """Return whether the first line names columns: no number, a name of labels, a word above numbers, an index."""
    first = [cell.strip() for cell in rows[0]]
    if not any(map(is_number, first)) or _is_named(how.label_column, first):
        return True
    if {*map(str.lower, first)} & {*LABEL_COLUMNS}:
        return True
    words = [place for place, cell in enumerate(first) if cell and not is_number(cell)]
    body = [row for row in rows[1:] if len(row) == len(first)]
    return _is_indexed(rows) or any(body and all(is_number(row[place]) for row in body) for place in words)


def _is_named(asked: str | None, first: list[str]) -> bool:
    """Return whether the first line names the column of labels, and does not merely hold the number of its position."""
    return asked in first and not (is_number(asked) and len({*first}) < len(first))


def _parquet(path: pathlib.Path, how: ReadOptions) -> tuple[list[Array], list[str] | None, list[int] | None]:
    """Read named columns."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'sparlow[parquet]'") from error
    about = pyarrow.parquet.read_metadata(path)
    unpacked = sum(about.row_group(place).total_byte_size for place in range(about.num_row_groups))
    check_growth(path, max(unpacked, about.num_rows * about.num_columns))
    table = pyarrow.parquet.read_table(path)
    columns = [column.to_numpy() for column in table.columns]
    return columns, [str(name) for name in table.column_names], None


def _table(
    columns: list[Array], names: list[str] | None, lines: list[int] | None, path: pathlib.Path, how: ReadOptions
) -> Dataset:
    """Make a dataset of columns of numbers and one of labels; ``lines`` are the line numbers of a text file."""
    at, called = _label_position(columns, names, path, how), _name_position(columns, names, how)
    y = None if at is None else columns[at]
    rest = [place for place in range(len(columns)) if place not in (at, called)]
    if names is not None and how.columns is not None:
        missing = [name for name in how.columns if name not in names]
        if missing:
            raise DataError(f"{path} lacks columns that the model was learned from: {', '.join(missing[:5])}.")
        rest = [names.index(name) for name in how.columns]
    else:
        rest = _chosen(rest, names, path, how)
    if not rest:
        raise DataError(f"{path} has no columns left to use.")
    labelled = at is not None or how.labels is not None
    used = {names[place] if names else place: columns[place] for place in rest}
    _refuse_missing(used, path, lines, labelled)
    X = np.column_stack([_numbers(column, name, path, lines, labelled) for name, column in used.items()])
    own = None if called is None else tuple(map(str, columns[called]))
    return Dataset(X, y, how.size, None if names is None else tuple(names[place] for place in rest), own)


def _chosen(rest: list[int], names: list[str] | None, path: pathlib.Path, how: ReadOptions) -> list[int]:
    """Return the positions of the columns that are used and not left out."""
    known = {str(place): place for place in rest} | ({names[place]: place for place in rest} if names else {})
    for asked in (*(how.use or ()), *how.drop):
        if asked not in known:
            there = ", ".join(names[place] for place in rest[:8]) if names else f"0 to {rest[-1]}"
            option = "--drop" if asked in how.drop else "--columns"
            raise DataError(f"{path}: {option} names {asked!r}, but the columns of numbers are {there}.")
    dropped = {known[name] for name in how.drop}
    kept = rest if how.use is None else [known[name] for name in how.use]
    return [place for place in kept if place not in dropped]


def _refuse_missing(columns: dict[Any, Array], path: pathlib.Path, lines: list[int] | None, labelled: bool) -> None:
    """Count the missing values of every column, and refuse them all at once."""
    gaps = {name: gap for name, column in columns.items() if (gap := _gaps(column)).any()}
    if not gaps:
        return
    row, first = min((int(np.argmax(gap)), place) for place, gap in enumerate(gaps.values()))
    where = f"row {row} (from 0)" if lines is None else f"line {lines[row]}"
    listed = ", ".join(f"{name!r} ({gap.sum()} of {len(gap)})" for name, gap in [*gaps.items()][:10])
    more = f" and {len(gaps) - 10} more columns" if len(gaps) > 10 else ""
    columns_out = f": --drop {' '.join(map(str, gaps))}" if len(gaps) <= 10 else " (--drop)"
    raise DataError(
        f"{path}, {where}: the value in column {[*gaps][first]!r} is missing. In all: {listed}{more}. Fill them in "
        f"(fit, evaluate --fill: with the median), or leave the columns out{columns_out}."
        f"{_or_labels([*gaps][first], labelled)}"
    )


def _gaps(column: Array) -> Array:
    """Return which cells of a column are empty or NaN."""
    if column.dtype.kind in "OUS":
        return np.array([_is_missing(cell) or (isinstance(cell, float) and np.isnan(cell)) for cell in column], bool)
    return np.isnan(column) if column.dtype.kind == "f" else np.zeros(len(column), bool)


@dataclass(frozen=True)
class Mixture:
    """A table of numbers and words, to be encoded: a data frame, and which of its columns are of which kind."""

    frame: Any
    numbers: tuple[str, ...]
    words: tuple[str, ...]

    def encoder(self, standardize: bool) -> ColumnTransformer:
        """Return what fills gaps with the median, scales numbers, and makes a number of each word."""
        scaled = [("scale", StandardScaler())] if standardize else []
        numbers = Pipeline([("fill", SimpleImputer(strategy="median")), *scaled])
        words = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        parts = [("numbers", numbers, list(self.numbers)), ("words", words, list(self.words))]
        return ColumnTransformer([part for part in parts if part[2]])


def read_mixture(path: pathlib.Path, how: ReadOptions) -> tuple[Mixture, Dataset]:
    """Return a table whose words are encoded and whose gaps are filled, as asked, and its labels and names."""
    columns, names, lines = columns_of(path, how)
    if names is None:
        raise DataError(f"{path}: --one-hot and --fill need a table whose first line names the columns (--header).")
    at, called = _label_position(columns, names, path, how), _name_position(columns, names, how)
    rest = _chosen([place for place in range(len(columns)) if place not in (at, called)], names, path, how)
    asked = how.one_hot or ()
    for name in asked:
        if name not in [names[place] for place in rest]:
            raise DataError(f"{path}: --one-hot names {name!r}, which is no column of samples.")
    used = {names[place]: columns[place] for place in rest}
    wanted = asked or (tuple(name for name, column in used.items() if _has_names(column)) if how.one_hot == () else ())
    numbers = {name: column for name, column in used.items() if name not in wanted}
    labelled = at is not None or how.labels is not None
    if not how.fill:
        _refuse_missing(numbers, path, lines, labelled)
    typed = {name: _typed(column) for name, column in numbers.items()}
    for name, column in typed.items():
        if column.dtype.kind in "OM":
            _numbers(np.where(_gaps(numbers[name]), "0", numbers[name].astype(str)), name, path, lines, labelled)
    for name in wanted:
        typed[name] = _words(used[name]) if used[name].dtype.kind == "M" else _typed(used[name])
    frame = _pandas().DataFrame({name: typed[name] for name in used})
    own = None if called is None else tuple(map(str, columns[called]))
    y = None if at is None else columns[at]
    return Mixture(frame, tuple(numbers), wanted), Dataset(np.empty((len(frame), 0)), y, names=own)


def _pandas() -> Any:
    """Import pandas, or say which extra has it."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("Tables of words and numbers need pandas: pip install 'sparlow[tables]'") from error
    return pd


def frame_of(
    path: pathlib.Path, how: ReadOptions, wanted: Sequence[str], worded: Collection[str] = ()
) -> tuple[Any, Dataset]:
    """Return the columns that a pipeline wants as a data frame, and labels and names as a dataset without numbers.

    Cells of columns of numbers become numbers, NaN where they are empty; others stay words. Columns that are ``worded``
    are words whatever they hold here, as they were when the pipeline was learned.
    """
    columns, names, _ = columns_of(path, how)
    missing = [name for name in wanted if names is None or name not in names]
    if missing or names is None:
        raise DataError(f"{path} lacks columns that the model was learned from: {', '.join(missing[:5])}.")
    others = [name for name in names if name not in wanted]
    usual = [name for name in others if name == how.label_column or name.lower() in LABEL_COLUMNS]
    if how.label_column is not None and how.label_column not in names:
        raise DataError(f"{path} has no column {how.label_column!r}.")
    words = [name for name in others if name != NAME_COLUMN and _has_names(columns[names.index(name)])]
    usual = usual or (words if len(words) == 1 else [])
    y = columns[names.index(how.label_column or usual[0])] if how.label_column or usual else None
    own = tuple(map(str, columns[names.index(NAME_COLUMN)])) if NAME_COLUMN in others else None
    found = {name: columns[names.index(name)] for name in wanted}
    frame = _pandas().DataFrame({name: _words(c) if name in worded else _typed(c) for name, c in found.items()})
    return frame, Dataset(np.empty((len(frame), 0)), y, names=own)


def _typed(column: Array) -> Array:
    """Return a column of a table as numbers if all its cells are numbers or empty, as words otherwise."""
    if column.dtype.kind not in "OUS":
        return column
    if all(_is_missing(cell) or is_number(str(cell)) for cell in column):
        return np.array([np.nan if _is_missing(cell) else float(cell) for cell in column])
    return _words(column)


def _words(column: Array) -> Array:
    """Return a column of a table as words, None where a cell is empty."""
    return np.array([None if _is_missing(cell) else str(cell) for cell in column], object)


def known_words(pipeline: Pipeline | None) -> dict[str, Array]:
    """Return the columns that the encoders of a fitted pipeline know as words, with these words."""
    found: dict[str, Array] = {}
    tables = [step for _, step in pipeline.steps if isinstance(step, ColumnTransformer)] if pipeline else []
    for _, coder, columns in (part for table in tables for part in table.transformers_):
        coder = coder[-1] if isinstance(coder, Pipeline) else coder
        if isinstance(coder, OneHotEncoder):
            known = zip(columns, coder.categories_, strict=True)
            found |= {str(name): categories for name, categories in known if categories.dtype.kind == "O"}
    return found


def said_of_frame(frame: Any, known: dict[str, Array]) -> str:
    """Return what a pipeline makes up for in a table: gaps that it fills, and words that it has not seen."""
    gaps = int(frame[[name for name in frame.columns if name not in known]].isna().sum().sum())
    unseen = {str(word) for name, words in known.items() for word in set(frame[name].dropna()) - set(words)}
    said = [f"{gaps} missing numbers are filled as in learning"] * bool(gaps)
    some = ", ".join(sorted(unseen)[:3]) + ", …" * (len(unseen) > 3)
    said += [f"{len(unseen)} words that the model has not seen count as none of its words: {some}"] * bool(unseen)
    return "; ".join(said)


def _name_position(columns: Sequence[Array], names: list[str] | None, how: ReadOptions) -> int | None:
    """Return the position of the column of words called name, unless it holds the labels."""
    if names is None or NAME_COLUMN not in names or how.label_column == NAME_COLUMN:
        return None
    place = names.index(NAME_COLUMN)
    return place if _has_words(columns[place]) else None


def _has_words(column: Array) -> bool:
    """Return whether a column of a table holds words."""
    return column.dtype.kind in "OUS" and any(not (_is_missing(c) or is_number(str(c))) for c in column[:50])


def _has_dates(column: Array) -> bool:
    """Return whether a column of a table holds dates."""
    if column.dtype.kind == "M":
        return True
    words = [str(cell).strip() for cell in column[:50] if not (_is_missing(cell) or is_number(str(cell)))]
    return column.dtype.kind in "OUS" and bool(words) and all(map(_DATE.fullmatch, words))


def _has_names(column: Array) -> bool:
    """Return whether a column holds words that may be classes, and no dates."""
    return _has_words(column) and not _has_dates(column)


def _refuse_repeated(names: list[str], path: pathlib.Path) -> None:
    """Refuse two columns of one name."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        words = ", ".join(f"{name!r}{'' if name else ' (no name)'}" for name in repeated[:5])
        raise DataError(
            f"{path}: the header has {words}{' …' if len(repeated) > 5 else ''} more than once, but each column needs "
            "a name of its own: rename or remove some. If the first line of a .csv is a sample say --no-header."
        )


def _numbers(column: Array, name: Any, path: pathlib.Path, lines: list[int] | None, labelled: bool) -> Array:
    """Return a column as numbers, or name the first cell that is none; ``labelled`` says that labels are known."""
    try:
        if column.dtype.kind != "M":
            return column.astype(float)
    except (ValueError, TypeError):
        pass
    bad = next((row for row, cell in enumerate(column) if not is_number(str(cell))), 0)
    where = f"row {bad} (from 0)" if lines is None else f"line {lines[bad]}"
    if _has_dates(column):
        advice = (
            f"a date: --drop {name} leaves the column out. To learn from it put numbers in its place, such as year and "
            "month, or days since the first."
        )
    else:
        advice = (
            f"which is not a number; --one-hot {name} makes a number of each word, --drop {name} leaves the column out."
            f"{_or_labels(name, labelled)}"
        )
    raise DataError(f"{path}, {where}: column {name!r} has {str(column[bad])!r}, {advice}")


def _or_labels(name: Any, labelled: bool) -> str:
    """Return advice on a column that may hold the labels."""
    return "" if labelled else f" If {name} is the column of labels, say --label-column {name}."


def _label_position(
    columns: Sequence[Array], names: list[str] | None, path: pathlib.Path, how: ReadOptions
) -> int | None:
    """Return the position of the column with the labels."""
    asked = how.label_column
    if asked is not None:
        if names is not None and asked in names:
            return names.index(asked)
        if asked.lstrip("-").isdigit() and -len(columns) <= int(asked) < len(columns):
            return int(asked) % len(columns)
        there = f"it has {', '.join(names[:8])}{' …' if len(names) > 8 else ''}" if names else "it has no header"
        raise DataError(f"{path} has no column {asked!r}: {there}, {len(columns)} columns in all.")
    if names is not None:
        usual = [place for place, name in enumerate(names) if name.lower() in LABEL_COLUMNS]
        if usual:
            return usual[0]
    called = _name_position(columns, names, how)
    coded = {place for place, name in enumerate(names or ()) if name in (how.one_hot or ())}
    words = [place for place, column in enumerate(columns) if place not in {called, *coded} and _has_names(column)]
    return words[0] if len(words) == 1 else None
