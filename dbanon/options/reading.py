"""Where runs read data from; its words are those of the command line."""

from dataclasses import dataclass
from typing import Annotated

from dbanon.options import Option

ReadDsn = Annotated[
    str | None,
    Option("Streaming replica to read data from, once it has replayed the data of a run. Default: DBANON_READ_DSN."),
]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Which server the process that computes reads datasets from."""

    read_dsn: ReadDsn = None
    read_wait_s: Annotated[
        int, Option("How many seconds a run waits for that replica.", name="--read-wait", minimum=0, maximum=86_400)
    ] = 60
