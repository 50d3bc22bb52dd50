"""What every learner of answers that are no classes shares: items lined up with features, training, prediction, saving.

A learner of another kind is one file: a class that derives from `AnswerLearner` and from the base of its kind
(`ValueModel`, `ComparisonModel`, …), which has its tables, and an `AnswerObjective`.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import torch

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.method_facts import OTHER_KINDS
from crowdwise.kinds.answers import Answers
from crowdwise.kinds.model import KindModel
from crowdwise.labels.errors import InputError
from crowdwise.labels.vocabulary import as_text
from crowdwise.learn.alignment import find_known_rows
from crowdwise.learn.answer_batches import AnswerRows, item_columns
from crowdwise.learn.augmentation import check_augmentable
from crowdwise.learn.batches import NetworkOutput
from crowdwise.learn.features import make_features
from crowdwise.learn.networks import build_network, check_logits
from crowdwise.learn.predictions import FORWARD
from crowdwise.learn.torch_settings import find_device, use_default_torch_settings
from crowdwise.learn.trained_model import FEWEST_HELD_OUT, TrainedModel, one_fit_at_a_time
from crowdwise.learn.training_state import TrainingJob

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from torch import Tensor

    from crowdwise.kinds.model import Found
    from crowdwise.labels.types import BoolArray, IntArray
    from crowdwise.learn.answer_objective import AnswerObjective
    from crowdwise.learn.features import Features

__all__ = ["AnswerLearner", "check_pairs"]

A = TypeVar("A", bound=Answers)


@estimator
class AnswerLearner(TrainedModel, KindModel[A]):
    """Base of all methods that learn a network from features and answers that are no classes.

    A method is an `estimator` with its own parameters and the facts of `Learner`. It gives

    - `_say(answers)`: what was said as a tensor with a row for each answer, as the objective takes it;
    - `_make_objective(answers, rows)`: an `AnswerObjective`; `rows` are those that are learnt from;
    - `_find(answers, seen, objective)`: the arrays of the fit, by the names under which the kind's base saves them,
      from what the trained network says of all rows of the features;
    - `_predict(seen, answers)`: what `predict` gives, from what the network says of the rows, and where there are some,
      from answers about them; whatever it needs is in the arrays of the fit: objectives are not saved;
    - `_score(predicted, truth)`: how good predictions are;
    - `_count_outputs(answers)`: how many numbers the network gives for an item.

    Attributes
    ----------
    network_
        The trained network, a torch module: features in, numbers out.
    history_
        Table with a row for each epoch: loss, held_out (mean log-density of the answers held out, or what the method
        says instead), learning_rate, seconds.

    Examples
    --------
    >>> import numpy as np
    >>> import crowdwise as cw
    >>> from crowdwise import kinds
    """

    family = OTHER_KINDS
    needs: ClassVar[str] = ""
    held_out_measure: ClassVar[str] = "mean log-probability of an answer"
    predicts: ClassVar[str] = "value"  # column of what `crowdwise predict` writes
    outputs: ClassVar[str] = "one for each number of an answer"  # what a network that gives too many is told

    # ---- what a method gives ----------------------------------------------------------------------------

    def _count_outputs(self, answers: A) -> int:  # noqa: ARG002
        return 1

    def _say(self, answers: A) -> Tensor:
        raise NotImplementedError

    def _make_objective(self, answers: A, rows: AnswerRows) -> AnswerObjective:
        raise NotImplementedError

    def _find(self, answers: A, seen: NetworkOutput, objective: Any) -> Found:
        raise NotImplementedError

    def _predict(self, seen: NetworkOutput, answers: A | None) -> Any:
        raise NotImplementedError

    def _score(self, predicted: Any, truth: Any) -> float:
        raise NotImplementedError

    # ---- fitting ----------------------------------------------------------------------------------------

    def fit(self, X: Any, answers: Any, *, tasks: Any = None) -> Self:  # type: ignore[override]
        """Learn a network and the workers from features and answers; no truth is needed.

        Parameters
        ----------
        X
            Features, one row for each task or item: whatever learners of classes take.
        answers
            Answers of this kind, or anything that they can be read from: a path, a table. Rows of X without answers are
            allowed.
        tasks
            Names of the rows of X. Not needed where X came with names, nor where the answers name tasks or items by row
            number, 0, 1, 2, ….
        """
        self._check_parameters()
        features = make_features(X)
        read = self._read(answers)
        if not read.n_answers:
            raise InputError("There are no answers to fit. Give at least one.")
        aligned = self._align(read, features, tasks)
        if self.augment is not None:
            check_augmentable(features.shape)
        with one_fit_at_a_time, use_default_torch_settings():
            self._train(features, aligned)
        return self

    def _train(self, features: Features, answers: A) -> None:
        kept, out = self._split(answers)
        with torch.random.fork_rng(devices=self._cuda_devices()):
            torch.manual_seed(self.random_state)
            rows = AnswerRows.from_answers(answers, self._say(answers))
            self.n_outputs_ = self._count_outputs(answers)
            classifier = build_network(self.network, features, self.n_outputs_)
            check_logits(classifier, features, self.n_outputs_, min(self.batch_size, kept.size), self.outputs)
            objective = self._make_objective(answers, rows.take(kept))
            job = TrainingJob(classifier, objective, features, objective.crowd, torch.arange(kept.size))
            if out.size:
                job.held_crowd, job.held_tasks = rows.take(out), torch.arange(out.size)
            state = self._train_network(job, self._fingerprint(answers))
        self._keep_network(features, classifier, state, answers.table_kind)
        objective.to("cpu", torch.float32).eval()
        objective.crowd = rows
        found = self._find(answers, self._run_network(features), objective)
        may_lack = {each.name for each in self._saved_arrays() if each.missing}
        self._refuse_overflow(*(values for name, values in found.arrays.items() if name not in may_lack))
        self._remember(answers, replace(found, n_iter=state.epoch))

    def _align(self, answers: A, features: Features, tasks: Any) -> A:
        """The answers with task or item t being row t of the features, in an order that is not that of the table."""
        columns = item_columns(answers)
        vocabulary = answers.coded[columns[0]]
        names, row = find_known_rows(getattr(answers, vocabulary), features, tasks, things=vocabulary, said="answers")
        moved: dict[str, Any] = {name: row[getattr(answers, name)].astype(np.int32) for name in columns}
        aligned = replace(answers, **moved, **{vocabulary: names})
        # Batches and what is held out are drawn by position: the same draws, whatever the order of the rows.
        text = np.asarray(as_text(aligned.workers).to_pylist(), object)
        rank = np.argsort(np.argsort(text))[aligned.worker]
        said = [column for name in aligned.said for column in np.atleast_2d(np.asarray(getattr(aligned, name)).T)]
        return aligned._take(np.lexsort((*said, rank, *(getattr(aligned, name) for name in reversed(columns)))))

    def _split(self, answers: A) -> tuple[IntArray, IntArray]:
        """Answers to learn from and answers that choose the epoch; all about one task, or one pair, go together."""
        about = np.sort(np.stack([getattr(answers, name) for name in item_columns(answers)], axis=1), axis=1)
        groups, group = np.unique(about, axis=0, return_inverse=True)
        shuffled = np.random.default_rng(self.random_state).permutation(len(groups))
        hidden = np.isin(group.reshape(-1), shuffled[: round(self.held_out * len(groups))])
        if hidden.sum() < FEWEST_HELD_OUT or hidden.all():
            hidden[:] = False
        return np.flatnonzero(~hidden), np.flatnonzero(hidden)

    def _unseen_tasks(self, answers: A) -> BoolArray:
        """Tasks (N,) with answers that the network has not learnt from; those it has, where nothing is held out."""
        kept, out = self._split(answers)
        found: BoolArray = np.zeros(len(getattr(answers, answers.coded[item_columns(answers)[0]])), np.bool_)
        found[getattr(answers, item_columns(answers)[0])[out if out.size else kept]] = True
        return found

    def _fingerprint(self, answers: A) -> dict[str, str]:
        """What a checkpoint must agree with beside the parameters: the answers."""
        digest = 0
        for name in (*answers.coded, *answers.said):
            digest = zlib.crc32(np.ascontiguousarray(getattr(answers, name)).tobytes(), digest)
        return {"answers": f"{answers.n_answers} answers, CRC {digest:08x}"}

    # ---- predicting -------------------------------------------------------------------------------------

    def predict(self, X: Any, answers: Any = None, *, tasks: Any = None) -> Any:  # type: ignore[override]
        """What the network says of new rows of features, or what features and answers say of them together.

        Parameters
        ----------
        X
            Features, as for `fit`.
        answers
            Answers about these rows, as for `fit`, where the method can use them; a worker unknown to the model counts
            as the average of its crowd.
        tasks
            Names of the rows of X, as for `fit`.
        """
        return self._predict(*self._see(X, answers, tasks))

    def _see(self, X: Any, answers: Any, tasks: Any) -> tuple[NetworkOutput, A | None]:
        """What the network says of rows of features, and answers about them that are lined up with the rows."""
        self._check_fitted()
        features = make_features(X)
        self._check_shape(features)
        aligned = None if answers is None else self._align(self._read(answers), features, tasks)
        with use_default_torch_settings():
            return self._run_network(features), aligned

    def score(self, X: Any, y: Any) -> float:
        """How good the predictions from the features alone are, the higher the better; `y` is the truth of the rows."""
        predicted = self.predict(X)
        if len(y) != len(predicted):
            raise InputError(f"There are {len(y):,} true answers for {len(predicted):,} rows of features.")
        return self._score(predicted, y)

    def _write(self, folder: str | Path) -> None:
        from crowdwise.learn.answer_saving import save_answer_learner

        self._check_fitted()
        save_answer_learner(self, folder)

    # ---- the rest ---------------------------------------------------------------------------------------

    def _run_network(self, features: Features) -> NetworkOutput:
        """What the trained network says of all rows (n, D), and what its last layer saw, on the CPU."""
        device = find_device(self.device)
        self.network_.to(device)
        held = features.to(device, torch.float32)
        with torch.no_grad():
            order = torch.arange(len(features), device=device)
            seen = [self.network_.logits_and_representation(x) for x in held.batches(order, FORWARD)]
        self.network_.cpu()
        logits, last = (torch.cat(parts).cpu().double() for parts in zip(*seen, strict=True))
        unknown = logits.isnan().any(dim=1)
        if unknown.any():
            raise InputError(
                f"The network gives no number for row {int(unknown.nonzero()[0, 0])}. Its features may be far larger "
                "than those it was trained on."
            )
        return NetworkOutput(logits, last)

    @property
    def _n_outputs(self) -> int:
        """How many numbers the network gives."""
        return self.n_outputs_


def check_pairs(left: Any, right: Any, n_rows: int) -> tuple[IntArray, IntArray]:
    """Two rows of the features for each pair, refusing rows that there are not."""
    first, second = (np.asarray(side, np.int64) for side in (left, right))
    if first.shape != second.shape or any(((each < 0) | (each >= n_rows)).any() for each in (first, second)):
        raise InputError(f"left and right must be rows of the features, 0 to {n_rows - 1}, as many of each.")
    return first, second
