"""Damage and forge model files, load them, and use what loads.

    python -m benchmarks.model_files --damages 2000 --forgeries 200 [--seed 1]
    python -m benchmarks.model_files --sweep

Damages change the bytes of a file at random. Each must be refused, or give the same numbers as before: the digest
notices everything else. Forgeries carry a correct digest: bombs, names that lead out of the folder, huge shapes, arrays
of objects, unknown types, attributes out of range. Each must be refused, or give a model that can be used. No case may
run code of the file, crash, take more than 10 seconds, or more than 1 GB of memory. ``--sweep`` forges every number and
every array of every kind of model, each by each odd value.
"""

from __future__ import annotations

import argparse
import collections
import io
import itertools
import json
import os
import pathlib
import pickle
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.isolation import Worker, peak_memory, serve
from sparlow import DictionaryLearner, SparLow, TraceQuotient, load, models, save
from sparlow.classifiers import BMDDL, DKSVD, FDDL, LCKSVD, SRC, TDDL, LapRLS
from sparlow.images import Codebook, DenseSIFT, PrincipalComponents, Scattering, SpatialPyramid
from sparlow.models import ModelFileError
from sparlow.views import Patches, Shifts

RESULTS = pathlib.Path(__file__).parent / "results" / "model_files.jsonl"
X, Y = (part[:120] for part in load_digits(return_X_y=True))
PICTURES = [np.random.RandomState(seed).randint(0, 255, (48, 48)).astype(np.uint8) for seed in range(2)]
LIMIT = 10.0  # seconds
_LOST: dict[str, Any] = {"outcome": "finding", "message": "crash or hang", "memory": 0}
MEMORY = 1e9  # bytes
GROWTH = (
    1 << 27
)  # the limit that workers set, so that bombs of a quarter of a gigabyte, which are quickly made, will do


def originals(folder: pathlib.Path) -> list[pathlib.Path]:
    """Write sound models of every kind."""
    few: dict[str, Any] = {"n_atoms": 20, "max_iter": 0, "random_state": 0}
    made: dict[str, Any] = {
        "joint": SparLow(**few),
        "patches": SparLow(**few, views=Patches(cells=(1, 2))),
        "shifts": SparLow("pca", **few, views=Shifts(1)),
        "quadratic": SparLow(**few, views=Patches(size=5, stride=3), embedding="quadratic"),
        "targets": SparLow("smvr", **few),
        "classical": TraceQuotient(),
        "dictionary": DictionaryLearner(20, random_state=0),
        "machine": make_pipeline(SparLow(**few), SVC()),
        "neighbours": make_pipeline(TraceQuotient(), KNeighborsClassifier(algorithm="kd_tree")),
        "scattering": make_pipeline(Scattering(2, 4), StandardScaler(), TraceQuotient()),
    }
    for kind in (SRC, DKSVD, LCKSVD, FDDL, TDDL, BMDDL, LapRLS):
        options = {} if kind is LapRLS else {"n_atoms": 20, "random_state": 0}
        made[kind.__name__] = kind(**options)
    for coding in ("llc", "hard", "sparse", "laplacian"):
        book = Codebook(8, coding, n_neighbors=3, n_templates=8, random_state=0)
        made[f"pictures {coding}"] = make_pipeline(DenseSIFT(), book, SpatialPyramid((1, 2)), PrincipalComponents(2))
    for name, model in made.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target = X[:, 20:22] if name == "targets" else Y
            save(
                model.fit(PICTURES) if name.startswith("pictures") else model.fit(X, target), folder / f"{name}.sparlow"
            )
    return sorted(folder.glob("*.sparlow"))


def used(model: Any, name: str) -> list[Any]:
    """Return what a model gives for known samples."""
    data = PICTURES if name.startswith("pictures") else X[:40]
    methods = ("transform", "predict", "predict_proba", "decision_function")
    found = [getattr(model, method)(data) for method in methods if hasattr(model, method)]
    return [part.toarray() if hasattr(part, "toarray") else np.asarray(part) for part in found]


