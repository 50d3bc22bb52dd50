"""A simulated crowd that writes texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from crowdwise.kinds.simulated_crowd import CrowdSizes, SimulatedCrowd, add_crowd_parameters
from crowdwise.kinds.texts.answers import Texts

if TYPE_CHECKING:
    from crowdwise.kinds.simulator_parameters import Share, Shares

__all__ = ["simulate_texts"]

SOUNDS = [f"{consonant}{vowel}" for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]


@add_crowd_parameters(n_tasks=50, n_workers=12, answers_per_task=4)
def simulate_texts(
    sizes: CrowdSizes,
    *,
    length: tuple[int, int] = (5, 12),
    error: Shares = (0.05, 0.5),
    spammers: Share = 0.1,
    vocabulary: int = 300,
) -> SimulatedCrowd[Texts]:
    """Sentences of made-up words, common and rare, and what workers write of them.

    Parameters
    ----------
    length
        Fewest and most words of a true text.
    error
        Smallest and largest share of words that a worker gets wrong; drawn evenly between.
    spammers
        Share of the workers who write the text of another task.

    Returns
    -------
    SimulatedCrowd
        truth : table of task and text
        error : (M,)
            Share of the words that a worker gets wrong: half of them another word, a quarter left out, a quarter with a
            word too many.
        spammer : (M,)
            Whether a worker writes the text of another task.
    """
    generator, n_tasks, n_workers = sizes.generator, sizes.n_tasks, sizes.n_workers
    words = np.array(
        [f"{SOUNDS[each % 70]}{SOUNDS[each // 70 % 70]}{'s' * (each // 4900)}" for each in range(vocabulary)]
    )
    shares = 1.0 / np.arange(3, vocabulary + 3)
    shares /= shares.sum()
    lengths = generator.integers(length[0], length[1] + 1, n_tasks)
    true = [generator.choice(vocabulary, size, p=shares) for size in lengths]
    errors = generator.uniform(*error, n_workers)
    spammer = np.zeros(n_workers, np.bool_)
    spammer[sizes.choose(spammers)] = True
    task, worker = sizes.assign()
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
    return SimulatedCrowd(answers, truth, drawn={"error": errors, "spammer": spammer})
