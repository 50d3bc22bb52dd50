"""Annotations of AlpacaEval, with the fields that alpaca_eval 0.6.6 writes: alpaca-eval.json beside this file.

Two annotators compare four models with a baseline on five instructions; one answer could not be read.
"""

import json
import random
from pathlib import Path

SCORES = {"alpaca": 0.1, "vicuna": 0.35, "llama": 0.5, "yi": 0.7}  # chance to beat the baseline
BASELINE = "gpt4_turbo"

if __name__ == "__main__":
    rng, rows = random.Random(5), []
    for annotator, noise in (("weighted_alpaca_eval_gpt4_turbo", 0.0), ("claude", 0.3)):
        for number in range(5):
            for model, score in SCORES.items():
                better = 2 if rng.random() < (1 - noise) * score + noise / 2 else 1
                preference = better if annotator == "claude" else round(better + (1.5 - better) * rng.random(), 3)
                rows.append({
                    "instruction": f"Write line {number}.", "output_1": "…", "generator_1": BASELINE, "output_2": "…",
                    "generator_2": model, "dataset": "helpful_base", "annotator": annotator,
                    "preference": None if len(rows) == 39 else preference,
                    "is_switched_outputs": rng.random() < 0.5, "raw_completion": "…", "price_per_example": 0.01,
                    "time_per_example": 0.5,
                })  # fmt: skip
    text = json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    (Path(__file__).parent / "alpaca-eval.json").write_text(text, encoding="utf-8")
