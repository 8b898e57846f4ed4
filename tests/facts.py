"""What tests ask of an error or a notice: its code, and the facts it names.

How it says them stands in tests/golden/sentences.txt alone, so that a sentence can be mended without touching a test.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import psycopg
import pytest


class Ended(Protocol):
    """A command that has ended, as tests.acceptance.commands makes it."""

    code: int

    @property
    def sentence(self) -> str: ...


def is_named(text: str, fact: object) -> bool:
    """Whether a text names a fact: as a whole word or number, so that 5 is not in 15, in 1.5 or in 5,000.

    A word that begins small may begin a sentence.
    """
    fact = str(fact)
    before = r"(?<![\w-])(?<!\d[.,])" if fact[0].isdigit() else r"(?<!\w)" if fact[0].isalpha() else ""
    after = r"(?!\w)(?![.,]\d)" if fact[-1].isdigit() else r"(?!\w)" if fact[-1].isalpha() else ""
    first = f"[{fact[0]}{fact[0].upper()}]" if fact[0].islower() else re.escape(fact[0])
    return re.search(before + first + re.escape(fact[1:]) + after, text) is not None


def demand_named(text: str, *facts: object) -> None:
    """Demand that a text names each of the facts."""
    lacking = [fact for fact in facts if not is_named(text, fact)]
    assert not lacking, f"{lacking} must be named. Got: {text}"


def demand_refused(done: Ended, code: int, *facts: object) -> None:
    """Demand that a command ended with this exit code and one sentence that names the facts."""
    assert done.code == code, done
    demand_named(done.sentence, *facts)


def read_words(error: BaseException) -> str:
    """All that an error says: its message, and the server's detail and hint."""
    if not isinstance(error, psycopg.Error):
        return str(error)
    said = error.diag.message_primary, error.diag.message_detail, error.diag.message_hint
    return "\n".join(filter(None, said)) or str(error)


@contextmanager
def expect_refusal(kind: type[BaseException] | str, *facts: object) -> Iterator[pytest.ExceptionInfo[BaseException]]:
    """Demand an error of this class, or from the server with this SQLSTATE, that names the facts."""
    expected = psycopg.Error if isinstance(kind, str) else kind
    with pytest.raises(expected) as caught:
        yield caught
    if isinstance(kind, str):
        assert caught.value.sqlstate == kind, caught.value
    demand_named(read_words(caught.value), *facts)
