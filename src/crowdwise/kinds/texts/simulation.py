"""A simulated crowd that writes texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from crowdwise.kinds.texts.answers import Texts

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, FloatArray

__all__ = ["SimulatedTexts", "simulate_texts"]

SOUNDS = [f"{consonant}{vowel}" for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]


@dataclass(frozen=True)
class SimulatedTexts:
    """Texts, the truth and the workers that made them.

    Attributes
    ----------
    truth : table of task and text
    error : (M,)
        Share of the words that a worker gets wrong: half of them another word, a quarter left out, a quarter with a
        word too many.
    spammer : (M,)
        Whether a worker writes the text of another task.
    """

    answers: Texts
    truth: pa.Table
    error: FloatArray
    spammer: BoolArray


def simulate_texts(
    n_tasks: int = 50,
    n_workers: int = 12,
    *,
    answers_per_task: int = 4,
    length: tuple[int, int] = (5, 12),
    error: tuple[float, float] = (0.05, 0.5),
    spammers: float = 0.1,
    vocabulary: int = 300,
    random_state: int = 0,
) -> SimulatedTexts:
    """Sentences of made-up words, common and rare, and what workers write of them.

    Parameters
    ----------
    length
        Fewest and most words of a true text.
    error
        Smallest and largest share of words that a worker gets wrong; drawn evenly between.
    spammers
        Share of the workers who write the text of another task.
    """
    generator = np.random.default_rng(random_state)
    words = np.array(
        [f"{SOUNDS[each % 70]}{SOUNDS[each // 70 % 70]}{'s' * (each // 4900)}" for each in range(vocabulary)]
    )
    shares = 1.0 / np.arange(3, vocabulary + 3)
    shares /= shares.sum()
    lengths = generator.integers(length[0], length[1] + 1, n_tasks)
    true = [generator.choice(vocabulary, size, p=shares) for size in lengths]
    errors = generator.uniform(*error, n_workers)
    spammer = np.zeros(n_workers, np.bool_)
    spammer[generator.permutation(n_workers)[: round(spammers * n_workers)]] = True
    task = np.repeat(np.arange(n_tasks), answers_per_task)
    worker = np.concatenate([generator.permutation(n_workers)[:answers_per_task] for _ in range(n_tasks)])
    texts = []
    for place, who in zip(task, worker, strict=True):
        source = true[generator.integers(n_tasks)] if spammer[who] else true[place]
        slip, kind = generator.random(source.size) < errors[who], generator.integers(4, size=source.size)
        wrong = generator.choice(vocabulary, source.size, p=shares)
        said: list[int] = []
        for at, word in enumerate(source):
            if not slip[at]:
                said.append(word)
            elif kind[at] < 2:
                said.append(wrong[at])
            elif kind[at] == 2:
                said += [wrong[at], word]
        texts.append(" ".join(words[said or [source[0]]]))
    answers = Texts.from_codes(task, worker, texts, tasks=n_tasks, workers=n_workers)
    truth = pa.table({"task": np.arange(n_tasks), "text": [" ".join(words[each]) for each in true]})
    return SimulatedTexts(answers, truth, errors, spammer)
