"""Write files whole or not at all, and unpack none that grows beyond a limit."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import secrets
import shutil
import zipfile
from collections.abc import Iterator

VARIABLE = "SPARLOW_MAX_BYTES"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class TooLargeError(ValueError):
    """A file that would grow beyond the limit when it is unpacked."""


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Give a path to write to; the file takes the place of ``path`` when the block ends without an error.

    Until then an earlier file stays as it is, and nobody sees half of the new one. Links are followed. What is no
    regular file, such as a pipe, is written directly. An error of the system names ``path``.
    """
    named, target = pathlib.Path(path), pathlib.Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        yield named
        return
    unfinished = target.with_name(f".sparlow-{os.getpid()}-{secrets.token_hex(4)}{target.suffix}")
    try:
        yield unfinished
        if target.exists():
            shutil.copymode(target, unfinished)
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except OSError as error:
        if isinstance(error, (FileNotFoundError, BrokenPipeError)) and target.parent.is_dir():
            raise
        named_error = OSError(f"{named} could not be written: {_reason(error, target.parent)}. {_kept(target)}")
        named_error.errno = error.errno
        raise named_error from error
    finally:
        unfinished.unlink(missing_ok=True)


def _reason(error: OSError, folder: pathlib.Path) -> str:
    """Return why the system refused; some libraries hide that a disk is full."""
    if error.errno is None and folder.is_dir() and shutil.disk_usage(folder).free < 1 << 20:
        return "no space is left on the disk"
    if error.errno in _FULL:
        return f"{os.strerror(error.errno)}: make room, or name another folder"
    return str(error.strerror or error).rstrip(".")


def _kept(target: pathlib.Path) -> str:
    """Say whether a file that could not be written was there before."""
    return "The file that was there before is unchanged." if target.exists() else "Nothing was left behind."


def max_growth(max_bytes: int | None = None) -> int:
    """Return by how many bytes a file may grow: the argument, the environment variable, or the default."""
    if max_bytes is not None:
        return int(max_bytes)
    told = os.environ.get(VARIABLE, "")
    try:
        return int(float(told)) if told else 1 << 30
    except ValueError:
        raise ValueError(f"{VARIABLE} must be a number of bytes such as 4e9, got {told!r}.") from None


def check_growth(path: str | os.PathLike[str], unpacked: int, max_bytes: int | None = None) -> None:
    """Refuse a file that says it unpacks to more than its size on disk and the limit together."""
    packed, limit = os.path.getsize(path), max_growth(max_bytes)
    if unpacked - packed > limit:
        raise TooLargeError(
            f"{path} has {packed / 1e6:.1f} MB and would grow to {unpacked / 1e9:.1f} GB when unpacked, which is more "
            f"than the limit of {limit / 1e9:.1f} GB. If you trust it, raise the limit: set the environment variable "
            f"{VARIABLE}={unpacked}."
        )


def check_zip(path: str | os.PathLike[str], max_bytes: int | None = None) -> None:
    """Refuse a zip file (.npz, models) by the sizes that it declares; no more than these are ever unpacked."""
    with zipfile.ZipFile(path) as file:
        check_growth(path, sum(member.file_size for member in file.infolist()), max_bytes)
