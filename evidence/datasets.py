"""Which files hold which set, where they come from, and how to know that they are whole."""

from __future__ import annotations

import hashlib
import pathlib
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from . import formats
from .dataset import Dataset

Reader = Callable[..., Dataset]


@dataclass(frozen=True)
class Offer:
    """One form that a set comes in: names of files (with .gz at their end too, or of a folder) and their reader."""

    files: tuple[str, ...]
    read: Reader
    scale: float = 255.0

    def find(self, folder: pathlib.Path) -> list[pathlib.Path] | None:
        """Where the files are; None if one is missing."""
        found = []
        for file in self.files:
            path = next((p for p in (folder / file, folder / f"{file}.gz") if p.exists()), None)
            if path is None:
                return None
            found.append(path)
        return found


@dataclass(frozen=True)
class Source:
    """A set: the forms it comes in, the shape of its images, and what to tell someone who does not have it."""

    offers: tuple[Offer, ...]
    where: str
    shape: tuple[int, int] | None = None

    def wanted(self) -> str:
        """The files in words."""
        return ", or ".join(" and ".join(offer.files) for offer in self.offers)

    def load(self, name: str, folder: pathlib.Path, check: bool) -> Dataset:
        """Read the first form that is there."""
        for offer in self.offers:
            paths = offer.find(folder)
            if paths is not None:
                if check:
                    self._verify(paths)
                return self._read(name, offer, paths)
        raise FileNotFoundError(f"{name} is not in {folder}. Get it from {self.where}, and put there {self.wanted()}.")

    def _verify(self, paths: list[pathlib.Path]) -> None:
        for path in paths:
            known = CHECKSUMS.get(path.name.removesuffix(".gz"))
            if known is None:
                continue
            try:
                sound = getattr(hashlib, known[0])(formats.content(path), usedforsecurity=False).hexdigest() == known[1]
            except (OSError, EOFError, zlib.error):  # what .gz files say when they are cut short
                sound = False
            if not sound:
                raise ValueError(
                    f"{path} is damaged or another version: its {known[0]} checksum is not {known[1]}. Get it again "
                    f"from {self.where}, and put it there; or read it as it is with load(..., check=False)."
                )

    def _read(self, name: str, offer: Offer, paths: list[pathlib.Path]) -> Dataset:
        try:
            return offer.read(name, paths, self.shape, offer.scale)
        except _UNREADABLE as error:
            files = " and ".join(str(path) for path in paths)
            raise ValueError(
                f"{files} cannot be read: {error}. Get {name} again from {self.where}, and put it there."
            ) from error


# What readers of arrays, text, HDF5, MATLAB and zip files raise on damaged ones; NotImplementedError is scipy's answer
# to MATLAB files of version 7.3 and zipfile's to an unknown compression.
_UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    IndexError,
    EOFError,
    TypeError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)

_IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_CAI = "Deng Cai's page of four face databases in matrix form"

SOURCES = {
    "usps": Source(
        (
            Offer(("usps.npz",), formats.arrays, 2000.0),
            Offer(("zip.train", "zip.test"), formats.text_digits),
            Offer(("usps.h5",), formats.hdf5_digits),
        ),
        "the data page of The Elements of Statistical Learning (zip.train, zip.test)",
        (16, 16),
    ),
    "mnist": Source(
        (Offer(("mnist.npz",), formats.arrays), Offer(_IDX, formats.idx)),
        "the MNIST page of LeCun, Cortes and Burges (four idx files)",
        (28, 28),
    ),
    "pie": Source(
        (Offer(("pie_32x32.npz",), formats.arrays), Offer(("PIE_32x32.mat",), formats.matlab_faces)),
        f"{_CAI} (CMU PIE, PIE_32x32.mat)",
        (32, 32),
    ),
    "orl": Source(
        (Offer(("orl_32x32.npz",), formats.arrays), Offer(("ORL_32x32.mat",), formats.matlab_faces)),
        f"{_CAI} (ORL, by AT&T, ORL_32x32.mat)",
        (32, 32),
    ),
    "scenes15": Source(
        tuple(
            Offer((f,), formats.pictures) for f in ("scenes15_gray256.zip", "scene_categories.zip", "scene_categories")
        ),
        "Svetlana Lazebnik's page of fifteen scene categories (scene_categories.zip)",
    ),
    "caltech101": Source(
        tuple(Offer((f,), formats.pictures) for f in ("caltech101_gray256.zip", "101_ObjectCategories")),
        "the Caltech-101 page of Caltech's data archive (101_ObjectCategories, unpacked)",
    ),
    "caltech256": Source(
        tuple(Offer((f,), formats.pictures) for f in ("caltech256_subset_gray160.zip", "256_ObjectCategories")),
        "the Caltech-256 page of Caltech's data archive (256_ObjectCategories, unpacked)",
    ),
}

# Of the contents of files, unpacked where they end in .gz.
CHECKSUMS = {
    "usps.npz": ("sha256", "e9b2dc7e71a2b33429ad35e9ec9f4daf9df819ed02d3be276dbf994bfe5c519d"),
    "mnist.npz": ("sha256", "58c05ffd9880e3b6ddfe8c74b89ccc40c0da6f6152f4c5203a7c6a12919c2344"),
    "pie_32x32.npz": ("sha256", "6598d5e3f14433fe79a22b84ff2575a03f1b0ef0f3f38383dc23627b8c671f13"),
    "orl_32x32.npz": ("sha256", "2574c1e20f8e57e9a78409a554731d349366b5dd0ad51d2a689153df77c4577d"),
    "scenes15_gray256.zip": ("sha256", "f4194671bca6cbd643b870709be63d2a8abb5bdf138b660cd13e9fae36a6e68e"),
    "caltech101_gray256.zip": ("sha256", "88c2ab35ffb63904a0a884a6880bf15840b051ee889cdc4b97133a3d3ff4087c"),
    "caltech256_subset_gray160.zip": ("sha256", "aa16fb3facd44f49057b97fa48a724eb9e76c6328f0a9a0a5ca939a14e4a872b"),
    "train-images-idx3-ubyte": ("md5", "6bbc9ace898e44ae57da46a324031adb"),
    "train-labels-idx1-ubyte": ("md5", "a25bea736e30d166cdddb491f175f624"),
    "t10k-images-idx3-ubyte": ("md5", "2646ac647ad5339dbf082846283269ea"),
    "t10k-labels-idx1-ubyte": ("md5", "27ae3e4e09519cfbb04c329615203637"),
}
