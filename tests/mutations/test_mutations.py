"""Test the tests: faults planted in a copy of the package, one at a time, must each turn a test red.

The copy is imported in place of the package by a child process, which imports the libraries once and forks for each
fault (a second is saved for each, and more). Loops are run there as the Python that they are written in: to compile one
anew for each fault in its file would take seconds. The control run shows that the same tests pass on the copy before
anything is planted, and leaves bytecode to the later runs, save that of the file with the fault.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")

ROOT = Path(__file__).resolve().parents[2]
RUNNER = """
import gc, json, os, struct, sys
import hypothesis.strategies, lightning.fabric, narwhals, numba, pyarrow.compute, pytest, safetensors.torch
import scipy.optimize, scipy.stats, sklearn.base, torch
import numba.extending

PLAIN = {
    "_bits_to_double": lambda bits: struct.unpack("d", struct.pack("Q", int(bits) & (2**64 - 1)))[0],
    "_double_to_bits": lambda number: struct.unpack("q", struct.pack("d", number))[0],
    "_multiply_add": lambda a, b, c: a * b + c,
    "_subtract_highest_of_short": lambda *rows: False,  # so that the plain loops do it, here and below
    "_share_short": lambda *rows: False,
    "prefetch": lambda table, row, column: None,
    "add_short_rows": lambda *rows: False,
}

def leave_plain(loop):
    loop.compile = None  # which the package's own njit asks for
    return loop

numba.njit = lambda **options: leave_plain
numba.extending.intrinsic = lambda function: PLAIN[function.__name__]
gc.freeze()  # what is imported stays: no fork looks through it

for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child == 0:
        output = os.open(order["printed"], os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.dont_write_bytecode = not order["is_control"]
        import crowdwise
        if not crowdwise.__file__.startswith(sys.argv[1]):
            print("not the copy:", crowdwise.__file__, flush=True)
            os._exit(9)
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *order["tests"]])
        sys.stdout.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

ENUMERATION = "tests/oracles/test_enumeration.py::"
STEPS = "tests/oracles/test_steps.py::"
BAYESIAN = "tests/oracles/test_bayesian.py::"
BELIEFS = "tests/oracles/test_belief_propagation.py::"
RANK_ONE = "tests/oracles/test_rank_one.py::"
CONTRACT = "tests/contract/test_contract.py::"
PASSES = "tests/engines/test_passes.py::"
MESSAGES = "tests/engines/test_messages.py::"
LEARN = "tests/learn/test_"


