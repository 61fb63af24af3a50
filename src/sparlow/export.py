"""For other programs: embeddings as files for embedding-atlas and TensorBoard's projector, models as plain arrays."""

from __future__ import annotations

import io
import math
import os
import pathlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .checks import Array
from .estimators import SparLow
from .files import replacing
from .priors import ElasticNet
from .voting import Voters

__all__ = ["arrays", "to_parquet", "to_projector"]


def arrays(model: SparLow) -> dict[str, Array]:
    """Return all numbers on the path from a sample to its answer as plain arrays.

    The page "Serving" has the path in NumPy.

    Parameters
    ----------
    model : SparLow
        Fitted, with an elastic net and without views.

    Returns
    -------
    arrays : dict of arrays
        ``means``, ``scales`` (empty where samples are scaled to unit norm), ``dictionary``, ``l1``, ``l2``,
        ``positive``, ``weights`` (α, γ), ``projection``, ``forms`` (empty unless quadratic), ``centre``; for classes,
        unless labels have spread, also ``classes``, ``points``, ``labels``, ``counts``, ``class_means``, ``shares``,
        ``angle``, ``beta``, ``gamma``, ``weight``. ``numpy.savez`` keeps them.

    """
    check_is_fitted(model)
    prior = model.prior_
    if model.views is not None or not isinstance(prior, ElasticNet):
        raise ValueError("Models as plain arrays are those with an elastic net and without views.")
    none, voters = np.empty(0), model._voters
    found: dict[str, Any] = {
        "means": none if model.column_means_ is None else model.column_means_,
        "scales": none if model.column_scales_ is None else model.column_scales_,
        "dictionary": model.dictionary_,
        "l1": prior.l1,
        "l2": prior.l2,
        "positive": prior.positive,
        "weights": model.weights_,
        "projection": model.projection_,
        "forms": none if model.forms_ is None else model.forms_,
        "centre": model._centre,
    }
    if isinstance(voters, Voters):
        angle, _, gamma, weight = voters.rule
        found |= {"classes": model.classes_, "points": voters.points, "labels": voters.labels}
        found |= {"counts": voters.weights, "class_means": voters.means, "shares": voters.shares}
        found |= {"angle": angle, "beta": voters.beta, "gamma": gamma, "weight": weight}
    return {name: np.asarray(value) for name, value in found.items()}


def _checked(
    Z: ArrayLike, y: Any, names: Any, images: Any, shape: tuple[int, int] | None
) -> tuple[Array, Any, Any, Any]:
    """Return the embedding (n, l), labels and names as lists of words, and thumbnails (n, height, width) as bytes."""
    Z = np.asarray(Z, dtype=np.float32)
    if Z.ndim != 2:
        raise ValueError(f"Z must have shape (n_samples, n_components), got {Z.shape}.")
    words: list[Any] = []
    for name, values in (("y", y), ("names", names)):
        if values is not None and len(values) != len(Z):
            raise ValueError(f"{name} must have one entry for each of the {len(Z)} rows of Z, got {len(values)}.")
        words.append(None if values is None else [_utf8(value) for value in np.asarray(values, object).tolist()])
    if images is None:
        return Z, words[0], words[1], None
    pictures = np.asarray(images, dtype=float)
    if pictures.ndim == 2 and shape is not None and pictures.shape[1] == shape[0] * shape[1]:
        pictures = pictures.reshape(len(pictures), *shape)
    if pictures.ndim != 3 or len(pictures) != len(Z):
        raise ValueError(
            f"images must be {len(Z)} rows of height × width pixels, with their shape=(height, width), or an array "
            f"({len(Z)}, height, width); got {pictures.shape} and shape={shape}."
        )
    low, high = (extreme(pictures, axis=(1, 2), keepdims=True) for extreme in (np.min, np.max))
    scaled = 255 * (pictures - low) / np.maximum(high - low, np.finfo(float).tiny)
    return Z, words[0], words[1], scaled.astype(np.uint8)


