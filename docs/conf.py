"""Sphinx configuration of the site that ``make docs`` builds.

Pages are the Markdown files of this folder. The build adds the gallery from
``examples/``, and a page for each public name.
"""

from __future__ import annotations

import sys
from pathlib import Path

from numpydoc.xref import DEFAULT_LINKS
from sphinx_gallery.sorting import ExplicitOrder

import sklearn_mdl

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import inventories  # noqa: E402, both modules are in _ext
import reference_pages  # noqa: E402

project = "sklearn_mdl"
author = "sklearn_mdl developers"
copyright = author
version = release = sklearn_mdl.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "reference_pages",
]
exclude_patterns = ["_build", "generated/backreferences", "auto_examples/*.md5"]
templates_path = ["_templates"]
smartquotes = False  # do not change the dashes of options
default_role = "py:obj"  # single backticks link to a documented name

# Links to other libraries. Without a network, the build uses inventories that it writes
# from the installed versions.
intersphinx_mapping = inventories.sources(HERE / "_build" / "inventories")
intersphinx_timeout = 5

# Copied code has no prompts and no output.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

# In Markdown, enable mathematics between dollars, cards between colons, and anchors.
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4

# Signatures omit types, since numpydoc shows them in the list of parameters.
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
autosummary_generate = False  # reference_pages writes the pages
numpydoc_show_class_members = False  # the template shows the members
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = True  # types link to the pages of their libraries
numpydoc_xref_aliases = {name: f":py:obj:`{name}`" for name in DEFAULT_LINKS}
numpydoc_xref_aliases |= {
    name: f":py:obj:`~{reference_pages.path_of(name)}`"
    for names in reference_pages.packages().values()
    for name in names
}
numpydoc_xref_aliases |= {
    "array_like": ":term:`numpy:array_like`",
    "array-like": ":term:`numpy:array_like`",
    "ndarray": ":class:`numpy.ndarray`",
    "estimator": ":term:`sklearn:estimator`",
}
numpydoc_xref_ignore = "all"  # other words of a type are not links

# The build runs every example, and fails if an example raises an error.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "subsection_order": ExplicitOrder(
        [
            f"../examples/{section}"
            for section in (
                "codelength",
                "ranking",
                "selection",
                "switching",
                "images",
                "paper",
            )
        ]
    ),
    "filename_pattern": r"\.py$",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("sklearn_mdl",),
    "reference_url": {"sklearn_mdl": None},
    "download_all_examples": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,  # do not report times
    "remove_config_comments": True,
    "capture_repr": (),  # show printed text only
    "reset_modules": ("matplotlib", "reference_pages.name_file"),
}
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
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {
    page: [] for page in ("index", "get-started", "changelog", "contributing")
}
