"""Make the tables of the README and of docs/ from the registries and from benchmarks/results.

python docs/make.py                      # write them
python docs/make.py --check              # fail if one is out of date
python docs/make.py --check --registry   # look only at what follows from the registry, not at measurements
"""

from __future__ import annotations

import argparse
import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

from compare_tables import compare_tables
from figure import Row, drawn

import crowdwise as cw
from crowdwise.audit.audit_tests import audit_tests
from crowdwise.fitting.method_facts import FAMILIES, LEARNER_FAMILIES
from reproduction import FOLDER
from reproduction import pages as reproduction_pages

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.registry import LearnerEntry, Method

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"
LEARNING_SETS = {"labelme": "LabelMe", "music": "Music"}  # the first is what the table is sorted by
PEER = "ck:"  # as benchmarks/accuracy.py marks crowd-kit's


def table(headings: list[str], rows: list[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def methods() -> str:
    return table(
        ["method", "class", "assumes", "paper"],
        [[f"`{entry.slug}`", f"`{entry.class_name}`", entry.summary, entry.paper] for entry in cw.methods()],
    )


def audit() -> str:
    kinds = [kind for test in audit_tests() for kind in test.kinds if kind.means]
    return table(["finding", "means", "assumes, or needs"], [[kind.name, kind.means, kind.assumes] for kind in kinds])


def league() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / "accuracy.json").read_text())
    return found


def standings(found: dict[str, Any]) -> list[Standing]:
    """Every method, best mean accuracy first; those without a result for some data set follow."""
    places: dict[str, Standing] = {}
    for row in found["rows"]:
        place = places.setdefault(row["method"], Standing(row["method"]))
        place.rows[row["data"]] = row
    for place in places.values():
        place.sets = [name for name in found["sets"] if place.accuracy(name) is not None]
    full = len(found["sets"])
    return sorted(
        (place for place in places.values() if place.sets),
        key=lambda place: (len(place.sets) < full, -place.mean("accuracy")),
    )


@dataclass
class Standing:
    """A method's rows by data set, and the data sets of the league for which it has an accuracy."""

    method: str
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    sets: list[str] = field(default_factory=list)

    @property
    def peer(self) -> bool:
        """Whether it is crowd-kit's."""
        return self.method.startswith(PEER)

    @property
    def name(self) -> str:
        """Its name in its own package."""
        return self.method.removeprefix(PEER)

    @property
    def title(self) -> str:
        """Its name in a table."""
        if self.peer:
            return f"crowd-kit {self.name}"
        return f"`{self.name}`" + ("†" if cw.method(self.name).needs else "")

    def accuracy(self, name: str) -> float | None:
        """Accuracy on a data set, if there is one."""
        value: float | None = self.rows.get(name, {}).get("accuracy")
        return value

    def mean(self, what: str) -> float:
        """Mean over the league's data sets that it has; NaN where one of them lacks this figure."""
        return fmean(math.nan if (value := self.rows[name].get(what)) is None else value for name in self.sets)


def short(value: float | None) -> str:
    """Three digits, as accuracies are printed: .873."""
    return "–" if value is None or math.isnan(value) else f"{value:.3f}".removeprefix("0")


def accuracy() -> str:
    found = league()
    places = standings(found)
    complete = [place for place in places if len(place.sets) == len(found["sets"])]
    best = next(place for place in complete if not place.peer and place.name != "auto")
    peer = next((place for place in complete if place.peer), None)
    wanted = list(
        dict.fromkeys(["majority-vote", "dawid-skene", best.method, "auto", *([peer.method] if peer else [])])
    )
    shown = sorted(
        (place for place in complete if place.method in wanted), key=lambda place: wanted.index(place.method)
    )
    lines = [[name, *(short(place.accuracy(name)) for place in shown)] for name in found["sets"]]
    lines.append(["**mean**", *(f"**{short(place.mean('accuracy'))}**" for place in shown)])
    note = (
        "Accuracy over the tasks with truth, default parameters, ties by rule, `python benchmarks/accuracy.py`. "
        f"Shown: two classics, the best single method on average ({best.title}), `auto`"
        + (f", and the best aggregator of crowd-kit {found['versions']['crowd-kit']}" if peer else "")
        + ". All methods: [docs/league.md](docs/league.md). The data sets are not part of this repository; "
        "`crowdwise.datasets` says where to put them."
    )
    return f"{table(['data set', *(place.title for place in shown)], lines)}\n\n{note}"


