"""Warnings that point to the caller's line, however deep in the library they arise."""

from __future__ import annotations

import os
import pathlib
import sys
import warnings

import sklearn

_OURS = tuple(f"{pathlib.Path(file).parent}{os.sep}" for file in (__file__, sklearn.__file__))


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn in the name of the first frame outside of this library and of scikit-learn, which calls it in turn."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)
