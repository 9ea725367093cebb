"""Settings of the documentation: `make docs` builds it with warnings as errors."""

import sys
from pathlib import Path

import buttress

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "buttress"
author = "the buttress developers"
copyright = "2026, the buttress developers"
release = buttress.__version__
extensions = [
    "catalogue",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "buttress"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
nitpicky = False
