"""What is done for one chunk by whoever computes, and the codes that a process keeps meanwhile, in bounded memory.

Codes that were lost are computed again, to the same bits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..checks import Array
from ..coding import Coder
from ..parallel import Threads
from ..priors import Prior
from ..views import Bound
from .chunks import Chunk, code_chunk

Scaling = Callable[[Any], Any]


@dataclass(frozen=True)
class Context:
    """What chunks are coded by, sent once to whoever computes: scaling, prior, views, dictionary.

    ``token`` names the codes at this dictionary. Without a dictionary the rows are only scaled. ``keep`` says whether
    codes of views are kept beside their features.
    """

    session: str
    scaling: Scaling
    prior: Prior
    views: Bound
    memory: int
    dictionary: Array | None = None
    token: str = ""
    keep: bool = True


@dataclass(frozen=True)
class Task:
    """A function of one chunk: ``function(chunk, shared, local)``, or of X where there is no dictionary.

    ``shared`` is the same for all chunks, ``local`` is what a chunk needs of its own. Without ``with_rows`` samples are
    not read where codes are at hand. ``near`` names the codes to start from, ``alive`` all that are still of use.
    """

    context: Context
    function: Callable[[Any, Any, Any], Any]
    shared: Any = None
    asked: tuple[bool, bool] = (True, False)
    with_rows: bool = False
    near: str = ""
    alive: frozenset[str] = frozenset()

    def __call__(self, index: int, rows: Callable[[], Any], local: Any) -> Any:
        """Return the function of chunk ``index``, whose samples ``rows()`` gives as they are stored."""
        with Threads(1):
            if self.context.dictionary is None:
                return self.function(self._scaled(rows()), self.shared, local)
            return self.function(self._coded(index, rows).asked(self.asked), self.shared, local)

    def _coded(self, index: int, rows: Callable[[], Any]) -> Chunk:
        """Return the chunk with its codes, those that are kept or new ones."""
        context = self.context
        cache = _cache_of(context.session, context.memory)
        coder, kept = cache.coder(context, self.alive), cache.codes(index, context.token)
        if kept is not None:
            X = self._scaled(rows()) if self.with_rows or self.asked[1] else None
            return Chunk(X, coder, context.views, *kept, n_jobs=1)
        X, start = self._scaled(rows()), cache.codes(index, self.near)
        near = None if start is None else Chunk(X, coder, context.views, *start)
        coded = code_chunk(X, coder, context.views, near, context.keep, 1)
        cache.keep(index, context.token, self.alive, coded)
        return coded

    def _scaled(self, rows: Any) -> Any:
        """Return samples checked and scaled, in fresh arrays: results must not depend on where they lay in memory."""
        dtype = rows.dtype if rows.dtype in (np.float32, np.float64) else np.float64
        if sp.issparse(rows):
            rows = sp.csr_array(rows, copy=True)
            rows.sum_duplicates()
            rows = rows.astype(dtype)
        elif rows.dtype != dtype or not (rows.flags.owndata and rows.flags.c_contiguous):
            rows = np.array(rows, dtype, order="C")
        entries = rows.data if sp.issparse(rows) else rows
        if not np.isfinite(np.sum(entries)) and not np.all(np.isfinite(entries)):
            raise ValueError("Input X contains NaN or infinity.")
        return self.context.scaling(rows)


class Cache:
    """Codes of chunks in the process that computed them, for one fit, within bounded memory."""

    def __init__(self, memory: int) -> None:
        self.memory, self.size = memory, 0
        self.kept: dict[int, dict[str, tuple[Any, Any]]] = {}  # features and codes by chunk and name
        self._coders: dict[str, Coder] = {}
        self._lock = threading.Lock()

    def coder(self, context: Context, alive: frozenset[str]) -> Coder:
        """Return the coder of the dictionary, made once."""
        for token in [token for token in self._coders if token not in alive]:
            self._coders.pop(token, None)
        found = self._coders.get(context.token)
        if found is None:
            assert context.dictionary is not None
            found = self._coders[context.token] = Coder(np.array(context.dictionary), context.prior, n_jobs=1)
        return found

    def codes(self, index: int, token: str) -> tuple[Any, Any] | None:
        """Return features and codes of a chunk by their name, None where they are not kept."""
        return self.kept.get(index, {}).get(token)

    def keep(self, index: int, token: str, alive: frozenset[str], coded: Chunk) -> None:
        """Keep codes of a chunk if there is room, after those of no more use were let go."""
        kept = self.kept.setdefault(index, {})
        with self._lock:
            for old in [old for old in kept if old not in alive]:
                self.size -= bytes_of(*kept.pop(old))
            size = bytes_of(coded.features, coded.codes)
            if self.size + size <= self.memory and token in alive:
                kept[token] = coded.features, coded.codes
                self.size += size


def bytes_of(features: Any, codes: Any) -> int:
    """Return the memory that the codes of a chunk take."""
    blocks = [features] if codes is features or codes is None else [features, codes]
    arrays = [(block.data, block.indices, block.indptr) if sp.issparse(block) else (block,) for block in blocks]
    return sum(int(array.nbytes) for group in arrays for array in group)


caches: dict[str, Cache] = {}
_lock = threading.Lock()


def _cache_of(session: str, memory: int) -> Cache:
    """Return what this process keeps of the codes for a fit."""
    with _lock:
        found = caches.pop(session, None) or Cache(memory)
        caches[session] = found  # the last is the one used last
        while len(caches) > 2:
            del caches[next(iter(caches))]
        return found


def forget(session: str) -> None:
    """Let go what this process keeps for a fit."""
    caches.pop(session, None)
