"""What a load can be given, and names of its columns: whether those asked for are there, and what may be quoted."""

import os
import re
from collections.abc import Sequence
from typing import Protocol

from dbanon.base.errors import DataError

_NAME = re.compile(r"\s*[^\W\d][\w .()/-]{0,39}\s*")  # what is quoted of a header, which may hold a person's data
_VALUE = re.compile(r"\d\.\d|\d{3}")


class ArrowStream(Protocol):
    """A table that hands out its rows through the Arrow C stream interface, as frames and relations do."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule of an ``ArrowArrayStream``."""


Table = str | os.PathLike[str] | ArrowStream
"""What a load takes: the path of a file, or a table in memory."""


def is_name(text: str) -> bool:
    """Whether what a source calls a column looks like a name, and not like a person's data."""
    return bool(_NAME.fullmatch(text)) and not _VALUE.search(text)


def demand_columns(called: str, columns: Sequence[str], wanted: Sequence[str], option_names: str) -> None:
    """Raise `DataError` unless each column wanted is there once; `option_names` are those that name them."""
    missing = [name for name in wanted if name not in columns]
    if missing and any(re.match(r"\s*[+-]?\.?[0-9]", name) for name in columns):
        raise DataError(
            f"The columns of {called} must have names. Its first line holds values instead. Put a header above them."
        )
    if missing:
        names = [name for name in columns if is_name(name)][:40]
        shown = ": " + ", ".join(names) if names else f" {len(columns)} others"
        raise DataError(
            f"{called} must have a column '{missing[0]}'. It has{shown}. Name the right one ({option_names})."
        )
    twice = [name for name in wanted if list(columns).count(name) > 1]
    if twice:
        raise DataError(f"{called} must have one column '{twice[0]}'. It has several. Rename the others.")
