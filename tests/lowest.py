"""Print the lowest versions that pyproject.toml allows, as constraints for pip: ``python tests/lowest.py``."""

import pathlib
import re
import sys
import tomllib

# what users install; the tools of development may be the newest
EXTRAS = ("plots", "cli", "parquet", "distributed", "graphs", "images", "networks", "evidence")
# newer Pythons need newer ones: these are the first that were built for them
FIRST = {(3, 13): {"pandas": "2.2.3", "matplotlib": "3.9.2", "h5py": "3.12.1"}}
# newer versions warn of what the lowest matplotlib and the lowest scikit-learn call, and warnings are errors in tests
OTHERS = ("pyparsing<3.3", "pytest<9.1")


def newer(*versions):
    """Return the newest of some versions."""
    return max(versions, key=lambda text: [int(part) for part in text.split(".")])


def constraints():
    """Return ``name==lowest`` of each dependency of the library and of its extras, the highest where there are two."""
    project = tomllib.loads((pathlib.Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [line for extra in EXTRAS for line in project["optional-dependencies"][extra]]
    lowest = {}
    for line in wanted:
        found = re.match(r"([A-Za-z0-9_.-]+)(?:\[\w+\])?>=([0-9.]+)", line)
        if found:
            name, version = found.groups()
            lowest[name] = newer(lowest.get(name, "0"), version)
    for python, versions in FIRST.items():
        if sys.version_info >= python:
            lowest |= {name: newer(lowest[name], version) for name, version in versions.items()}
    return [*(f"{name}=={version}" for name, version in sorted(lowest.items())), *OTHERS]


if __name__ == "__main__":
    sys.stdout.write("\n".join(constraints()) + "\n")
