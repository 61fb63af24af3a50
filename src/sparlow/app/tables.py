"""Read tables: .csv, .tsv, .txt and .parquet files, by pandas."""

from __future__ import annotations

import gzip
import io
import pathlib
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

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
_DATE = r"(?:\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2\d{2,4})(?:[T ]\d{1,2}:\d{2}.*)?"
_COMMA = r"([-+]?\d+),(\d+(?:[eE][-+]?\d+)?)"


def pandas() -> Any:
    """Import pandas, or say which extra has it."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("Tables are read with pandas: pip install 'sparlow[cli]'") from error
    return pandas


@dataclass(frozen=True)
class _Table:
    """A data frame whose columns are numbers, words (None where a cell is empty) or dates, and where it is from."""

    frame: Any
    named: bool  # whether the file names its columns; their positions do otherwise
    path: pathlib.Path
    lines: Any  # of the file, for each row; None where it has none

    def where(self, row: int) -> str:
        """Return where a row stands in the file."""
        return f"{self.path}, " + (f"row {row} (from 0)" if self.lines is None else f"line {self.lines[row]}")

    def has_words(self, name: str) -> bool:
        """Return whether a column holds words."""
        return bool(self.frame[name].dtype == object)

    def has_dates(self, name: str) -> bool:
        """Return whether a column holds dates."""
        column = self.frame[name].dropna()
        if column.dtype.kind == "M":
            return True
        return self.has_words(name) and bool(len(column)) and bool(column.astype(str).str.fullmatch(_DATE).all())

    def found(self, asked: str) -> str | None:
        """Return the column of this name or position, None where there is none."""
        names = list(self.frame.columns)
        if asked in names:
            return asked
        whole = re.fullmatch(r"-?\d+", asked) and -len(names) <= int(asked) < len(names)
        return names[int(asked)] if whole else None


def _csv(path: pathlib.Path, how: ReadOptions) -> _Table:
    """Read cells between commas, semicolons or tabs, with or without a header."""
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        with gzip.open(path) as file:
            content = file.read(path.stat().st_size + max_growth() + 1)
        check_growth(path, len(content))
    text = content.decode("utf-8-sig")
    if not text.strip():
        raise DataError(f"{path} is empty.")
    first = text.lstrip("\r\n").splitlines()[0]
    mark = max(",;\t", key=first.count)
    cells = pandas().read_csv(
        io.StringIO(text), sep=mark, header=None, dtype=str, keep_default_na=False, skip_blank_lines=False
    )
    cells = cells.fillna("")
    cells = cells[(cells != "").any(axis=1)]
    lines = np.asarray(cells.index) + 1
    cells = cells.apply(_tidied, point=mark != ",").reset_index(drop=True)
    named = _is_header(cells, how)
    header = [str(cell) for cell in cells.iloc[0]]
    if named:
        cells, lines = cells.iloc[1:].reset_index(drop=True), lines[1:]
        if not len(cells):
            raise DataError(f"{path} has a header and no samples.")
        if len(header) > 1 and _is_index(header[0], cells[0]):
            header, cells = header[1:], cells.iloc[:, 1:]
    _refuse_repeated(header if named else [], path)
    cells.columns = header if named else [str(place) for place in range(cells.shape[1])]
    return _Table(cells.apply(_typed), named, path, lines)


def _tidied(column: Any, point: bool) -> Any:
    """Return cells without blanks about them and without the apostrophe before a formula; decimal commas as points."""
    marks = re.escape("".join(FORMULA))
    column = column.str.replace(rf"^'(?=[{marks}])", "", regex=True).str.strip()
    return column.str.replace(f"^{_COMMA}$", r"\1.\2", regex=True) if point else column


def _typed(column: Any) -> Any:
    """Return a column of a table as numbers if all its cells are numbers or empty, as words otherwise."""
    if column.dtype.kind in "biufM":
        return column
    words = column.astype(object).where(column.notna(), None).map(lambda cell: str(cell).strip() or None, "ignore")
    filled = words.dropna()
    if all(map(is_number, filled)):
        return words.map(float, "ignore").astype(float)
    return words.astype(object).where(words.notna(), None)


def _is_index(name: str, column: Any) -> bool:
    """Return whether a column without a name counts the lines below from 0, as pandas writes it."""
    return not name and column.tolist() == [*map(str, range(len(column)))]


def _is_header(cells: Any, how: ReadOptions) -> bool:
    """Return whether the first line names columns: no number, a name of labels, a word above numbers, an index."""
    first, body = [str(cell) for cell in cells.iloc[0]], cells.iloc[1:]
    asked = str(how.labels)
    named = asked in first and not (is_number(asked) and len({*first}) < len(first))
    if named or not any(map(is_number, first)) or {*map(str.lower, first)} & {*LABEL_COLUMNS}:
        return True
    words = [place for place, cell in enumerate(first) if cell and not is_number(cell)]
    above = any(len(body) and all(map(is_number, body[place])) for place in words)
    return above or _is_index(first[0], body[0])


def _refuse_repeated(names: list[str], path: pathlib.Path) -> None:
    """Refuse two columns of one name."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        words = ", ".join(f"{name!r}{'' if name else ' (no name)'}" for name in repeated[:5])
        raise DataError(
            f"{path}: the header has {words}{' …' if len(repeated) > 5 else ''} more than once, but each column needs "
            "a name of its own: rename or remove some. If the first line is a sample, put one of names above it."
        )


