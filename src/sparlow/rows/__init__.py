"""Rows: samples wherever they are, in memory, in files or on a cluster, and the features that a fit asks of them.

:class:`Samples` binds a store of rows to prior and views. Coded at a dictionary they are :class:`Codes`. A
:class:`Store` says where rows are and who computes: :class:`Memory` has them in one chunk, :class:`Local` reads chunks
of a file or another row store on threads of this process, ``sparlow.distributed`` has a store for Dask.
"""

from .chunks import Context, Task, forget
from .codes import Codes, code
from .features import Features, Rows
from .samples import Samples
from .stores import (
    File,
    Local,
    Memory,
    RowGroups,
    Store,
    add,
    cut,
    drawn_rows,
    is_dask,
    nothing,
    pairwise_sum,
    rows_per_chunk,
    streams,
    working_memory,
)

__all__ = [
    "Codes",
    "Context",
    "Features",
    "File",
    "Local",
    "Memory",
    "RowGroups",
    "Rows",
    "Samples",
    "Store",
    "Task",
    "add",
    "code",
    "cut",
    "drawn_rows",
    "forget",
    "is_dask",
    "nothing",
    "pairwise_sum",
    "rows_per_chunk",
    "streams",
    "working_memory",
]