def league_page() -> str:
    found = league()
    places = standings(found)
    base = next(place for place in places if place.method == "majority-vote")
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items() if name != "crowdwise")
    summary = []
    for place in places:
        gain = place.mean("accuracy") - fmean(base.accuracy(name) or 0.0 for name in place.sets)
        short_of = f" ({len(place.sets)} of {len(found['sets'])} sets)" if len(place.sets) < len(found["sets"]) else ""
        summary.append(
            [
                place.title + short_of,
                short(place.mean("accuracy")),
                f"{100 * gain:+.1f}",
                short(place.mean("calibration_error")),
                short(place.mean("log_loss")),
                f"{sum(place.rows[name]['seconds'] for name in place.sets):.3g} s",
            ]
        )
    every = [[place.title, *(short(place.accuracy(name)) for name in found["sets"])] for place in places]
    apart = [[place.title, *(short(place.accuracy(name)) for name in found["apart"])] for place in places]
    missing = [
        f"- {place.title}, {name}: {place.rows.get(name, {}).get('note', 'not measured')}"
        for place in places
        for name in found["sets"]
        if place.accuracy(name) is None
    ]
    seeds = ", ".join(f"`{entry.slug}`" for entry in cw.methods() if entry.random)
    return f"""# The league

Made by `docs/make.py` from `benchmarks/results/accuracy.json` (`python benchmarks/accuracy.py`).

Every method with its default parameters on {len(found["sets"])} public data sets, none of which it was told the truth
of; and every aggregator of crowd-kit on the same tables. A mean over data sets is a rough guide: no method is best
everywhere, and a difference of a point is within chance on most of these sets. [Which method when](choosing.md) says
what each assumes.

![Accuracy of every method](league.svg)

## Means

The gain is on majority vote, in points, over the same data sets. The calibration error (15 bins; lower is better) says
how far the confidence is from the share that is right; the log loss is the mean of -log P(truth), where a probability
of 0 counts as 1e-15. Those of `auto` here are with its defaults, which were chosen in sight of these sets; on sets left
out in turn they are in [Which method when](choosing.md#how-auto-was-chosen). Seconds are for one fit of every set,
together, once compiled; some were taken by the wall clock of a busy machine, so they are a rough guide.

{table(["method", "accuracy", "gain", "calibration error", "log loss", "seconds"], summary)}

† made for sequences or a graph of tasks; here it has none.

Ties are broken by rule in our methods and as crowd-kit does in its own. Tasks that an aggregator leaves out count as
wrong. Means over seeds 0–4 (seed 0 alone where a fit takes long): {seeds}. crowd-kit's `KOS` is for two
classes, and its `KOS` and `MMSR` give no probabilities. Measured on {found["machine"]}; {versions}.

## Accuracy by data set

{table(["method", *found["sets"]], every)}

## Two more data sets

cifar10n has three (merged) workers, ner_crowd is sequences of words, told to no method here; accuracy of ner_crowd is
over words, most of which are outside any name.

{table(["method", *found["apart"]], apart)}

## No result

{chr(10).join(missing) or "Every method gave a result for every data set it is made for."}
"""


def league_figure() -> str:
    found = league()
    rows = []
    for place in standings(found):
        accuracies = {name: place.rows[name]["accuracy"] for name in place.sets}
        kind = "peer" if place.peer else "auto" if place.name == "auto" else "ours"
        note = "" if len(place.sets) == len(found["sets"]) else f"{len(place.sets)} of {len(found['sets'])} sets"
        rows.append(Row(place.title.replace("`", ""), kind, accuracies, place.mean("accuracy"), note))
    rows.sort(key=lambda row: row.kind != "auto")
    return drawn(rows, n_sets=len(found["sets"]))


def speed() -> str:
    found = json.loads((RESULTS / "aggregation.json").read_text())
    lines = []
    for row in found["rows"]:
        if row["who"] == "crowdwise":
            same = {
                other["who"]: other
                for other in found["rows"]
                if (other["method"], other["labels"]) == (row["method"], row["labels"])
            }
            peer, bare = same["crowd-kit"], same.get("bare")
            lines.append(
                [
                    f"`{row['method']}`",
                    f"{row['labels']:,}",
                    f"{row['seconds']:.3g} s",
                    f"{peer['seconds']:.3g} s",
                    f"{peer['ratio']:.0f} ×",
                    f"{row['peak_mb']:.0f} / {peer['peak_mb']:.0f} MB",
                    "" if bare is None else f"{row['seconds'] / bare['seconds']:.2f}",
                ]
            )
    headings = ["method", "labels", "crowdwise", "crowd-kit", "faster", "peak memory", "× a bare loop"]
    note = (
        f"`make benchmark`, each case in one run on {found['machine']}: 10 classes, 5 labels a task, 20 EM iterations "
        "(GLAD: one), from an integer table in memory to the posterior, two threads. Compiling, once on a machine, is "
        "apart. The last column compares with a loop that has nothing around it (`benchmarks/bare.py`)."
    )
    return f"{table(headings, lines)}\n\n{note}"


