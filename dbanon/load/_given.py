"""What a load can be given."""

import os
from typing import Protocol


class ArrowStream(Protocol):
    """A table that hands out its rows through the Arrow C stream interface, as frames and relations do."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule of an ``ArrowArrayStream``."""


Table = str | os.PathLike[str] | ArrowStream
"""What a load takes: the path of a file, or a table in memory."""
