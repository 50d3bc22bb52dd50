"""What every aggregator shares: the contract of fitting, predicting and saving."""

from __future__ import annotations

import importlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.engines import prepare, read_on_engine, use_engine
from crowdwise.fitting.checkpoints import keep_checkpoints
from crowdwise.fitting.content_order import hash_answers
from crowdwise.fitting.crowd_model import CrowdModel, Fit
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_choice, check_count, check_number, check_random_state
from crowdwise.fitting.prior_knowledge import GOLD, align_knowledge
from crowdwise.fitting.saved_arrays import ANSWER_HASHES, CROSS_FITTED_GOLD, SavedArray
from crowdwise.kernels import NO_GOLD
from crowdwise.labels.engine_choice import ENGINES, choose_engine, choose_pass_engine
from crowdwise.labels.errors import InputError, listing
from crowdwise.labels.read import read_labels
from crowdwise.labels.truth import add_classes_of_truth, read_truth
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Self

    from crowdwise.fitting.prior_knowledge import PriorKnowledge
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["Aggregator", "Fit", "check_enough_labels"]

TOLD = np.iinfo(np.int64).min  # in place of the hash of a task whose truth the fit was told
SHARE_OF_MEMORY = 0.25  # of a machine that one table of all workers' matrices may take: a fit holds about four
FEWEST_WORKERS = 3  # whose joint answers can be told apart


def check_enough_labels(labels: CrowdLabels) -> None:
    """Refuse labels that there is nothing to learn from."""
    if labels.n_labels == 0:
        raise InputError("There are no labels to fit. Give at least one answer of one worker to one task.")
    if labels.n_classes < 2:
        only = listing(labels.classes.to_pylist())
        raise InputError(
            f"Labels need at least two classes to choose from; there is only {only}. "
            "Declare all that could have been chosen with classes= in read_labels (on the command line --classes)."
        )


def refuse_tables_beyond_memory(labels: CrowdLabels) -> None:
    """Refuse a crowd whose matrices this machine cannot hold: the system would end the process in the middle."""
    table = 8 * labels.n_workers * labels.n_classes**2
    if hasattr(os, "sysconf") and table > SHARE_OF_MEMORY * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        raise InputError(
            f"{labels.n_workers:,} workers and {labels.n_classes:,} classes make matrices of {table / 1e9:,.0f} GB, "
            "several of which this machine cannot hold. If the labels are texts, read them as such (kinds.read_texts; "
            "on the command line --kind texts, with --label-column). Else join rare classes, or leave out workers with "
            "few labels."
        )