# ── damages ────────────────────────────────────────────────────────────────────────────────────────────────────────


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes of a file changed at random."""
    out = bytearray(content)
    first = int(rng.integers(len(out)))
    last = min(len(out), first + int(10 ** rng.uniform(0, 3)))
    kind = rng.integers(6)
    if kind == 0:
        for place in rng.integers(len(out), size=int(10 ** rng.uniform(0, 2))):
            out[place] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del out[first:]
    elif kind == 2:
        out[first:last] = bytes(last - first)
    elif kind == 3:
        out[first:last] = rng.bytes(last - first)
    elif kind == 4:
        out[first:first] = rng.bytes(last - first)
    else:
        del out[first:last]
    return bytes(out)


# ── forgeries ──────────────────────────────────────────────────────────────────────────────────────────────────────


class _Code:
    def __init__(self, mark: pathlib.Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (pathlib.Path.touch, (self.mark,))


ODD = (-1, 0, 1, 2**31, 2**63, -(2**63), 10**30, 1e308, float("nan"), float("inf"), "x", "", None, [], {}, True, [1, 2])


KINDS = (
    *(
        "attribute",
        "attribute",
        "attribute",
        "attribute",
        "array",
        "array",
        "value",
        "values",
        "type",
        "code",
        "object",
    ),
    *(
        "shape",
        "dtype",
        "numbers",
        "nan",
        "indices",
        "missing",
        "swap",
        "bomb",
        "name",
        "deep",
        "cycle",
        "twice",
        "long",
    ),
)


def numbers_in(node: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return every place of a schema that holds a plain value."""
    for key, value in list(node.items()) if isinstance(node, dict) else list(enumerate(node)):
        if isinstance(value, (dict, list)):
            numbers_in(value, found)
        else:
            found.append((node, key))
    return found


def attributes_in(schema: Any) -> list[dict[str, Any]]:
    """Return every node of a schema that holds a number, a word, a truth or nothing."""
    return [node for node, key in numbers_in(schema, []) if key == "content" and node.get("__loader__") == "JsonNode"]


ARRAYS: tuple[Callable[[Any], Any], ...] = (
    lambda array: array[:0],
    lambda array: array[:-1],
    lambda array: np.concatenate([array, array]),
    lambda array: array.T.copy() if array.ndim > 1 else array[:, None],
    lambda array: array.ravel()[:1],
    lambda array: np.zeros_like(array),
    lambda array: np.full(array.shape, np.nan),
    lambda array: np.full(array.shape, 1e300),
    lambda array: np.full(array.shape, -(2**62)),
    lambda array: np.full(array.shape, 10**6, array.dtype if array.dtype.kind in "iu" else int),
    lambda array: np.full(array.shape, -1, array.dtype if array.dtype.kind in "if" else int),
    lambda array: np.full(array.shape, "x"),
)


def resaved(content: bytes, change: Callable[[Any], Any]) -> bytes:
    """Return a .npy file with its array changed, or as it is where it cannot be."""
    stored, file = np.load(io.BytesIO(content), allow_pickle=False), io.BytesIO()
    np.save(file, change(stored) if stored.ndim else stored)
    return file.getvalue()


