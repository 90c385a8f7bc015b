"""The site: ``make docs`` builds it into docs/_build/html, offline and without warnings."""

import logging
import sys
from pathlib import Path

import widemargin

logging.getLogger("widemargin").setLevel("ERROR")  # no word of compilation in what tutorials print

sys.path.insert(0, str(Path(__file__).parent))

project = "widemargin"
author = "the widemargin developers"
copyright = "the widemargin developers"
version = release = widemargin.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "mathml",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = [
    "_build",
    "tutorials/*.py",
    "tutorials/*.ipynb",
    "tutorials/*.md5",
    "tutorials/*.zip",
    "sg_execution_times.rst",
    "tutorials/sg_execution_times.rst",
    "**.codeobj.json",
]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_block"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections tell the types
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples/tutorials",
    "gallery_dirs": "tutorials",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "write_computation_times": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "show_signature": False,
    "abort_on_example_error": True,
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "widemargin"
html_static_path = ["_static"]
html_css_files = ["widemargin.css"]
html_js_files = ["figures.js"]
html_show_sourcelink = False
html_show_sphinx = False
html_sidebars = {"index": [], "start": [], "choose": []}
html_theme_options = {
    "logo": {"text": "widemargin"},
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_context = {"default_mode": "auto"}
nitpicky = False
