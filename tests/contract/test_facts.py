"""What stands on the class of every method: the constructor, the facts, the documentation, and old names."""

from __future__ import annotations

import dataclasses
import inspect
import json
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.fitting.method_facts import FAMILIES, LEARNER_FAMILIES, read_facts

if TYPE_CHECKING:
    from pathlib import Path

    from crowdwise.registry import Entry

EVERY = pytest.mark.parametrize("entry", [*cw.methods(), *cw.learners()], ids=lambda entry: entry.slug)


@EVERY
def test_a_method_is_a_dataclass_of_parameters_by_keyword(entry: Entry) -> None:
    cls = entry.load()
    names = {each.name for each in dataclasses.fields(cls)}
    assert set(cls().get_params(deep=False) if entry.needs != "confusion" else names) == names
    assert all(each.kind is each.KEYWORD_ONLY for each in inspect.signature(cls).parameters.values())


@EVERY
def test_every_fact_is_there(entry: Entry) -> None:
    for name in ("slug", "summary", "paper", "fails", "family"):
        assert getattr(entry, name)
    assert entry.family in {family.name for family in (*FAMILIES, *LEARNER_FAMILIES)}


def test_a_docstring_without_facts() -> None:
    class Silent(cw.MajorityVote):
        """Says too little.

        Facts
        -----
        Assumes: nothing
            at all
        Cost: none
        """

    assert read_facts(Silent, ("summary", "complexity")) == {"summary": "nothing at all", "complexity": "none"}
    with pytest.raises(TypeError, match=r'Silent lacks, in a section Facts: "Fails with: …", "Paper: …"\.'):
        read_facts(Silent, ("summary", "fails", "paper"))


def test_slugs_mean_one_thing() -> None:
    slugs = [entry.slug for entry in (*cw.methods(), *cw.learners())]
    assert len(slugs) == len(set(slugs))


@EVERY
def test_every_parameter_and_what_is_fitted_is_described(entry: Entry) -> None:
    """Also what many share, which is written down once."""
    cls = entry.load()
    described = cls.__doc__.partition("\nParameters\n")[2].partition("\nNotes\n")[0]
    heads = " ".join(line.partition(" : ")[0] for line in described.splitlines() if not line.startswith(" "))
    said = {word.strip(",") for word in heads.split()}
    assert {each.name for each in dataclasses.fields(cls)} <= said
    assert {"posterior_", "prior_", "confusion_", "skill_"} <= said


def test_seed_is_an_old_name_of_random_state() -> None:
    with pytest.warns(DeprecationWarning, match="seed of .* is now called random_state"):
        model = cw.DawidSkene(seed=3)
    assert model.random_state == 3
    with pytest.warns(DeprecationWarning, match="seed of .* is now called random_state"):
        assert model.set_params(seed=4).random_state == 4
    with pytest.raises(TypeError, match="seed"):
        cw.OneCoin(seed=3)


def test_a_model_saved_with_a_seed_loads(tmp_path: Path) -> None:
    labels = cw.datasets.load("anaesthetists").labels
    cw.DawidSkene(random_state=5).fit(labels).save(tmp_path / "model")
    header = json.loads((tmp_path / "model" / "model.json").read_text())
    header["parameters"]["seed"] = header["parameters"].pop("random_state")
    (tmp_path / "model" / "model.json").write_text(json.dumps(header))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cw.load(tmp_path / "model").random_state == 5


def test_the_learner_that_was_called_majority_vote(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="majority-vote is called hard-labels now"):
        entry = cw.learner("majority-vote")
    assert entry.slug == "hard-labels"
    X = np.eye(2)[[0, 1] * 10]
    model = entry.make(network="linear", epochs=1, held_out=0.0).fit(X, cw.CrowdLabels.from_dense([[0], [1]] * 10))
    assert model.slug == "hard-labels"
    model.save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    path.write_text(path.read_text().replace('"hard-labels"', '"majority-vote"'))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cw.load(tmp_path / "model").slug == "hard-labels"


def test_old_and_new_name_together_are_refused() -> None:
    with pytest.raises(TypeError, match="DawidSkene got both random_state and seed"):
        cw.DawidSkene(seed=1, random_state=2)  # type: ignore[call-arg]