@dataclass(frozen=True)
class Mutation:
    """A fault: in this file of the package, `old` (which stands there `times` times) becomes `new`."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    times: int = 1


MUTATIONS = (
    Mutation(
        "prior counted twice",
        "kernels/compiled/em_passes.py",
        "work[t, k] = start[k]",
        "work[t, k] = 2 * start[k]",
        (PASSES + "test_zero_probabilities_rule_classes_out",),
    ),
    Mutation(
        "logarithm of a sum for a sum of logarithms",
        "kernels/compiled/row_softmax.py",
        "product *= mass[t]",
        "product += mass[t]",
        (PASSES + "test_zero_probabilities_rule_classes_out",),
    ),
    Mutation(
        "gold ignored",
        "kernels/compiled/row_softmax.py",
        "                if known >= 0:\n                    for state",
        "                if known >= 2**40:\n                    for state",
        (PASSES + "test_gold_stands_even_where_the_labels_do_not_allow_it",),
    ),
    Mutation(
        "sums of later lanes dropped",
        "engines/numba_engine.py",
        "for lane in lanes[1:]:",
        "for lane in lanes[2:]:",
        (PASSES + "test_lanes_are_cut_by_the_labels[40000]",),
    ),
    Mutation(
        "smoothing counted twice in the rows",
        "kernels/compiled/em_passes.py",
        "counts[worker, label, truth] + prior[label, truth]",
        "counts[worker, label, truth] + 2 * prior[label, truth]",
        (PASSES + "test_log_rows[2-1]",),
        times=2,
    ),
    Mutation(
        "smoothing counted twice in the rows: numpy",
        "kernels/confusion_rows.py",
        "mass = counts + pseudo",
        "mass = counts + 2 * pseudo",
        (STEPS + "test_dawid_skene_m_step",),
    ),
    Mutation(
        "gold ignored: numpy",
        "engines/numpy_engine.py",
        "known = np.flatnonzero(gold >= 0)",
        "known = np.flatnonzero(gold >= 99)",
        (PASSES + "test_the_specification_says_what_bayes_rule_says[1]",),
    ),
    Mutation(
        "statistics of parts lose their class counts",
        "engines/protocol.py",
        "self.class_counts + other.class_counts",
        "self.class_counts",
        (PASSES + "test_statistics_of_parts_add_up[numpy]",),
    ),
    Mutation(
        "places in a block wrap",
        "kernels/block_layout.py",
        "slot=np.empty(labels.n_labels, np.uint16)",
        "slot=np.empty(labels.n_labels, np.uint8)",
        (PASSES + "test_lanes_are_cut_by_the_labels[19999]",),
    ),
    Mutation(
        "confusion transposed after the fit",
        "fitting/categorical_em.py",
        "confusion = np.exp(parameters.log_table)",
        "confusion = np.exp(parameters.log_table).transpose(0, 2, 1)",
        (ENUMERATION + "test_posterior_and_log_likelihood[1-dawid-skene-2-0]",),
    ),
    Mutation(
        "confusion transposed at prediction",
        "fitting/crowd_model.py",
        "np.log(self._append_unknown_worker(self.confusion_))",
        "np.log(self._append_unknown_worker(self.confusion_)).transpose(0, 2, 1)",
        (ENUMERATION + "test_new_tasks_are_judged_by_bayes_rule[dawid-skene, smoothed]",),
    ),
    Mutation(
        "counts of the last worker lost",
        "kernels/confusion_rows.py",
        "mass = counts + pseudo",
        "mass = np.concatenate([counts[:-1], 0 * counts[-1:]]) + pseudo",
        (STEPS + "test_dawid_skene_m_step",),
    ),
    Mutation(
        "smoothing counted twice",
        "fitting/structured_em.py",
        "return np.full((1, labels.n_classes, labels.n_classes), float(smoothing))",
        "return np.full((1, labels.n_classes, labels.n_classes), 2 * float(smoothing))",
        (ENUMERATION + "test_objective_of_smoothed_dawid_skene",),
    ),
    Mutation(
        "tie order reversed",
        "fitting/crowd_model.py",
        "np.where(tied, label_shares, -1.0)",
        "np.where(tied, -label_shares, -2.0)",
        ("tests/surface/test_ties.py::test_the_more_common_class_wins_then_the_first",),
    ),
    Mutation(
        "wrong answers of one coin not shared out",
        "fitting/categorical_em.py",
        "wrong = (1 - accuracy) / max(n_classes - 1, 1)",
        "wrong = 1 - accuracy",
        (CONTRACT + "test_rows_sum_to_one[one-coin]",),
    ),
    Mutation(
        "GLAD's prior left out of the M-step",
        "aggregate/glad.py",
        "gradient = np.concatenate([by_ability, by_ease]) - distance",
        "gradient = np.concatenate([by_ability, by_ease])",
        (STEPS + "test_glad_gradient",),
    ),
    Mutation(
        "GLAD's prior left out of the objective",
        "aggregate/glad.py",
        "objective = log_likelihood + log_density(parameters)",
        "objective = log_likelihood",
        (ENUMERATION + "test_glad[2-0]",),
    ),
    Mutation(
        "whole powers of a Beta density left out of its nodes",
        "fitting/quadrature.py",
        "logs = np.log(weight) + powers[0] * log_right + powers[1] * log_wrong",
        "logs = np.log(weight)",
        (BELIEFS + "test_quadrature_of_a_beta_has_its_moments",),
    ),
    Mutation(
        "sign of MACE's divergence",
        "aggregate/mace.py",
        "return -dirichlet_divergence(parameters.competence, COMPETENCE) - dirichlet",
        "return -dirichlet_divergence(parameters.competence, COMPETENCE) + dirichlet",
        (ENUMERATION + "test_evidence_bound_of_mace",),
    ),
    Mutation(
        "logarithm of a mean for the mean of a logarithm",
        "fitting/priors.py",
        "logs: FloatArray = digamma(shape) - digamma(",
        "logs: FloatArray = np.log(shape) - np.log(",
        (ENUMERATION + "test_evidence_bound_of_mace",),
    ),
    Mutation(
        "a Dirichlet prior's constant left out of the bound",
        "fitting/priors.py",
        "gammaln(shape.sum(axis=axis)) - gammaln(before.sum(axis=axis))",
        "gammaln(shape.sum(axis=axis))",
        (BAYESIAN + "test_bound_of_mean_field[1-2-0]",),
    ),
    Mutation(
        "rows sampled without their prior",
        "aggregate/bcc.py",
        "draw_confusion_rows(prepared.accumulate(truths).counts + rows_prior, generator)",
        "draw_confusion_rows(prepared.accumulate(truths).counts + 0.5, generator)",
        (BAYESIAN + "test_gibbs_against_every_truth[2-0]",),
    ),
    Mutation(
        "a worker hears herself: belief propagation",
        "kernels/compiled/messages.py",
        "message[0] = math.exp(logs[named] - bonus - highest)",
        "message[0] = math.exp(logs[named] - highest)",
        (MESSAGES + "test_tasks[2-no gold-coins]",),
    ),
    Mutation(
        "a worker hears herself: belief propagation, numpy",
        "kernels/messages.py",
        "rest = logs[labels.task] - speaks",
        "rest = logs[labels.task]",
        (BELIEFS + "test_one_coin_on_a_tree[2-0-None]",),
    ),
    Mutation(
        "a worker hears herself: KOS",
        "aggregate/kos.py",
        "to_worker = np.bincount(task, said)[task] - said",
        "to_worker = np.bincount(task, said)[task]",
        (RANK_ONE + "test_messages_in_plain_loops[1-2-0]",),
    ),
    Mutation(
        "agreement by chance not taken off",
        "fitting/rank_one.py",
        "value = (same - (shared - same) / (labels.n_classes - 1)) / shared",
        "value = (same - (shared - same)) / shared",
        (RANK_ONE + "test_agreement_is_the_mean_product_of_coded_answers[3-2]",),
    ),
    Mutation(
        "variances for standard deviations in the whitening",
        "aggregate/spectral.py",
        "whitening = axes / np.sqrt(spread)",
        "whitening = axes / spread",
        ("tests/oracles/test_moments.py::test_spectral_has_no_error_on_exact_moments[3]",),
    ),
    Mutation(
        "penalty of minimax entropy doubled",
        "aggregate/minimax_entropy.py",
        "return 0.5 * weight * float(np.vdot(table, table))",
        "return weight * float(np.vdot(table, table))",
        ("tests/oracles/test_optimisation.py::test_minimax_entropy[free-3-2]",),
    ),
    Mutation(
        "transitions not learnt",
        "aggregate/hmm_crowd.py",
        "estimate_transitions(steps, allowed))",
        "estimate_transitions(0 * steps, allowed))",
        ("tests/oracles/test_sequences.py::test_the_chain_is_learnt_from_pairs_of_neighbours",),
    ),
    Mutation(
        "a worker's hidden label predicted without the crowd",
        "evaluate/held_out.py",
        "(counts + DRAW * crowd)",
        "(counts + 0 * crowd)",
        ("tests/evaluate/test_held_out.py::test_a_hidden_label_is_predicted_by_task_and_worker",),
    ),
    Mutation(
        "stacking by the mean probability",
        "evaluate/stacking.py",
        "(scaled / (scaled @ weights)[:, None]).mean(axis=0)",
        "scaled.mean(axis=0)",
        ("tests/evaluate/test_held_out.py::test_stacking_weights_are_the_maximum",),
    ),
    Mutation(
        "second answers kept",
        "labels/crowd_labels.py",
        'keep[later if on_duplicate == "first" else earlier] = False',
        'keep[later if on_duplicate == "first" else earlier] = on_duplicate == "first"',
        ("tests/labels/test_read.py::test_duplicates",),
    ),
    Mutation(
        "confusion transposed in coupled cross-entropy",
        "learn/losses.py",
        "confusion[batch.worker, :, batch.label]",
        "confusion[batch.worker, batch.label]",
        (LEARN + "coupled_ce.py::test_loss_and_gradients_are_those_of_the_dense_formula[3]",),
    ),
    Mutation(
        "the volume punished",
        "learn/geo_crowd_net.py",
        "batch) - self.strength * volume",
        "batch) + self.strength * volume",
        (LEARN + "geo_crowd_net.py::test_loss_and_gradient_are_those_of_the_dense_criterion[F-3]",),
    ),
    Mutation(
        "the other quantile in the agreement loss",
        "learn/learn2agree.py",
        "torch.maximum(agreement * gap, (agreement - 1) * gap)",
        "torch.maximum((1 - agreement) * gap, -agreement * gap)",
        (LEARN + "learn2agree.py::test_ar_loss_by_hand",),
    ),
    Mutation(
        "E-step without the classifier",
        "learn/em.py",
        "log_posterior_given_labels(log_f, crowd.task",
        "log_posterior_given_labels(0 * log_f, crowd.task",
        (LEARN + "em.py::test_e_step_is_algorithm_2_s",),
    ),
    Mutation(
        "information gain without 1/p",
        "learn/max_mig.py",
        "scaled = log_f - log_p",
        "scaled = log_f - 0 * log_p",
        (LEARN + "max_mig.py::test_loss_and_gradients_are_those_of_the_paper_s_double_sum[2-kl]",),
    ),
    Mutation(
        "what is clipped is lost",
        "learn/classifier_trust.py",
        "f = f + free * cut /",
        "f = f + 0 * free * cut /",
        (LEARN + "deep_bp.py::test_clipping_is_the_even_rise_that_fits_under_the_limit[3]",),
    ),
    Mutation(
        "matrices start at 5·I − 5",
        "learn/worker_models.py",
        "start = 6.0 * torch.eye(n_classes) - 5.0",
        "start = 5.0 * torch.eye(n_classes) - 5.0",
        (LEARN + "trace.py::test_start_is_listing_2s",),
    ),
    Mutation(
        "the worst epoch chosen",
        "learn/training_loop.py",
        'row.get("held_out", float(epoch))',
        '-row.get("held_out", -float(epoch))',
        (LEARN + "engine.py::test_the_best_epoch_is_that_of_the_labels_held_out",),
    ),
    Mutation(
        "a mirror image as good as the classifier",
        "learn/losses.py",
        "return torch.stack(fits).max()",
        "return torch.stack(fits).min()",
        (LEARN + "noise_robust.py::test_labels_held_out_are_predicted_by_the_classifier_and_guesses",),
    ),
    Mutation(
        "Adam's means laid out otherwise than their parameters",
        "learn/checkpoints.py",
        "            _match_memory_layout(optimiser)\n",
        "",
        (LEARN + "contract.py::test_resumed_is_as_if_never_stopped[max-mig]",),
    ),
)


class Copy:
    """The package in another place, and a process that runs tests on it, in a fork for each run."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "copy" / "crowdwise"
        shutil.copytree(ROOT / "src" / "crowdwise", self.package, ignore=shutil.ignore_patterns("*.nb[ci]"))
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(self.package.parent), str(ROOT)]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # none is needed, and hypothesis can be imported before the fork
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUNNER, str(self.package)],
            cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def run(self, tests: Iterable[str], printed: Path, *, is_control: bool = False) -> tuple[int, str]:
        """Exit code of pytest, and what it printed, by way of a file."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        order = {"tests": list(dict.fromkeys(tests)), "printed": str(printed), "is_control": is_control}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        return code, printed.read_text(encoding="utf-8")

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """The copy after the control run: without a fault, every test that a fault must turn red passes."""
    folder = tmp_path_factory.mktemp("mutations")
    made = Copy(folder)
    try:
        tests = (test for mutation in MUTATIONS for test in mutation.tests)
        code, printed = made.run(tests, folder / "control.txt", is_control=True)
        assert code == 0, printed
        yield made
    finally:
        made.close()


def test_the_copy_passes_without_a_fault(copy: Copy) -> None:
    assert any(copy.package.rglob("*.pyc")), "bytecode is kept between runs"
    assert not any(copy.package.rglob("*.nbc")), "loops run as Python"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_planted_fault_is_found(mutation: Mutation, copy: Copy, tmp_path: Path) -> None:
    file = copy.package / mutation.file
    whole = file.read_text(encoding="utf-8")
    assert whole.count(mutation.old) == mutation.times, "the code has changed: plant the fault anew"
    stamp = file.stat()
    file.write_text(whole.replace(mutation.old, mutation.new), encoding="utf-8")
    Path(cache_from_source(str(file))).unlink(missing_ok=True)
    try:
        code, printed = copy.run(mutation.tests, tmp_path / "printed.txt")
    finally:
        file.write_text(whole, encoding="utf-8")
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert code == 1, f"exit code {code}\n{printed}"
    assert "failed" in printed
