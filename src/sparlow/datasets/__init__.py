"""Image sets that the evidence rests on: images as rows, labels, shape, and how to split them.

The library ships none of them. All but the digits of scikit-learn are read from one folder, which the argument
``folder`` or the environment variable ``SPARLOW_DATA`` names; usps and mnist can also be fetched from OpenML.
"""

from __future__ import annotations

import os
import pathlib

import numpy as np
from sklearn.datasets import fetch_openml, load_digits

from .dataset import Dataset
from .sources import SOURCES

__all__ = ["NAMES", "VARIABLE", "Dataset", "available", "load", "of_one_shape"]

VARIABLE = "SPARLOW_DATA"
NAMES = ("digits", *SOURCES)

_FETCHED = ("usps", "mnist")
_FETCH = " Or fetch it with sparlow.datasets.load(..., fetch=True)."
_USPS_TRAIN = (1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644)  # images of each digit in the official training part


def load(
    name: str, folder: str | os.PathLike[str] | None = None, *, fetch: bool = False, check: bool = True
) -> Dataset:
    """Load a set by its name.

    Parameters
    ----------
    name : {"digits", "usps", "mnist", "pie", "orl", "scenes15", "caltech101", "caltech256"}
        "digits" comes with scikit-learn.
    folder : path, optional
        Where the files are; by default what the environment variable SPARLOW_DATA says. Read are

        - usps: usps.npz, zip.train and zip.test (also .gz), or usps.h5
        - mnist: mnist.npz, or the four idx files (also .gz)
        - pie, orl: pie_32x32.npz, orl_32x32.npz, or Deng Cai's PIE_32x32.mat, ORL_32x32.mat
        - scenes15, caltech101, caltech256: a .zip or folder of pictures with a sub-folder for each class
    fetch : bool, default=False
        Get usps or mnist from OpenML with scikit-learn's client, which keeps a copy for the next time.
    check : bool, default=True
        Compare files with the checksums that are known.

    Returns
    -------
    Dataset

    """
    if name == "digits":
        digits = load_digits()
        return Dataset("digits", digits.data / 16.0, digits.target, (8, 8))
    if name not in SOURCES:
        raise ValueError(f"There is no set {name!r}; there are {', '.join(NAMES)}.")
    if fetch:
        return _fetched(name)
    source = SOURCES[name]
    named = named_folder(folder)
    if named is None:
        raise FileNotFoundError(
            f"Where is {name}? Name its folder by {VARIABLE}, on the command line by --data, in Python by "
            "load(..., folder=...). "
            f"Get it from {source.where}, and put there {source.wanted()}.{_FETCH * (name in _FETCHED)}"
        )
    return source.load(name, pathlib.Path(named), check)


def named_folder(folder: str | os.PathLike[str] | None = None) -> str | os.PathLike[str] | None:
    """The folder of the image sets: the one given, or that of the environment variable; None if neither is."""
    return folder if folder is not None else os.environ.get(VARIABLE) or None


def available(name: str, folder: str | os.PathLike[str] | None = None) -> bool:
    """Whether the files of a set are there; they are not read."""
    if name == "digits":
        return True
    named = named_folder(folder)
    return named is not None and any(offer.find(pathlib.Path(named)) for offer in SOURCES[name].offers)


def of_one_shape(name: str) -> bool:
    """Whether the images of a set all have one shape, so that their pixels are features."""
    return name == "digits" or SOURCES[name].shape is not None


def _fetched(name: str) -> Dataset:
    if name == "mnist":
        found = fetch_openml("mnist_784", version=1, as_frame=False)
        return Dataset(name, np.asarray(found.data) / 255.0, np.asarray(found.target, int), (28, 28), 60_000)
    if name not in _FETCHED:
        raise ValueError(f"{name} cannot be fetched, usps and mnist can: get it from {SOURCES[name].where}.")
    found = fetch_openml(data_id=41082, as_frame=False)
    images, labels = (np.asarray(found.data, float) + 1) / 2, np.asarray(found.target, int) - 1
    n_train = sum(_USPS_TRAIN)
    official = np.array_equal(np.bincount(labels[:n_train], minlength=10), _USPS_TRAIN)
    return Dataset(name, images, labels, (16, 16), n_train if official else None)
