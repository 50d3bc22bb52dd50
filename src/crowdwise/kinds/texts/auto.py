"""The method whose texts are nearest to answers that it has not seen.

Each fifth of the answers is held out in turn, or one where there are more than 2,000. Each candidate is fitted to the
rest, and the held-out answers have a density by their distance from its texts (`model.py`). The first candidate is kept
unless another one gains more than the standard error of the difference. No truth is looked at. Annotation scaling is no
candidate: it costs twenty times as much as the weighted medoid, and is as good in simulated crowds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.kinds.held_out import HeldOutChoice, held_out_folds, keep_unless_better, score_held_out
from crowdwise.kinds.texts.medoids import WeightedMedoid
from crowdwise.kinds.texts.word_votes import AlignedWords, WordVotes, too_long_to_align
from crowdwise.kinds.texts.words import split_words
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.kinds.model import Found
    from crowdwise.kinds.texts.answers import Texts
    from crowdwise.kinds.texts.model import Chosen, TextCrowd, TextModel

__all__ = ["AutoTexts"]

CANDIDATES: tuple[type[TextModel], ...] = (WeightedMedoid, WordVotes)
FEWEST = 20  # answers to hold some out of
MANY = 2000  # answers, of which one fifth tells as much as is needed


@estimator
class AutoTexts(HeldOutChoice, AlignedWords):
    """The better of weighted-medoid and word-votes, by how near their texts are to held-out answers.

    Words are put together only where the distance is one of texts: with a function of yours, every consensus is one of
    the answers.

    Facts
    -----
    Assumes: answers that are held out are like those that are not
    Fails with: very few answers, of which none can be held out: then weighted-medoid is taken
    Cost: that of its candidates, six times; twice above 2,000 answers
    Paper: held-out likelihood (Geisser 1975)
    """

    slug = "auto"
    candidates = CANDIDATES
    saved: ClassVar[tuple[SavedArray, ...]] = (
        *HeldOutChoice.choice_arrays(len(CANDIDATES)),
        SavedArray("accuracy", "M", low=1e-12, high=1 - 1e-12, together="words"),
    )

    distance: str | Callable[[str, str], float] = "gleu"

    def _fit(self, answers: Texts, gold: list[str | None] | None) -> Found:
        chosen, means = 0, np.full(len(CANDIDATES), np.nan)
        if answers.n_answers >= FEWEST:
            tried = [place for place, each in enumerate(CANDIDATES) if self._applies(each, answers)]
            folds, parts = held_out_folds(answers), (0,) if answers.n_answers > MANY else None
            scores = [score_held_out(self._make(place), answers, folds, parts) for place in tried]
            means[tried] = [each.mean() for each in scores]
            chosen = tried[keep_unless_better(scores)]
        self.__dict__.pop("accuracy_", None)  # of an earlier fit
        best = self._make(chosen)._fit(answers, gold)
        best.arrays.update(chosen=np.array([chosen]), held_out=means)
        return best

    def _make(self, place: int) -> TextModel:
        made: TextModel = CANDIDATES[place]().set_params(distance=self.distance)
        return made

    def _applies(self, method: type[TextModel], answers: Texts) -> bool:
        if method is not WordVotes:
            return True
        words = [split_words(text) for text in answers.text.to_pylist()] if not callable(self.distance) else []
        return not callable(self.distance) and not too_long_to_align(words, answers.task)

    def _check_restored(self) -> None:
        if (self.chosen_method == WordVotes.slug) != hasattr(self, "accuracy_"):
            raise InputError("there is an accuracy of workers where word-votes was not chosen, or none where it was")

    def _choose(self, crowd: TextCrowd) -> Chosen:
        chosen: Chosen = self.chosen_class._choose(self, crowd)
        return chosen
