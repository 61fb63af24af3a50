"""What is done for one part, by whoever computes, and the codes that a process keeps meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..coded import Coded, Samples, code
from ..coding import Coder
from ..parallel import Threads
from ..priors import Prior
from ..views import Bound

Array = NDArray[Any]
Scaling = Callable[[Any], Any]


@dataclass(frozen=True)
class At:
    """What parts are coded by, sent once to whoever computes: scaling, prior, views, dictionary.

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
class Work:
    """A function of one part: ``function(coded, shared, own)``, or of X where there is no dictionary.

    ``shared`` is the same for all parts, ``own`` is what a part needs of its own. Without ``with_rows`` samples are not
    read where codes are at hand. ``near`` names the codes to start from, ``alive`` all that are still of use.
    """

    at: At
    function: Callable[[Any, Any, Any], Any]
    shared: Any = None
    weights: tuple[float, float] = (1.0, 0.0)
    with_rows: bool = False
    near: str = ""
    alive: frozenset[str] = frozenset()

    def __call__(self, index: int, rows: Callable[[], Any], own: Any) -> Any:
        """Return the function of part ``index``, whose samples ``rows()`` gives as they are stored."""
        with Threads(1):
            if self.at.dictionary is None:
                return self.function(self._scaled(rows()), self.shared, own)
            return self.function(self._coded(index, rows), self.shared, own)

    def _coded(self, index: int, rows: Callable[[], Any]) -> Coded:
        """Return the part with its codes, those that are kept or new ones."""
        cache = _cache_of(self.at.session, self.at.memory)
        coder, held = cache.coder(self.at, self.alive), cache.codes(index, self.at.token)
        if held is not None:
            return Coded(self._samples(self._scaled(rows()) if self.with_rows else None), coder, *held)
        samples, near = self._samples(self._scaled(rows())), cache.codes(index, self.near)
        coded = code(samples, coder, None if near is None else Coded(samples, coder, *near), self.at.keep)
        cache.keep(index, self.at.token, self.alive, coded)
        return coded

    def _samples(self, X: Any) -> Samples:
        """Return the samples of one part, with what they are coded by."""
        weights = self.weights if X is not None else (self.weights[0], 0.0)
        return Samples(X, self.at.prior, self.at.views, weights, 1)

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
        return self.at.scaling(rows)


class _Cache:
    """Codes of parts in the process that computed them, for one fit, within bounded memory."""

    def __init__(self, memory: int) -> None:
        self.memory, self.size = memory, 0
        self._coders: dict[str, Coder] = {}
        self._codes: dict[int, dict[str, tuple[Any, Any]]] = {}
        self._lock = threading.Lock()

    def coder(self, at: At, alive: frozenset[str]) -> Coder:
        """Return the coder of the dictionary, made once."""
        for token in [token for token in self._coders if token not in alive]:
            self._coders.pop(token, None)
        found = self._coders.get(at.token)
        if found is None:
            assert at.dictionary is not None
            found = self._coders[at.token] = Coder(np.array(at.dictionary), at.prior, n_jobs=1)
        return found

    def codes(self, index: int, token: str) -> tuple[Any, Any] | None:
        """Return features and codes of a part by their name, None where they are not kept."""
        return self._codes.get(index, {}).get(token)

    def keep(self, index: int, token: str, alive: frozenset[str], coded: Coded) -> None:
        """Keep codes of a part if there is room, after those of no more use were let go."""
        held = self._codes.setdefault(index, {})
        with self._lock:
            for old in [old for old in held if old not in alive]:
                self.size -= _bytes(*held.pop(old))
            size = _bytes(coded.features, coded.codes)
            if self.size + size <= self.memory and token in alive:
                held[token] = coded.features, coded.codes
                self.size += size


def _bytes(features: Any, codes: Any) -> int:
    """Return the memory that the codes of a part take."""
    blocks = [features] if codes is features or codes is None else [features, codes]
    arrays = [block.data if sp.issparse(block) else block for block in blocks]
    indices = [a for block in blocks if sp.issparse(block) for a in (block.indices, block.indptr)]
    return sum(int(array.nbytes) for array in (*arrays, *indices))


_caches: dict[str, _Cache] = {}
_caches_lock = threading.Lock()
_SESSIONS = 2  # fits whose codes a process keeps at once


def _cache_of(session: str, memory: int) -> _Cache:
    """Return what this process keeps of the codes for a fit."""
    with _caches_lock:
        found = _caches.pop(session, None) or _Cache(memory)
        _caches[session] = found  # the last is the one used last
        while len(_caches) > _SESSIONS:
            del _caches[next(iter(_caches))]
        return found


def forget(session: str) -> None:
    """Let go what this process keeps for a fit."""
    _caches.pop(session, None)
