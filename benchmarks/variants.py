"""Methods as they come beside the same as their papers print them, on the fourteen real crowds with truth.

    python benchmarks/variants.py                   # ten minutes; CROWDWISE_DATA must hold the sets
    python benchmarks/variants.py bluebird dog      # these; the results of the others are kept

Accuracy over the tasks with truth; ties by rule. No truth is used by any method. "Without spammers" leaves out those
whom the covariance method finds. Groups are those that are found, so that crowds without any have Dawid–Skene's number.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crowdwise as cw
from crowdwise.audit.covariance_spammers import MOST_WORKERS, find_covariance_spammers
from crowdwise.metrics.with_truth import accuracy

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = Path(__file__).parent / "results" / "variants.json"
SETS = ["bluebird", "dog", "web", "rte", "temp", "sp", "zencrowd_us", "adult2", "fact_eval", "ducks"]
SETS += ["labelme", "music", "imagenet15n", "cifar10h"]


def without_spammers(recovery: str) -> Callable[[cw.CrowdLabels], Any]:
    """Dawid–Skene of the labels that the covariance method leaves."""

    def fit(labels: cw.CrowdLabels) -> Any:
        if labels.n_workers > MOST_WORKERS:
            return None
        out = find_covariance_spammers(labels, recovery=recovery)
        return cw.DawidSkene(max_iter=2000).fit(labels.keep(~out[labels.worker]))

    return fit


VARIANTS: dict[str, Callable[[cw.CrowdLabels], Any]] = {
    "DS from the shares of votes": cw.DawidSkene(max_iter=2000).fit,
    "DS from the winners of the vote": cw.DawidSkene(init="majority", max_iter=2000).fit,
    "the same, pseudo-count 1: shares": cw.DawidSkene(smoothing=1.0, max_iter=2000).fit,
    "the same, pseudo-count 1: winners": cw.DawidSkene(init="majority", smoothing=1.0, max_iter=2000).fit,
    "CNMF, pairs by shared tasks": cw.CoupledNmf().fit,
    "CNMF, pairs alike": cw.CoupledNmf(weighting="equal").fit,
    "CPD, triplets by shared tasks": cw.CoupledCpd().fit,
    "CPD, triplets alike": cw.CoupledCpd(weighting="equal").fit,
    "DS without spammers, weighted": without_spammers("weighted"),
    "DS without spammers, eigenvectors": without_spammers("eigenvectors"),
    "groups, joint EM": cw.GroupDawidSkene().fit,
    "groups in stages, DS inside": cw.GroupDawidSkene(fusion="dawid-skene").fit,
    "groups in stages, vote inside": cw.GroupDawidSkene(fusion="majority-vote").fit,
}


def main() -> None:
    warnings.simplefilter("ignore")
    rows = {row["data"]: row for row in json.loads(RESULTS.read_text())} if RESULTS.exists() else {}
    for name in sys.argv[1:] or SETS:
        data = cw.datasets.load(name)
        row: dict[str, Any] = {"data": name}
        for variant, fit in VARIANTS.items():
            model = fit(data.labels)
            row[variant] = None
            if model is not None:
                names = model.predict()
                codes = data.labels.classes.to_pylist()
                row[variant] = round(accuracy(data.truth_codes, [codes.index(each) for each in names.tolist()]), 4)
        rows[name] = row
        print(json.dumps(row), flush=True)
        kept = [rows[each] for each in SETS if each in rows]
        RESULTS.write_text("[\n " + ",\n ".join(map(json.dumps, kept)) + "\n]\n")


if __name__ == "__main__":
    main()
