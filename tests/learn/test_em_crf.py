"""EM with a CRF: every path enumerated on tiny chains; whole sequences in batches; what a chain adds."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
import torch

import crowdwise as cw
from crowdwise.labels.sequences import read_sequences
from crowdwise.learn import em_crf
from crowdwise.learn.batches import Batch, Crowd, NetworkOutput, batches
from crowdwise.learn.em_crf import EmCrfObjective, log_partition, marginals, pad_sequences
from crowdwise.learn.features import make_features

QUIET = "ignore::crowdwise.learn.identifiability.NotIdentifiable"
LENGTHS = (3, 1, 4)
NAMES = [f"{number}_{place}" for number, length in enumerate(LENGTHS) for place in range(length)]


def potentials(n_classes: int = 3, seed: int = 0):
    """Of the tasks of three chains, one after another, and of starts and steps."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> torch.Tensor:
        return 2 * torch.randn(*shape, generator=generator, dtype=torch.float64)

    first = torch.tensor([place == 0 for length in LENGTHS for place in range(length)])
    return drawn(sum(LENGTHS), n_classes), first, drawn(n_classes), drawn(n_classes, n_classes)


def enumerated(nodes, start, steps):
    """Log of the sum over the paths of one chain, and the probability of each class at each place."""
    length, n_classes = nodes.shape
    total, each = 0.0, np.zeros((length, n_classes))
    for path in itertools.product(range(n_classes), repeat=length):
        score = start[path[0]] + sum(nodes[place, k] for place, k in enumerate(path))
        score += sum(steps[a, b] for a, b in itertools.pairwise(path))
        weight = np.exp(score)
        total += weight
        each[np.arange(length), list(path)] += weight
    return np.log(total), each / total


@pytest.mark.parametrize("n_classes", [2, 3])
def test_partition_and_marginals_are_sums_over_all_paths(n_classes: int) -> None:
    nodes, first, start, steps = potentials(n_classes)
    place, real = pad_sequences(first)
    found, posterior = log_partition(nodes[place], real, start, steps), marginals(nodes, first, start, steps)
    low = 0
    for number, length in enumerate(LENGTHS):
        total, each = enumerated(nodes[low : low + length].numpy(), start.numpy(), steps.numpy())
        assert float(found[number]) == pytest.approx(total, abs=1e-10)
        np.testing.assert_allclose(posterior[low : low + length], each, atol=1e-10)
        low += length


def test_marginals_in_parts_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = marginals(*potentials())
    for together in (1, 3, 5):
        monkeypatch.setattr(em_crf, "TOGETHER", together)
        torch.testing.assert_close(marginals(*potentials()), whole)


def crowd_and_objective(n_classes: int = 3, seed: int = 0):
    rng = np.random.default_rng(seed)
    said = rng.integers(n_classes, size=(len(NAMES), 3))
    said[rng.random(said.shape) < 0.3] = -1
    said[:n_classes, 0] = np.arange(n_classes)
    shuffled = rng.permutation(len(NAMES))  # rows do not stand in the order of the sequences
    names = [NAMES[row] for row in shuffled]
    crowd = Crowd(cw.CrowdLabels.from_dense(said, tasks=names))
    objective = EmCrfObjective(crowd, read_sequences("names", names), 0.1).double()
    with torch.no_grad():
        _, _, start, steps = potentials(n_classes, seed=1)
        objective.start.copy_(start)
        objective.steps.copy_(steps)
    return crowd, objective, said, names


def chains_of(names: list[str]) -> list[list[int]]:
    """Rows of each sequence in order."""
    return [[names.index(f"{number}_{place}") for place in range(length)] for number, length in enumerate(LENGTHS)]


