"""Makes the document of a page, and the blocks that pages are made of: sections, figures, tables, cards.

A page is one file: no script, no request, and a policy in it that forbids both. It is readable from 390 pixels to A4,
in light and dark. What is private says so in its title, in a band, in the margin of each printed page and in figures.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup

from dbanon.base.console import make_visible
from dbanon.pages import svg

POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_STYLE = """
*{box-sizing:border-box}
html{color-scheme:light dark;background:var(--paper)}
body{margin:0;color:var(--ink);background:var(--paper);font:15px/1.45 Arial,Helvetica,sans-serif;
overflow-wrap:break-word}
header>div.inner,main,footer{max-width:1164px;margin:0 auto;padding:0 15px}
h1{font-size:30px;line-height:1.2;margin:18px 0 4px}h2{font-size:20px;line-height:1.25;margin:36px 0 8px}
h3{font-size:15px;margin:14px 0 6px}p{margin:6px 0}.lead{font-size:17px}.soft,figcaption{color:var(--soft)}
.small,figcaption{font-size:13px}.good{color:var(--good)}.warn{color:var(--warn)}.is-private{color:var(--private)}
.is-published{color:var(--published)}bdi{unicode-bidi:isolate}
code,pre{font:13px/1.5 "DejaVu Sans Mono",Menlo,Consolas,monospace}
pre{background:var(--wash);border:1px solid var(--line);border-radius:6px;padding:10px 12px;white-space:pre-wrap}
.band{padding:9px 15px;text-align:center;font-weight:bold;background:var(--class-0)}
.band.private-band{background:repeating-linear-gradient(135deg,var(--private-wash) 0 12px,var(--paper) 12px 24px)}
.private-band span{background:var(--paper);color:var(--private);padding:2px 8px;border-radius:4px}
.columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(360px,100%),1fr));gap:14px 20px;
align-items:start}
.wide{display:grid;grid-template-columns:1fr;gap:14px 20px;align-items:start}
figure{margin:0}figure svg{display:block;width:100%;height:auto;max-width:560px}
.map svg,.small-maps svg{outline:1px solid var(--line);outline-offset:-1px}
figcaption{margin-top:4px}
.small-maps{display:grid;grid-template-columns:repeat(auto-fill,minmax(104px,1fr));gap:10px}
.small-maps figcaption{text-align:center}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:14px 0;padding:0;
list-style:none}
.facts li,.card{border:1px solid var(--line);border-radius:6px;padding:10px 12px}
.facts li{border-top:3px solid var(--published)}.facts li.private-fact{border-top-color:var(--private)}
.facts li.warn-fact{border-top-color:var(--warn)}.facts li.warn-fact b{color:var(--warn)}
.facts b{display:block;font-size:22px;line-height:1.2}.facts span{color:var(--soft);font-size:13px}
.card h3{margin-top:0}
table{border-collapse:collapse;width:100%;font-size:14px}caption{text-align:left;color:var(--soft);font-size:13px;
padding:4px 0}
th,td{text-align:left;vertical-align:top;padding:5px 8px;border-bottom:1px solid var(--line)}
thead th{color:var(--soft);font-size:13px}td.number,th.number{text-align:right;font-variant-numeric:tabular-nums;
white-space:nowrap}
h1,h2,h3,p,li,figcaption,td,pre,code,.band{overflow-wrap:anywhere}.columns>*,.wide>*{min-width:0}
tbody th{font-weight:bold}tbody th[scope=rowgroup]{padding-top:12px}
.legend{display:flex;flex-wrap:wrap;gap:4px 14px;margin:6px 0;padding:0;list-style:none;font-size:13px}
.legend i{display:inline-block;width:22px;height:11px;margin-right:5px;border-radius:2px;
border:1px solid var(--line)}
.lines{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:20px;margin-top:44px}
.lines div{border-top:1px solid var(--ink);font-size:13px;padding-top:3px;color:var(--soft)}
footer{margin-top:36px;padding:12px 15px 24px;border-top:1px solid var(--line);font-size:13px;color:var(--soft)}
@media (min-width:900px){.wide{grid-template-columns:5fr 4fr}.wide figure svg{max-width:660px}}
@media screen and (max-width:900px){td.number,th.number{white-space:normal;overflow-wrap:normal}}
@media (max-width:640px){h1{font-size:24px}table.stacked thead{position:absolute;left:-9999px}
table.stacked tr{display:block;border-bottom:1px solid var(--line);padding:5px 0}
table.stacked td,table.stacked th{display:block;border:0;padding:2px 0;text-align:left;white-space:normal}
table.stacked td[data-name]::before{content:attr(data-name) ": ";color:var(--soft)}}
@media print{body{font-size:12px;print-color-adjust:exact;-webkit-print-color-adjust:exact}
header>div.inner,main,footer{max-width:none;padding:0}h1{font-size:22px;margin-top:8px}h2{font-size:16px;margin-top:18px}
.lead{font-size:14px}
h3{font-size:13px}table{font-size:11.5px}.small,figcaption,.facts span,caption,thead th{font-size:11px}
.facts b{font-size:17px}
.facts{grid-template-columns:repeat(5,1fr)}.columns{grid-template-columns:repeat(2,1fr)}
.wide{grid-template-columns:1fr 1fr}
.small-maps{grid-template-columns:repeat(8,1fr);gap:5px}
h2,h3,caption,.lead,tr:has([scope=rowgroup]){break-after:avoid}figure,tr,.card,.facts,pre,.lines,.lead{break-inside:avoid}
footer{display:none}th,td{padding:2px 6px}.lines{margin-top:28px}.card{padding:6px 9px}

code,pre{font-size:11px}}
"""

Fact = tuple[str, Any, Literal["", "private", "warn"]]
"""A figure, what it is, and whether it is private, or a reason to look twice."""


@dataclass(frozen=True, kw_only=True)
class Heading:
    """What stands above and below a page."""

    title: str  # its title, without the mark of what is private
    band: Any  # for whom it is and what it shows, in one or two sentences
    head: str  # of each printed page, for whom it is
    foot: str  # of each printed page, by which program it was made, and of what
    private: bool = False  # whether it shows true positions, or figures that were held against them


def make_document(heading: Heading, header: Markup, *blocks: Markup) -> str:
    """Put a page together: its band, `make_header` with its h1, sections, and a footer."""
    title = make_visible(f"[PRIVATE] {heading.title}" if heading.private else heading.title)
    band = Markup('<div class="band{}"><span>{}</span></div>').format(
        " private-band" if heading.private else "", heading.band
    )
    colour = "color:#b3470f;font-weight:bold;" if heading.private else ""
    head = f"PRIVATE: {heading.head}" if heading.private else heading.head
    font = "font:10px Arial,sans-serif;"
    page = (
        f"@page{{size:A4;margin:17mm 12mm 15mm;@top-left{{content:{_quote_css(heading.title[:80])};{font}}}"
        f"@top-right{{content:{_quote_css(head)};{font}{colour}}}@bottom-left{{content:{_quote_css(heading.foot[:110])};{font}}}"
        f'@bottom-right{{content:counter(page) " of " counter(pages);{font}}}}}'
    )
    return str(
        Markup(
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            "<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
            '<header>{band}<div class="inner">{header}</div></header>\n'
            "<main>\n{main}\n</main>\n"
            "<footer>{foot}. One file without scripts. It loads nothing from anywhere.</footer>\n</body>\n</html>\n"
        ).format(
            policy=POLICY,
            title=title,
            style=Markup(svg.STYLE + _STYLE + page),  # noqa: S704 - `_quote_css` escaped what is not ours
            band=band,
            header=header,
            main=Markup("\n").join(blocks),
            foot=isolate(heading.foot),
        )
    )


def _quote_css(content: str) -> str:
    """Write a text as a string of a style sheet; nothing in it can end the string or the element.

    A space ends each escape, since a style sheet takes the first space after an escape for its end.
    """
    own = make_visible(content)
    return '"' + "".join(c if c.isalnum() or c in " .,:;-_" else f"\\{ord(c):x} " for c in own) + '"'


def isolate(text: Any) -> Markup:
    """Show a name or text of a user: it turns no text around it, and direction marks in it are seen as numbers."""
    return Markup("<bdi>{}</bdi>").format(make_visible(str(text)))


def make_header(title: str, lead: Any, *about: Any) -> Markup:
    """Say what a page is about: a heading, one sentence, and a line of facts."""
    facts = Markup(" · ").join(about)
    return Markup('<h1>{}</h1><p class="lead">{}</p><p class="soft small">{}</p>').format(isolate(title), lead, facts)


def make_section(heading: str, *blocks: Markup, note: str = "", lead: Any = None) -> Markup:
    """Make a section with a heading, a smaller `note` beside it, and one sentence before its blocks."""
    beside = Markup(' <small class="soft">({})</small>').format(note) if note else Markup("")
    paragraph = Markup('<p class="lead soft">{}</p>').format(lead) if lead else Markup("")
    return Markup("<section><h2>{}{}</h2>{}{}</section>").format(heading, beside, paragraph, Markup("").join(blocks))


def make_block(heading: str, *inner: Markup) -> Markup:
    """Make a part of a section with a heading of its own."""
    return Markup("<div><h3>{}</h3>{}</div>").format(heading, Markup("").join(inner))


def make_card(heading: str, *paragraphs: Any) -> Markup:
    """Make a box of a few sentences."""
    body = Markup("").join(Markup("<p>{}</p>").format(one) for one in paragraphs)
    return Markup('<div class="card"><h3>{}</h3><div class="small">{}</div></div>').format(heading, body)


def make_columns(*blocks: Markup) -> Markup:
    """Put blocks beside one another, as many as there is room for."""
    return Markup('<div class="columns">{}</div>').format(Markup("").join(blocks))


def make_wide_columns(left: Markup, *right: Markup) -> Markup:
    """Put something wide beside blocks."""
    return Markup('<div class="wide"><div>{}</div><div>{}</div></div>').format(left, Markup("").join(right))


def make_picture(drawn: Markup, caption: Any, *, class_: str = "") -> Markup:
    """Make a figure with its caption; a map has the class ``map``."""
    return Markup('<figure class="{}">{}<figcaption>{}</figcaption></figure>').format(class_, drawn, caption)


def make_map_grid(*figures: Markup) -> Markup:
    """Put many small figures without texts of their own beside one another."""
    return Markup('<div class="small-maps">{}</div>').format(Markup("").join(figures))


def make_fact_list(facts: Iterable[Fact]) -> Markup:
    """Show figures."""
    shown = Markup("").join(
        Markup("<li{}><b>{}</b><span>{}</span></li>").format(
            Markup(' class="{}-fact"').format(kind) if kind else "", value, words
        )
        for value, words, kind in facts
    )
    return Markup('<ul class="facts">{}</ul>').format(shown)


def make_legend(entries: Iterable[tuple[str, str]]) -> Markup:
    """Say what colours mean: classes of marks, and words."""
    shown = Markup("").join(
        Markup('<li><i style="background:var(--{})"></i>{}</li>').format(class_, words) for class_, words in entries
    )
    return Markup('<ul class="legend">{}</ul>').format(shown)


def make_table(
    head: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str = "", numbers: Sequence[int] = ()
) -> Markup:
    """Lay rows out; the first cell of a row is its heading, and the columns of `numbers` are aligned to the right.

    On a phone each row is a block, its cells one below another with the column's name.
    """
    element = Markup("<caption>{}</caption>").format(caption) if caption else Markup("")
    return _wrap_table(head, Markup("<tbody>{}</tbody>").format(_make_rows(head, rows, numbers)), numbers, element)


def make_grouped_table(head: Sequence[str], groups: Iterable[tuple[Any, Iterable[Sequence[Any]]]]) -> Markup:
    """Lay rows out in groups, each under a heading of its own, so that all have the same columns."""
    body = Markup('<tbody><tr><th scope="rowgroup" colspan="{}">{}</th></tr>{}</tbody>')
    return _wrap_table(
        head, Markup("").join(body.format(len(head), title, _make_rows(head, rows, ())) for title, rows in groups)
    )


def _wrap_table(head: Sequence[str], body: Markup, numbers: Sequence[int] = (), caption: str = "") -> Markup:
    heads = Markup("").join(
        Markup('<th scope="col"{}>{}</th>').format(_align_number(place, numbers), name)
        for place, name in enumerate(head)
    )
    return Markup('<table class="stacked">{}<thead><tr>{}</tr></thead>{}</table>').format(caption, heads, body)


def _make_rows(head: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Sequence[int]) -> Markup:
    cell = Markup('<td{} data-name="{}">{}</td>')
    return Markup("").join(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            row[0], Markup("").join(cell.format(_align_number(n, numbers), head[n], row[n]) for n in range(1, len(row)))
        )
        for row in rows
    )


def _align_number(place: int, numbers: Sequence[int]) -> Markup:
    return Markup(' class="number"') if place in numbers else Markup("")


def make_code_block(text: str) -> Markup:
    """Show commands or SQL as they are typed."""
    return Markup("<pre><code>{}</code></pre>").format(make_visible(text, keeps_line_ends=True))


def make_signature_lines(*lines: str) -> Markup:
    """Make lines to sign."""
    shown = Markup("").join(Markup("<div>{}</div>").format(line) for line in lines)
    return Markup('<div class="lines">{}</div>').format(shown)


def make_code_name(text: Any) -> Markup:
    """Show a name as it is typed."""
    return Markup("<code>{}</code>").format(isolate(text))
