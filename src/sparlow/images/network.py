"""Vectors of a pretrained network: the input of its last layer, computed by onnxruntime."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..checks import Array, warn
from ..files import max_growth
from ..parallel import Threads
from .bags import cache_of, track
from .reading import UnreadableImageError, content_key, name_of, pictures_in, read_colours

_IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225), "crop": 0.875, "size": 224}
_RANGES = {"NominalRange_0_255": ((0.0,) * 3, (1 / 255,) * 3), "Normalized_0_1": ((0.0,) * 3, (1.0,) * 3),
           "Normalized_1_1": ((0.5,) * 3, (0.5,) * 3)}  # fmt: skip
_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}


# ── the file: protocol buffers of which a few fields matter ─────────────────────────────────────────────────────────


def _varint(value: int) -> bytes:
    """Return a number as protocol buffers write it: seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _read_varint(view: memoryview, place: int) -> tuple[int, int]:
    """Return a number and the place behind it."""
    value = shift = 0
    while True:
        byte = view[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


def wire_fields(view: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield the number and the content of each field of a message: a view of bytes, or a number."""
    place = 0
    while place < len(view):
        key, place = _read_varint(view, place)
        kind = key & 7
        if kind == 0:
            value, place = _read_varint(view, place)
            yield key >> 3, value
            continue
        if kind not in (1, 2, 5):
            raise ValueError("it is no protocol buffer")
        length, place = (8 if kind == 1 else 4, place) if kind != 2 else _read_varint(view, place)
        if place + length > len(view):
            raise ValueError("it is cut short")
        yield key >> 3, view[place : place + length]
        place += length


def _words(message: memoryview, number: int) -> list[str]:
    """Return the strings in a field of a message."""
    return [bytes(value).decode() for field, value in wire_fields(message) if field == number]


def before_last(content: bytes) -> str | None:
    """Return the name of what the last layer of weights (Gemm, or MatMul by constants) takes, None without one."""
    graphs = [value for field, value in wire_fields(memoryview(content)) if field == 7]
    parts = [part for graph in graphs for part in wire_fields(graph)]
    outside = any(
        field == 14 and value == 1 for number, tensor in parts if number == 5 for field, value in wire_fields(tensor)
    )
    if outside:
        raise ValueError("its weights lie in other files: save it as one file")
    constants = {word for number, tensor in parts if number == 5 for word in _words(tensor, 8)}
    found = None
    for number, node in parts:
        if number != 1:
            continue
        kind, inputs = _words(node, 4)[0], _words(node, 1)
        if all(word in constants for word in inputs):
            constants.update(_words(node, 2))
        elif kind == "Gemm" or (kind == "MatMul" and inputs[1] in constants):
            found = inputs[0]
    return found


def with_output(content: bytes, name: str) -> bytes:
    """Return a model with one more output: messages that follow each other are merged field by field."""
    word = name.encode()
    info = b"\x0a" + _varint(len(word)) + word  # ValueInfoProto.name
    graph = b"\x62" + _varint(len(info)) + info  # GraphProto.output
    return content + b"\x3a" + _varint(len(graph)) + graph  # ModelProto.graph


# ── the session ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Loaded:
    """A model that is ready to run, and what it says of its input."""

    session: Any
    output: str
    channels_last: bool
    n_channels: int
    batch: int | None
    size: tuple[int | None, int | None]
    metadata: dict[str, str]

    def __call__(self, batch: Array) -> Array:
        """Return vectors of pictures (n, height, width, channels), float32."""
        source = self.session.get_inputs()[0]
        batch = batch if self.channels_last else np.ascontiguousarray(batch.transpose(0, 3, 1, 2))
        step, found = self.batch or len(batch), []
        for first in range(0, len(batch), step):
            part = batch[first : first + step]
            filled = np.concatenate([part, np.zeros((step - len(part), *part.shape[1:]), part.dtype)])
            filled = np.rint(filled) if source.type == "tensor(uint8)" else filled
            values = self.session.run([self.output], {source.name: filled.astype(_TYPES[source.type])})[0]
            found.append(values[: len(part)])
        vectors = np.concatenate(found)
        if vectors.ndim < 2 or vectors.shape[1] != vectors[0].size:
            raise ValueError(
                f"the output {self.output} of the network has shape {vectors.shape} for {len(batch)} pictures, "
                "which is no vector for each: name another by output=."
            )
        return np.asarray(vectors.reshape(len(batch), -1), np.float32)


def _runtime() -> Any:
    """Import onnxruntime, or say which extra has it."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError('Networks run on onnxruntime: pip install "sparlow[networks]".') from error
    return onnxruntime


@functools.lru_cache(maxsize=2)
def load_network(content: bytes, output: str | None) -> Loaded:
    """Return a model that is ready to run, one thread for each call, whose result does not depend on their number."""
    ort = _runtime()
    try:
        wanted = before_last(content) if output is None else output
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError("it is cut short or no ONNX model") from error
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors are raised
    plain = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    outputs = [place.name for place in plain.get_outputs()]
    session = plain
    if wanted is None:
        raise ValueError(
            f"it has no last layer of weights (Gemm, MatMul): name what to take by output=, such as {outputs[0]!r}"
        )
    if wanted not in outputs:
        try:
            session = ort.InferenceSession(with_output(content, wanted), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise ValueError(f"nothing in it is called {wanted!r}; its own outputs are {', '.join(outputs)}") from error
    sources = plain.get_inputs()
    shape = sources[0].shape if len(sources) == 1 else []
    if len(shape) != 4 or sources[0].type not in _TYPES or not {1, 3} & {shape[1], shape[3]}:
        told = ", ".join(f"{source.name}: {source.type} {source.shape}" for source in sources)
        raise ValueError(
            f"it takes {told or 'nothing'}, but one input of pictures was expected: four axes, of which the second or "
            "the last has 3 channels, or 1"
        )
    batch, *sides = (side if isinstance(side, int) and side > 0 else None for side in shape)
    last = sides[0] not in (1, 3)
    size = (sides[0], sides[1]) if last else (sides[1], sides[2])
    metadata = dict(plain.get_modelmeta().custom_metadata_map)
    return Loaded(session, wanted, last, (sides[2] if last else sides[0]) or 3, batch, size, metadata)


# ── the transformer ─────────────────────────────────────────────────────────────────────────────────────────────────


class Network(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Compute vectors of pictures by a pretrained network in an ONNX file.

    The vector of a picture is what the last layer of weights takes: the layer before the classes. Pictures are scaled
    until their shorter side fits, cut to the middle, and normalised by channel: (v − mean) / std, v from 0 to 1.
    Nothing is learned, and no part of the network is trained.

    Parameters
    ----------
    model : path
        An ONNX file, at most 1 GB (``SPARLOW_MAX_BYTES``). Its bytes are kept, so a saved pipeline needs no other file.
    output : str, optional
        The value in the graph to take in place of the input of the last Gemm or MatMul.
    size : int or (int, int), optional
        Height and width that the network takes; by default those of its input, the entry ``size`` of its metadata,
        or 224.
    crop : float, optional
        The share of the shorter side that is kept. Default: the entry ``crop`` of the metadata, or 0.875.
    mean, std : float or sequence of float, optional
        Of red, green and blue. By default the entries ``mean`` and ``std`` of the metadata, JSON lists, or what its
        ``Image.NominalPixelRange`` says, or those of ImageNet.
    channels : {"rgb", "bgr"}, optional
        Their order. Default: bgr where the entry ``Image.BitmapPixelFormat`` of the metadata is Bgr8, otherwise rgb.
    batch_size : int, default=16
        Pictures that a thread computes at a time.
    on_error : {"raise", "skip"}, default="raise"
        What a picture does that cannot be read: raise an error with its name, or give a row of zeros. Then a warning
        tells how many there are, and ``skipped_`` lists them.
    memory : path or joblib.Memory, optional
        Folder in which vectors are kept, by the content of network and picture and by what is done with it.
    n_jobs : int, optional
        Threads; each computes a whole batch. Results do not depend on it.
    verbose : int, default=0
        Show progress and time left on a terminal (with rich).

    Attributes
    ----------
    model_ : array of uint8
        The bytes of the file.
    output_ : str
        The value that is taken.
    n_features_out_ : int
        Length of the vectors.
    skipped_ : list of (int, str, str)
        Pictures of the last ``transform`` that could not be read: number, name, reason.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sparlow import SparLow
    >>> from sparlow.images import Network
    >>> pipeline = make_pipeline(Network("efficientnet.onnx"), SparLow("lda"))  # fit(paths, y)

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "model": [str, os.PathLike],
        "output": [str, None],
        "size": [Interval(Integral, 1, None, closed="left"), "array-like", None],
        "crop": [Interval(Real, 0, 1, closed="right"), None],
        "mean": ["array-like", Real, None],
        "std": ["array-like", Real, None],
        "channels": [StrOptions({"rgb", "bgr"}), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "on_error": [StrOptions({"raise", "skip"})],
        "memory": [str, os.PathLike, HasMethods(["cache"]), None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        output: str | None = None,
        size: int | Sequence[int] | None = None,
        crop: float | None = None,
        mean: float | Sequence[float] | None = None,
        std: float | Sequence[float] | None = None,
        channels: str | None = None,
        batch_size: int = 16,
        on_error: str = "raise",
        memory: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.model = model
        self.output = output
        self.size = size
        self.crop = crop
        self.mean = mean
        self.std = std
        self.channels = channels
        self.batch_size = batch_size
        self.on_error = on_error
        self.memory = memory
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any = None, y: Any = None) -> Network:
        """Read the network; pictures are not looked at.

        Parameters
        ----------
        X : sequence of images, optional
            Ignored.
        y : object, optional
            Ignored.

        Returns
        -------
        self

        """
        path = pathlib.Path(self.model)
        if not path.is_file():
            raise FileNotFoundError(f"There is no network {path}: give the path of an ONNX file.")
        if path.stat().st_size > max_growth():
            raise ValueError(f"{path} has {path.stat().st_size} bytes, more than the limit of {max_growth()}.")
        self.model_ = np.frombuffer(path.read_bytes(), np.uint8)
        try:
            loaded = self._session()
            self.output_ = loaded.output
            self.n_features_out_ = loaded(self._blank()).shape[1]
        except ImportError:
            raise
        except Exception as error:  # onnxruntime has many for damaged files
            told = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
            raise ValueError(f"The network {path} cannot be used: {told}.") from error
        return self

    def transform(self, X: Any) -> Array:
        """Return the vectors of pictures.

        Parameters
        ----------
        X : sequence of images
            Paths, members of zip files, bytes of files, arrays or PIL images, of any size, mixed.

        Returns
        -------
        vectors : float32 array of shape (n, n_outputs)

        """
        check_is_fitted(self)
        X = pictures_in(X)
        out = np.zeros((len(X), self.n_features_out_), np.float32)
        chunks = [range(first, min(first + self.batch_size, len(X))) for first in range(0, len(X), self.batch_size)]
        errors: list[tuple[int, str]] = []
        work = self._work(X)
        with Threads(self.n_jobs) as threads:
            parts = threads.map(work, chunks)
            for rows, (vectors, broken) in zip(chunks, track(parts, len(chunks), "batches", self.verbose), strict=True):
                out[rows] = vectors
                errors += broken
        self.skipped_ = [(place, name_of(X[place]), reason) for place, reason in errors]
        if errors:
            warn(f"{len(errors)} of {len(X)} images could not be read and have rows of zeros. {errors[0][1]}")
        return out

    def _work(self, X: Any) -> Any:
        """Return what computes the vectors of some of the pictures, and names those that cannot be read."""
        loaded, cache = self._session(), cache_of(self.memory)
        choices = self._choices(loaded)
        digest = hashlib.blake2b(self.model_.tobytes(), digest_size=16).hexdigest() if cache is not None else ""
        signature = f"Network 1 {digest} {self.output_} {choices}".encode()

        def compute(rows: range) -> tuple[Array, list[tuple[int, str]]]:
            vectors, pixels, fresh, broken = np.zeros((len(rows), self.n_features_out_), np.float32), [], [], []
            for place, row in enumerate(rows):
                try:
                    key = _key(X[row], signature) if cache is not None else ""
                    known = cache.get(key) if cache is not None else None
                    if known is not None and known["vector"].shape == vectors[0].shape:
                        vectors[place] = known["vector"]
                        continue
                    pixels.append(choices.prepared(X[row], loaded.n_channels))
                    fresh.append((place, key))
                except UnreadableImageError as error:
                    if self.on_error == "raise":
                        raise
                    broken.append((row, str(error)))
            if fresh:
                vectors[[place for place, _ in fresh]] = loaded(np.stack(pixels))
            for place, key in fresh:
                if cache is not None:
                    cache.put(key, {"vector": vectors[place]})
            return vectors, broken

        return compute

    def _session(self) -> Loaded:
        """Return the network, ready to run."""
        return load_network(self.model_.tobytes(), self.output)

    def _blank(self) -> Array:
        """Return a black picture as the network takes it."""
        loaded = self._session()
        return np.zeros((1, *self._choices(loaded).size, loaded.n_channels), np.float32)

    def _choices(self, loaded: Loaded) -> _Choices:
        """Return what is done with pictures: by parameters, by the description of the network, or as for ImageNet."""
        told = loaded.metadata
        words = {name: json.loads(told[name]) for name in _IMAGENET if name in told}
        usual = "NominalRange_0_255" if loaded.session.get_inputs()[0].type == "tensor(uint8)" else ""
        nominal = _RANGES.get(told.get("Image.NominalPixelRange", usual))
        described = {
            **_IMAGENET,
            **({} if nominal is None else dict(zip(("mean", "std"), nominal, strict=True))),
            **words,
        }
        given = {name: getattr(self, name) for name in _IMAGENET if getattr(self, name) is not None}
        if "size" not in given and None not in loaded.size:
            described["size"] = loaded.size
        found = {**described, **given}
        size = tuple(int(side) for side in np.broadcast_to(found["size"], 2))
        if any(fixed not in (None, side) for fixed, side in zip(loaded.size, size, strict=True)):
            raise ValueError(
                f"it takes pictures of {loaded.size[0]} × {loaded.size[1]} pixels, not of {size[0]} × {size[1]}"
            )
        mean, std = (tuple(np.broadcast_to(found[name], 3).tolist()) for name in ("mean", "std"))
        if min(std) <= 0:
            raise ValueError(f"std must be positive, got {std}")
        order = self.channels or ("bgr" if told.get("Image.BitmapPixelFormat", "").startswith("Bgr") else "rgb")
        return _Choices((size[0], size[1]), float(found["crop"]), mean, std, order == "bgr")

    def __getstate__(self) -> dict[str, Any]:
        """Return what is kept in a file: the path as a word."""
        return {**super().__getstate__(), "model": os.fspath(self.model)}

    def _check_sound(self) -> None:
        """Refuse fitted numbers from a file that no vector could be computed with."""
        if not (isinstance(self.model_, np.ndarray) and self.model_.dtype == np.uint8 and self.model_.ndim == 1):
            raise ValueError("model_ of Network must be an array of bytes")
        if not isinstance(self.output_, str) or not 1 <= self.n_features_out_ <= 1 << 20:
            raise ValueError("output_ and n_features_out_ of Network do not describe a vector")

    @property
    def _n_features_out(self) -> int:
        """The length of the vectors, for their names."""
        return self.n_features_out_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.no_validation = True
        return tags


@dataclass(frozen=True)
class _Choices:
    """What is done with a picture before the network has it."""

    size: tuple[int, int]
    crop: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    reverse: bool

    def prepared(self, image: Any, n_channels: int) -> Array:
        """Return a picture (height, width, channels) as the network takes it."""
        import PIL.Image as Pil

        height, width = self.size
        pixels = read_colours(image, 2 * max(self.size))
        scale = max(height / pixels.shape[0], width / pixels.shape[1]) / self.crop
        kept = min(height / scale, pixels.shape[0]), min(width / scale, pixels.shape[1])
        top, left = ((side - part) / 2 for side, part in zip(pixels.shape, kept, strict=False))
        box = (left, top, left + kept[1], top + kept[0])
        picture = Pil.fromarray(pixels).resize((width, height), Pil.Resampling.BICUBIC, box=box)
        levels = np.asarray(picture if n_channels == 3 else picture.convert("L"), np.float32).reshape(height, width, -1)
        values = (levels / 255 - np.array(self.mean[:n_channels], np.float32)) / np.array(
            self.std[:n_channels], np.float32
        )
        return np.ascontiguousarray(values[:, :, ::-1]) if self.reverse else values


def _key(image: Any, signature: bytes) -> str:
    """Return the name of a vector in the cache."""
    return hashlib.blake2b(content_key(image).encode() + signature, digest_size=20).hexdigest()