def families() -> str:
    """Every method under its family."""
    parts = []
    for family in FAMILIES:
        parts.append(f"### {family.name}\n\n{family.words}")
        parts += [one_method(entry) for entry in cw.methods() if entry.family == family.name]
    return "\n\n".join(parts)


def compared() -> str:
    """How far `compare` can be trusted."""
    return compare_tables(RESULTS / "compare_ranking.json", table)


def generalisation() -> str:
    """`auto` on sets left out in turn."""
    found = json.loads((RESULTS / "auto_generalisation.json").read_text())
    rows = {row["crowd"]: row for row in found["rows"]}
    lines = []
    for name, exponent in found["summary"]["chosen"].items():
        row = rows[name]
        _, low, high = row["expected"]
        scores = [*row["scores"][exponent], row["majority_vote"]]
        lines.append(
            [name, exponent, *(short(value) for value in scores), f"{row['wrong']:,} ({low:,.0f} to {high:,.0f})"]
        )
    means = [found["summary"][what] for what in ("accuracy", "calibration_error", "log_loss")]
    vote = fmean(rows[name]["majority_vote"] for name in found["summary"]["chosen"])
    lines.append(["**mean**", "", *(f"**{short(value)}**" for value in (*means, vote)), ""])
    held, judged = found["summary"]["interval_holds"]
    headings = ["left out", "γ", "accuracy", "calibration error", "log loss", "vote", "wrong (stated interval)"]
    note = (
        f"The interval of wrong answers (γ = 0.4) held their number in {held} of {judged} crowds: these fourteen, and "
        f"{judged - len(lines) + 1} simulated ones (independent, dependent, and misled on a tenth of the tasks)."
    )
    return f"{table(headings, lines)}\n\n{note}"


def variants() -> str:
    """Methods as they come beside the same as their papers print them."""
    rows = json.loads((RESULTS / "variants.json").read_text())
    names = [name for name in rows[0] if name != "data"]
    lines = []
    for name in names:
        values = [row[name] for row in rows]
        mean = short(fmean(value for value in values if value is not None))
        lines.append([name, *(short(value) for value in values), f"**{mean}**"])
    return table(["", *(row["data"] for row in rows), "mean"], lines)


def one_method(entry: Method) -> str:
    told = ", ".join(f"`{name}`" for name in entry.uses) or "nothing besides the labels"
    habits = ["climbs an objective that never falls" if entry.climbs else "has no objective to climb"]
    if entry.random:
        habits.append("draws at random (`random_state`)")
    if entry.needs:
        habits.append(f"is made for {'sequences' if entry.needs == 'sequences' else 'a graph'} of tasks")
    return (
        f"#### {entry.slug}\n\n`crowdwise.{entry.class_name}` · {entry.paper}\n\n"
        f"- **Assumes**: {entry.summary}.\n- **Do not use it when**: {entry.fails}.\n"
        f"- **Can be told**: {told}. **Cost**: {entry.complexity}. It {' and '.join(habits)}."
    )


def learners() -> str:
    """Every learner under its family."""
    headings = ["method", "class", "assumes", "fails", "paper"]
    parts = []
    for family in LEARNER_FAMILIES:
        rows = [one_learner(entry) for entry in cw.learners(None) if entry.family == family.name]
        parts.append(f"### {family.name}\n\n{family.words}\n\n{table(headings, rows)}")
    return "\n\n".join(parts)


def one_learner(entry: LearnerEntry) -> list[str]:
    given = ", ".join(f"{name}={value!r}".replace("'", '"') for name, value in entry.parameters.items())
    made = f"{entry.class_name}({given})" if given else entry.class_name
    return [f"`{entry.slug}`", f"`{made}`", entry.summary, entry.fails, entry.paper]