def _utf8(value: Any) -> str:
    """Return a word that can be written; names of files may hold bytes that are no UTF-8."""
    return str(value).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _png(picture: Array) -> bytes:
    """Return an image as bytes of a PNG file."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("Thumbnails need Pillow: pip install 'sparlow[images]'") from error
    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, "PNG")
    return stream.getvalue()


def to_parquet(
    path: str | os.PathLike[str],
    Z: ArrayLike,
    y: Any = None,
    *,
    names: Any = None,
    images: Any = None,
    shape: tuple[int, int] | None = None,
) -> None:
    """Write an embedding with labels and thumbnails as a parquet file.

    The columns are ``vector`` (all numbers of a sample), ``x`` and ``y`` (the first two), ``label``, ``name`` and
    ``image`` (PNG files, as ``{bytes, path}``). ``embedding-atlas FILE --x x --y y`` shows the first two components,
    ``embedding-atlas FILE --vector vector`` a map of all of them.

    Parameters
    ----------
    path : path
        The file.
    Z : array of shape (n_samples, n_components)
        The embedding.
    y : sequence of length n_samples, optional
        Labels.
    names : sequence of length n_samples, optional
        Names of the samples, such as those of their files.
    images : array of shape (n_samples, n_features) or (n_samples, height, width), optional
        Thumbnails, each scaled to its own range.
    shape : (height, width), optional
        Of one image, where images are rows.

    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'sparlow[parquet]'") from error
    Z, labels, words, pictures = _checked(Z, y, names, images, shape)
    columns: dict[str, Any] = {"vector": pa.array(list(Z), pa.list_(pa.float32())), "x": Z[:, 0]}
    columns["y"] = Z[:, 1] if Z.shape[1] > 1 else np.zeros(len(Z), np.float32)
    columns |= {name: values for name, values in (("label", labels), ("name", words)) if values is not None}
    if pictures is not None:
        kept = words or [f"{number}.png" for number in range(len(Z))]
        files = [{"bytes": _png(picture), "path": name} for picture, name in zip(pictures, kept, strict=True)]
        columns["image"] = pa.array(files, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    with replacing(path) as unfinished:
        pq.write_table(pa.table(columns), unfinished)


def to_projector(
    folder: str | os.PathLike[str],
    Z: ArrayLike,
    y: Any = None,
    *,
    names: Any = None,
    images: Any = None,
    shape: tuple[int, int] | None = None,
) -> None:
    """Write an embedding with labels and thumbnails for TensorBoard's embedding projector.

    ``tensorboard --logdir FOLDER`` shows it. The folder gets ``tensors.tsv``, ``metadata.tsv``, ``sprite.png`` and
    ``projector_config.pbtxt``.

    Parameters
    ----------
    folder : path
        The folder; it is made if it is not there.
    Z : array of shape (n_samples, n_components)
        The embedding.
    y : sequence of length n_samples, optional
        Labels.
    names : sequence of length n_samples, optional
        Names of the samples.
    images : array of shape (n_samples, n_features) or (n_samples, height, width), optional
        Thumbnails, each scaled to its own range.
    shape : (height, width), optional
        Of one image, where images are rows.

    """
    Z, labels, words, pictures = _checked(Z, y, names, images, shape)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["embeddings {", '  tensor_name: "SparLow"', '  tensor_path: "tensors.tsv"']
    files = {"tensors.tsv": "".join("\t".join(f"{value:.7g}" for value in row) + "\n" for row in Z.tolist()).encode()}
    told = [(name, values) for name, values in (("label", labels), ("name", words)) if values is not None]
    if told:
        heading = "\t".join(name for name, _ in told) + "\n" if len(told) > 1 else ""  # one column has no heading
        cells = zip(*([" ".join(value.split()) for value in values] for _, values in told), strict=True)
        files["metadata.tsv"] = (heading + "".join("\t".join(row) + "\n" for row in cells)).encode()
        lines.append('  metadata_path: "metadata.tsv"')
    if pictures is not None:
        _, height, width = pictures.shape
        side = math.ceil(math.sqrt(len(pictures)))  # the projector wants a square of thumbnails
        sheet = np.zeros((side * side, height, width), np.uint8)
        sheet[: len(pictures)] = pictures
        sheet = sheet.reshape(side, side, height, width).swapaxes(1, 2).reshape(side * height, side * width)
        files["sprite.png"] = _png(sheet)
        lines += ["  sprite {", '    image_path: "sprite.png"', f"    single_image_dim: [{width}, {height}]", "  }"]
    files["projector_config.pbtxt"] = ("\n".join([*lines, "}"]) + "\n").encode()
    for name, content in files.items():
        with replacing(folder / name) as unfinished:
            unfinished.write_bytes(content)
