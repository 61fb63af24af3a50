"""Run the first Python block of a page and compare its words: ``python ten_lines.py README.md``."""

import contextlib
import io
import pathlib
import re
import sys

if __name__ == "__main__":
    text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    code, expected = re.search(r"```python\n(.*?)```\s+prints\s+```\n(.*?)```", text, re.DOTALL).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {"__name__": "__main__"})
    if re.sub(r"[\d.]+", "#", printed.getvalue()) != re.sub(r"[\d.]+", "#", expected):
        sys.exit(f"The lines printed {printed.getvalue()!r}, the README says {expected!r}.")
