"""Compiled loops: every numba function of the library; arrays in, arrays out.

Priors arrive as compiled scalar functions ``f(value, atom, parameters)`` (see :mod:`sparlow.priors`). They are passed
as C callbacks, whose type does not depend on the prior, so one compiled kernel on disk serves all priors; those that
are quadratic on either side of zero have a kernel of their own, without callbacks.

Numba compiles a kernel afresh when the file of the kernel changes, not when a part imported from another file does:
after a change of ``algebra.py``, ``screening.py``, ``lanes.py``, ``path.py`` or ``newton.py`` run ``make clean`` or
touch the files that use it.
"""

from .algebra import FAR
from .bags import (
    add_to_words,
    describe,
    fisher_sums,
    intersections,
    local_weights,
    nearest_words,
    pool_max,
    pool_sum,
    posteriors,
    signed_roots,
    smooth,
)
from .compilation import compile_scalar, map_scalar, wright_omega
from .dictionaries import accumulate, pursue_chunk, update_atoms, update_block
from .general import encode_chunk
from .lanes import aligned, padded
from .neighbours import judge, keep_nearest, squared_distances
from .pooling import (
    add_diagonal_form,
    add_graph_form,
    form_values,
    pool_codes,
    project,
    pull_codes,
    pull_features,
    root_and_scale,
    shrink,
)
from .pullback import factored_entries, residual_products, solve_supports, transposed_products
from .scattering import LANES, scatter

__all__ = [
    "FAR",
    "LANES",
    "accumulate",
    "add_diagonal_form",
    "add_graph_form",
    "add_to_words",
    "aligned",
    "compile_scalar",
    "describe",
    "encode_chunk",
    "factored_entries",
    "fisher_sums",
    "form_values",
    "intersections",
    "judge",
    "keep_nearest",
    "local_weights",
    "map_scalar",
    "nearest_words",
    "padded",
    "pool_codes",
    "pool_max",
    "pool_sum",
    "posteriors",
    "project",
    "pull_codes",
    "pull_features",
    "pursue_chunk",
    "residual_products",
    "root_and_scale",
    "scatter",
    "shrink",
    "signed_roots",
    "smooth",
    "solve_supports",
    "squared_distances",
    "transposed_products",
    "update_atoms",
    "update_block",
    "wright_omega",
]
