"""The table of judges that the terminal and notebooks show, and the notebook's view of a whole evaluation."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from crowdwise.labels.unseen_characters import escape_letters

if TYPE_CHECKING:
    from crowdwise.judges.agreement_with_people import Estimate
    from crowdwise.judges.panel_evaluation import PanelEvaluation

__all__ = ["show_in_notebook", "tabulate_judges"]

MOST_JUDGES = 40  # that are listed


def tabulate_judges(found: PanelEvaluation) -> tuple[list[str], list[list[str]]]:
    """Names of the columns, and a row for each judge as text, the best first; the first column is the judge's name."""
    with_people, repeated = found.humans is not None, any(judge.n_repeated for judge in found.judges)
    rows = []
    order = sorted(found.judges, key=lambda each: -(each.accuracy.value if each.accuracy.n else 0.0))
    for judge in order[:MOST_JUDGES]:
        test = judge.replaces
        row = [judge.name]
        if with_people and test is not None:
            rates = (test.winning_rate, test.advantage)
            row += [_range(judge.accuracy), *("–" if test.skipped else f"{rate:.2f}" for rate in rates)]
        row += [f"{judge.n_answers:,}", f"{judge.unparseable:,}"]
        if repeated:
            row.append(f"{judge.consistency:.1%}" if judge.n_repeated else "–")
        rows.append(row)
    columns = ["judge", *(["agrees with people", "ω", "ρ"] if with_people else []), "votes", "unparsed"]
    return columns + (["consistent"] if repeated else []), rows


def show_in_notebook(found: PanelEvaluation) -> str:
    """The table and the sentences as HTML without any script; names are escaped."""
    columns, rows = tabulate_judges(found)
    head = "".join(f"<th>{name}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_inert(cell)}</td>' for cell in row)}</tr>" for row in rows)
    sentences = "".join(f"<li>{_inert(sentence)}</li>" for sentence in found.sentences())
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><ul>{sentences}</ul>"


def _inert(text: str) -> str:
    return escape(escape_letters(text))


def _range(estimate: Estimate) -> str:
    return f"{estimate.value:.1%} ({100 * estimate.low:.0f}–{100 * estimate.high:.0f})" if estimate.n else "–"
