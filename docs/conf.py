"""How the site is built: `make docs`.

The pages are the Markdown files of this folder, which read as well without it. What the
build adds: the gallery out of ``examples/``, and a page for each name of ``api.md``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import sklearn_mdl

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "sklearn_mdl"
author = "sklearn_mdl developers"
copyright = author
version = release = sklearn_mdl.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "reference_pages",
]
exclude_patterns = ["_build", "generated/backreferences", "auto_examples/*.md5"]
templates_path = ["_templates"]
smartquotes = False  # options and code keep their dashes
default_role = "py:obj"  # a name in single backticks is a link where it leads somewhere

# Markdown: headings can be linked to, and dollars hold mathematics.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

# Docstrings: numpydoc states the types, so signatures need not.
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
autosummary_generate = False  # reference_pages writes them
numpydoc_show_class_members = False  # the template shows them
numpydoc_class_members_toctree = False

# Every example runs; one that raises, or warns where it should not, ends the build.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("sklearn_mdl",),
    "reference_url": {"sklearn_mdl": None},
    "download_all_examples": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,  # the build's machine is of no interest
    "remove_config_comments": True,
    "default_thumb_file": str(HERE / "images" / "printed.png"),  # no figure, but print
    "capture_repr": (),  # what is printed is shown, the objects of last lines are not
    "reset_modules": ("matplotlib", "reference_pages.name_file"),
}
# Links to what other pages keep on a server cannot be asked everywhere.
linkcheck_timeout = 20
linkcheck_anchors = False

html_theme = "pydata_sphinx_theme"
html_title = "sklearn_mdl"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "sklearn_mdl"},
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {
    "index": [],
    "theory": [],
    "get-started": [],
    "changelog": [],
    "contributing": [],
    "benchmarks": [],
}
