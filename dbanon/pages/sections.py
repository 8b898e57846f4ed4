"""Says what is known of a release: tests and clauses, cards for the file, what may be asked, how it was made."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from dbanon.base.errors import format_count
from dbanon.pages import layout, words
from dbanon.pages.words import Blocks, localise
from dbanon.results.command import format_run_command
from dbanon.results.described import TEST_QUESTIONS, ClauseFound, count_verdicts, name_verdict
from dbanon.results.figures import format_percent

_FUNCTION_ANSWERS = {
    "count_inside": "how many people in an area, over a time",
    "density": "how many people in each square of a grid, hour by hour",
    "flows": "how many go from which zone to which",
    "crossings": "how many cross a line, in each direction",
    "dwell": "how many stay in an area, and how long",
    "requests_inside": "how many sent which requests in an area",
}
_NOT_TRIED = (
    "newspapers, social media, publications about the same people that dbanon does not know, guesses from nearness"
)
_MAX_PARTS = 36


class Told(Blocks):
    """Texts, tables and cards; names and texts of users come from the record."""

    def make_facts(self) -> Markup:
        """Say the figures that stand on top."""
        record, shown = self.record, self.shown
        facts: list[layout.Fact] = []
        if shown.exact:  # what is exposed most comes first
            about = "of what is published is shown exactly: these rows hide no one"
            facts.append((format_percent(shown.exact), about, "warn"))
        number, verdict = count_verdicts(record.clauses)
        about = f"clauses of the attack on the stored rows {verdict}"
        if record.notices:
            about += f"; {format_count(len(record.notices), 'notice')} below, under “left open”"
        facts.append((number if record.clauses else "Not attacked", about if record.clauses else "", ""))
        if hides := words.describe_crowd(record, shown.exact):
            facts.append((*hides, ""))
        if record.percent_left_out is not None:
            facts.append((f"{100 - record.percent_left_out} %", "of the people and times seen are published", ""))
        else:
            facts.append((record.said_left_out, "left out of the people and times seen", ""))
        if len(shown.sides) == 3:
            half, most = map(words.format_length, shown.sides[1:])
            facts.append((half, f"half of the regions are longer than this, and a tenth longer than {most}", ""))
        if self.evaluation is not None and self.evaluation.find_figure("usable_resolution_m") is not None:
            facts.append(
                (
                    words.format_usable_resolution(self.evaluation.figures),
                    "usable resolution: counts in wider squares are off by a fifth or less",
                    "private",
                )
            )
        elif record.lasts_s is not None:
            about = "is how long a record lasts, and no number joins it to the next"
            facts.append((words.format_duration(record.lasts_s), about, ""))
        return layout.make_fact_list(facts)

    def make_tests(self) -> Markup:
        """Say what holds and what is left open in each of the three tests."""
        rows = []
        for test in ("singling out", "linkability", "inference"):
            of = [clause for clause in self.record.clauses if clause.test == test]
            named = {
                name: [one.name for one in of if name_verdict(one) == name] for name in ("BROKEN", "nothing to test")
            }
            parts = [" ".join(count_verdicts(of)).partition(",")[0] if of else "no clause"]
            parts += [f"{name.lower()}: {', '.join(names)}" for name, names in named.items() if names]
            verdict = Markup('<span class="{}">{}</span>').format(
                "warn" if named["BROKEN"] else "" if named["nothing to test"] else "good", "; ".join(parts)
            )
            rows.append((test.capitalize(), TEST_QUESTIONS[test], verdict, self.record.left_open.get(test, "")))
        if notices := self.record.notices:
            number = Markup('<span class="warn">{}</span>').format(format_count(len(notices), "notice"))
            open_ = Markup("").join(Markup("<p>{}</p>").format(one) for one in notices)
            rows.append(("Of this release", "What was counted that no clause forbids?", number, open_))
        return layout.make_section(
            "The three tests of the regulators",
            layout.make_table(["test", "asks", "clauses of the attack", "left open"], rows),
            note="Article 29 Working Party, opinion 05/2014, WP216",
        )

    def list_clauses(self) -> Markup:
        """List all clauses in plain words."""
        groups = []
        known = any(clause.sentence for clause in self.record.clauses)
        for test, asks in TEST_QUESTIONS.items():
            rows = [
                (
                    layout.make_code_name(clause.name),
                    words.insert_k(clause.plain, self.record.k),
                    Markup('<span class="{}">{}</span>').format(
                        {"holds": "good", "BROKEN": "warn"}.get(name_verdict(clause), "soft"), name_verdict(clause)
                    ),
                    *([_describe_breach(clause, self.record.k)] if known else []),
                )
                for clause in self.record.clauses
                if clause.test == test
            ]
            if rows:
                name = test.capitalize() if test != "attack" else "The attack itself"
                groups.append((Markup('{}. <span class="soft">{}</span>').format(name, asks), rows))
        head = ["clause", "in plain words", "verdict", *(["broken by"] if known else [])]
        return layout.make_section("All clauses of the attack", layout.make_grouped_table(head, groups))

    def describe_rows(self) -> Markup:
        """Say what a row says."""
        return layout.make_block("The meaning of a row", Markup("<p>{}</p>").format(self.record.rows_are))

    def describe_intruder(self) -> Markup:
        """Record the motivated intruder: what it knows, did and found, and what was not tried."""
        record = self.record
        if not record.clauses:
            return layout.make_card("Motivated intruder", "The rows were not attacked.")
        findings, tried = [], format_count(len(record.clauses), "clause")
        if record.held < len(record.clauses):
            findings.append(format_count(len(record.clauses) - record.held, "broken clause"))
        if idle := sum(clause.tested is False for clause in record.clauses):
            findings.append(f"{format_count(idle, 'clause')} with nothing to test")
        if record.notices:
            findings.append(f"{format_count(len(record.notices), 'notice')}, under “left open”")
        if self.shown.exact:
            findings.append(f"{format_percent(self.shown.exact)} of what is published is exact")
        version = f", version {record.versions['dbanon']}" if "dbanon" in record.versions else ""
        when = Markup("before publication{}.").format(version)
        if record.checked_at:
            by = layout.isolate(record.checked_by)
            when = Markup("{}, by {}{}.").format(
                words.format_moment(localise(record.checked_at, self.zone)), by, version
            )
        rows = [
            ("Knows", record.adversary),
            ("Did", f"read all stored rows and the data again, and tried to break {tried}."),
            ("Found", f"{', '.join(findings) or 'nothing'}."),
            ("When", when),
            ("Not tried", f"{_NOT_TRIED}."),
        ]
        return layout.make_card(
            "Motivated intruder, recorded (ICO)", *(Markup("<b>{}:</b> {}").format(*one) for one in rows)
        )

    def describe_left_out(self) -> Markup:
        """Say who is left out, in shares."""
        left_out = self.record.left_out
        paragraphs: list[object] = [left_out.meaning]
        for kind, shares in left_out.shares.items():
            name = {"subjects": "People and times seen", "requests": "Requests"}.get(
                kind, kind.replace("_", " ").capitalize()
            )
            reasons = [
                f"{left_out.reasons.get(reason, reason).rstrip('.')}: {share or 'not known'}"
                for reason, share in shares.get("reasons", {}).items()
            ]
            detail = f" ({'; '.join(reasons)})" if reasons else ""
            paragraphs.append(Markup("<b>{}:</b> {}{}.").format(name, shares.get("share") or "not known", detail))
        if not left_out.shares and self.record.percent_left_out is not None:
            paragraphs.append(f"Left out of the people and times seen: {self.record.percent_left_out} %.")
        paragraphs.append("The people left out differ from the others: no figure of the release is about them.")
        return layout.make_card("Left out", *paragraphs)

    def describe_readers(self) -> Markup:
        """Say who reads it and how it is taken back."""
        record = self.record
        who: Any = "every login of an analyst"
        if record.readers:
            names = layout.isolate(words.join_names(list(record.readers), "or"))
            who = Markup("every login with one of {}").format(names)
        name = record.release
        take_back = (
            Markup(
                "<b>Withdraw:</b> {}, at once for new queries. Readers keep all that they read or exported, and "
                "dbanon still compares later releases with it."
            ).format(layout.make_code_name(f"SELECT dbanon.unpublish('{name}')"))
            if name
            else Markup("It is not published: no login reads it.")
        )
        return layout.make_card(
            "Readers and withdrawal",
            Markup("<b>Readers:</b> {}: the view, no table behind it.").format(who) if name else "",
            take_back,
            *self.list_policy(),
        )

    def list_policy(self) -> list[Markup]:
        """Say what the policy asks of the run, and who signed it; nothing where it asks for nothing."""
        policy = self.record.policy or {}
        signed = [one["login"] for one in policy.get("signed", ())] or ["nobody yet"] * ("signatures" in policy)
        texts = {"methods": ", ".join(policy.get("methods", ())), "signed": None}  # not as lists
        asked = words.format_settings({name.replace("_", " "): texts.get(name, policy[name]) for name in policy})
        return [Markup("<b>{}:</b> {}.").format(head, layout.isolate(said))
                for head, said in (("Policy", asked), ("Signed by", ", ".join(signed))) if said]  # fmt: skip

    def describe_overlap(self) -> Markup:
        """Say what it was held against."""
        record, overlap = self.record, self.record.overlap
        if record.release is None:
            text = "It is not published. dbanon compares it with the releases of the same people before it publishes."
        else:
            sentences = _describe_overlap(overlap) if overlap else ["None of them weakens the promise."]
            text = "dbanon compared it with every earlier release of the same people, withdrawn ones too. "
            text += " ".join(sentences)
        allowed = [Markup("An administrator allowed an overlap, because: {}").format(layout.isolate(reason))
                   for reason in [record.overlap_reason] if reason]  # fmt: skip
        return layout.make_card(
            "Together with other releases", text, "dbanon compares every later release with this one.", *allowed
        )

    def describe_source(self) -> Markup:
        """Say how it was made."""
        record = self.record
        versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
        digest = record.digest
        return layout.make_card(
            "Where it comes from",
            record.paper or "A method of dbanon's own.",
            *(
                [Markup("Parameters: {}. The seed is kept private.").format(layout.isolate(settings))]
                if (settings := words.format_settings(record.parameters))
                else []
            ),
            f"Coordinates: metres in SRID {record.srid}.",
            *([f"Made with: {versions}."] if versions else []),
            *(
                [Markup("Digest of the rows that were attacked: {}").format(layout.make_code_name(digest))]
                if digest
                else []
            ),
        )

    def list_parts(self) -> Markup:
        """List the parts of a release that grows, a line each."""
        if len(self.record.parts) < 2:
            return Markup("")
        parts = self.record.parts[::-1]
        rows = [
            [
                words.format_span(localise(part.since, self.zone), localise(part.until, self.zone)),
                "" if part.k is None else part.k,
                f"{part.rows:,}",
                "few, none, or not counted" if part.percent_left_out is None else f"{part.percent_left_out} %",
                "withdrawn" if part.withdrawn else "live",
            ]
            for part in parts
        ]
        head = ["part", "k", "rows", "left out", "state"]
        if any(part.figures for part in parts):  # on a private page
            head.append("usable resolution")
            for row, part in zip(rows, parts, strict=True):
                row.append(words.format_usable_resolution(part.figures) if part.figures else "not known")
        note = f"the newest {_MAX_PARTS} of {len(rows)}" if len(rows) > _MAX_PARTS else ""
        newest = "the share left out" if self.record.run_id is None else "its k, its clauses and the share left out"
        return layout.make_section(
            "All parts, the newest first",
            layout.make_table(head, rows[:_MAX_PARTS], numbers=[1, 2, 3]),
            note=note,
            lead="dbanon computed, attacked and published each part alone. "
            + ("" if self.chosen else f"The pictures on this page, and {newest}, are of the newest part."),
        )

    def list_questions(self) -> Markup:
        """Say which questions the rows answer."""
        offered = {column for column, _ in self.record.columns}
        names = [name for name in _FUNCTION_ANSWERS if name != "requests_inside" or "requests" in offered]
        is_instant = self.record.holds == "instant"  # the others have no moments
        answers = (
            {**_FUNCTION_ANSWERS, "count_inside": "how many people in an area, at a moment or over a time"}
            if is_instant
            else _FUNCTION_ANSWERS
        )
        when = "at => '...'" if is_instant else "during => '[...]'"
        return layout.make_section(
            "Questions that you may ask",
            layout.make_table(
                ["function of published", "answers"], [(layout.make_code_name(name), answers[name]) for name in names]
            ),
            layout.make_code_block(
                f"SELECT * FROM published.count_inside('{self.record.name}',\n"
                f"  ST_MakeEnvelope(..., 4326), {when});\n-- at_least, expected, at_most"
            ),
            Markup("<p>{}</p><p>{}</p>").format(
                "To count people, add up `subjects` over the rows of one period. Neither the sum of crowd nor the "
                "number of rows is a number of people.",
                "The middle of a region is no position: perhaps no person was there. One place is surely busier than "
                "another only where its at_least exceeds the at_most of the other.",
            ),
        )

    def list_columns(self) -> Markup:
        """List the columns of the view."""
        rows = [(layout.make_code_name(name), layout.isolate(meaning or "")) for name, meaning in self.record.columns]
        return layout.make_section("Columns", layout.make_table(["column", "meaning"], rows)) if rows else Markup("")

    def write_commands(self) -> Markup:
        """Say how it is made again."""
        record = self.record
        if record.dataset is None:
            return Markup("")
        # A part cannot be published beside itself, nor in place of all parts.
        publish = None if record.parts else record.release
        lines = [
            format_run_command(
                record.method, record.dataset, record.algorithm, record.parameters, publish, replace=True
            ),
            *([f"dbanon evaluate {record.release or record.run_id}"] if self.truth is not None else []),
            f"dbanon report {record.release or record.run_id}{' --with-truth' if self.truth is not None else ''}",
        ]
        note = Markup(
            '<p class="small soft">The seed is kept private: it would show readers how the run broke ties.</p>'
        )
        return layout.make_section("Make it again", layout.make_code_block("\n".join(lines)), note)


_OVERLAP_SENTENCES = {
    "within_a_day": "Within a day, one of them has exact rows of people that another hides.",
    "classes": "Where its regions meet those of others, sets of cells are left without l categories, or beyond t.",
    "other_cells": "Others of the same people and area have other cells, so dbanon did not compare their regions.",
    "fewer_cells": "Others have these cells and more. It keeps t against the points of interest in its cells.",
    "copies": "The same positions were loaded under other names too. dbanon did not compare releases of those.",
    "settle_s": "dbanon does not compare later rows of people that stay longer than the population's settle time.",
}


def _describe_overlap(overlap: Mapping[str, Any]) -> list[str]:
    """Say what was found beside other releases, a sentence for each finding; counts of people are not said."""
    sentences, relation, least = [], overlap.get("relation"), overlap.get("smallest_crowd")
    if overlap.get("below"):
        sentences.append("For some people fewer candidates are left than promised. An administrator allowed that.")
    elif relation == "same":
        sentences.append("It has the groups of another release: each person has the same candidates in both.")
    elif relation == "overlapping":
        left = f": {least} or more people remain that a row may mean" if least is not None else ""
        sentences.append(f"Some have rows of the same time{left}.")
    return sentences + [sentence for name, sentence in _OVERLAP_SENTENCES.items() if overlap.get(name) is not None]


def _describe_breach(clause: ClauseFound, k: int | None) -> str:
    """Take what a clause is broken by out of its sentence: "0 of 2,623 records"; fewer than k are not told apart."""
    if k is not None and 0 < clause.violations < k:
        return f"fewer than {k}"
    _, _, by = clause.sentence.partition("; broken by ")
    return by.split(". ")[0].rstrip(".")
