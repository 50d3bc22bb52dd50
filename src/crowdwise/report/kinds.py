"""What the tests of an audit are called on the page, and what they ask, in words for those who act on them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Kind", "kind_of"]


@dataclass(frozen=True)
class Kind:
    """One kind of finding.

    Attributes
    ----------
    title
        Above its findings.
    one, many
        What is counted: so many workers, or tasks, classes, …
    asks
        The question that the test answers; "" for a kind that is found by another's test.
    nothing
        The result where nothing was found.
    """

    title: str
    one: str
    many: str
    asks: str = ""
    nothing: str = "nothing found"


KINDS = {
    "spammer": Kind("Spammers", "spammer", "spammers", "Whose labels carry no information, or say the opposite?"),
    "opposite": Kind("Workers who say the opposite", "who says the opposite", "who say the opposite"),
    "colluders": Kind(
        "Colluding workers", "colluder", "colluders", "Does a block of workers agree on the same wrong answers?"
    ),
    "dependent workers": Kind(
        "Dependent workers", "dependent worker", "dependent workers", "Who agrees more than skill explains?"
    ),
    "bias": Kind("Bias", "with a bias", "with a bias", "Do workers, or groups of them, label unlike the others?"),
    "bias of groups": Kind("Bias", "bias of a group", "biases of groups"),
    "disparity": Kind("Disparity", "disparity", "disparities", "Does the consensus treat groups of tasks differently?"),
    "drift": Kind(
        "Drift", "who changed on the way", "who changed on the way", "Does anyone get better or worse on the way?"
    ),
    "strange truth": Kind(
        "The truth that was given",
        "truth that does not fit the labels",
        "truths that do not fit the labels",
        "Is the truth about these labels at all?",
    ),
    "mislabel": Kind(
        "Probably wrong labels",
        "probably wrong label",
        "probably wrong labels",
        "Which labels, given as true or by the majority, are probably wrong?",
    ),
    "disputed answer": Kind(
        "Given answers that the crowd contradicts", "disputed given answer", "disputed given answers"
    ),
    "hard task": Kind(
        "Hard tasks", "hard task", "hard tasks", "On which tasks do workers differ more than skill explains?"
    ),
    "confused classes": Kind(
        "Classes mixed up", "pair of classes mixed up", "pairs of classes mixed up", "Which classes do many mix up?"
    ),
    "identifiability": Kind(
        "What these labels cannot tell",
        "doubt whether these labels can tell",
        "doubts whether these labels can tell",
        "Can the truth and the workers be told from these labels at all?",
        "they suffice",
    ),
}


def kind_of(name: str) -> Kind:
    """A kind by its name in the findings; one that is not known is called by its name.

    >>> kind_of("spammer").many, kind_of("strange").title
    ('spammers', 'strange')
    """
    return KINDS.get(name, Kind(name, name, name))