def packed(header: str, data: bytes) -> bytes:
    """Return a .npy file with a header of one's own."""
    line = header.encode() + b" " * (63 - (len(header) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line + data


def forged(path: pathlib.Path, target: pathlib.Path, rng: np.random.Generator, mark: pathlib.Path) -> str:
    """Write a forged copy of a model with a correct digest; return what was done to it."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist() if name != models._DIGEST}
    schema = json.loads(members["schema.json"])
    arrays = [name for name in members if name.endswith(".npy")]
    array = arrays[rng.integers(len(arrays))]
    places = numbers_in(schema, [])
    kind = str(KINDS[rng.integers(len(KINDS))])
    extra: list[tuple[str, bytes]] = []
    if kind == "attribute":
        nodes = attributes_in(schema)
        nodes[rng.integers(len(nodes))]["content"] = json.dumps(ODD[rng.integers(len(ODD))])
    elif kind == "array":
        members[array] = resaved(members[array], ARRAYS[rng.integers(len(ARRAYS))])
    elif kind in ("value", "values"):
        for _ in range(1 if kind == "value" else 5):
            owner, key = places[rng.integers(len(places))]
            owner[key] = ODD[rng.integers(len(ODD))]
    elif kind in ("type", "code"):
        owners = [owner for owner, key in places if key == "__class__"]
        owner = owners[rng.integers(len(owners))]
        names = (
            ("os", "system"),
            ("builtins", "eval"),
            ("subprocess", "Popen"),
            ("sklearn.base", "clone"),
            ("numpy", "x"),
        )
        owner["__module__"], owner["__class__"] = names[rng.integers(len(names))]
        owner["__loader__"] = str(rng.choice(["ObjectNode", "TypeNode", "FunctionNode", "ReduceNode", "MethodNode"]))
        owner["content"] = {
            "__class__": "str",
            "__module__": "builtins",
            "__loader__": "JsonNode",
            "content": f'"touch {mark}"',
        }
    elif kind == "object":
        data = pickle.dumps(_Code(mark))
        members[array] = packed("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", data)
    elif kind == "shape":
        shape = ((10**12,), (2**62, 2), (-1,), (10**9, 10**9), (0,), ())[rng.integers(6)]
        members[array] = packed(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}", bytes(64))
    elif kind == "dtype":
        stored = np.load(io.BytesIO(members[array]), allow_pickle=False)
        other = io.BytesIO()
        with np.errstate(invalid="ignore"):
            np.save(other, stored.astype(("f2", "c16", "U3", "i1", "b1", "S2")[rng.integers(6)]))
        members[array] = other.getvalue()
    elif kind in ("numbers", "nan", "indices"):
        stored = np.array(np.load(io.BytesIO(members[array]), allow_pickle=False))
        if stored.size and stored.dtype.kind in "iuf":
            some = rng.integers(stored.size, size=int(rng.integers(1, 5)))
            value = {"numbers": 1e30, "nan": np.nan, "indices": 10**9}[kind]
            with np.errstate(all="ignore"):
                stored.flat[some] = np.array(value).astype(stored.dtype) * rng.choice([1, -1])
        other = io.BytesIO()
        np.save(other, stored)
        members[array] = other.getvalue()
    elif kind == "missing":
        del members[array]
    elif kind == "swap":
        other_array = arrays[rng.integers(len(arrays))]
        members[array], members[other_array] = members[other_array], members[array]
    elif kind == "bomb":
        extra.append(("bomb.npy", bytes(int(rng.choice([1 << 20, 1 << 26, 1 << 28])))))
    elif kind == "name":
        extra.append((str(rng.choice(["../../evil", "/etc/evil", "a" * 60000, "..\\evil", "a/../../evil"])), b"x"))
    elif kind == "deep":
        members["schema.json"] = b""
        depth = int(rng.choice([100, 2000, 100_000]))
        inner = '{"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "__id__": %d, "content": ['
        members["schema.json"] = ("".join(inner % level for level in range(depth)) + "]}" * depth).encode()
    elif kind == "cycle":
        owners = [owner for owner, key in places if key == "__id__"]
        one, two = (owners[place] for place in rng.integers(len(owners), size=2))
        one["__id__"] = two["__id__"]
    elif kind == "twice":
        extra.append((array, members[array][: len(members[array]) // 2]))
    else:
        schema["protocol"] = 10**6
        schema["more"] = "x" * 10**7
    if kind != "deep":
        members["schema.json"] = json.dumps(schema).encode()
    written(target, [*members.items(), *extra])
    return kind


def written(target: pathlib.Path, members: list[tuple[str, bytes]]) -> None:
    """Write a model file with a correct digest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in members:
                file.writestr(name, content)
    models._sign(target)


def sweep(path: pathlib.Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Give every forgery of one model by one odd value: what was done, and the members of the file."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist() if name != models._DIGEST}
    count = len(attributes_in(json.loads(members["schema.json"])))
    for place, odd in itertools.product(range(count), ODD):
        schema = json.loads(members["schema.json"])
        node = attributes_in(schema)[place]
        kind = f"attribute {place}: {node['content'][:60]} -> {odd!r}"
        node["content"] = json.dumps(odd)
        yield kind, {**members, "schema.json": json.dumps(schema).encode()}
    for name, change in itertools.product(sorted(members), range(len(ARRAYS))):
        if name.endswith(".npy"):
            yield f"array {name}: {change}", {**members, name: resaved(members[name], ARRAYS[change])}


# ── running ────────────────────────────────────────────────────────────────────────────────────────────────────────


def try_file(path: pathlib.Path, name: str, reference: list[Any] | None) -> dict[str, Any]:
    """Load a file and use it; return the outcome."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = load(path)
        except ModelFileError as error:
            return {"outcome": "refused", "message": str(error)[-300:]}
        except Exception as error:
            return {"outcome": "finding", "message": f"load raised {type(error).__name__}: {error}"[:300]}
        try:
            found = used(model, name)
        except Exception as error:
            outcome = "unusable" if reference is None else "finding"
            return {"outcome": outcome, "message": f"{type(error).__name__}: {error}"[:200]}
    if reference is not None and not all(map(np.array_equal, found, reference)):
        return {"outcome": "finding", "message": "altered numbers were not noticed"}
    return {"outcome": "loaded"}


class Answers:
    """What a worker holds: sound models, and what they give."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._folder = pathlib.Path(tempfile.mkdtemp())
        self._paths = originals(self._folder)
        self._references = [used(load(path), path.stem) for path in self._paths]
        self._contents = [path.read_bytes() for path in self._paths]
        self._forgeries: Iterator[Any] = iter(())
        self._next = 0

    def __call__(self, line: str) -> dict[str, Any]:
        """Make one file and try it."""
        what, number = line.split()
        case = int(number)
        if what == "sweep":
            return self._sweep(case)
        rng = np.random.default_rng([self._seed, case, len(what)])
        place = case % len(self._paths)
        name, target, mark = self._paths[place].stem, self._folder / "case.sparlow", self._folder / "code_was_run"
        if what == "damage":
            target.write_bytes(damaged(self._contents[place], rng))
            row = try_file(target, name, self._references[place])
        else:
            kind = forged(self._paths[place], target, rng, mark)
            row = {"kind": kind, **try_file(target, name, None)}
        if mark.exists():
            row |= {"outcome": "finding", "message": "code of the file was run"}
            mark.unlink()
        return {"case": case, "model": name, **row, **self._memory()}

    def _sweep(self, case: int) -> dict[str, Any]:
        """Try one forgery of the sweep; the last cases were made before, so that going on is quick."""
        if self._next != case or case == 0:
            self._forgeries = itertools.islice(
                ((path.stem, *made) for path in self._paths for made in sweep(path)), case, None
            )
        self._next = case + 1
        found = next(self._forgeries, None)
        if found is None:
            return {"case": case, "outcome": "none", "memory": 0}
        name, kind, members = found
        target = self._folder / "case.sparlow"
        written(target, list(members.items()))
        return {"case": case, "model": name, "kind": kind, **try_file(target, name, None), **self._memory()}

    def _memory(self) -> dict[str, Any]:
        memory = peak_memory()
        if memory <= MEMORY:
            return {"memory": memory}
        return {"outcome": "finding", "message": f"{memory / 1e9:.1f} GB of memory", "memory": memory}


def run(seed: int, parts: dict[str, range]) -> dict[str, Any]:
    """Try all files and return counts, findings, and the most memory that was held."""
    worker = Worker("benchmarks.model_files", "--worker", "--seed", str(seed))
    found: dict[str, Any] = {"seed": seed, "findings": [], "memory": 0}
    for what, cases in parts.items():
        outcomes: collections.Counter[str] = collections.Counter()
        for case in cases:
            row = worker.answer(f"{what} {case}", LIMIT) or dict(_LOST, case=case)
            if row["outcome"] == "none":  # the end of the sweep
                break
            outcomes[row["outcome"]] += 1
            found["memory"] = max(found["memory"], row["memory"])
            if row["outcome"] == "finding":
                found["findings"].append({"what": what, **row})
                print(json.dumps(found["findings"][-1]), flush=True)
                if "memory" in row["message"]:  # the most that a process has held does not fall
                    worker.close()
        found[what] = dict(sorted(outcomes.items()))
    worker.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--damages", type=int, default=2000)
    parser.add_argument("--forgeries", type=int, default=200)
    parser.add_argument("--sweep", action="store_true", help="every number and array by every odd value")
    parser.add_argument("--first", type=int, default=0, help="of the sweep")
    parser.add_argument("--last", type=int, default=10**9, help="of the sweep")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.worker:
        os.environ["SPARLOW_MAX_BYTES"] = str(GROWTH)
        serve(Answers(arguments.seed))
        return 0
    parts = {"damage": range(arguments.damages), "forgery": range(arguments.forgeries)}
    if arguments.sweep:
        parts = {"sweep": range(arguments.first, arguments.last)}
    found = run(arguments.seed, parts)
    with arguments.output.open("a") as file:
        file.write(json.dumps({"sweep from": arguments.first, **found} if arguments.sweep else found) + "\n")
    print(json.dumps({key: value for key, value in found.items() if key != "findings"}))
    return 1 if found["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
