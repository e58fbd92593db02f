"""Sphinx's configuration: `rankzero site` reads the repository's markdown and notebooks in place.

Each module in `extensions` adds one feature to the site; the module's first line names the feature.
"""

from pathlib import Path

from rankzero.curriculum import all_labs

HERE = Path(__file__).parent

project = "Rank Zero"
author = "the authors of Rank Zero"
root_doc = "README"
include_patterns = [
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "handbook/*.md", "labs/*.md", "launch/README.md"),
    *("code/lab-*/README.md", "notebooks/*.ipynb", "solutions/*/notebook.ipynb"),
]
# Folders that need not be searched for pages, and the pages of drafts.
exclude_patterns = [
    *(".*", "runs", "work", "site", "tests", "benchmarks", "code/rankzero", "**/__pycache__"),
    *(
        f"{place}/{lab.slug}*"
        for lab in all_labs(drafts=True)
        if lab.draft
        for place in ("labs", "code", "notebooks", "solutions")
    ),
]

_MODULES = (
    *("npm_packages", "signs_font", "page_files"),
    *("views.sidebar_map", "views.home", "views.side_by_side", "views.calculator", "views.search_index"),
    "views.missing_page",
    *("source.source_pages", "source.annotated_source", "source.diff_pages"),
    *("markdown.typography", "markdown.formulas", "markdown.diagrams", "markdown.foldable_details"),
    *("markdown.quiz_cards", "markdown.claim_badges", "markdown.calculator_links"),
    *("markdown.code_lines", "markdown.excerpt_captions", "markdown.line_tables", "markdown.drawn_figures"),
    "markdown.sortable_tables",
)
extensions = ["myst_nb", "sphinx_copybutton", *(f"rankzero.publish.site.{name}" for name in _MODULES)]

# Markdown: the syntax that GitHub renders.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks are executed and compared by the tests
nb_merge_streams = True

html_theme = "furo"
html_title = "Rank Zero"
html_theme_options: dict[str, list[str]] = {"top_of_page_buttons": []}
templates_path = [str(HERE / "templates")]
html_static_path = [str(HERE / "static")]
html_sidebars = {"**": ["sidebar/brand.html", "sidebar/find.html", "sidebar/map.html"]}
html_css_files = ["fonts/fonts.css", "site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_use_index = False
html_domain_indices = False
html_permalinks_icon = "#"
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "github-dark"
copybutton_exclude = ".linenos, .gp, .go"
