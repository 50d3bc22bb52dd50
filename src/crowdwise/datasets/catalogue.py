"""What is known about each data set: sizes to check a copy against, how to read it, published numbers.

Only labels that are classes: ratings and comparisons are in `OTHER_KINDS`, so that nobody loads them as if
they were. Majority-vote accuracies are means over random ties, measured on the copy the sizes belong to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crowdwise.labels.types import Duplicates

__all__ = ["CATALOGUE", "OTHER_KINDS", "Entry"]


@dataclass(frozen=True)
class Entry:
    """One data set.

    Attributes
    ----------
    n_tasks, n_workers, n_classes, n_labels, n_truth
        Sizes; `n_truth` counts labelled tasks whose truth is known.
    on_duplicate
        How a second answer of one worker to one task is read: "all" where the data have some.
    majority_vote
        Accuracy of the majority vote over tasks with truth, or None.
    published
        Accuracies that others report, source → method → value.
    """

    description: str
    citation: str
    n_tasks: int
    n_workers: int
    n_classes: int
    n_labels: int
    n_truth: int = 0
    on_duplicate: Duplicates = "error"
    majority_vote: float | None = None
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


LI = "Li, Rubinstein & Cohn 2019, code of truth-inference-at-scale"
TUTORIAL = "Tutorial (Ibrahim et al. 2025), spammer detection"

CATALOGUE: dict[str, Entry] = {
    "anaesthetists": Entry(
        "Fitness of patients for anaesthesia, from their forms; anaesthetist 1 answered three times",
        "Dawid & Skene 1979, Applied Statistics 28, table 1",
        45, 5, 4, 315,
        on_duplicate="all",
        published={"Dawid & Skene 1979, class shares by EM": {"1": 0.40, "2": 0.42, "3": 0.11, "4": 0.07}},
    ),
    "adult2": Entry(
        "How adult a web site is: G, P, R, X",
        "Ipeirotis, Provost & Wang 2010 (Get-Another-Label, AdultContent2)",
        11040, 825, 4, 92721, 333,
        on_duplicate="all",
        majority_vote=0.7604,
        published={LI: {"ebcc": 0.7477, "bwa": 0.7417, "bcc": 0.7447}},
    ),
    "bluebird": Entry(
        "Indigo bunting or blue grosbeak",
        "Welinder, Branson, Belongie & Perona 2010, The multidimensional wisdom of crowds",
        108, 39, 2, 4212, 108,
        majority_vote=0.7593,
        published={
            LI: {"ebcc": 0.8611, "bwa": 0.7593, "bcc": 0.8889},
            TUTORIAL: {"majority-vote": 0.759, "dawid-skene": 0.88, "spammers removed, dawid-skene": 0.899},
        },
    ),
    "cifar10h": Entry(
        "CIFAR-10 test images 9500 to 9999 by 2,571 people",
        "Peterson, Battleday, Griffiths & Russakovsky 2019, Human uncertainty makes classification robust",
        500, 2571, 10, 25752, 500,
        majority_vote=0.9900,
    ),
    "cifar10n": Entry(
        "CIFAR-10 training images, three labels each; workers are the three slots, not people",
        "Wei, Zhu, Cheng, Liu, Niu & Liu 2022, Learning with noisy labels revisited",
        50000, 3, 10, 150000, 50000,
        majority_vote=0.9119,
    ),
    "dog": Entry(
        "Four breeds of dog",
        "Zhou, Basu, Mao & Platt 2012, Learning from the wisdom of crowds by minimax entropy",
        807, 109, 4, 8070, 807,
        majority_vote=0.8227,
        published={
            LI: {"ebcc": 0.8401, "bwa": 0.8315, "bcc": 0.8389},
            TUTORIAL: {"majority-vote": 0.817, "dawid-skene": 0.834, "spammers removed, dawid-skene": 0.834},
        },
    ),
    "ducks": Entry(
        "Does the image show a duck",
        "Welinder, Branson, Belongie & Perona 2010, The multidimensional wisdom of crowds",
        240, 53, 2, 9600, 240,
        majority_vote=0.6871,
    ),
    "fact_eval": Entry(
        "Is a statement true: CrowdScale 2013 fact evaluation",
        "CrowdScale 2013 shared task",
        42624, 57, 3, 216725, 576,
        on_duplicate="all",
        majority_vote=0.9020,
        published={LI: {"bwa": 0.8872, "bcc": 0.8767}},
    ),
    "imagenet15n": Entry(
        "Fifteen ImageNet classes that are easily confused",
        "Nguyen, Ibrahim & Fu 2024, Noisy label learning with instance-dependent outliers (COINNet)",
        2514, 100, 15, 3191, 2514,
        majority_vote=0.5663,
    ),
    "labelme": Entry(
        "Eight kinds of scene, 1,000 photographs",
        "Rodrigues & Pereira 2018, Deep learning from crowds",
        1000, 59, 8, 2547, 1000,
        majority_vote=0.7659,
    ),
    "lewidi_hsbrexit": Entry(
        "Hate speech on Brexit by six annotators of two groups; no truth",
        "Akhtar, Basile & Patti 2021; Leonardelli et al. 2023 (LeWiDi)",
        1120, 6, 2, 6720,
    ),
    "music": Entry(
        "Ten genres of music, 700 songs",
        "Rodrigues, Pereira & Ribeiro 2013, Learning from multiple annotators",
        700, 44, 10, 2945, 700,
        majority_vote=0.7048,
        published={LI: {"ebcc": 0.7871, "bwa": 0.7857, "bcc": 0.7900}},
    ),
    "ner_crowd": Entry(
        "Tokens of CoNLL-2003 news with named-entity tags (a third of the set); most are O",
        "Rodrigues, Pereira & Ribeiro 2014, Sequence labeling with multiple annotators",
        24256, 47, 9, 128264, 24256,
        majority_vote=0.9168,
    ),
    "popquorn_offensive": Entry(
        "How offensive a text is, 1 to 5; no truth",
        "Pei & Jurgens 2023, When do annotator demographics matter? (POPQUORN)",
        1500, 262, 5, 13036,
    ),
    "rte": Entry(
        "Does one sentence follow from another",
        "Snow, O'Connor, Jurafsky & Ng 2008, Cheap and fast, but is it good?",
        800, 164, 2, 8000, 800,
        majority_vote=0.8960,
        published={LI: {"ebcc": 0.9313, "bwa": 0.9275, "bcc": 0.9275}},
    ),
    "sentiment_text": Entry(
        "Sentiment of sentences from reviews, aligned with their text (the labels of sp)",
        "Rodrigues, Pereira & Ribeiro 2013, Learning from multiple annotators",
        4999, 203, 2, 27746, 4999,
        majority_vote=0.8864,
        published={LI: {"ebcc": 0.9152, "bwa": 0.9170, "bcc": 0.9150}},
    ),
    "sp": Entry(
        "Sentiment of sentences from reviews",
        "Rodrigues, Pereira & Ribeiro 2013, Learning from multiple annotators",
        4999, 203, 2, 27746, 4999,
        majority_vote=0.8864,
        published={LI: {"ebcc": 0.9152, "bwa": 0.9170, "bcc": 0.9150}},
    ),
    "temp": Entry(
        "Which of two events came first",
        "Snow, O'Connor, Jurafsky & Ng 2008, Cheap and fast, but is it good?",
        462, 76, 2, 4620, 462,
        majority_vote=0.9355,
    ),
    "web": Entry(
        "Relevance of web pages to a query, five levels",
        "Zhou, Basu, Mao & Platt 2012, Learning from the wisdom of crowds by minimax entropy",
        2665, 177, 5, 15567, 2653,
        majority_vote=0.7291,
        published={
            LI: {"ebcc": 0.7686, "bwa": 0.8225, "bcc": 0.7508},
            TUTORIAL: {"majority-vote": 0.776, "dawid-skene": 0.871, "spammers removed, dawid-skene": 0.91},
        },
    ),
    "zencrowd_us": Entry(
        "Does a name in the news mean this entity, by workers in the US",
        "Demartini, Difallah & Cudré-Mauroux 2012, ZenCrowd",
        2040, 74, 2, 12190, 2040,
        on_duplicate="all",
        majority_vote=0.8617,
        published={LI: {"ebcc": 0.9123, "bwa": 0.9108, "bcc": 0.8270}},
    ),
}  # fmt: skip

OTHER_KINDS = {
    "cifar10": "images without crowd labels",
    "emotion_anger": "ratings from 0 to 100",
    "emotion_joy": "ratings from 0 to 100",
    "emotion_valence": "ratings from -100 to 100",
    "mnist": "images without crowd labels",
    "pair_llmfao": "comparisons of two answers",
    "pair_readinglevel": "comparisons of two texts",
    "wordsim": "ratings from 0 to 10",
}
