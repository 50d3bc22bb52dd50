"""What every learner shares: parameters of training, fitting, the two heads of prediction, tables and saving."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from threading import RLock
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
from crowdwise.labels.table_output import native_table
from crowdwise.learn.alignment import labels_of_rows, true_classes
from crowdwise.learn.augmentation import check_augmentable
from crowdwise.learn.batches import Crowd
from crowdwise.learn.diagnosis import diagnose_fit
from crowdwise.learn.features import make_features
from crowdwise.learn.identifiability import warn_if_not_identifiable
from crowdwise.learn.losses import SMALLEST
from crowdwise.learn.networks import build_network, check_logits
from crowdwise.learn.torch_settings import device_name, find_device, find_precision, use_default_torch_settings
from crowdwise.learn.training_checks import check_training_parameters
from crowdwise.learn.training_loop import predict_log_probabilities, train
from crowdwise.learn.training_state import TrainingJob, TrainingPlan, ValidationSet
from crowdwise.learn.worker_models import smooth_rows, soft_counts

if TYPE_CHECKING:
    from typing import Self

    from crowdwise.fitting.method_facts import Variant
    from crowdwise.labels.types import FloatArray
    from crowdwise.learn.features import Features
    from crowdwise.learn.networks import Classifier
    from crowdwise.learn.objective import Objective
    from crowdwise.learn.training_state import TrainingState

__all__ = ["REFINED", "Learner"]

REFINED = "refined_confusion"  # name among the arrays that a fit keeps apart
FEWEST_HELD_OUT = 5  # labels: fewer cannot tell one epoch from another
FASTEST = 0.05  # Adam moves a logit by about the rate at each step: faster, a few batches would swap classes
_one_at_a_time = RLock()  # fits in other threads would draw from the same, one random state of torch
SHARED = tuple(name for name in TrainingPlan.__dataclass_fields__ if name not in ("name", "own"))


@estimator
class Learner(CrowdModel):
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

    Parameters
    ----------
    network
        None for what suits the features (an MLP for rows, a CNN for images); "linear", "mlp", "cnn", "cnn-pooled",
        "resnet-9", "resnet-18", "resnet-50", "vgg-16"; or a torch module that returns logits, of which a copy is
        trained.
    epochs
        Passes over the tasks, at least 1; None for about 4,000 steps, between 10 and 200 epochs.
    batch_size
        Tasks in a step, at least 1.
    learning_rate, worker_learning_rate
        Adam's, for the network and for the workers' parameters, above 0. None: ten times the network's, as Kim et al.
        2022 have it, but above 0.05 only if the network's is; matrices that lag behind leave the network to fit the
        workers' mistakes. Just the network's where what is learnt is no matrix of each worker (the method says so).
    weight_decay
        Adam's L2 penalty on the network, at least 0.
    schedule
        "constant", "cosine" (to zero), "step" (a tenth at each quarter of the epochs), "drop" (a tenth in the last
        quarter), "one-cycle" (up for three tenths of the epochs, then down to zero) or "plateau" (a tenth after each
        ten epochs that were no better by what the epoch is chosen by or, where nothing is held out, by the loss).
    clip
        Largest norm of a gradient, above 0; None for no clipping.
    held_out
        Share of the tasks whose labels choose the best epoch instead of being learnt from, in [0, 0.5]. With 0, or with
        very few labels, the last epoch is taken. Not used when `fit` is given a validation set.
    keep_epoch
        "best", or "last", whatever labels held out or a validation set say: what a network ends as that learns the
        workers' mistakes by heart.
    patience
        Stop after so many epochs without improvement, at least 1; None never stops early.
    precision
        Fabric's: "32-true", "64-true", "16-mixed", "bf16-mixed"; "auto" is the last on a GPU of Nvidia's that has it,
        and the first elsewhere. In half precision is the network alone, never what is made of labels.
    device, devices
        "auto", "cpu", "cuda" or "mps", and how many: above 1, training is spread by DDP, `batch_size` tasks on each
        at a time. That starts processes, so a script needs `if __name__ == "__main__":` around its own work.
    checkpoint
        Folder that keeps the last finished epoch. A fit with the same settings goes on from what it finds there.
    random_state
        Same number, same answer.
    augment
        How images are changed at random whenever they are met in training: "flip" (mirrored or not), "flip-shift" (and
        moved by up to an eighth), "flip-rotate" (and turned by up to 45°); None for as they are.

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
    best_epoch_ : int
        The epoch whose weights were kept, from 1.
    shape_ : tuple
        Shape of a task's features.
    columns_ : tuple
        Their names, where they came with some: features with other names are then refused.
    device_ : str
        What it was trained on: "cpu", or the name of the GPU.

    Examples
    --------
    >>> import crowdwise as cw
    >>> X, labels, truth = cw.simulate.simulate_features()
    """

    example: ClassVar[str] = (
        '>>> model = cw.{name}(network="linear", epochs=30, learning_rate=0.02).fit(X, labels)\n'
        ">>> model.score(X, truth) > 0.9\nTrue"
    )
    path_parameters: ClassVar[dict[str, tuple[str, ...]]] = {"checkpoint": ()}
    models_workers: ClassVar[bool] = True
    alternates: ClassVar[bool] = False
    variants: ClassVar[tuple[Variant, ...]] = ()
    held_out_measure: ClassVar[str] = "mean log-probability; 0 is perfect"  # what `held_out` of the history is
    # Rate of the workers' parameters over the network's: appendix D of Kim et al. 2022.
    workers_faster: ClassVar[float] = 10.0

    network: Any = None
    epochs: int | None = None
    batch_size: int = 64
    learning_rate: float = 1e-3
    worker_learning_rate: float | None = None
    weight_decay: float = 0.0
    schedule: str = "constant"
    clip: float | None = None
    held_out: float = 0.1
    keep_epoch: str = "best"
    patience: int | None = None
    precision: str = "32-true"
    device: str = "auto"
    devices: int = 1
    checkpoint: str | Path | None = None
    random_state: int = 0
    augment: str | None = None

    @classmethod
    def default_worker_rate(cls, learning_rate: float) -> float:
        """Rate of the workers' parameters where `worker_learning_rate` is None.

        Parameters
        ----------
        learning_rate
            That of the network.
        """
        return max(min(cls.workers_faster * learning_rate, FASTEST), learning_rate)

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
        with _one_at_a_time, use_default_torch_settings():
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
            if not any(each.requires_grad for each in (*classifier.parameters(), *objective.parameters())):
                raise InputError("The network has no parameters to learn, or all of them are frozen (requires_grad).")
            job = TrainingJob(classifier, objective, features, crowd, torch.as_tensor(kept), valid=validation)
            if out.size:
                hidden = np.zeros(answers.n_tasks, np.bool_)
                hidden[out] = True
                job.held_crowd = Crowd(answers.keep_tasks(hidden))
                job.held_tasks = torch.as_tensor(out)
            chosen = "held_out" if validation is None else f"accuracy on {len(validation.truth)} tasks"
            own = {"features": features.digest(), "valid": chosen} if self.checkpoint is not None else {}
            state = train(job, replace(self._plan(), own=self._fingerprint(answers) | own))
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
        classifier.to("cpu", torch.float32).eval()
        objective.crowd = crowd = Crowd(answers)
        objective.to("cpu", torch.float32).eval()
        self.network_, self.module_ = classifier, objective
        self.shape_, self.columns_ = features.shape, features.columns
        self.device_ = device_name(self.device)
        self.best_epoch_ = state.best_epoch
        self.n_epochs_ = state.epoch
        history = {name: np.array([row[name] for row in state.history]) for name in state.history[0]}
        history["epoch"] = history["epoch"].astype(np.int64)
        log_f = self._forecast(features)
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
        # Where workers are not modelled, the classifier predicts their labels rather than the truth.
        alone = None if modelled is None else log_f.double().exp().numpy()
        fit = replace(make_fit(answers, shares, used.double().numpy(), alone), task_columns=columns)
        if refined is not None:
            fit = replace(fit, confusion=_normalise_rows(confusion), extra={REFINED: _normalise_rows(refined)})
        self._remember(answers, fit)
        self.history_ = native_table(history, answers.kind)
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

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder (JSON, Parquet, npz and safetensors; no pickle).

        `crowdwise.load` reads it, on any machine and device; where the network is a module of yours, it wants one like
        it: `crowdwise.load(folder, network=module)`.
        """
        from crowdwise.learn.saving import save

        self._check_fitted()
        with use_default_torch_settings():
            save(self, folder)

    # ---- what a method gives ----------------------------------------------------------------------------

    def _make_objective(self, crowd: Crowd, classifier: Classifier, features: Features) -> Objective:
        raise NotImplementedError

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

    def _check(self) -> None:
        """Refuse parameters of the method's own."""

    def _warn_if_not_identifiable(self, answers: CrowdLabels, f: FloatArray) -> None:
        """Warn where the classifier and the workers, whom the method models, may not be told apart."""
        warn_if_not_identifiable(self, answers, f)

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

    def _cuda_devices(self) -> list[int]:
        """CUDA devices whose random state is to be as it was after fitting."""
        return [torch.cuda.current_device()] if find_device(self.device).type == "cuda" else []

    def _fingerprint(self, answers: CrowdLabels) -> dict[str, str]:
        """What a checkpoint must agree with beside the plan: the method's own parameters, and the labels."""
        own = {name: repr(value) for name, value in self.get_params(deep=False).items() if name not in SHARED}
        digest = 0
        for column in (answers.task, answers.worker, answers.label):
            digest = zlib.crc32(column.tobytes(), digest)
        return own | {"labels": f"{answers.n_labels} labels, CRC {digest:08x}"}

    def _plan(self) -> TrainingPlan:
        shared = {name: getattr(self, name) for name in SHARED if name != "checkpoint"}
        if self.worker_learning_rate is None:
            shared["worker_learning_rate"] = self.default_worker_rate(self.learning_rate)
        shared["precision"] = find_precision(self.precision, self.device)
        checkpoint = None if self.checkpoint is None else Path(self.checkpoint)
        shared = {name: value.item() if isinstance(value, np.generic) else value for name, value in shared.items()}
        return TrainingPlan(**shared, checkpoint=checkpoint, name=self.slug)

    def _check_parameters(self) -> None:
        check_training_parameters(self)
        self._check()

    def _check_shape(self, features: Features) -> None:
        if features.shape != self.shape_:
            raise InputError(f"The model was trained on features of shape {self.shape_}, not {features.shape}.")
        if self.columns_ and features.columns and features.columns != self.columns_:
            at = next(i for i, (own, new) in enumerate(zip(self.columns_, features.columns, strict=True)) if own != new)
            raise InputError(
                f"Column {at + 1} of the features is {quote(features.columns[at])}; in training it was "
                f"{quote(self.columns_[at])}. Give the same columns in the same order."
            )


def _normalise_rows(confusion: torch.Tensor) -> FloatArray:
    """In double precision, where rows of single precision do not quite sum to one."""
    rows: FloatArray = (confusion.double() / confusion.double().sum(dim=2, keepdim=True)).numpy()
    return rows
