"""Samples in parts: the same fit where rows do not fit into memory together, or lie on other machines.

All that touches a sample is a map over rows or a sum over them. :class:`Parts` does what ``Samples`` of ``coded.py``
does, and :class:`CodedParts` what ``Coded`` does, part by part. Parts are cut by a rule that knows
nothing of threads or machines, each is computed by itself, and sums are added pairwise by the index of the part. So a
result has the same bits for any number of threads and machines.

A :class:`Store` says where rows are and who computes: :class:`Local` reads parts of an array, a file or another row
store on threads of this process. ``sparlow.distributed`` has a store for Dask.

Codes stay where they were computed. They are kept there while the optimiser has use for them, in bounded memory, and
are computed again, to the same bits, where they were lost.
"""

from .row_files import File, RowGroups
from .samples import CodedParts, Parts
from .stores import (
    DRAWN,
    Local,
    Store,
    add,
    cut,
    drawn_rows,
    is_dask,
    nothing,
    pairwise_sum,
    rows_per_part,
    streams,
    working_memory,
)
from .work import At, Work, forget

__all__ = [
    "DRAWN",
    "At",
    "CodedParts",
    "File",
    "Local",
    "Parts",
    "RowGroups",
    "Store",
    "Work",
    "add",
    "cut",
    "drawn_rows",
    "forget",
    "is_dask",
    "nothing",
    "pairwise_sum",
    "rows_per_part",
    "streams",
    "working_memory",
]
