"""What every aggregator shares: the contract of fitting, predicting and saving."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from crowdwise.fitting.crowd_model import CrowdModel, Fit, ModelNotFittedError
from crowdwise.fitting.knowledge import GOLD, knowledge_of
from crowdwise.kernels import NO_GOLD, blocks_of, confusion_pass
from crowdwise.labels.errors import InputError, listing
from crowdwise.labels.read import read_labels
from crowdwise.labels.truth import add_classes_of_truth, read_truth

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from crowdwise.fitting.knowledge import Knowledge
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Aggregator", "Fit", "ModelNotFittedError", "check_enough"]


def check_enough(labels: CrowdLabels) -> None:
    """Refuse labels that there is nothing to learn from."""
    if labels.n_labels == 0:
        raise InputError("There are no labels to fit. Give at least one answer of one worker to one task.")
    if labels.n_classes < 2:
        only = listing(labels.classes.to_pylist())
        raise InputError(
            f"Labels need at least two classes to choose from; there is only {only}. "
            "Declare all that could have been chosen with classes= in read_labels (on the command line --classes)."
        )


class Aggregator(CrowdModel):
    """Base of all methods that turn labels into a consensus.

    A method gives `_fit(labels, known) -> Fit`, what of `known` it `uses`, and, where its posterior for new tasks is
    not Bayes' rule with `prior_` and `confusion_`, its own `_posterior_of`.
    """

    slug: ClassVar[str]
    uses: ClassVar[frozenset[str]] = frozenset()

    def fit(
        self,
        labels: Any,
        gold: Any = None,
        *,
        class_prior: Any = None,
        known_workers: Any = None,
        known_weight: float = 10.0,
    ) -> Self:
        """Learn the consensus and the workers from the labels alone.

        Parameters
        ----------
        labels
            `CrowdLabels`, or anything that `read_labels` takes: a path, a table, three columns. Where columns have
            names of their own, `fit(read_labels(table, task=…, worker=…, label=…))`.
        gold
            Known truth of some tasks: a mapping from task to label, or a path or table with columns task and label.
            A class that only the gold names becomes a class of the model.
        class_prior
            Known shares of the classes, which are then not learnt: a mapping from class to share, or an array.
        known_workers
            Workers met in an earlier project, matched by name: a fitted model, or a mapping from worker to confusion
            matrix (K, K) [truth, label]. A model's classes are matched by name as well: answers of classes that the
            labels do not have are left out, and of a new class nothing is taken as known.
        known_weight
            How many answers for each true class a known matrix counts as; above 0, at most 1e9.

        Notes
        -----
        A method that has no use for one of these says so in an error.
        """
        answers = read_labels(labels)
        if gold is not None and GOLD in self.uses:
            gold = read_truth(gold)
            answers = add_classes_of_truth(gold, answers)
        check_enough(answers)
        known = knowledge_of(
            answers,
            gold=gold,
            class_prior=class_prior,
            known_workers=known_workers,
            known_weight=known_weight,
            slug=self.slug,
            uses=self.uses,
        )
        self._remember(answers, self._fit(answers, known))
        self._told = (answers, known) if known.gold.size else None
        return self

    def fit_predict(self, labels: Any, gold: Any = None, **known: Any) -> Any:
        """Fit, then the consensus label of each task; parameters as for `fit`."""
        return self.fit(labels, gold, **known).predict()

    def predict(self, labels: Any = None) -> Any:
        """The most probable class of each task, by name; ties go to the class more common in the labels.

        Parameters
        ----------
        labels
            New labels, by known workers; by default the tasks of `fit`.
        """
        chosen = self._decide(self.predict_proba(labels))
        return self.classes_.take(pa.array(chosen)).to_numpy(zero_copy_only=False)

    def predict_proba(self, labels: Any = None) -> FloatArray:
        """Posterior of each task, tasks × classes.

        Parameters
        ----------
        labels
            New tasks labelled by known workers; by default the tasks of `fit`. A worker unknown to the model
            counts as the average of its crowd.
        """
        self._check_fitted()
        if labels is None:
            fitted: FloatArray = self.posterior_
            return fitted
        # The model knows the classes: a few labels of new tasks are not asked whether they are values.
        return self._posterior_of(self._align_labels(read_labels(labels, kind="labels")))

    def calibration(self, n_bins: int = 10, *, level: float = 0.9) -> Any:
        """Table of how often the consensus is right where it is so sure, on the gold tasks of `fit`.

        What counts for a gold task is what the model says when that task's truth is kept from it (cross-fitted).

        Parameters
        ----------
        n_bins
            Bins of confidence, of equal width; those that hold no gold task are left out.
        level
            Probability that the interval from low to high holds the share that is right (Wilson), in (0, 1).

        Returns
        -------
        Table of bin_low, bin_high, confidence (the mean in the bin), share_right, low, high and n.
        """
        self._check_fitted()
        # Found by name: the room of evaluation lies above this one.
        return importlib.import_module("crowdwise.evaluate.gold_tables").calibration_table(self, n_bins, level)

    def predict_sets(self, coverage: float = 0.9, labels: Any = None) -> Any:
        """Table of the labels that each task may have: sets that hold the truth with a stated probability.

        Parameters
        ----------
        coverage
            Share of the sets that hold the truth, on average over tasks that are like the gold ones; in (0, 1).
        labels
            New tasks labelled by known workers; by default the tasks of `fit`.

        Returns
        -------
        Table of task, labels (a list, the most probable first) and size. A set may be empty: then no label is
        probable enough, and the task is worth a look. A gold task has its known truth alone.

        Notes
        -----
        Split conformal prediction from the gold of `fit`, which must hold at least coverage / (1 - coverage) answers:
        9 for 0.9. The coverage holds on average over tasks, not for each class or each kind of task, and only if the
        gold tasks are like the others: drawn at random, not picked for being easy or hard.
        """
        self._check_fitted()
        aligned = None if labels is None else read_labels(labels)
        return importlib.import_module("crowdwise.evaluate.gold_tables").set_table(self, coverage, aligned)

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder (JSON, Parquet and npz; no pickle). `crowdwise.load` reads it."""
        from crowdwise.fitting.saving import save

        self._check_fitted()
        save(self, folder)

    # ---- what a method gives ----------------------------------------------------------------------------

    def _fit(self, labels: CrowdLabels, known: Knowledge) -> Fit:
        raise NotImplementedError

    def _posterior_of(self, labels: CrowdLabels) -> FloatArray:
        """Bayes' rule with `prior_` and `confusion_`; labels are aligned, strangers are the last worker."""
        return self._posterior_with(self.prior_, labels)

    def _posterior_with(self, prior: FloatArray, labels: CrowdLabels) -> FloatArray:
        with np.errstate(divide="ignore"):
            log_prior = np.log(prior)
        posterior = np.empty((labels.n_tasks, labels.n_classes))
        confusion_pass(blocks_of(labels), log_prior, self._log_table(), NO_GOLD, posterior)
        return posterior

    def _predict_answers(self, labels: CrowdLabels, task: IntArray, worker: IntArray) -> FloatArray | None:  # noqa: ARG002
        """Probability of every answer (n, K) of workers to tasks of the fit; None where `_states_of` says it all."""
        return None

    def _states_of(self, labels: CrowdLabels) -> FloatArray:  # noqa: ARG002
        """Posterior of the states of the truth that the model tells apart, given the labels of the fit."""
        fitted: FloatArray = self.posterior_
        return fitted