def learning(results: Path = RESULTS / "learning.json") -> str:
    """The league of learners and, below it, of aggregators; a line on how to measure it, where nothing was measured."""
    found = json.loads(results.read_text()) if results.exists() else {"rows": []}
    if not found["rows"]:
        return "Not measured yet: `python benchmarks/learning.py`, then `make docs`."
    sets = [name for name in LEARNING_SETS if any(row["data"] == name for row in found["rows"])]
    rows: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in found["rows"]:
        rows.setdefault(row["method"], {name: [] for name in sets})[row["data"]].append(row)
    most = max(len(mine) for each in rows.values() for mine in each.values())

    def place(slug: str) -> tuple[bool, float, str]:
        mine = rows[slug][sets[0]]
        return (not mine, -fmean(row["accuracy"] for row in mine) if mine else 0.0, slug)

    lines = []
    for slug in sorted(rows, key=place):
        seeds = sorted({len(mine) for mine in rows[slug].values() if mine})
        note = "" if seeds == [most] else f" ({' or '.join(map(str, seeds))} of {most} seeds)"
        cells = [spread(mine, what) for mine in rows[slug].values() for what in ("accuracy", "consensus")]
        lines.append([f"`{slug}`{note}", *cells])
    only = found["labels_only"]
    aggregators = {slug for name in sets for slug in only.get(name, {})}
    for slug in sorted(aggregators, key=lambda slug: (-only.get(sets[0], {}).get(slug, 0.0), slug)):
        cells = [cell for name in sets for cell in ("–", short(only.get(name, {}).get(slug)))]
        lines.append([f"`{slug}`, labels only", *cells])
    headings = [f"{LEARNING_SETS[name]}, {what}" for name in sets for what in ("test", "consensus")]
    note = (
        "Test: accuracy on tasks that nobody labelled, from the features alone. Consensus: accuracy on the training "
        "tasks, from features and labels together; of the aggregators at the end, which see no features, from labels. "
        f"Mean ± standard deviation over {most} seeds; default parameters (but Max-MIG on LabelMe: 1e-4, "
        "as Cao et al. 2019, and 100 epochs), an MLP, the epoch by held-out labels; "
        "no truth was used in any fit. `python benchmarks/learning.py`."
    )
    return f"{table(['method', *headings], lines)}\n\n{note}"


def spread(rows: list[dict[str, Any]], what: str) -> str:
    """Mean and standard deviation of a figure over runs: .845 ± .012."""
    values = [row[what] for row in rows]
    return f"{short(fmean(values))} ± {short(pstdev(values))}" if values else "–"


def filled(path: Path, text: str, makers: dict[str, Callable[[], str]]) -> str:
    for name, make in makers.items():
        pattern = rf"(<!-- {name}: [^>]*-->\n).*?(<!-- end -->)"
        made = make()
        text, count = re.subn(pattern, lambda found, made=made: f"{found[1]}{made}\n{found[2]}", text, flags=re.DOTALL)
        if count != 1:
            raise SystemExit(f"{path.name} has {count} places for {name}; it needs one")
    return text


def pages(*, measured: bool) -> dict[Path, str]:
    """What every page should say; without `measured`, its measured parts are taken as they are."""
    readme, choosing, classifiers = ROOT / "README.md", DOCS / "choosing.md", DOCS / "learning.md"
    auditing = DOCS / "audit.md"
    makers = {"methods": methods} | ({"accuracy": accuracy, "speed": speed} if measured else {})
    made = {
        readme: filled(readme, readme.read_text(), makers),
        choosing: filled(
            choosing,
            choosing.read_text(),
            {"families": families}
            | ({"compare": compared, "generalisation": generalisation, "variants": variants} if measured else {}),
        ),
        auditing: filled(auditing, auditing.read_text(), {"audit": audit}),
        classifiers: filled(
            classifiers, classifiers.read_text(), {"learners": learners} | ({"learning": learning} if measured else {})
        ),
    }
    if measured:
        made |= {DOCS / "league.md": league_page(), DOCS / "league.svg": league_figure()}
        made |= reproduction_pages(DOCS, RESULTS / "tables")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    parser.add_argument("--registry", action="store_true", help="only what follows from the registry")
    arguments = parser.parse_args()
    made = pages(measured=not arguments.registry)
    stale = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    left = [] if arguments.registry else [path for path in sorted((DOCS / FOLDER).glob("*")) if path not in made]
    if arguments.check and (stale or left):
        raise SystemExit(f"out of date: {', '.join(path.name for path in (*stale, *left))}; run make docs")
    for path in left:
        path.unlink()
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(made[path], encoding="utf-8")


if __name__ == "__main__":
    main()
