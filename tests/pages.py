"""Code on pages and what it prints: ``python -m tests.pages`` fills in what the code of each page prints today."""

import contextlib
import io
import os
import re
import sys
import tempfile

from tests import cases

BLOCK = re.compile(r"```python\n(.*?)```(\n\nprints\n\n```\n)?(?(2)(.*?)```)", re.DOTALL)
NUMBER = re.compile(r"\d+(?:\.\d+)?")
PAGES = ("README.md", "docs/first_fit.md", "docs/local_codes.md", "docs/embeddings.md", "docs/few_labels.md",
         "docs/groups.md", "docs/choosing.md", "docs/defaults.md", "docs/generalisation.md",
         "docs/reading_a_model.md", "docs/saving.md",
         "docs/serving.md", "docs/add_a_criterion.md", "docs/add_a_prior.md", "docs/classifiers.md",
         "docs/add_views.md", "docs/add_a_classifier.md", "docs/coding.md", "docs/images.md",
         "docs/large_data.md")  # fmt: skip


def run(page):
    """Yield what each block of a page prints, and what the page says that it prints, or None."""
    names = {"__name__": "__main__"}
    for block in BLOCK.finditer((cases.ROOT / page).read_text(encoding="utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block[1], page, "exec"), names)
        yield block, printed.getvalue(), block[3]


def shape_of(text):
    """The words of an output, with a mark in place of each number."""
    return NUMBER.sub("#", text).split()


def shares(text):
    """The percentages that an output names."""
    return [float(number) for number in re.findall(r"(\d+(?:\.\d+)?) %", text)]


def fill(page):
    """Write what the blocks of a page print today."""
    path, parts, end = cases.ROOT / page, [], 0
    text = path.read_text(encoding="utf-8")
    for block, printed, promised in run(page):
        if promised is not None:
            parts += [text[end : block.start(3)], printed]
            end = block.end(3)
    path.write_text("".join([*parts, text[end:]]), encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "Agg")
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for page in sys.argv[1:] or PAGES:
            fill(page)
            print(page, flush=True)
