"""From batches to fitted attributes: ``partial_fit``."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..constants import DRAWN, GROWTH, SOONER, USUAL
from ..criteria import criterion_named
from ..embedding import Embedding
from ..labels import Labels, joined
from ..stochastic import targets_of
from ..stream import Stream, check_streams
from .learning import Setup, components_beside, factors_of, first_dictionary, regress


def begin_stream(setup: Setup, samples: Any, labels: Labels) -> Stream:
    """Return a stream that begins with the dictionary learned from samples; it has seen none of them."""
    check_streams(setup.criterion)
    D = first_dictionary(setup, samples, labels)
    n_targets = 0
    if labels.classes is not None:
        n_targets = len(labels.classes)
    elif labels.targets is not None:
        n_targets = labels.targets.shape[1]
    beside = dataclasses.replace(samples, weights=(1.0, float(setup.beside)))
    count = components_beside(setup, beside, len(D), labels)
    return Stream(
        criterion=setup.criterion,
        prior=setup.prior,
        dictionary=D,
        n_components=count,
        n_targets=n_targets,
        classes=labels.classes is not None,
        beside=setup.whiten or setup.beside,
        shrinkage=setup.shrinkage,
        seed=setup.seed,
        n_jobs=setup.n_jobs,
    )


def take_in(stream: Stream, X: Any, labels: Labels) -> None:
    """Give a batch to a stream."""
    X = X.toarray() if hasattr(X, "toarray") else X
    if labels.y is None and labels.targets is None:
        stream.update(X, np.zeros((len(X), 0)), np.ones(len(X), bool))
    else:
        stream.update(X, *targets_of(labels, stream.n_targets))


Begun = dict[str, Any]  # a stream under way: stream, setup, scaling, labels, samples seen by the last model, first ones


def all_so_far(begun: Begun, X: Any, labels: Labels) -> tuple[Begun, tuple[Any, Labels] | None]:
    """Return the stream, and all its samples up to now where it is to begin again with them.

    What a stream begins with decides most: first dictionary, prior, scaling. It begins again when it has seen four
    times as many samples as it began with, and for the last time when it has seen 20 000. Until then it keeps them.
    """
    if begun["first"] is None:
        return begun, None
    before, known = begun["first"]
    if before is not None:
        X = sp.vstack([before, X], "csr") if sp.issparse(X) else np.concatenate([before, X])
        labels = joined(known, labels)
    due = before is not None and X.shape[0] >= min(DRAWN, SOONER * begun["began_with"])
    begun = {**begun, "first": (X.copy(), labels) if X.shape[0] < DRAWN else None}
    return begun, (X, labels) if due else None


def with_batch(begun: Begun, X: Any, labels: Labels) -> tuple[Begun, dict[str, Any]]:
    """Return a stream with one more batch, and the fitted attributes of a new model where one is due.

    It is due when a tenth more samples were seen than for the last. The stream given stays as it was.
    """
    stream, scaling = begun["stream"].copy(), begun["scaling"]
    take_in(stream, scaling(X), labels)
    if not stream.has_begun:
        raise ValueError("The first batch needs labelled samples of at least two classes.")
    begun = {**begun, "stream": stream}
    if stream.moments.seen < GROWTH * begun["last"]:
        return begun, {}
    columns = {"column_means_": scaling.means, "column_scales_": scaling.scales}
    fitted = {**state_of(stream, begun["setup"], begun["labels"]), **columns}
    return {**begun, "last": stream.moments.seen}, fitted


def state_of(stream: Stream, setup: Setup, labels: Labels) -> dict[str, Any]:
    """Return the fitted attributes of the model so far; ``labels`` say what the classes are."""
    coded, T = stream.reservoir()
    W, weights, ridge, mean = stream.embedding()
    coded = coded.weighted(weights)
    embedding = Embedding(W, mean @ W)
    dtype, D = coded.samples.dtype, stream.dictionary
    Y = embedding(coded)
    kept = Labels()
    if labels.classes is not None:
        kept = Labels(T.argmax(axis=1), labels.classes)
    elif labels.targets is not None:
        kept = Labels(targets=T)
    state = {
        "dictionary_": D.astype(dtype),
        "projection_": W.astype(dtype),
        "forms_": None,
        "n_components_": Y.shape[1],
        "n_atoms_": len(D),
        "weights_": weights,
        "ridge_": ridge,
        "ridges_": USUAL if setup.whiten else (np.nan, np.nan),
        "mu_proximity_": 0.0,
        "shrinkage_": stream.shrinkage,
        "criterion_": stream.criterion,
        "prior_": stream.prior,
        "embedding_": Y.astype(dtype, copy=False),
        "n_samples_seen_": stream.moments.seen,
        "n_iter_": 1,
        "best_iter_": 1,
        "stop_reason_": "stream",
        "history_": {},
        "_centre": embedding.centre,
        "_views": setup.views,
        "_epsilon": setup.views.epsilon,
        "_whitener": setup.views.whitener,
        "_training": kept,
    }
    state |= factors_of(coded, W, D, dtype)
    if labels.classes is not None:
        state["classes_"] = labels.classes
    if stream.criterion.targets:
        state["regression_"] = regress(Y, kept)
    return state


def can_stream(model: Any) -> bool:
    """Return whether a model can learn from a stream; the error says why not."""
    if model.views is not None:
        raise AttributeError("partial_fit takes samples as they are: leave views out, or use fit.")
    try:
        check_streams(criterion_named(model.criterion))
    except ValueError as error:
        raise AttributeError(str(error)) from error
    return True
