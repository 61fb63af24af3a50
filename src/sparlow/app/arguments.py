"""Arguments that several commands share: how to read DATA, the parameters of a model, and files."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import math
import re
import warnings
from collections.abc import Callable
from typing import Any

from ..criteria import CRITERIA, Criterion
from ..dictionaries import LEARNERS
from ..estimators import SparLow
from ..priors import ElasticNet
from ..solvers import SOLVERS, EarlyStopping, Solver
from ..views import Patches, Shifts, Views
from .dataset import Dataset
from .photographs import LARGEST
from .terminal import UserError


def image_size(text: str) -> tuple[int, int]:
    """Parse ``32x32`` to (32, 32), height first."""
    found = re.fullmatch(r"(\d+)[x×X](\d+)", text)
    if not found or not (int(found[1]) and int(found[2])):
        raise argparse.ArgumentTypeError(f"expected HEIGHTxWIDTH such as 32x32, got {text!r}")
    return int(found[1]), int(found[2])


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return the type of an option that is a whole number within bounds."""
    expected = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"

    def parse(text: str) -> int:
        if not re.fullmatch(r"[-+]?\d+", text) or int(text) < least or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
        return int(text)

    return parse


def thread_count(text: str) -> int:
    """Parse a number of threads; −1 means all cores, −2 all but one."""
    if not re.fullmatch(r"[-+]?\d+", text) or not int(text):
        raise argparse.ArgumentTypeError(f"expected a number of threads such as 2, or -1 for all cores, got {text!r}")
    return int(text)


