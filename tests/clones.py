"""Fixtures of databases that are copies of one which is filled once."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest

from dbanon.postgres.server import Target
from dbanon.testing import cloned_database


def clone_of(template: str, scope: Literal["function", "module"] = "function") -> Any:
    """Make a fixture that gives the URL of a copy of the database whose name the fixture `template` gives."""

    @pytest.fixture(scope=scope)
    def clone(request: pytest.FixtureRequest, dbanon_server: Target) -> Iterator[str]:
        with cloned_database(dbanon_server, request.getfixturevalue(template)) as url:
            yield url

    return clone
