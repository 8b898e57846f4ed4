"""The one record of a run or release, from which cards and pages are made.

SQL makes it (``dbanon.release_card``, ``dbanon.run_card``). For analysts it is made of what the view says of itself, so
it holds nothing that only administrators may know. A page says nothing that is not in its record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

TESTS = {
    "singling out": "Can one person be picked out of the rows?",
    "linkability": "Can rows be joined: to each other, to other releases, to a list of names?",
    "inference": "Can something be concluded about one person?",
    "attack": "Could the attack itself be wrong?",
}
"""The three tests of the Article 29 Working Party (opinion 05/2014), and that of the attack itself, as questions."""


@dataclass(frozen=True, kw_only=True)
class ClauseFound:
    """What the attack found of one clause, and the clause in plain words."""

    name: str
    passed: bool
    violations: int
    sentence: str
    plain: str
    test: str


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """What is left out, in words and shares that point to no single person.

    Attributes
    ----------
    meaning : str
    reasons : mapping
        What each reason means.
    shares : mapping
        By kind: ``share`` of all there were, and that of each of the ``reasons``; in words.
    hours : sequence of (datetime, datetime, int)
        From when until when which percent of people: hours are joined until at least k were left out.
    """

    meaning: str
    reasons: Mapping[str, str] = field(default_factory=dict)
    shares: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    hours: Sequence[tuple[datetime, datetime, int]] = ()


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of a release that grows."""

    since: datetime
    until: datetime
    k: int | None
    rows: int
    percent_left_out: int | None
    withdrawn: bool = False


@dataclass(frozen=True, kw_only=True)
class Described:
    """A run or a release; None where the reader may not know, or where there is no such thing.

    Attributes
    ----------
    name : str
        ``published.cabs_k5``, or ``run 7``.
    left_open : mapping
        By test: what a release that keeps every clause does not rule out.
    columns : sequence of (str, str)
        Of the view, each with its meaning.
    changed : bool
        Of a run: whether its rows or data are others than those that were attacked.
    readers : sequence of str or None
        Roles; None: all analysts.
    """

    name: str
    method: str
    promise: str
    adversary: str
    rows_are: str
    k: int | None
    holds: str
    rows: int | None
    since: datetime | None
    until: datetime | None
    srid: int
    clauses: Sequence[ClauseFound]
    left_open: Mapping[str, str]
    left_out: LeftOut
    paper: str | None = None
    percent_left_out: int | None = None
    window_s: int | None = None
    parts: Sequence[Part] = ()
    columns: Sequence[tuple[str, str]] = ()
    release: str | None = None
    release_id: int | None = None
    run_id: int | None = None
    dataset: str | None = None
    algorithm: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    checked_at: datetime | None = None
    checked_by: str | None = None
    digest: str | None = None
    changed: bool = False
    readers: Sequence[str] | None = None
    published_at: datetime | None = None
    published_by: str | None = None
    overlap: Mapping[str, Any] | None = None
    overlap_reason: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def said_left_out(self) -> str:
        """How much is left out of the people and times seen, in words."""
        if self.percent_left_out is not None:
            return f"{self.percent_left_out} %"
        if self.left_out.shares:
            return self.left_out.shares.get("subjects", {}).get("share") or "not known"
        return f"fewer than {self.k}, or none, or not counted" if self.k is not None else "not known"

    @property
    def held(self) -> int:
        """Number of clauses that hold."""
        return sum(clause.passed for clause in self.clauses)

    @classmethod
    def of_card(cls, card: Mapping[str, Any]) -> Self:
        """Make it of the record of SQL."""
        attack, left_out = card["attack"], card["left_out"]
        k = card["k"] if isinstance(card["k"], int) else None
        clauses = tuple(
            ClauseFound(
                name=one["name"],
                passed=one["passed"],
                violations=one["violations"],
                sentence=one.get("sentence", ""),
                plain=one.get("plain") or one.get("sentence", "").partition("; broken by ")[0],
                test=one.get("test", "attack"),
            )
            for one in attack["clauses"] or ()
        )
        hours = tuple((moment(h["since"]), moment(h["until"]), h["percent"]) for h in left_out.get("joined") or ())
        parts = tuple(
            Part(
                since=moment(one["since"]),
                until=moment(one["until"]),
                k=one["k"] if isinstance(one["k"], int) else None,
                rows=one["rows"],
                percent_left_out=one["percent_left_out"],
                withdrawn=one["withdrawn_at"] is not None,
            )
            for one in card.get("parts") or ()
        )
        versions = {"dbanon": card["program_version"], **(card.get("versions") or {})}
        return cls(
            name=f"published.{card['release']}" if card["release"] else f"run {card['run_id']}",
            method=card["method"],
            promise=card["promise"],
            adversary=card["adversary"],
            rows_are=card["rows_are"],
            k=k,
            holds=card.get("holds") or "instant",
            rows=card["rows"],
            since=moment(card["period"]["since"]),
            until=moment(card["period"]["until"]),
            srid=card["srid"],
            clauses=clauses,
            left_open=attack.get("left_open") or {},
            left_out=LeftOut(
                meaning=left_out["meaning"],
                reasons=left_out["reasons"],
                shares=left_out.get("shares") or {},
                hours=hours,
            ),
            paper=card["paper"],
            percent_left_out=card.get("percent_left_out"),
            parts=parts,
            release=card["release"],
            release_id=card["release_id"],
            run_id=card.get("run_id"),
            dataset=card["dataset"],
            algorithm=card["algorithm"],
            parameters=card["parameters"],
            checked_at=moment(attack["checked_at"]),
            checked_by=attack["checked_by"],
            digest=attack.get("digest"),
            changed=bool(attack.get("changed")),
            readers=card["readers"],
            published_at=moment(card["published_at"]),
            published_by=card["published_by"],
            overlap=card["overlap"],
            overlap_reason=card["overlap_reason"],
            versions={name: version for name, version in versions.items() if version},
        )


def moment(text: str | None) -> Any:
    """Read a time of JSON; None stays None."""
    return None if text is None else datetime.fromisoformat(text)
