"""The errors dbanon raises, each with the exit code the command line ends with.

Of wrong input a message says what must hold, what was got, and what to do; of an event what happened, what state things
are in, and what to do. It holds counts and run ids, never a coordinate or a subject, because logs and terminals are
read by people who may not see the data.
"""

from collections.abc import Iterable

MAX_LISTED_NAMES = 20  # names in a message, as in dbanon_internal.choose_one


class DbanonError(Exception):
    """The base of all errors that dbanon raises on purpose."""

    exit_code = 1


class ParameterError(DbanonError, ValueError):
    """A parameter, name or option is not what it must be."""

    exit_code = 2


class DataError(DbanonError):
    """The input data cannot be used."""

    exit_code = 3


class InfeasibleError(DbanonError):
    """The data are fine, but no release with these parameters exists: for example, there are fewer than k people."""

    exit_code = 4


class VerificationFailed(DbanonError):  # noqa: N818 - the name is part of the public interface
    """An attack on the stored rows succeeded or could not decide, or the run must not be published."""

    exit_code = 5


class StoreError(DbanonError):
    """The database refused or failed. The error keeps that of the driver as ``__cause__``.

    Parameters
    ----------
    message : str
        One sentence for the user.
    sqlstate : str, optional
        The five-character SQLSTATE, where the server gave one.
    """

    def __init__(self, message: str, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class SchemaMismatch(DbanonError):  # noqa: N818 - the name is part of the public interface
    """The schema in the database and this program have different revisions."""


def choose_one(names: Iterable[str]) -> str:
    """Return the sentence that lists what could have been named; empty if there is nothing."""
    known = sorted(names)
    more = f" and {len(known) - MAX_LISTED_NAMES} more" if len(known) > MAX_LISTED_NAMES else ""
    listed = ", ".join(f"'{name}'" for name in known[:MAX_LISTED_NAMES])
    return f"Choose one of: {listed}{more}." if known else ""


def format_count(count: int, one: str, many: str | None = None) -> str:
    """Write a count and what is counted: ``1 row``, ``1,200 rows``; `many` is for what takes no s.

    Examples
    --------
    >>> counted(1, "person is", "people are"), counted(1200, "row")
    ('1 person is', '1,200 rows')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"