def _parquet(path: pathlib.Path, how: ReadOptions) -> _Table:
    """Read named columns."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'sparlow[parquet]'") from error
    about = pyarrow.parquet.read_metadata(path)
    unpacked = sum(about.row_group(place).total_byte_size for place in range(about.num_row_groups))
    check_growth(path, max(unpacked, about.num_rows * about.num_columns))
    frame = pandas().read_parquet(path).reset_index(drop=True)
    frame.columns = [str(name) for name in frame.columns]
    return _Table(frame.apply(_typed), True, path, None)


def read_table(path: pathlib.Path, how: ReadOptions) -> Dataset:
    """Read a table: columns of numbers, or of words to be encoded, and one of labels."""
    table = (_parquet if path.suffix.lower() == ".parquet" else _csv)(path, how)
    frame = table.frame
    called = (
        NAME_COLUMN if NAME_COLUMN in frame and table.has_words(NAME_COLUMN) and how.labels != NAME_COLUMN else None
    )
    groups = _beside(table, how.groups, "--groups")
    label, y = _labels(table, how, {called, groups})
    rest = [name for name in frame.columns if name not in (label, called, groups)]
    if how.columns is not None and table.named:
        missing = [name for name in how.columns if name not in frame]
        if missing:
            raise DataError(f"{path} lacks columns that the model was learned from: {', '.join(missing[:5])}.")
        rest = list(how.columns)
    else:
        rest = _chosen(rest, table, how)
    words = _worded(rest, table, how)
    told = label is not None or how.labels is not None
    numbers = [name for name in rest if name not in words]
    if not how.fill and how.worded is None:
        _refuse_gaps(numbers, table, told)
    for name in numbers if how.worded is None else ():
        _refuse_words(name, table, told)
    used = frame[rest].copy()
    for name in words:
        used[name] = used[name].map(lambda cell: str(cell).removesuffix(".0"), "ignore").astype(object)
        used[name] = used[name].where(used[name].notna(), None)
    found = Dataset(
        np.ones((len(frame), 1)) if how.encodes else used.to_numpy(float),
        y,
        None if how.encodes else how.size,
        tuple(rest) if table.named else None,
        None if called is None else tuple(map(str, frame[called])),
        groups=None if groups is None else frame[groups].to_numpy(),
        frame=used if how.encodes else None,
        labels_from=label if table.named else None,
    )
    if how.encodes and not table.named:
        raise DataError(f"{path}: --one-hot and --fill need a table whose first line names the columns.")
    return found


def _beside(table: _Table, asked: Any, option: str) -> str | None:
    """Return the column that an option names, None where it names nothing or a file."""
    found = None if asked is None else table.found(str(asked))
    if asked is not None and found is None and not pathlib.Path(asked).is_file():
        names = list(table.frame.columns)
        there = f"it has {', '.join(names[:8])}{' …' if len(names) > 8 else ''}" if table.named else "it has no header"
        raise DataError(
            f"{table.path} has no column {str(asked)!r}: {there}, {len(names)} columns in all; nor is there a file "
            f"of that name ({option})."
        )
    return found


def _labels(table: _Table, how: ReadOptions, taken: set[str | None]) -> tuple[str | None, Array | None]:
    """Return the column of the labels and what it holds; labels of a file of their own come later."""
    label = _beside(table, how.labels, "--labels")
    if how.labels is None:
        wanted = {*(how.columns or ()), *taken}
        others = [name for name in table.frame.columns if name not in wanted]
        coded = {*(how.one_hot or ())}
        usual = [name for name in others if table.named and name.lower() in LABEL_COLUMNS]
        usual = [name for name in others if name == how.usual] or usual
        words = [name for name in others if name not in coded and table.has_words(name) and not table.has_dates(name)]
        label = usual[0] if usual else words[0] if len(words) == 1 else None
    return label, None if label is None else table.frame[label].to_numpy()


def _chosen(rest: list[str], table: _Table, how: ReadOptions) -> list[str]:
    """Return the columns that are used and not left out."""
    for option, asked in (("--columns", how.use or ()), ("--drop", how.drop)):
        for name in asked:
            if table.found(name) not in rest:
                there = ", ".join(rest[:8]) if table.named else f"0 to {rest[-1]}"
                raise DataError(f"{table.path}: {option} names {name!r}, but the columns of numbers are {there}.")
    dropped = {table.found(name) for name in how.drop}
    kept = rest if how.use is None else [str(table.found(name)) for name in how.use]
    kept = [name for name in kept if name not in dropped]
    if not kept:
        raise DataError(f"{table.path} has no columns left to use.")
    return kept


def _worded(rest: list[str], table: _Table, how: ReadOptions) -> list[str]:
    """Return the columns that are encoded as words."""
    if how.worded is not None:
        return [name for name in rest if name in how.worded]
    for name in how.one_hot or ():
        if name not in rest:
            raise DataError(f"{table.path}: --one-hot names {name!r}, which is no column of samples.")
    if how.one_hot == ():
        return [name for name in rest if table.has_words(name) and not table.has_dates(name)]
    return list(how.one_hot or ())


def _refuse_gaps(names: list[str], table: _Table, told: bool) -> None:
    """Count the missing values of every column, and refuse them all at once."""
    gaps = {name: gap for name in names if (gap := table.frame[name].isna().to_numpy()).any()}
    if not gaps:
        return
    row, first = min((int(np.argmax(gap)), name) for name, gap in gaps.items())
    listed = ", ".join(f"{name!r} ({gap.sum()} of {len(gap)})" for name, gap in [*gaps.items()][:10])
    more = f" and {len(gaps) - 10} more columns" if len(gaps) > 10 else ""
    dropped = f": --drop {' '.join(gaps)}" if len(gaps) <= 10 else " (--drop)"
    raise DataError(
        f"{table.where(row)}: the value in column {first!r} is missing. In all: {listed}{more}. Fill them in "
        f"(fit, evaluate --fill: with the median), or leave the columns out{dropped}.{_or_labels(first, told)}"
    )


def _refuse_words(name: str, table: _Table, told: bool) -> None:
    """Refuse a column that is to be numbers and is none; ``told`` says that labels are known."""
    column = table.frame[name]
    if column.dtype.kind in "biuf":
        return
    bad = next(row for row, cell in enumerate(column) if cell is not None and not is_number(str(cell)))
    if table.has_dates(name):
        advice = (
            f"a date: --drop {name} leaves the column out. To learn from it put numbers in its place, such as year and "
            "month, or days since the first."
        )
    else:
        advice = (
            f"which is not a number; --one-hot {name} makes a number of each word, --drop {name} leaves the column out."
            f"{_or_labels(name, told)}"
        )
    raise DataError(f"{table.where(bad)}: column {name!r} has {str(column[bad])!r}, {advice}")


def _or_labels(name: str, told: bool) -> str:
    """Return advice on a column that may hold the labels."""
    return "" if told else f" If {name} is the column of labels, say --labels {name}."


# ── words and gaps ──────────────────────────────────────────────────────────────────────────────────────────────────


def encoder(frame: Any, standardize: bool) -> ColumnTransformer:
    """Return what fills gaps with the median, scales numbers, and makes a number of each word."""
    words = [name for name in frame if frame[name].dtype == object]
    numbers = [name for name in frame if name not in words]
    scaled = [("scale", StandardScaler())] if standardize else []
    filled = Pipeline([("fill", SimpleImputer(strategy="median")), *scaled])
    coded = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer([part for part in (("numbers", filled, numbers), ("words", coded, words)) if part[2]])


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
