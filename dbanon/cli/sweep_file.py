"""Writes the result of a sweep to a file that its owner alone may read, whole or not at all."""

import importlib.metadata
from pathlib import Path

from dbanon.base.errors import ParameterError
from dbanon.base.sweep import Sweep
from dbanon.releases import export


def demand_known(file: Path) -> None:
    """Raise `ParameterError`, before hours are spent, for a file of another kind or in a folder that does not exist."""
    if not file.parent.is_dir():
        raise ParameterError("The folder of the file must exist. Got one that does not. Make it first.")
    if file.suffix not in (".html", ".csv"):
        raise ParameterError(f"A sweep must be written as .html or .csv. Got '{file.name[:60]}'. Change its suffix.")


def write(file: Path, found: Sweep) -> None:
    """Write the page or the table."""
    from dbanon.pages.sweep import make_page

    text = make_page(found, version=importlib.metadata.version("dbanon")) if file.suffix == ".html" else found.csv()
    export.write_text(file, text, private=True)
