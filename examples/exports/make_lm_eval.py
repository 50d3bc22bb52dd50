"""Logged samples of lm-eval 0.4.13, by its own code: the folder lm-eval beside this file, a folder for each model.

    pip install lm-eval && python make_lm_eval.py

Six questions with three choices each, asked four models; the likelihoods are made up. And two sums, of whose answers
two filters make something.
"""

import random
import shutil
from pathlib import Path

from lm_eval.loggers import EvaluationTracker
from lm_eval.utils import hash_string

SKILLS = {"ada": 0.95, "bo": 0.8, "cleo": 0.7, "dan": 0.5}
CHOICES = ["red", "green", "blue"]


def make_choices(model: str) -> list[dict]:
    rng, samples = random.Random(model), []
    for number in range(6):
        question, truth = f"Colour {number}?", number % 3
        said = truth if rng.random() < SKILLS[model] else rng.randrange(3)
        likely = [(-0.5 if place == said else -2.0 - rng.random(), place == said) for place in range(3)]
        samples.append({
            "doc_id": number, "doc": {"question": question}, "target": truth,
            "arguments": [(question, f" {choice}") for choice in CHOICES],
            "resps": [[each] for each in likely], "filtered_resps": likely, "filter": "none", "metrics": ["acc"],
            "doc_hash": hash_string(question), "prompt_hash": hash_string(question), "target_hash": hash_string("t"),
            "acc": float(said == truth),
        })  # fmt: skip
    return samples


def make_sums(model: str) -> list[dict]:
    samples = []
    for number in range(2):
        question, found = f"{number} + 1?", str(number + 1 + (model == "dan"))
        for which, said in (("strict-match", found if model != "bo" else "[invalid]"), ("flexible-extract", found)):
            samples.append({
                "doc_id": number, "doc": {"question": question}, "target": str(number + 1),
                "arguments": [(question, {"until": ["."]})], "resps": [[f"It is {found}"]], "filtered_resps": [said],
                "filter": which, "metrics": ["exact_match"], "doc_hash": hash_string(question),
                "prompt_hash": hash_string(question), "target_hash": hash_string("t"), "exact_match": 1.0,
            })  # fmt: skip
    return samples


if __name__ == "__main__":
    folder = Path(__file__).parent / "lm-eval"
    shutil.rmtree(folder, ignore_errors=True)
    for model in SKILLS:
        tracker = EvaluationTracker(output_path=str(folder))
        tracker.general_config_tracker.model_name_sanitized = model
        tracker.date_id = "2025-03-01T12-00-00.000000"
        tracker.save_results_samples("colours", make_choices(model))
        tracker.save_results_samples("sums", make_sums(model))
