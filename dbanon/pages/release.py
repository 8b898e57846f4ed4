"""Makes the page of a release or a run: for the file of a privacy officer, for analysts, and with truth for operators.

A page is made from the record and from `Shown`; a private page also has `Truth` and `Evaluation`. Nothing else goes in,
so no part of a page is computed from data that its audience may not see.
"""

from collections.abc import Iterable, Sequence
from typing import Literal
from zoneinfo import ZoneInfo

from markupsafe import Markup

from dbanon.pages import layout, words
from dbanon.pages.disclosure import Shown, Truth
from dbanon.pages.map_section import Drawn
from dbanon.pages.sections import Told
from dbanon.pages.utility import Utility
from dbanon.pages.words import localise
from dbanon.results.described import Described
from dbanon.results.figures import Evaluation

Audience = Literal["file", "analysts", "operators"]


def make_page(
    record: Described,
    shown: Shown,
    audience: Audience,
    zone: ZoneInfo,
    *,
    truth: Truth | None = None,
    evaluation: Evaluation | None = None,
    unmeasured: str = "",
    parts: Sequence[str] = (),
) -> str:
    """Make the page; `truth` and `evaluation`, or the reason that there is none, are for operators alone.

    `parts` names the part of a growing release that is shown, and its other parts.

    Raises `ValueError` if the page of another audience is given one of them, or the region of one group is marked on
    it: a defect of the caller.
    """
    private = audience == "operators"
    marked = shown.moment is not None and shown.moment.marked is not None
    measured = evaluation is not None or any(part.figures for part in record.parts)
    if not private and (marked or truth is not None or measured or parts):
        raise ValueError("A page that is not private must not be given the truth.")
    made = {"file": _list_file_blocks, "analysts": _list_analyst_blocks, "operators": _list_operator_blocks}[audience]
    body = made(_Page(record, shown, zone, truth=truth, evaluation=evaluation, unmeasured=unmeasured, chosen=parts))
    band = {
        "file": "To file with the impact assessment. Shows the shares left out, and no true position.",
        "analysts": f"For readers of {record.name}. Made from the view alone: no true position went into it.",
        "operators": Markup("PRIVATE: shows true positions. For operators of the dataset {}. Do not forward.").format(
            layout.isolate(record.dataset)
        ),
    }[audience]
    head = {
        "file": "for the impact assessment",
        "analysts": "for its readers",
        "operators": f"for operators of {record.dataset}",
    }[audience]
    around = layout.Heading(
        title=f"{record.name}: promise and contents", band=band, head=head, foot=_write_foot(record), private=private
    )
    return layout.make_document(around, _write_header(record, zone), *body)


def _write_foot(record: Described) -> str:
    version = f" by dbanon {record.versions['dbanon']}" if "dbanon" in record.versions else ""
    of = f", release {record.release_id}" if record.release_id is not None else ""
    run = f", run {record.run_id}" if record.run_id is not None else ""
    return f"Computed{version} as {record.name}{of}{run}"


def _write_header(record: Described, zone: ZoneInfo) -> Markup:
    known = [
        f"Method {record.method}" + (f" ({record.algorithm})" if record.algorithm else ""),
        f"k = {record.k}" if record.k is not None else "",
        Markup("dataset {}").format(layout.isolate(record.dataset)) if record.dataset else "",
        words.format_span(localise(record.since, zone), localise(record.until, zone)),
        f"{record.rows:,} rows" if record.rows is not None else "",
        f"published {words.format_moment(localise(record.published_at, zone))}" if record.published_at else "",
    ]
    return layout.make_header(record.name, words.insert_k(record.promise, record.k), *filter(None, known))


class _Page(Drawn, Told, Utility):
    """All blocks; each page takes those of its audience."""


def _list_file_blocks(page: _Page) -> Iterable[Markup]:
    return [
        page.make_facts(),
        layout.make_section(
            "Published rows",
            layout.make_wide_columns(
                page.draw_map(),
                page.describe_rows(),
                page.describe_intruder(),
                page.describe_left_out(),
            ),
        ),
        page.make_tests(),
        page.list_clauses(),
        layout.make_signature_lines("assessed by", "approved by (data protection officer)", "date", "next review"),
        page.join_pictures(),
        layout.make_section(
            "Readers, other releases, and the source",
            layout.make_wide_columns(page.describe_source(), page.describe_readers(), page.describe_overlap()),
        ),
        page.list_parts(),
        page.write_commands(),
    ]


def _list_analyst_blocks(page: _Page) -> Iterable[Markup]:
    return [
        page.make_facts(),
        layout.make_section(
            "Published rows",
            layout.make_wide_columns(
                page.draw_map(), page.describe_rows(), page.describe_left_out(), page.draw_questions()
            ),
        ),
        page.list_questions(),
        page.draw_hours(),
        page.join_pictures(),
        page.list_columns(),
        page.list_parts(),
        page.make_tests(),
        layout.make_section(
            "Withdrawal, and the source",
            layout.make_columns(
                layout.make_card(
                    "If a query says that the view does not exist",
                    "The release was withdrawn, or is now for other readers: ask the administrator. If it was "
                    "replaced while you asked, ask again. Numbers of records are drawn again in each release: do not "
                    "keep them.",
                ),
                page.describe_source(),
            ),
        ),
    ]


def _list_operator_blocks(page: _Page) -> Iterable[Markup]:
    part = [layout.make_card("One of the parts", *page.chosen)] if page.chosen else []  # of a release that grows
    return [
        page.make_facts(),
        layout.make_section("Private and published positions", page.draw_pair(), *part),
        page.make_utility(),
        page.make_tests(),
        layout.make_section(
            "On record",
            layout.make_columns(
                page.describe_intruder(), page.describe_left_out(), page.describe_readers(), page.describe_overlap()
            ),
        ),
        page.draw_hours(),
        page.join_pictures(),
        page.list_clauses(),
        page.list_parts(),
        layout.make_section("Source", page.describe_source()),
        page.write_commands(),
    ]
