"""What the command line declares: commands, their options, their examples. Nothing heavy is imported here."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

WRONG_USE = 2
_UNITS = {"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}

_EPILOG = """\
DATA is a .npz (X or images, y or labels), .npy, .csv or .parquet file, a folder of pictures with a
sub-folder per class, or pictures.

examples:
  sparlow fit faces/ -o faces.sparlow
  sparlow predict faces.sparlow new/*.png
  sparlow evaluate faces/
  sparlow report faces.sparlow faces/ -o report.html

exit codes:
  0    done
  1    the work failed, for instance samples that nothing can be learned from
  2    wrong usage, or a file that is missing, foreign or damaged
  130  interrupted; a fit under way saves the best model so far
"""


# ── types of options ────────────────────────────────────────────────────────────────────────────────────────────────


def image_size(text: str) -> tuple[int, ...]:
    """Parse ``32x32`` or ``32x32x3`` to numbers, height first."""
    found = re.fullmatch(r"([1-9]\d*)[x×X]([1-9]\d*)(?:[x×X]3)?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"expected HEIGHTxWIDTH such as 32x32, or 32x32x3 for colours, got {text!r}")
    return (int(found[1]), int(found[2]), 3)[: 2 + (text[found.end(2) :] != "")]


def whole_number(least: int) -> Callable[[str], int]:
    """Return the type of an option that is a whole number of at least ``least``."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[-+]?\d+", text) or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}, got {text!r}")
        return int(text)

    return parse


def thread_count(text: str) -> int:
    """Parse a number of threads; −1 means all cores, −2 all but one."""
    if not re.fullmatch(r"[-+]?\d+", text) or not int(text):
        raise argparse.ArgumentTypeError(f"expected a number of threads such as 2, or -1 for all cores, got {text!r}")
    return int(text)


def fraction(text: str) -> float:
    """Parse a number above 0 and below 1."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"expected a share between 0 and 1 such as 0.3, got {text!r}")
    return value


def bytes_of(text: str) -> float:
    """Parse ``2GB`` to a number of bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?I?B?)", text.strip().upper())
    if not found or found[2] not in _UNITS or not float(found[1]) * _UNITS[found[2]] >= 1e6:
        raise argparse.ArgumentTypeError(f"expected a size such as 2GB or 500MB, got {text!r}")
    return float(found[1]) * _UNITS[found[2]]


def setting(text: str) -> tuple[str, str]:
    """Parse ``n_atoms=60`` to its two sides."""
    name, equals, value = text.partition("=")
    if not (equals and re.fullmatch(r"\w+", name.strip())):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE such as n_atoms=60, got {text!r}")
    return name.strip(), value.strip()


# ── groups of options ───────────────────────────────────────────────────────────────────────────────────────────────


def _reading(parser: argparse.ArgumentParser) -> Any:
    """Add how to read samples."""
    group = parser.add_argument_group("reading DATA")
    group.add_argument("--part", choices=["train", "test", "all"], help="which part of a .npz that has both")
    _running(group)
    return group


def _running(group: Any) -> None:
    """Add how to treat pictures that cannot be read, and the number of threads."""
    group.add_argument("--skip", action="store_true", help="leave out pictures that cannot be read, with a warning")
    group.add_argument("--jobs", type=thread_count, default=-1, metavar="N", help="threads; default: all cores")


def _labels(group: Any) -> None:
    """Add where labels are."""
    said = "a column, by name or position (-1: the last), or a file; default: label, class, target, y or words"
    group.add_argument("--labels", metavar="WHERE", help=said)
    group.add_argument("--unlabelled", metavar="LABEL", help="the label (or folder) of samples that have none")


def _setting(group: Any, said: str) -> None:
    """Add the door to all parameters."""
    how: dict[str, Any] = {"type": setting, "nargs": "+", "action": "extend", "default": []}
    group.add_argument("--set", **how, metavar="NAME=VALUE", help=said)


def _learning(parser: argparse.ArgumentParser) -> None:
    """Add what a model learns from, and its parameters."""
    group = _reading(parser)
    _labels(group)
    said = "who belongs together: a column, a file, or folders (class/person/1.png)"
    group.add_argument("--groups", metavar="WHERE", help=said)
    said = "scale pictures to this size; of rows: the shape of a picture"
    group.add_argument("--size", type=image_size, metavar="HxW", help=said)
    group.add_argument("--grey", action="store_true", help="leave out the colours of pictures")
    table = parser.add_argument_group("tables")
    table.add_argument("--columns", nargs="+", metavar="NAME", help="the only columns to use")
    table.add_argument("--drop", nargs="+", default=[], metavar="NAME", help="columns to leave out")
    table.add_argument("--one-hot", nargs="*", metavar="NAME", help="columns of words to encode; default: all")
    table.add_argument("--fill", action="store_true", help="put the median of a column where a number is missing")
    said = "scale columns to mean 0 and variance 1; default: where they differ in scale"
    table.add_argument("--standardize", action=argparse.BooleanOptionalAction, help=said)
    model = parser.add_argument_group("the model", "what is left out is chosen from the data")
    model.add_argument("--criterion", default="lda", metavar="NAME", help="what the embedding is to do; default: lda")
    _setting(model, "parameters of the model and of its criterion, as listed below")
    kind = model.add_mutually_exclusive_group()
    said = "codes of patches, of whole pictures, or features of photographs; default: by their sizes"
    kind.add_argument("--pictures", dest="kind", choices=["patches", "whole", "photographs"], help=said)
    kind.add_argument("--network", metavar="ONNX", help="pictures are vectors of this pretrained network")


def _memory(parser: argparse.ArgumentParser) -> Any:
    """Add how much memory a file may take."""
    group = parser.add_argument_group("files larger than memory", "rows of a .npy file, read in parts")
    group.add_argument("--memory", type=bytes_of, metavar="SIZE", help="memory to take, such as 2GB")
    return group


def _model(parser: argparse.ArgumentParser, *, nargs: str | None = None, many: str | None = None) -> None:
    """Add MODEL and DATA."""
    parser.add_argument("model", nargs=nargs, metavar="MODEL", help="a file that sparlow fit wrote")
    what = ".npz, .npy, .csv, .parquet, a folder of pictures, or pictures"
    parser.add_argument("data", nargs=many, metavar="DATA", help=what)


def _output(parser: argparse.ArgumentParser, said: str, *, required: bool = True) -> None:
    """Add the file to write."""
    parser.add_argument("-o", "--output", required=required, metavar="FILE", help=said)


def _classifiers(parser: argparse.ArgumentParser) -> None:
    """Add what judges an embedding."""
    both = ["1NN", "SVM"]
    said = "what judges the embedding beside predict; default: 1NN SVM"
    parser.add_argument("--classifiers", nargs="*", choices=both, default=both, metavar="C", help=said)


# ── commands ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _fit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help=".npz, .npy, .csv, .parquet or a folder of pictures")
    _output(parser, "the model, usually *.sparlow")
    _learning(parser)
    parser.add_argument("--from", dest="start", metavar="MODEL", help="start from the dictionary of a saved model")
    said = "a Dask scheduler whose workers find DATA, too"
    _memory(parser).add_argument("--scheduler", metavar="ADDRESS", help=said)


def _predict(parser: argparse.ArgumentParser) -> None:
    _model(parser, many="+")
    _output(parser, ".csv, .parquet or .npy; default: print", required=False)
    parser.add_argument("--classifier", choices=["1NN", "SVM"], help="default: votes of neighbours")
    parser.add_argument("--reject", type=fraction, metavar="P", help="give no label to samples of a likeness below P")
    _reading(parser)


def _evaluate(parser: argparse.ArgumentParser) -> None:
    _model(parser, nargs="?")
    _classifiers(parser)
    parser.add_argument("--folds", type=whole_number(2), default=5, metavar="K", help="without MODEL; default: 5")
    _learning(parser)


def _report(parser: argparse.ArgumentParser) -> None:
    _model(parser)
    _output(parser, "the page, *.html")
    parser.add_argument("--train", metavar="TRAIN", help="what the model was learned from, for rivals to learn from")
    _classifiers(parser)
    _labels(_reading(parser))


def _transform(parser: argparse.ArgumentParser) -> None:
    _model(parser)
    _output(parser, ".npy, .npz, .csv or .parquet")
    parser.add_argument("--codes", action="store_true", help="sparse codes instead, as a scipy sparse matrix (.npz)")
    _reading(parser)
    _memory(parser)


def _explain(parser: argparse.ArgumentParser) -> None:
    _model(parser)
    _output(parser, "the picture to draw, *.png", required=False)
    parser.add_argument("--sample", type=whole_number(0), default=0, metavar="N", help="which of DATA, from 0")
    parser.add_argument("--class", dest="label", metavar="A", help="the class to speak for; default: the most probable")
    parser.add_argument("--against", metavar="B", help="the other class; default: the next")
    parser.add_argument("--parts", type=whole_number(1), default=6, metavar="K", help="parts to name; default: 6")


def _inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a file that sparlow fit wrote")


def _features(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="FOLDER", help="pictures, in a sub-folder for each class, or one")
    _output(parser, "rows, *.npz")
    parser.add_argument("--save", metavar="FEATURES", help="keep what was learned in a file, for new pictures")
    parser.add_argument("--like", metavar="FEATURES", help="learn nothing: rows as those of the run that saved this")
    parser.add_argument("--network", metavar="ONNX", help="pictures are vectors of this pretrained network")
    _setting(parser, "those of sparlow.images.pyramid_features, such as n_words=64 or n_components=0")
    parser.add_argument("--cache", metavar="DIR", help="keep codebook and rows there: a stopped run goes on")
    _running(parser)


# name: (options, summary, examples and what there is to know)
COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str, str]] = {
    "fit": (
        _fit,
        "learn a model from samples and save it",
        """\
  sparlow fit faces/ -o faces.sparlow
  sparlow fit faces/ --size 32x32 --pictures whole -o faces.sparlow    # codes of whole pictures, scaled
  sparlow fit photographs/ --network efficientnet.onnx -o scenes.sparlow
  sparlow fit digits.npz --criterion mfa --set k_within=30 n_atoms=100 -o digits.sparlow
  sparlow fit churn.csv --labels churned --set class_weight=balanced -o churn.sparlow
  sparlow fit digits.npz --from digits.sparlow -o digits.sparlow    # ten more steps from there
  sparlow fit big.npy --labels y.npy --memory 2GB -o big.sparlow    # a file larger than memory

Ctrl-C saves the best model so far (exit code 130).""",
    ),
    "predict": (
        _predict,
        "label new samples with a saved model, or predict their targets",
        """\
  sparlow predict faces.sparlow new_faces/ -o labels.csv
  sparlow predict faces.sparlow new/*.jpg
  sparlow predict faces.sparlow new_faces/ --reject 0.05    # no label for what is unlike the training samples

FILE has the columns name (if samples have names), label, probability, second (the second choice), likeness and
nearest1, nearest2, nearest3 (training samples); .npy has the labels alone. likeness is the share of held-out samples
that are less like the training samples: --reject P turns away about a share P of samples of known classes, and most
of unknown ones. Models of real targets predict these by ridge regression.""",
    ),
    "evaluate": (
        _evaluate,
        "accuracy of a saved model on new samples, or of a fresh one by cross-validation",
        """\
  sparlow evaluate faces.sparlow new_faces/           # the saved model on samples it has not seen
  sparlow evaluate faces/                             # is SparLow any good here? five folds, beside rivals
  sparlow evaluate scans.csv --groups patient --set class_weight=balanced

predict is what a method answers itself, balanced the mean over classes of the share that is right. 1NN and a Gaussian
SVM judge the embedding. The rivals of cross-validation are the commonest class, LDA, logistic regression and raw
values. A model of real targets is judged by R².""",
    ),
    "report": (
        _report,
        "a page to look at a model: embedding, atoms, accuracies, rivals, in one HTML file",
        """\
  sparlow report faces.sparlow faces/ -o report.html
  sparlow report digits.sparlow digits.npz --part test --train digits.npz -o report.html    # a file of two parts

Accuracies are of samples that were not learned from. With --train rivals learn from TRAIN (its part train). Where the
model was learned from all of DATA, three tenths are held out, and a model with the same parameters and the rivals learn
from the rest. The file opens without a network.""",
    ),
    "transform": (
        _transform,
        "embed samples with a saved model",
        """\
  sparlow transform faces.sparlow faces/ -o embedding.csv    # with a header, names of files and labels
  sparlow transform digits.sparlow new.npz --codes -o codes.npz
  sparlow transform big.sparlow big.npy -o Z.npy    # a file larger than memory is read and written in parts""",
    ),
    "explain": (
        _explain,
        "what in a picture speaks for its class: which atoms, and where",
        """\
  sparlow explain digits.sparlow what.png -o why.png
  sparlow explain digits.sparlow digits.npz --sample 12 --class 3 --against 5

For local codes: the parts of the picture that speak most for a class (+) rather than another (-). For codes of whole
pictures: the atoms that it is made of, and their codes.""",
    ),
    "inspect": (
        _inspect,
        "what a model file holds: parameters, choices, sizes, course of learning",
        """\
  sparlow inspect faces.sparlow
  sparlow inspect faces.sparlow --json | jq .parameters""",
    ),
    "features": (
        _features,
        "turn a folder of pictures into rows: dense descriptors, codebook, spatial pyramid",
        """\
  sparlow features scenes/ -o scenes.npz --save scenes.features
  sparlow features new/ --like scenes.features -o new.npz
  sparlow features scenes/ --set n_words=64 "patch=(16, 32)" -o scenes.npz

Codebook and components are learned from the pictures given: rows of two runs cannot be mixed, unless the second is made
--like what the first has saved.""",
    ),
}


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong without printing every option."""

    more: Callable[[], str] | None = None  # what the help ends with

    def error(self, message: str) -> NoReturn:
        """End the command with a message about its usage."""
        self.exit(WRONG_USE, f"{self.prog}: error: {message}. {self.prog} --help lists what there is.\n")

    def format_help(self) -> str:
        """Return the help, with what is made when it is asked for."""
        return super().format_help() + (self.more() if self.more else "")


def _parameters() -> str:
    """Return the parameters that ``--set`` takes, from the signatures and docstrings of the library."""
    from .settings import parameters

    return parameters()


def parser(version: str) -> Parser:
    """Return the parser of the whole command line."""
    raw = argparse.RawDescriptionHelpFormatter
    said = "Small, telling image representations: sparse codes and a projection, learned together."
    whole = Parser(prog="sparlow", description=said, epilog=_EPILOG, formatter_class=raw)
    whole.add_argument("--version", action="version", version=f"sparlow {version}")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND")
    for name, (declare, summary, examples) in COMMANDS.items():
        described = f"{summary[0].upper()}{summary[1:]}."
        sub = commands.add_parser(
            name, help=summary, description=described, epilog=f"examples:\n{examples}", formatter_class=raw
        )
        declare(sub)
        manners = sub.add_argument_group("output")
        manners.add_argument("--json", action="store_true", help="print the result as one JSON document")
        manners.add_argument("--quiet", action="store_true", help="no progress and no notes, also on a terminal")
        sub.more = _parameters if name in ("fit", "evaluate") else None
    return whole