def nonnegative_number(text: str) -> float:
    """Parse a number that is not negative."""
    value = _number(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, got {text!r}")
    return value


def fraction(text: str) -> float:
    """Parse a number above 0 and below 1."""
    value = _number(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"expected a share between 0 and 1 such as 0.3, got {text!r}")
    return value


def _number(text: str) -> float:
    """Parse a number of an option; NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan  # within no bounds


SEED = whole_number(0, 2**32 - 1)


def setting(text: str) -> tuple[str, Any]:
    """Parse ``k_within=30`` to ("k_within", 30)."""
    name, equals, value = text.partition("=")
    try:
        return name.strip(), ast.literal_eval(value) if equals else _refuse(text)
    except (ValueError, SyntaxError):
        return _refuse(text)


def _refuse(text: str) -> Any:
    """Refuse an option that is no setting of a criterion."""
    raise argparse.ArgumentTypeError(f"expected NAME=NUMBER such as k_within=30, got {text!r}")


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add how to read DATA."""
    group = parser.add_argument_group("reading DATA")
    group.add_argument(
        "--labels", metavar="FILE", help="labels in a file of their own: .npy, or text, one on each line"
    )
    group.add_argument(
        "--label-column",
        metavar="NAME",
        help="column of labels in a table: its name, or its position (from 0; -1 is the last); by default one called "
        "label, class, target or y, or the only one that is not numeric",
    )
    group.add_argument(
        "--header", action=argparse.BooleanOptionalAction, help="whether the first line of a .csv names the columns"
    )
    group.add_argument(
        "--size",
        type=image_size,
        metavar="HxW",
        help="images: the common size they are scaled to; arrays and tables: the shape of a row that is an image",
    )
    group.add_argument("--part", choices=["train", "test", "all"], help="which part of a .npz that has both")
    group.add_argument("--columns", nargs="+", metavar="NAME", help="the only columns of a table to use")
    group.add_argument("--drop", nargs="+", default=[], metavar="NAME", help="columns of a table to leave out")
    group.add_argument("--skip", action="store_true", help="leave out pictures that cannot be read, with a warning")
    group.add_argument("--jobs", type=thread_count, default=-1, help="threads; default: all cores")
    group.add_argument("--unlabelled", metavar="LABEL", help="the label (or folder) of samples that have none")


NETWORK = "a pretrained network in an ONNX file: pictures are its vectors before the last layer (extra networks)"


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add how to write a table."""
    parser.add_argument(
        "--raw",
        action="store_true",
        help="write words of a .csv as they are; by default those that begin with = + - @ get an apostrophe, so no "
        "spreadsheet takes them for formulas",
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the parameters of SparLow."""
    group = parser.add_argument_group("the model", "what is left out is chosen from the data")
    group.add_argument(
        "--one-hot",
        nargs="*",
        metavar="NAME",
        help="columns of words to encode, with a number for each word; without names all but the labels",
    )
    group.add_argument("--fill", action="store_true", help="put the median of a column where a number is missing")
    kind = group.add_mutually_exclusive_group()
    kind.add_argument(
        "--patches",
        dest="kind",
        action="store_const",
        const="patches",
        help="local codes: those of the patches of each picture; default for pictures of one size, 8 to 128 pixels a "
        "side",
    )
    kind.add_argument(
        "--whole", dest="kind", action="store_const", const="whole", help="codes of whole pictures, of one size"
    )
    kind.add_argument(
        "--photographs",
        dest="kind",
        action="store_const",
        const="photographs",
        help="learn features first; default for a folder of larger pictures, or of different sizes",
    )
    kind.add_argument("--network", metavar="ONNX", help=NETWORK)
    group.add_argument(
        "--standardize",
        action=argparse.BooleanOptionalAction,
        help="scale columns to mean 0 and variance 1; by default where columns differ in scale",
    )
    group.add_argument(
        "--criterion",
        choices=list(CRITERIA),
        default="lda",
        help="what the embedding is to do: lda and mfa tell classes apart, sda and slap (or smfa) also where labels "
        "are missing, mvr and smvr predict numbers, pca, lle and lap need no labels; default: lda",
    )
    group.add_argument(
        "--set",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the criterion, such as k_within=30 for mfa",
    )
    group.add_argument(
        "--n-components",
        type=whole_number(1),
        metavar="L",
        help="numbers per sample; default: classes - 1, more where held-out samples say so; without classes up to 48",
    )
    group.add_argument(
        "--n-atoms", type=whole_number(1), metavar="R", help="atoms of the dictionary; default: chosen from the data"
    )
    group.add_argument(
        "--max-iter", type=whole_number(0), default=10, metavar="N", help="steps of joint learning; default: 10"
    )
    group.add_argument(
        "--early-stopping",
        action=argparse.BooleanOptionalAction,
        help="choose the number of steps on held-out samples; default: where there are labels",
    )
    group.add_argument(
        "--validation-fraction", type=fraction, metavar="SHARE", help="the share that is held out; default: a third"
    )
    group.add_argument("--seed", type=SEED, default=0, help="of what is drawn at random; default: 0")
    finer = parser.add_argument_group("finer points of the model")
    finer.add_argument(
        "--l1",
        type=float,
        help="sparsity of the codes: the larger, the fewer atoms for a sample; default: chosen from the data",
    )
    finer.add_argument("--l2", type=float, help="the other weight of the elastic net, with --l1; default: 0.2")
    finer.add_argument("--positive", action="store_true", help="codes are not negative, with --l1")
    finer.add_argument(
        "--dictionary",
        choices=["auto", *sorted(LEARNERS)],
        default="auto",
        help="how the first dictionary is learned; default: auto, which is ksvd, and online for patches",
    )
    finer.add_argument(
        "--from",
        dest="start",
        metavar="MODEL",
        help="start from the dictionary of a saved model, which alone is taken from it",
    )
    finer.add_argument(
        "--shrinkage",
        type=nonnegative_number,
        metavar="WEIGHT",
        help="ridge of the quotient's denominator, in units of its mean diagonal; default: 0.1, and 10 for lap and lle",
    )
    finer.add_argument(
        "--mu-coherence",
        type=nonnegative_number,
        default=0.0,
        metavar="WEIGHT",
        help="keep atoms unlike each other; default: 0",
    )
    finer.add_argument(
        "--mu-proximity",
        type=nonnegative_number,
        metavar="WEIGHT",
        help="keep atoms near the first dictionary; default: what the criterion asks for",
    )
    finer.add_argument(
        "--patience", type=whole_number(1), metavar="N", help="end after N steps without a better score; default: 4"
    )
    finer.add_argument(
        "--refresh-every",
        type=whole_number(1),
        default=2,
        metavar="N",
        help="weigh pairs of classes anew after every N steps; default: 2",
    )
    finer.add_argument(
        "--shifts",
        type=whole_number(1),
        metavar="PIXELS",
        help="average the codes of each picture and of its copies moved by up to so many pixels, in eight directions",
    )
    finer.add_argument(
        "--solver",
        choices=list(SOLVERS),
        default="eliminate",
        help="how steps are made: eliminate takes the best projection for each dictionary, joint moves both as in the "
        "paper, online learns from batches; default: eliminate",
    )
    finer.add_argument(
        "--tol",
        type=nonnegative_number,
        default=1e-5,
        metavar="SHARE",
        help="end where the objective rises by less than this share in two steps; default: 1e-5",
    )
    finer.add_argument(
        "--normalize",
        action=argparse.BooleanOptionalAction,
        help="scale samples to unit norm; by default they are, unless columns of a table are scaled instead",
    )
    finer.add_argument(
        "--embedding",
        choices=["auto", "whitened", "quadratic", "orthonormal"],
        default="auto",
        help="whitened weighs directions by the scatter within classes; orthonormal is the paper's, for codes alone; "
        "default: whitened where there are labels",
    )


def build_model(arguments: argparse.Namespace, start: Any = None) -> SparLow:
    """Return the model that the arguments describe, not fitted; ``start`` has its first dictionary."""
    same = "n_components n_atoms max_iter embedding"
    as_given = getattr(arguments, "standardize", None) is False  # columns stay as they are
    return SparLow(
        _criterion(arguments),
        prior=_prior(arguments),
        dictionary=arguments.dictionary if start is None else start.model.dictionary_,
        solver=Solver(
            arguments.solver,
            arguments.tol,
            arguments.refresh_every,
            arguments.mu_coherence,
            arguments.mu_proximity,
            getattr(arguments, "checkpoint", None),
        ),
        early_stopping=_early_stopping(arguments),
        normalize=(True if as_given else "auto") if arguments.normalize is None else arguments.normalize,
        random_state=arguments.seed,
        n_jobs=arguments.jobs,
        **{name: getattr(arguments, name) for name in same.split()},
    )


def _early_stopping(arguments: argparse.Namespace) -> str | bool | EarlyStopping:
    """Return the early stopping that the options ask for."""
    given = {"fraction": arguments.validation_fraction, "patience": arguments.patience}
    given = {name: value for name, value in given.items() if value is not None}
    if given and arguments.early_stopping is False:
        raise UserError("--validation-fraction and --patience do not go with --no-early-stopping.")
    if given:
        return EarlyStopping(**given)
    return "auto" if arguments.early_stopping is None else arguments.early_stopping


def refuse_model_options(arguments: argparse.Namespace) -> None:
    """Refuse options of a model to be learned beside a saved one, which has its own."""
    names = "n_components n_atoms shrinkage mu_proximity early_stopping validation_fraction patience l1 l2 shifts start"
    names += " standardize kind one_hot network"
    for name in names.split():
        if getattr(arguments, name) is not None:
            option = {"start": "--from", "kind": f"--{arguments.kind}"}.get(name, f"--{name.replace('_', '-')}")
            raise UserError(
                f"{option} goes without MODEL: {arguments.model} is learned already, with choices of its own."
            )


def _criterion(arguments: argparse.Namespace) -> str | Criterion:
    """Return the criterion that the options ask for."""
    if not arguments.set and arguments.shrinkage is None:
        return str(arguments.criterion)
    kind = CRITERIA[arguments.criterion]
    known = [field.name for field in dataclasses.fields(kind) if field.name not in ("graph", "shrinkage")]
    for name, _ in arguments.set:
        if name not in known:
            there = f"{arguments.criterion} has {', '.join(known) or 'none'}"
            raise UserError(f"--set {name}: there is no such parameter; {there}.")
    try:
        return kind(**dict(arguments.set), shrinkage=arguments.shrinkage)
    except ValueError as error:
        raise UserError(f"--set: {error}") from error


def _prior(arguments: argparse.Namespace) -> ElasticNet | None:
    """Return the prior that the options ask for."""
    if arguments.l1 is None:
        if arguments.l2 is not None or arguments.positive:
            raise UserError("--l2 and --positive go with --l1.")
        return None
    try:
        return ElasticNet(arguments.l1, 0.2 if arguments.l2 is None else arguments.l2, arguments.positive)
    except ValueError as error:
        raise UserError(f"--l1, --l2: {error}") from error


SMALLEST = 8  # pixels a side of pictures that have local codes by default


def views_of(arguments: argparse.Namespace, dataset: Dataset) -> Views | None:
    """Return the views of the samples that the arguments ask for; by default patches, for small pictures."""
    shape = dataset.shape
    asked = "--shifts moves pictures" if arguments.shifts is not None else "--patches cuts pictures"
    if (arguments.shifts is not None or arguments.kind == "patches") and shape is None:
        raise UserError(
            f"{asked}, but {dataset.source} holds rows of {dataset.X.shape[1]} numbers: rows that are pictures need "
            "--size HEIGHTxWIDTH."
        )
    if arguments.shifts is not None:
        if arguments.kind == "patches":
            raise UserError("--shifts is for whole pictures: it does not go with --patches.")
        views: Views = Shifts(arguments.shifts, shape)
    elif shape is not None and (arguments.kind == "patches" or (arguments.kind is None and is_small(shape))):
        views = Patches(shape=shape)
    else:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # the fit says it
            views.maps(dataset.X.shape[1])
    except ValueError as error:
        raise UserError(f"{asked.split()[0]}: {error}") from error
    return views


def is_small(shape: tuple[int, int]) -> bool:
    """Return whether pictures of a shape have local codes by default."""
    return min(shape) >= SMALLEST and max(shape) <= LARGEST
