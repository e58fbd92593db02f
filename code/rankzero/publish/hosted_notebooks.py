"""Hosted notebooks: a first cell that installs Rank Zero where it is missing, and links that open Colab and Kaggle.

Without an address of the repository (`repository_address.py`) there are no links, and the learner writes the address
into the first cell. On a lab's page, `make sync` fills this block::

    <!-- hosted: notebook -->
    <!-- /hosted -->
"""

from pathlib import Path

from rankzero.curriculum import Lab
from rankzero.publish.generated_blocks import fill_blocks
from rankzero.publish.repository_address import read_address

FIRST_CELL = Path(__file__).with_name("first_cell.py")
BRANCH = "main"  # whose notebooks the links open


def first_cell(address: str) -> str:
    """Returns the code of a learner's first cell, which clones from `address`."""
    code = FIRST_CELL.read_text(encoding="utf-8").partition("\n\n")[2]  # without the docstring
    return code.replace('"RANKZERO_REPOSITORY", ""', f'"RANKZERO_REPOSITORY", "{address}"').strip()


def links(slug: str, address: str) -> str:
    """Returns markdown links that open a lab's notebook in Colab and in Kaggle; "" for an address not on GitHub."""
    path = f"blob/{BRANCH}/notebooks/{slug}.ipynb"
    _, host, name = address.partition("https://github.com/")
    if not host:
        return ""
    colab = f"[Open in Colab](https://colab.research.google.com/github/{name}/{path})"
    return f"**{colab}** · **[Open in Kaggle](https://kaggle.com/kernels/welcome?src={address}/{path})**"


def fill(lab: Lab, text: str) -> str:
    """Returns `text`, the text of the lab's page, with the block that says how to open the notebook without a clone."""
    opened = links(lab.slug, read_address(lab.root))
    without = "Upload the notebook to Colab, Kaggle or another hosted service to run it without a clone."
    content = f"{opened or without} Its first cell installs the labs.\n"
    return fill_blocks(lab.page, text, "hosted", lambda source, _: content)
