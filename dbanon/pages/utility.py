"""Draws how far answers are off from the true counts: blocks for private pages alone."""

from datetime import datetime

import numpy as np
from markupsafe import Markup

from dbanon.pages import charts, layout, words
from dbanon.pages.words import Blocks
from dbanon.results.figures import ASKED_WORDS, Asked, Evaluation, Figure, Questions

_MAX_ROWS = 12
_OF_SQUARES = ("count_error", "bias", "bounds_width", "coverage")
"""What each size of squares has, in a row of its own."""


class Utility(Blocks):
    """Errors by size, questions with the truth, and all figures with their intervals."""

    def make_utility(self) -> Markup:
        """Report how far answers are off from the true counts; private."""
        evaluation = self.evaluation
        if evaluation is None and not self.unmeasured:
            return Markup("")  # `write_commands` says how it is measured
        if evaluation is None:
            return layout.make_section("How far off are answers?", layout.make_card("Not measured", self.unmeasured))
        sizes: dict[tuple[float, str], dict[str, Figure]] = {}
        rest = []
        for one in evaluation.figures:
            if one.name in _OF_SQUARES and one.side_m is not None and one.asked:
                sizes.setdefault((one.side_m, ASKED_WORDS[one.asked]), {})[one.name] = one
            else:
                asked = ASKED_WORDS[one.asked] if one.asked else ""
                rest.append((one.name, asked, _write_value(one), _write_interval(one)))
        rows = [
            (charts.format_metres(side), asked, _write_interval(by["count_error"]), *map(_write_value, by.values()))
            for (side, asked), by in sorted(sizes.items(), key=lambda size: (size[0][1], size[0][0]))
        ]
        head = ["squares", "asked", "90 % interval of count_error", *next(iter(sizes.values()), ())]
        table = layout.make_table(head, rows, numbers=range(2, len(head)))
        table += layout.make_table(["figure", "asked", "value", "90 % interval"], rest, numbers=[2, 3])
        lead = (
            f"Random squares at random times, {evaluation.queries} for each size. Errors are given in percent of the "
            "mean true count, each with its 90 % interval."
        )
        notes = [layout.make_card("Notes on these figures", *evaluation.notes)] if evaluation.notes else []
        return layout.make_section(
            "How far off are answers?",
            layout.make_columns(self.draw_errors(evaluation), self.draw_asked(evaluation)),
            *notes,
            table,
            note="computed from true positions: private",
            lead=lead,
        )

    def draw_errors(self, evaluation: Evaluation) -> Markup:
        """Draw how far counts are off by the size of the area."""
        lines = [
            charts.Line(name=name, points=points, kind="private", dashed=asked == "span")
            for asked, name in ASKED_WORDS.items()
            if (points := _find_errors(evaluation, asked))
        ]
        if not lines:
            return Markup("")
        sides = sorted({side for line in lines for side, *_ in line.points})
        text = "; ".join(
            f"{line.name}: "
            + ", ".join(f"{charts.format_metres(side)} {value:.0f} %" for side, value, _, _ in line.points)
            for line in lines
        )
        drawn = charts.draw_lines(
            "errors",
            "Error by the size of the area",
            f"Private. {text}.",
            lines,
            x=charts.Axis(
                low=sides[0],
                high=max(sides[-1], sides[0] * 2),
                ticks=[(side, charts.format_metres(side)) for side in sides],
                is_log=True,
                name="side of the square",
            ),
            y=charts.make_axis(min(max(20, *(high for line in lines for *_, high in line.points)), 200), unit=" %"),
            level=(20, "20 %"),
            private=True,
        )
        caption = Markup('<b class="is-private">Private.</b> Error of counts, in percent of the mean true count.')
        return layout.make_block("By the size of the area", layout.make_picture(drawn, caption))

    def draw_asked(self, evaluation: Evaluation) -> Markup:
        """Draw some of the questions with the truth."""
        questions, answers, true = evaluation.questions, evaluation.answers, evaluation.true
        if questions is None or answers is None or true is None:
            return Markup("")
        having = np.flatnonzero((true > 0) & (questions.moment if questions.moment.any() else True))
        if not len(having):
            return Markup("")
        falling = having[np.argsort(-true[having], kind="stable")]
        chosen = falling[np.unique(np.linspace(0, len(falling) - 1, _MAX_ROWS).astype(int))]
        rows = [
            charts.Range(
                label=self._name_question(questions, q),
                low=answers.at_least[q],
                high=answers.at_most[q],
                dot=answers.expected[q],
                true=true[q],
            )
            for q in chosen
        ]
        text = "; ".join(f"{r.label}: {r.low:,.0f} to {r.high:,.0f}, true {r.true or 0:,.0f}" for r in rows)
        x = charts.make_axis(max(r.high for r in rows), name="people in the square")
        drawn = charts.draw_ranges("asked", "Questions with the truth", f"Private. {text}.", rows, x, private=True)
        caption = Markup(
            '<b class="is-private">Private.</b> Bar: <code>at_least</code> to <code>at_most</code>. '
            '<b class="is-published">Dot: expected.</b> <b class="is-private">Diamond: true.</b>'
        )
        return layout.make_block(
            f"{words.spell_number(len(rows)).capitalize()} of the questions", layout.make_picture(drawn, caption)
        )

    def _name_question(self, questions: Questions, q: int) -> str:
        at = datetime.fromtimestamp(questions.since[q], self.zone)
        return f"{charts.format_metres(questions.side_m[q])}, {at:%H:%M}"


def _find_errors(evaluation: Evaluation, asked: Asked) -> list[charts.Point]:
    """Give the error of counts by the side of squares."""
    figures = [one for one in evaluation.figures if (one.name, one.asked) == ("count_error", asked)]
    points = [charts.make_point(one.side_m, one) for one in figures if one.side_m is not None and one.value is not None]
    return sorted(points)


def _write_value(one: Figure) -> str:
    if one.value is None:
        return "-"
    return f"{one.value:,.0f}" if abs(one.value) >= 100 else f"{one.value:.3g}"


def _write_interval(one: Figure) -> str:
    if one.low is None or one.high is None:
        return ""
    ends = [f"{end:,.0f}" if abs(end) >= 100 else f"{end:.3g}" for end in (one.low, one.high)]
    return f"{ends[0]} to {'more' if one.high == float('inf') else ends[1]}"
