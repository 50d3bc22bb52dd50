"""What every learner of classes shares: fitting, the two heads of prediction, tables and saving."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from crowdwise.fitting.base import check_enough_labels
from crowdwise.fitting.categorical_em import make_fit
from crowdwise.fitting.crowd_model import CrowdModel, align_labels
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.sklearn_rows import LabelRows
from crowdwise.learn.alignment import labels_of_rows, true_classes
from crowdwise.learn.augmentation import check_augmentable
from crowdwise.learn.batches import Crowd
from crowdwise.learn.diagnosis import diagnose_fit
from crowdwise.learn.features import make_features
from crowdwise.learn.identifiability import warn_if_not_identifiable
from crowdwise.learn.losses import SMALLEST
from crowdwise.learn.networks import build_network, check_logits
from crowdwise.learn.predictions import predict_log_probabilities
from crowdwise.learn.torch_settings import find_device, use_default_torch_settings
from crowdwise.learn.trained_model import FEWEST_HELD_OUT, TrainedModel, one_fit_at_a_time
from crowdwise.learn.training_state import TrainingJob, ValidationSet
from crowdwise.learn.worker_models import smooth_rows, soft_counts

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from crowdwise.labels.types import FloatArray
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.objective import Objective
    from crowdwise.learn.training_state import TrainingState

__all__ = ["REFINED", "Learner"]

REFINED = "refined_confusion"  # name among the arrays that a fit keeps apart


@estimator
class Learner(TrainedModel, CrowdModel):
    """Base of all methods that learn a classifier from features and crowd labels.

    A method is an `estimator` with its own parameters, `_make_objective(crowd, classifier, features) -> Objective` and
    facts, from which the command, the documentation and the tests are made. Those in words (what it assumes, when not
    to use it, where it was published) are the section Facts of its docstring, the others are class attributes:

    - `slug`: its name on the command line;
    - `family`: its place in the documentation;
    - `models_workers`: whether it has matrices of the workers of its own; otherwise they are counted afterwards;
    - `alternates`: whether it learns in turns: E-steps, or stages;
    - `needs`: what it cannot be made without: "", "confusion" (true matrices), "sequences";
    - `variants`: where its parameters make several methods, each with a slug and facts of its own.

    Attributes
    ----------
    network_
        The trained classifier, a torch module: features in, logits out.
    posterior_ : (N, K)
        Of the training tasks, from features and labels together.
    prior_ : (K,)
        Mean of the posterior.
    confusion_ : (M, K, K) [worker, truth, label]
        As the method models it; counted with the posterior, where the method does not model workers.
    skill_ : (M,)
        Chance that a worker is right.
    history_
        Table with a row for each epoch: loss, held_out (mean log-probability of the labels held out, or what the
        method says instead), accuracy and forecast (on a validation set), learning_rate, seconds.

    Examples
    --------
    >>> import crowdwise as cw
    >>> X, labels, truth = cw.simulate.simulate_features()
    """

    example: ClassVar[str] = (
        '>>> model = cw.{name}(network="linear", epochs=30, learning_rate=0.02).fit(X, labels)\n'
        ">>> model.score(X, truth) > 0.9\nTrue"
    )

    # ---- fitting ----------------------------------------------------------------------------------------

    def fit(self, X: Any, labels: Any, *, tasks: Any = None, valid: tuple[Any, ...] | None = None) -> Self:
        """Learn a classifier and the workers from features and crowd labels; no truth is needed.

        Parameters
        ----------
        X
            Features, one row for each task: an array, a tensor, a frame, a sparse matrix, images, a map-style Dataset;
            or the path of an array (.npy, .npz), a table or a folder of images.
        labels
            `CrowdLabels`, or anything that `read_labels` takes. Rows of X without labels are allowed. For tools of
            scikit-learn that split X and y, `CrowdLabels.as_rows`.
        tasks
            Names of the rows of X. Not needed where X came with names (a file or a folder of images), nor where the
            labels name tasks by row number, 0, 1, 2, ….
        valid
            Features and true classes (by name) to choose the best epoch by, as papers do; by default labels held out.
            With crowd labels of these tasks as a third, `history_` has the accuracy of both together, `forecast`.
        """
        self._check_parameters()
        features = make_features(X)
        answers = labels_of_rows(labels, features, tasks)
        check_enough_labels(answers)
        if self.augment is not None:
            check_augmentable(features.shape)
        validation = None if valid is None else self._validation_set(valid, features, answers)
        with one_fit_at_a_time, use_default_torch_settings():
            self._train(features, answers, validation)
        return self

    @staticmethod
    def _validation_set(valid: Any, features: Features, answers: CrowdLabels) -> ValidationSet:
        if not isinstance(valid, tuple | list) or len(valid) not in (2, 3):
            raise InputError(
                f"valid is {quote(valid)}; it must be a pair, features and true classes, and may have crowd labels as "
                "a third."
            )
        held = make_features(valid[0])
        if held.shape != features.shape:
            raise InputError(f"valid has features of shape {held.shape}, the training tasks of {features.shape}.")
        truth = true_classes(valid[1], answers.classes, len(held))
        if len(valid) == 2:
            return ValidationSet(held, truth)
        labels = labels_of_rows(valid[2], held, new=True)
        return ValidationSet(held, truth, Crowd(align_labels(labels, answers.workers, answers.classes)))

    def _train(self, features: Features, answers: CrowdLabels, validation: ValidationSet | None) -> None:
        labelled = np.flatnonzero(answers.labels_per_task > 0)
        kept, out = self._split(answers, labelled, validation is not None)
        training = np.zeros(answers.n_tasks, np.bool_)
        training[kept] = True
        with torch.random.fork_rng(devices=self._cuda_devices()):
            torch.manual_seed(self.random_state)
            crowd = Crowd(answers.keep(training[answers.task]))
            classifier = build_network(self.network, features, answers.n_classes)
            check_logits(classifier, features, answers.n_classes, min(self.batch_size, kept.size))
            objective = self._make_objective(crowd, classifier, features)
            job = TrainingJob(classifier, objective, features, crowd, torch.as_tensor(kept), valid=validation)
            if out.size:
                hidden = np.zeros(answers.n_tasks, np.bool_)
                hidden[out] = True
                job.held_crowd = Crowd(answers.keep_tasks(hidden))
                job.held_tasks = torch.as_tensor(out)
            chosen = "held_out" if validation is None else f"accuracy on {len(validation.truth)} tasks"
            own = {"valid": chosen} if self.checkpoint is not None else {}
            state = self._train_network(job, self._fingerprint(answers) | own)
        self._finish(features, answers, classifier, objective, state)

    def _split(self, answers: CrowdLabels, labelled: Any, validated: bool) -> tuple[Any, Any]:
        """Tasks to learn from and tasks whose labels choose the epoch."""
        number = round(self.held_out * labelled.size)
        shuffled = np.random.default_rng(self.random_state).permutation(labelled)
        out = np.sort(shuffled[:number])
        if validated or answers.labels_per_task[out].sum() < FEWEST_HELD_OUT:
            out = out[:0]
        return np.setdiff1d(labelled, out), out

    def _finish(
        self,
        features: Features,
        answers: CrowdLabels,
        classifier: Classifier,
        objective: Objective,
        state: TrainingState,
    ) -> None:
        """The portraits: what features and labels together say of every task, and that of every worker."""
        self._keep_network(features, classifier, state, answers.kind)
        objective.crowd = crowd = Crowd(answers)
        objective.to("cpu", torch.float32).eval()
        self.module_ = objective
        log_f = self._forecast(features)
        self._refuse_overflow(log_f.exp())
        with torch.no_grad():
            settled = objective.settle(log_f)
            modelled = objective.confusion()
            refined = self._refine_confusion(crowd, log_f)
            confusion = smooth_rows(soft_counts(crowd, log_f.exp())) if modelled is None else modelled
            used = confusion if refined is None else refined
            table = torch.cat([used, used.mean(dim=0, keepdim=True)])
            if settled is None:
                settled = objective.log_posterior(log_f, crowd.task, crowd.worker, crowd.label, table)
            posterior = settled.exp().double()
            if modelled is None:
                used = confusion = smooth_rows(soft_counts(crowd, posterior))
            columns = {name: column.double().numpy() for name, column in objective.task_columns().items()}
        shares = (posterior / posterior.sum(dim=1, keepdim=True)).numpy()
        self._refuse_overflow(posterior, confusion, used, *(each[~np.isnan(each)] for each in columns.values()))
        # Where workers are not modelled, the classifier predicts their labels rather than the truth.
        alone = None if modelled is None else log_f.double().exp().numpy()
        fit = replace(make_fit(answers, shares, used.double().numpy(), alone), task_columns=columns)
        if refined is not None:
            fit = replace(fit, confusion=_normalise_rows(confusion), extra={REFINED: _normalise_rows(refined)})
        self._remember(answers, fit)
        if modelled is not None:
            self._warn_if_not_identifiable(answers, log_f.double().exp().numpy())

    # ---- predicting -------------------------------------------------------------------------------------

    def predict_proba(self, X: Any, labels: Any = None, *, tasks: Any = None) -> FloatArray:
        """Probability of every class (n, K), from features alone, or from features and crowd labels together.

        Parameters
        ----------
        X
            Features of new tasks, as for `fit`.
        labels
            Crowd labels of these tasks, as for `fit`; a worker unknown to the model counts as the average of its crowd.
        tasks
            Names of the rows of X, as for `fit`.
        """
        self._check_fitted()
        features = make_features(X)
        self._check_shape(features)
        with use_default_torch_settings(), torch.no_grad():
            log_f = self._forecast(features)
            if labels is not None:
                crowd = Crowd(self._align_labels(labels_of_rows(labels, features, tasks, new=True)))
                table = torch.as_tensor(self._append_unknown_worker(self._confusion_for_labels), dtype=log_f.dtype)
                log_f = self.module_.log_posterior(log_f, crowd.task, crowd.worker, crowd.label, table)
        self._refuse_missing_probabilities(log_f)
        given = log_f.double().exp()
        shares: FloatArray = (given / given.sum(dim=1, keepdim=True)).numpy()
        return shares

    @staticmethod
    def _refuse_missing_probabilities(log_f: torch.Tensor) -> None:
        unknown = log_f.isnan().any(dim=1)
        if unknown.any():
            raise InputError(
                f"The network gives no number for row {int(unknown.nonzero()[0, 0])}. Its features may be far larger "
                "than those it was trained on."
            )

    def predict(self, X: Any, labels: Any = None, *, tasks: Any = None) -> Any:
        """The most probable class of each task, by name; parameters as for `predict_proba`."""
        chosen = self._decide(self.predict_proba(X, labels, tasks=tasks))
        return self.classes_[chosen]

    def score(self, X: Any, y: Any) -> float:
        """How good the predictions from the features alone are, the higher the better.

        Parameters
        ----------
        X
            Features, as for `fit`.
        y
            True classes by name, one for each row: the score is the share of them that is predicted. Or crowd labels
            of the rows (`CrowdLabels`, or rows of them as `CrowdLabels.as_rows` gives): the score is the mean
            log-probability of a label, Σ P(class | features) P(label | class, worker), the last by `confusion_`, or by
            `refined_confusion_`, where there is one.
        """
        self._check_fitted()
        if not isinstance(y, CrowdLabels | LabelRows):
            true = true_classes(y, self._names.classes, len(make_features(X))).numpy()
            return float((self.predict_proba(X).argmax(axis=1) == true).mean())
        answers = self._align_labels(labels_of_rows(y, make_features(X), new=True))
        if answers.n_labels == 0:
            raise InputError("There are no labels to score the predictions by.")
        said = self._append_unknown_worker(self._confusion_for_labels)[answers.worker, :, answers.label]
        chance = (self.predict_proba(X)[answers.task] * said).sum(axis=1)
        return float(np.log(np.maximum(chance, SMALLEST)).mean())

    def diagnose(self, X: Any, labels: Any, *, tasks: Any = None) -> list[str]:
        """What speaks against the result, in sentences; X and labels are those of the fit.

        A loss that is no number, a last epoch that was the best, and skills that promise more right labels than the
        classifier finds. `crowdwise train` says the same.
        """
        self._check_fitted()
        features = make_features(X)
        return diagnose_fit(self, features, labels_of_rows(labels, features, tasks))

    def _write(self, folder: str | Path) -> None:
        from crowdwise.learn.saving import save

        self._check_fitted()
        save(self, folder)

    # ---- what a method gives ----------------------------------------------------------------------------

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:
        raise NotImplementedError

    def _align_labels(self, labels: CrowdLabels) -> CrowdLabels:
        """New labels as the model knows them; a worker who had no labels to learn from counts as unknown."""
        found = super()._align_labels(labels)
        worker = np.where(np.append(self.labels_per_worker_, 0) > 0, np.arange(found.n_workers), found.n_workers - 1)
        return replace(found, worker=worker[found.worker])

    def _restored_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:
        """The objective of a saved model, which is then given the saved parameters and buffers.

        The crowd has the workers and classes of the fit, but two tasks, of which every worker has labelled one, and the
        features are zeros. What is sized by tasks or labels served training and is not saved. A method whose objective
        cannot be made from that, or that does something costly for it, overrides this.
        """
        return self._make_objective(crowd, classifier, features)

    @property
    def _confusion_for_labels(self) -> FloatArray:
        """The matrices (M, K, K) that labels are read by, and skills computed from."""
        return self.confusion_

    def _refine_confusion(self, crowd: Crowd, log_f: torch.Tensor) -> torch.Tensor | None:  # noqa: ARG002
        """Matrices (M, K, K) that go better with the chosen classifier (N, K) than the method's own; None for no such.

        A method that has some is a `ConfusionLearner`.
        """
        return None

    def _warn_if_not_identifiable(self, answers: CrowdLabels, f: FloatArray) -> None:
        """Warn where the classifier and the workers, whom the method models, may not be told apart."""
        warn_if_not_identifiable(self, answers, f)

    @property
    def _n_outputs(self) -> int:
        """How many numbers the network gives for a task: one for each class."""
        return len(self.classes_)

    # ---- shared -----------------------------------------------------------------------------------------

    def _forecast(self, features: Features) -> torch.Tensor:
        """The trained classifier's log-probabilities of all tasks (n, K), by the device that trained it, on the CPU."""
        device = find_device(self.device)
        self.network_.to(device)
        self.module_.to(device)
        order = torch.arange(len(features), device=device)
        log_f = predict_log_probabilities(self.network_, self.module_, features.to(device, torch.float32), order).cpu()
        self.network_.cpu()
        self.module_.cpu()
        return log_f

    def _fingerprint(self, answers: CrowdLabels) -> dict[str, str]:
        """What a checkpoint must agree with beside the parameters: the labels."""
        digest = 0
        for column in (answers.task, answers.worker, answers.label):
            digest = zlib.crc32(column.tobytes(), digest)
        return {"labels": f"{answers.n_labels} labels, CRC {digest:08x}"}


def _normalise_rows(confusion: torch.Tensor) -> FloatArray:
    """In double precision, where rows of single precision do not quite sum to one."""
    rows: FloatArray = (confusion.double() / confusion.double().sum(dim=2, keepdim=True)).numpy()
    return rows
