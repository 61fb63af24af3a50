"""Configure the site: ``make docs`` builds it, without a network."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

import sparlow  # noqa: E402

project = "SparLow"
author = "The SparLow developers"
copyright = author
version = release = sparlow.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "numpydoc",
    "myst_parser",
]
exclude_patterns = ["_build", "inventories", "**/sg_execution_times.rst"]
templates_path = ["_templates"]

# ── pages in Markdown ──────────────────────────────────────────────────────────────────────────────────────────────

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4

# ── reference ──────────────────────────────────────────────────────────────────────────────────────────────────────

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
# inventories are files of the tree, so that building needs no network
intersphinx_mapping = {
    "sklearn": ("https://scikit-learn.org/stable/", "inventories/scikit-learn.inv"),
    "scipy": ("https://docs.scipy.org/doc/scipy/", "inventories/scipy.inv"),
}


def leave_out_foreign_members(app, what, name, member, skip, options):
    """Document the members that the library defines, not those of scikit-learn's base classes."""
    home = getattr(getattr(member, "fget", member), "__module__", None)
    return True if home is not None and not str(home).startswith("sparlow") else None


def show_contributing(app, name, content):
    """Show CONTRIBUTING.md of the clone, with links as this folder has them."""
    if name == "contributing":
        text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        content[0] = text.replace("](docs/", "](").replace("](CHANGELOG.md)", "](changelog.md)")


def setup(app):
    """Connect the choice of members, and the page on contributing."""
    app.connect("autodoc-skip-member", leave_out_foreign_members)
    app.connect("source-read", show_contributing)


# ── gallery ────────────────────────────────────────────────────────────────────────────────────────────────────────

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "api/examples",
    "doc_module": ("sparlow",),
    "download_all_examples": False,
    "copyfile_regex": "",
    "min_reported_time": 0,
    "abort_on_example_error": True,
    "matplotlib_animations": False,
    # what an example prints is shown, not what its last line happens to return
    "capture_repr": (),
    "thumbnail_size": (480, 336),
    "show_signature": False,
    "write_computation_times": False,
    "remove_config_comments": True,
}

# ── look ───────────────────────────────────────────────────────────────────────────────────────────────────────────

html_theme = "pydata_sphinx_theme"
html_favicon = "_static/logo.svg"
html_sidebars = {"index": []}
html_title = f"SparLow {version}"
html_static_path = ["_static"]
html_extra_path = ["llms.txt"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
# excerpts of found pages are fetched, which browsers refuse for files
html_show_search_summary = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "SparLow", "image_light": "_static/logo.svg", "image_dark": "_static/logo.svg", "alt_text": ""},
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
mathjax_path = "mathjax-tex-svg.js"
