"""How far the matrices of trace regularisation come in so many steps, beside a classifier that is right from the start.

Matrices start near the identity, and Adam moves a parameter by at most its rate at each step. What is left of their
error after the steps of a table is then no fault of the labels or of the classifier. Crowds of Tanno et al. 2019; the
rates, batches and epochs are those of the tables tanno-mnist-cnn and tanno-table-1, with the trace (λ = 0.01) and
without. Printed is the error × 100 after every fourth epoch.

    python benchmarks/matrix_rates.py           # three minutes on a core
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from crowdwise.learn.worker_models import Confusions
from crowdwise.metrics.with_truth import confusion_error
from crowdwise.reproduction.crowd_of_run import draw_crowd

RATE = 1e-3
SURE = 0.99  # the classifier's probability of the true class
FLIPPERS = {"name": "pairwise-flippers", "dominant": True, "n_workers": 5}
# crowd, tasks, epochs, tasks of a batch, epochs at the full rate (a tenth of it afterwards)
RUNS: list[tuple[str, dict[str, Any], int, int, int, int]] = [
    *((f"flippers {skill}", FLIPPERS | {"skill": skill}, 54_000, 12, 200, 12) for skill in (0.4, 0.35, 0.3)),
    ("annotators, dense", {"name": "cifar-annotators"}, 45_000, 16, 100, 12),
    ("annotators, one label", {"name": "cifar-annotators", "labels_per_task": 1}, 45_000, 16, 100, 12),
]


def errors(crowd: dict[str, Any], n_tasks: int, epochs: int, size: int, full: int, strength: float) -> list[float]:
    """The error × 100 after each epoch."""
    torch.manual_seed(0)
    truth = np.random.default_rng(0).integers(10, size=n_tasks)
    drawn = draw_crowd(crowd, 0, truth)
    labels, n_workers = drawn.labels, drawn.labels.n_workers
    said = torch.full((n_tasks, n_workers), -1)
    said[labels.task.astype(int), labels.worker.astype(int)] = torch.as_tensor(labels.label.astype(int))
    f = torch.full((n_tasks, 10), (1 - SURE) / 9)
    f[torch.arange(n_tasks), torch.as_tensor(truth)] = SURE
    matrices = Confusions(n_workers, 10)
    adam = torch.optim.Adam(matrices.parameters())
    found = []
    for epoch in range(epochs):
        adam.param_groups[0]["lr"] = RATE if epoch < full else RATE / 10
        for batch in torch.randperm(n_tasks).split(size):
            chance = torch.einsum("bk,wkl->bwl", f[batch], matrices())
            given = said[batch] >= 0
            log_chance = chance.gather(2, said[batch].clamp(min=0)[:, :, None])[:, :, 0].log()
            loss = -(log_chance * given).sum() / len(batch) + strength * matrices.mean_trace()
            adam.zero_grad()
            loss.backward()
            adam.step()
        found.append(100 * confusion_error(drawn.confusion, matrices().detach().numpy()))
    return found


def main() -> None:
    torch.set_num_threads(1)
    for name, crowd, n_tasks, epochs, size, full in RUNS:
        for strength in (0.01, 0.0):
            found = errors(crowd, n_tasks, epochs, size, full, strength)
            print(f"{name}, λ = {strength:g}: {', '.join(f'{each:.2f}' for each in found[3::4])}", flush=True)


if __name__ == "__main__":
    main()
