"""Saved learners of answers that are no classes: the arrays of their kind, and the network as safetensors.

The objective is not saved: what it learnt of the workers is in the arrays that the kind declares.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.fitting.parameter_checks import check_count
from crowdwise.fitting.part_digests import add_digests
from crowdwise.fitting.saving import report_errors_as_damage
from crowdwise.kinds.saving import restore_kind_model, write_kind_model
from crowdwise.labels.atomic_output import replace_folder
from crowdwise.labels.regular_files import as_folder
from crowdwise.learn.saving import (
    check_network_given,
    check_network_unchanged,
    describe_network,
    parameters_here,
    restore_history,
    restore_network,
    write_training,
)

if TYPE_CHECKING:
    from crowdwise.learn.answer_learner import AnswerLearner

__all__ = ["restore_answer_learner", "save_answer_learner"]

MOST_OUTPUTS = 2**16  # a header that says more is not believed


def save_answer_learner(model: AnswerLearner[Any], folder: str | Path) -> None:
    """Write a fitted learner; the folder appears whole or not at all."""
    check_network_unchanged(model)
    with replace_folder(as_folder(folder)) as draft:
        network = describe_network(model) | {"n_outputs": model._n_outputs}
        epochs = {"best_epoch": model.best_epoch_, "n_epochs": model.n_epochs_}
        write_kind_model(model, draft, room="learn", network=network, **epochs)
        write_training(model, draft)
        add_digests(draft)


def restore_answer_learner(
    kind: type[AnswerLearner[Any]], folder: str | Path, header: dict[str, Any], network: Any
) -> AnswerLearner[Any]:
    """The learner that was saved, once all of it has been checked; `network` where it was trained with a user's own."""
    folder = Path(folder)
    check_network_given(folder, header, network)
    model = kind()
    with report_errors_as_damage(folder):
        check_count("n_outputs", header["network"]["n_outputs"], high=MOST_OUTPUTS)
        model.n_outputs_ = header["network"]["n_outputs"]
    restore_kind_model(model, folder, header | {"parameters": parameters_here(folder, header)})
    with report_errors_as_damage(folder):
        restore_network(model, folder, header, network)
        restore_history(model, folder, header, model.table_kind_)
    return model