def test_loss_is_the_likelihood_of_the_labels() -> None:
    # log P(labels | x) = log Σ over paths of P(path | x) Π A[w, path, label], every path enumerated.
    crowd, objective, said, names = crowd_and_objective()
    logits = torch.randn(len(names), 3, dtype=torch.float64, requires_grad=True)
    order, sizes = objective.arrange_batches(torch.arange(len(names)), 100)
    (batch,) = batches(make_features(np.zeros((len(names), 1))), crowd, order, sizes)
    seen = NetworkOutput(logits[batch.task], logits[batch.task])
    found = objective.loss(seen, batch)
    matrices, nodes = objective.matrices.numpy(), logits.detach().numpy()
    wanted = 0.0
    for rows in chains_of(names):
        free, _ = enumerated(nodes[rows], objective.start.detach().numpy(), objective.steps.detach().numpy())
        bound = nodes[rows].copy()
        for place, row in enumerate(rows):
            for worker in np.flatnonzero(said[row] >= 0):
                bound[place] += np.log(matrices[worker, :, said[row, worker]])
        given, _ = enumerated(bound, objective.start.detach().numpy(), objective.steps.detach().numpy())
        wanted -= given - free
    assert found.item() == pytest.approx(wanted / len(names), abs=1e-8)

    def loss_of(values: torch.Tensor, start: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        given = {"objective.start": start, "objective.steps": steps}
        return torch.func.functional_call(_Loss(objective), given, (NetworkOutput(values[batch.task], values), batch))

    free_inputs = [value.detach().clone().requires_grad_() for value in (logits, objective.start, objective.steps)]
    assert torch.autograd.gradcheck(loss_of, free_inputs)


class _Loss(torch.nn.Module):
    def __init__(self, objective: EmCrfObjective) -> None:
        super().__init__()
        self.objective = objective

    def forward(self, seen: NetworkOutput, batch: Batch) -> torch.Tensor:
        return self.objective.loss(seen, batch)


def test_posterior_is_that_of_all_paths_wherever_the_rows_stand() -> None:
    crowd, objective, said, names = crowd_and_objective(seed=3)
    log_f = torch.randn(len(names), 3, dtype=torch.float64).log_softmax(dim=1)
    found = objective.log_posterior(log_f, crowd.task, crowd.worker, crowd.label, objective.matrices).exp().detach()
    matrices = objective.matrices.numpy()
    for rows in chains_of(names):
        bound = log_f.numpy()[rows]
        for place, row in enumerate(rows):
            for worker in np.flatnonzero(said[row] >= 0):
                bound[place] += np.log(matrices[worker, :, said[row, worker]])
        _, each = enumerated(bound, objective.start.detach().numpy(), objective.steps.detach().numpy())
        np.testing.assert_allclose(found[rows], each, atol=1e-8)


def test_matrices_are_expected_answers() -> None:
    crowd, objective, said, names = crowd_and_objective()
    log_f = torch.randn(len(names), 3, dtype=torch.float64).log_softmax(dim=1)
    posterior = objective.log_posterior(log_f, crowd.task, crowd.worker, crowd.label, objective.matrices).exp()
    counts = np.full((3, 3, 3), 0.1)
    for row, worker in zip(*np.nonzero(said >= 0), strict=True):
        counts[worker, :, said[row, worker]] += posterior[row].detach().numpy()
    objective.begin_epoch(0, lambda: log_f)
    votes = objective.matrices.clone()
    objective.begin_epoch(1, lambda: log_f)
    np.testing.assert_allclose(objective.matrices, counts / counts.sum(axis=2, keepdims=True), atol=1e-9)
    assert not torch.allclose(votes, objective.matrices)


@pytest.mark.parametrize("size", [1, 2, 4, 5, 100])
def test_batches_hold_whole_sequences(size: int) -> None:
    _, objective, _, names = crowd_and_objective()
    shuffled = torch.randperm(len(names), generator=torch.Generator().manual_seed(size))
    order, sizes = objective.arrange_batches(shuffled, size)
    assert sorted(order.tolist()) == list(range(len(names)))
    assert sum(sizes) == len(names)
    chains = chains_of(names)
    for part in order.split(sizes):
        left = part.tolist()
        assert left
        while left:  # a batch is one chain after another
            chain = next(rows for rows in chains if rows[0] == left[0])
            assert left[: len(chain)] == chain
            left = left[len(chain) :]
    if size <= 1:
        assert len(sizes) == len(chains)


def test_a_sequence_touched_once_is_taken_whole() -> None:
    _, objective, _, names = crowd_and_objective()
    order, sizes = objective.arrange_batches(torch.tensor([names.index("2_1")]), 64)
    assert [names[row] for row in order.tolist()] == ["2_0", "2_1", "2_2", "2_3"]
    assert sizes == [4]


def test_a_batch_without_labels_costs_nothing() -> None:
    crowd, objective, _, names = crowd_and_objective()
    logits = torch.randn(len(names), 3, dtype=torch.float64, requires_grad=True)
    none = torch.zeros(0, dtype=torch.long)
    cost = objective.loss(NetworkOutput(logits, logits), Batch(logits, objective.order, none, none, none, none))
    cost.backward()
    assert cost.item() == pytest.approx(0, abs=1e-12)
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert crowd.n_labels


# ---- learning -------------------------------------------------------------------------------------------------------


def stretches(n: int = 60, seed: int = 0):
    """Sequences of 8 tasks in two stretches of one class each; weak features, fair workers."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(rng.integers(2, size=(n, 2)), 4, axis=1).ravel()
    X = rng.normal(size=(8 * n, 2)) + 0.8 * truth[:, None]
    said = np.where(rng.random((8 * n, 3)) < [0.9, 0.75, 0.65], truth[:, None], 1 - truth[:, None])
    names = [f"{row // 8}_{row % 8}" for row in range(8 * n)]
    return X, truth, said, names


@pytest.mark.filterwarnings(QUIET)
def test_neighbours_help_features_and_labels() -> None:
    X, truth, said, names = stretches()
    labels = cw.CrowdLabels.from_dense(said, tasks=names)
    shared = {"network": "linear", "learning_rate": 0.05, "epochs": 12}
    chain = cw.EmCrf(sequences="names", **shared).fit(X, labels, tasks=names)
    alone = cw.EmCrf(**shared).fit(X, labels, tasks=names)
    new, new_truth, new_said, _ = stretches(seed=9)

    def right(model, **given) -> float:
        return float((model.predict_proba(new, tasks=names, **given).argmax(axis=1) == new_truth).mean())

    assert right(chain) > right(alone) + 0.08
    with_labels = cw.CrowdLabels.from_dense(new_said, tasks=names)
    assert right(chain, labels=with_labels) > right(alone, labels=with_labels) + 0.01
    assert (np.diag(chain.transition_) > chain.transition_[[0, 1], [1, 0]]).all()
    assert np.allclose(alone.transition_, 0)
    assert chain.skill_[0] > chain.skill_[2]
    assert float((chain.posterior_.argmax(axis=1) == truth).mean()) > 0.93
    # Sequences of new tasks can be said in other words.
    mapping = {name: tuple(int(part) for part in name.split("_")) for name in names}
    np.testing.assert_allclose(
        chain.predict_proba(new, tasks=names), chain.predict_proba(new, tasks=names, sequences=mapping), atol=1e-12
    )


@pytest.mark.filterwarnings(QUIET)
def test_the_likelihood_climbs() -> None:
    X, _, said, names = stretches(30)
    labels = cw.CrowdLabels.from_dense(said, tasks=names)
    model = cw.EmCrf(sequences="names", network="linear", learning_rate=0.01, epochs=12, batch_size=1000)
    history = np.array(model.fit(X, labels, tasks=names).history_["loss"])
    assert (np.diff(history) < 1e-3).all()
    assert history[-1] < history[0] - 0.05


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"smoothing": 0}, "smoothing is 0; it must be a number, above 0"),
        ({"held_out": 0.1}, "held_out is 0.1; em-crf cannot take tasks out of their sequences. Set held_out=0"),
        ({"devices": 2}, "devices is 2; em-crf trains on one device"),
        ({"sequences": {"0_0": ("0", 0)}}, "lacks the tasks"),
    ],
)
def test_bad_parameters(parameters: dict[str, object], message: str) -> None:
    X, _, said, names = stretches(3)
    with pytest.raises(cw.InputError, match=message):
        cw.EmCrf(**parameters).fit(X, cw.CrowdLabels.from_dense(said, tasks=names), tasks=names)


@pytest.mark.filterwarnings(QUIET)
def test_names_that_the_features_came_with_say_who_follows_whom() -> None:
    """As those of a table or a folder do; nothing else tells predict_proba of sequences then."""
    rng = np.random.default_rng(0)
    truth = np.repeat(rng.integers(2, size=20), 4)
    words = [f"{row // 4}_{row % 4}" for row in range(80)]
    X = (rng.normal(size=(80, 2)) + truth[:, None]).astype(np.float32)
    said = np.where(rng.random((80, 3)) < 0.8, truth[:, None], 1 - truth[:, None])
    labels = cw.CrowdLabels.from_dense(said, tasks=words)
    model = cw.EmCrf(sequences="names", network="linear", learning_rate=0.05, epochs=5).fit(X, labels, tasks=words)
    features = make_features(X)
    features.names = (pa.array(words),)
    for given in (None, labels):
        named = model.predict_proba(X, given, tasks=words)
        np.testing.assert_allclose(model.predict_proba(features, given), named, rtol=1e-6)
    assert np.abs(model.predict_proba(X) - model.predict_proba(X, tasks=words)).max() > 0.01
