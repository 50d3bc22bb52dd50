"""How often the audit of answers names someone in an honest crowd, and how many planted workers it finds.

Every kind's own simulator makes honest crowds; in the other half of the crowds, two workers' answers are dealt anew
among the questions that they answered, so that they say nothing.

Run with: python benchmarks/answer_audit.py --crowds 40
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa

from crowdwise.audit.answer_audit import audit_answers
from crowdwise.kinds import kinds
from crowdwise.labels.errors import InputWarning

PLANTED = 2


def deal_anew(answers, workers, generator):
    """The same answers, those of some workers in another order."""
    order = np.arange(answers.n_answers)
    for worker in workers:
        rows = np.flatnonzero(answers.worker == worker)
        if answers.kind == "rankings":  # ranks have a meaning within a ranking alone
            for ranking in np.unique(answers.ranking[rows]):
                same = rows[answers.ranking[rows] == ranking]
                order[same] = generator.permutation(same)
        else:
            order[rows] = generator.permutation(rows)
    shuffled = {}
    for name in answers.said:
        values = getattr(answers, name)
        shuffled[name] = values.take(pa.array(order)) if isinstance(values, pa.Array) else values[order]
    return replace(answers, **shuffled)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--crowds", type=int, default=20)
    parser.add_argument("--kinds", default="")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", InputWarning)
    print(f"{'kind':14} {'false alarms':>14} {'found':>8} {'innocent named':>16}")
    for kind in kinds():
        if arguments.kinds and kind.name not in arguments.kinds.split(","):
            continue
        alarms = found = innocent = 0
        for seed in range(arguments.crowds):
            answers = kind.simulate(random_state=seed).answers
            alarms += any(each.kind != "leaning" for each in audit_answers(answers).findings)
            generator = np.random.default_rng(seed)
            planted = generator.choice(answers.n_workers, PLANTED, replace=False)
            told = audit_answers(deal_anew(answers, planted, generator)).findings
            names = {name for each in told if each.kind in ("unreliable", "opposite") for name in each.names}
            guilty = {answers.workers[int(worker)].as_py() for worker in planted}
            found += len(names & guilty)
            innocent += len(names - guilty)
        shares = f"{alarms / arguments.crowds:14.3f} {found / PLANTED / arguments.crowds:8.2f}"
        print(f"{kind.name:14} {shares} {innocent:16}", flush=True)


if __name__ == "__main__":
    main()
