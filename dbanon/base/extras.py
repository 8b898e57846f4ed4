"""The parts of an installation: what each brings, and the one sentence for what is asked of a part that is not there.

What needs a part says so once, where it begins, before it does anything (`demand`, `needs`); modules that import its
packages are imported after that. import-linter lists where the rest of the program reaches these modules.
"""

import functools
from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal, ParamSpec, TypeVar

from dbanon.base.errors import DbanonError

P = ParamSpec("P")
Result = TypeVar("Result")
Part = Literal["files", "compute", "dask"]

PACKAGES: dict[Part, tuple[str, ...]] = {
    "files": ("geopandas", "pyarrow", "pyogrio", "pyproj", "shapely"),
    "compute": ("numba", "prometheus_client", "pyarrow", "scipy", "shapely"),
    "dask": ("distributed",),
}
"""The packages, as they are imported, that each part brings; extras of these names in pyproject.toml."""


def list_missing(part: Part) -> list[str]:
    """Name the packages of a part that are not installed."""
    return [name for name in PACKAGES[part] if not _is_there(name)]


def demand(*parts: Part, what: str = "This") -> None:
    """Raise `DbanonError` unless all of these parts are installed; `what` is the subject of the sentence."""
    wanted = [part for part in parts if list_missing(part)]
    if wanted:
        extras, missing = ",".join(wanted), sorted({name for part in wanted for name in list_missing(part)})
        raise DbanonError(
            f"{what} must have dbanon[{extras}] installed. Got an installation without {', '.join(missing)}. Run "
            f"`pip install 'dbanon[{extras}]'`."
        )


def needs(*parts: Part) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """Let a verb demand parts before it does anything."""

    def decorate(verb: Callable[P, Result]) -> Callable[P, Result]:
        @functools.wraps(verb)
        def call(*given: P.args, **options: P.kwargs) -> Result:
            demand(*parts)
            return verb(*given, **options)

        return call

    return decorate


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # an installation that is half there
        return False