@estimator
class Aggregator(CrowdModel):
    """Base of all methods that turn labels into a consensus.

    A method is an `estimator` with its own parameters. It gives the facts below, `_check()` where it has parameters to
    refuse, `_fit(labels, known) -> Fit` and, where its posterior for new tasks is not Bayes' rule with `prior_` and
    `confusion_`, its own `_predict_posterior`. The command, the documentation and the tests are made from the facts, of
    which those in words (what it assumes, when not to use it, its cost, where it was published) are the section Facts
    of its docstring, and the others are class attributes:

    - `slug`: its name on the command line;
    - `label_kind`: the kind of annotation that it takes;
    - `family`: its place in the documentation;
    - `uses`: what it can be told besides the labels: "gold", "class_prior", "known_workers";
    - `climbs`: whether its iterations climb an objective (a likelihood, a posterior or a bound on the evidence) that
      never falls, and warn when they stop while it is still rising;
    - `random`: whether it draws at random, so that its answer depends (a little) on `random_state`; draws are made in
      an order of content (`fitting.content_order`), so that it depends on nothing else besides the answers;
    - `plug_in`: whether it predicts with point estimates where the fit averaged over them, or left out what a task's
      own labels said of its workers. A task of the fit that is met again, by name and with the same labels, keeps the
      posterior of the fit;
    - `numpy_cost`: how many times as long as Dawid–Skene it takes in NumPy, about: small data are then fewer labels;
    - `needs`: structure that it is made for and does little without: "", "sequences", "graph".

    Parameters
    ----------
    max_iter : int
        Most iterations.
    tol : float
        Stop when an iteration gains no more than this per label.
    max_workers : int
        Most workers whose matrix is found from joint answers: those with the most answers beside others'. The rest
        get the matrix that one M-step finds.
    random_state : int
        Same number, same answer.
    engine : "auto", "numpy", "numba", "stream", "dask", engine
        Where passes over the labels run. By default small data run in NumPy, large data in compiled loops; results
        are the same but for rounding. `crowdwise.use_engine` sets it for many fits at once. "stream" and "dask", or
        `engines.Stream(memory="2GB")` and `engines.Dask(client)`, leave the labels on the disk.

    Attributes
    ----------
    posterior_ : (N, K)
        Probability of each class for each task.
    prior_ : (K,)
        Share of each class.
    confusion_ : (M, K, K)
        P(worker says l | truth is k) at [worker, k, l]; methods that only weigh votes have none.
    skill_ : (M,)
        Chance that a worker is right.
    log_likelihood_, objective_ : (n_iter_,)
        Log-probability of the labels, and with the log-density of the prior added, at each iteration; empty where
        there is none.
    n_iter_, converged_
        How the iterations ended; 1 and True where there are none.

    Examples
    --------
    >>> from crowdwise.labels import CrowdLabels
    >>> labels = CrowdLabels.from_dense([["x", "x", "y"], ["y", "y", "y"], ["x", "x", "x"], ["y", "y", "x"]])
    """

    label_kind: ClassVar[str] = "categorical"
    example: ClassVar[str] = ">>> {name}().fit(labels).predict().tolist()\n['x', 'y', 'x', 'y']"
    saved: ClassVar[tuple[SavedArray, ...]] = (*CROSS_FITTED_GOLD, ANSWER_HASHES)
    uses: ClassVar[frozenset[str]] = frozenset()
    climbs: ClassVar[bool] = False
    random: ClassVar[bool] = False
    plug_in: ClassVar[bool] = False
    numpy_cost: ClassVar[int] = 1

    engine: Any = "auto"

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
        answers = read_on_engine(labels, self.engine)
        if gold is not None and GOLD in self.uses:
            gold = read_truth(gold)
            answers = add_classes_of_truth(gold, answers)
        check_enough_labels(answers)
        refuse_tables_beyond_memory(answers)
        known = align_knowledge(
            answers,
            gold=gold,
            class_prior=class_prior,
            known_workers=known_workers,
            known_weight=known_weight,
            slug=self.slug,
            uses=self.uses,
        )
        self._check_parameters()
        with self._use_engine(answers), keep_checkpoints(answers, self, known):
            self._fit_labelled(answers, known)
            self._engine_of_fit = choose_engine(answers.n_labels, answers.n_classes)
        self._told = (answers, known) if known.gold.size else None
        self._stream, self._is_loaded = None, False
        return self

    def partial_fit(self, labels: Any, gold: Any = None) -> Self:
        """Take more labels in, as they come; the model knows all that it was given so since the last `fit`.

        For dawid-skene, one-coin, confusion-vector and mean-field. Earlier labels are fitted again now and then only:
        see `crowdwise.acquire.OnlineModel`. So `posterior_` of a task goes by what was known of its workers when its
        labels came or were last gone over, `predict_proba` of the same labels by what is known of them now: the two may
        differ by a few hundredths. New tasks, workers and classes may appear. A call that is refused changes nothing; a
        method that was loaded has no labels to go on from, and says so.

        Parameters
        ----------
        labels, gold
            As for `fit`. A worker answers a task once.
        """
        from crowdwise.fitting.online_fit import continue_fit

        self._check_parameters()
        continue_fit(self, labels, gold)
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
        return self.classes_[chosen]

    def predict_proba(self, labels: Any = None) -> FloatArray:
        """Posterior of each task, tasks × classes.

        Parameters
        ----------
        labels
            New tasks labelled by known workers; by default the tasks of `fit`, of which the array is read-only. A
            worker unknown to the model counts as the average of its crowd.
        """
        self._check_fitted()
        if labels is None:
            fitted: FloatArray = self.posterior_.view()
            fitted.flags.writeable = False  # written to, it would change what the model says
            return fitted
        # The model knows the classes: a few labels of new tasks are not asked whether they are values.
        answers = self._align_labels(read_labels(labels, kind="labels"))
        with self._use_engine(answers):
            posterior = self._predict_posterior(answers)
        return self._recall_posterior(answers, posterior)

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
        return importlib.import_module("crowdwise.evaluate.gold_tables").prediction_set_table(self, coverage, aligned)

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder (JSON, Parquet and npz; no pickle). `crowdwise.load` reads it."""
        from crowdwise.fitting.saving import save_model

        self._check_fitted()
        save_model(self, folder)

    def _check_parameters(self) -> None:
        given = self.get_params(deep=False)
        if not hasattr(given["engine"], "lay_out"):
            check_choice("engine", given["engine"], ENGINES)
        if "max_iter" in given:
            check_count("max_iter", given["max_iter"])
        if "tol" in given:
            check_number("tol", given["tol"], low=0)
        if "max_workers" in given:
            check_count("max_workers", given["max_workers"], low=FEWEST_WORKERS)
        if given.get("random_state") is not None:
            check_random_state(given["random_state"])
        self._check()

    def _use_engine(self, labels: CrowdLabels) -> AbstractContextManager[None]:
        """The engine asked for, or else chosen by the labels, once, so that all parts of a fit run on the same."""
        if self.engine != "auto":
            return use_engine(self.engine)
        of_passes = choose_pass_engine(labels.n_labels, labels.n_classes)
        runs_all = of_passes in ("numpy", "numba")
        return use_engine(choose_engine(self.numpy_cost * labels.n_labels, labels.n_classes) if runs_all else of_passes)

    def _fit_labelled(self, labels: CrowdLabels, known: PriorKnowledge) -> None:
        """Fit, with tasks that have neither labels nor gold left out: they are judged afterwards, as new tasks are."""
        told = labels.labels_per_task > 0
        if known.gold.size:
            told |= known.gold >= 0
        chosen = self._tasks_to_fit(labels, told)
        if chosen.all():
            self._remember(labels, self._fit(labels, known))
        else:
            kept = labels.keep_tasks(chosen)
            fit = self._fit(kept, replace(known, gold=known.gold[chosen] if known.gold.size else known.gold))
            self._remember(kept, fit)
            posterior = self._predict_left_out(self._align_labels(labels))
            posterior[chosen] = fit.posterior
            self._remember(labels, replace(fit, posterior=posterior))
        if self._recalls_tasks():
            seen = hash_answers(labels)
            if known.gold.size:
                seen[known.gold >= 0] = TOLD  # what gold says of a task is no prediction
            self.extra_["answer_hashes"] = seen

    def _recall_posterior(self, labels: CrowdLabels, posterior: FloatArray) -> FloatArray:
        """The posterior (N, K), and that of the fit for tasks of the fit with the same labels; labels are aligned."""
        seen = self.extra_.get("answer_hashes")
        if seen is None:  # it judges them as the fit did, or was saved before they were kept
            return posterior
        place, answers = positions(labels.tasks, self._names.tasks), hash_answers(labels)
        same = place >= 0
        same[same] = seen[place[same]] == answers[same]
        posterior[same] = self.posterior_[place[same]]
        return posterior

    # ---- what a method gives ----------------------------------------------------------------------------

    def _check(self) -> None:
        """Refuse parameters of the method's own; those that `Aggregator` describes are checked for all."""

    def _fit(self, labels: CrowdLabels, known: PriorKnowledge) -> Fit:
        raise NotImplementedError

    def _online_settings(self) -> dict[str, Any] | None:
        """Settings of the online model of this method; None where it has none."""
        return None

    def _keeps_unlabelled_tasks(self) -> bool:
        """Whether tasks without labels take part in the fit: it has values for each, or they belong to a structure."""
        return False

    def _tasks_to_fit(self, labels: CrowdLabels, told: BoolArray) -> BoolArray:  # noqa: ARG002
        """Which tasks take part in the fit (N,), given which have labels or gold."""
        chosen: BoolArray = told | self._keeps_unlabelled_tasks()
        return chosen

    def _recalls_tasks(self) -> bool:
        """Whether a task of the fit that is met again, by name and with the same labels, keeps its posterior."""
        return self.plug_in

    def _predict_left_out(self, labels: CrowdLabels) -> FloatArray:
        """Posterior (N, K) of the labels of the fit, of which tasks left out of it are read; labels are aligned."""
        return self._predict_posterior(labels)

    def _predict_posterior(self, labels: CrowdLabels) -> FloatArray:
        """Bayes' rule with `prior_` and `confusion_`; labels are aligned, strangers are the last worker."""
        return self._posterior_with_prior(self.prior_, labels)

    def _posterior_with_prior(self, prior: FloatArray, labels: CrowdLabels) -> FloatArray:
        with np.errstate(divide="ignore"):
            log_prior = np.log(prior)
        posterior = labels.empty_rows(labels.n_classes)
        prepare(labels).e_step(log_prior, self._log_confusion_table(), NO_GOLD, posterior)
        return posterior

    def _predict_answers(self, labels: CrowdLabels, task: IntArray, worker: IntArray) -> FloatArray | None:  # noqa: ARG002
        """Probability of every answer (n, K) of workers to tasks of the fit; None where `_state_posterior` suffices."""
        return None

    def _state_posterior(self, labels: CrowdLabels) -> FloatArray:  # noqa: ARG002
        """Posterior of the states of the truth that the model tells apart, given the labels of the fit."""
        fitted: FloatArray = self.posterior_
        return fitted
