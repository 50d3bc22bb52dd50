"""Judgments of MT-Bench, with the fields that FastChat's gen_judgment.py writes: mt-bench_pair.jsonl beside this file.

Two judges, four questions, three models; gpt-4 is steady, the other prefers what it sees first. One game ends in an
error.
"""

import json
import random
from itertools import combinations
from pathlib import Path

MODELS = ["alpaca", "koala", "vicuna"]  # from the worst to the best
TIME = 1686000000.0


def play(judge: str, first: str, second: str, rng: random.Random) -> str:
    if judge == "gpt-4":
        return max(first, second) if rng.random() < 0.9 else "tie"
    return first if rng.random() < 0.7 else second


if __name__ == "__main__":
    rng, lines = random.Random(4), []
    for judge in ("gpt-4", "claude-v1"):
        for question in range(81, 85):
            for one, two in combinations(MODELS, 2):
                names = {one: "model_1", two: "model_2", "tie": "tie"}
                games = names[play(judge, one, two, rng)], names[play(judge, two, one, rng)]
                if (judge, question, one, two) == ("claude-v1", 84, "koala", "vicuna"):
                    games = games[0], "error"
                lines.append({
                    "question_id": question, "model_1": one, "model_2": two, "g1_winner": games[0],
                    "g2_winner": games[1], "judge": [judge, "pair-v2"], "g1_user_prompt": "…", "g1_judgment": "…",
                    "g2_user_prompt": "…", "g2_judgment": "…", "turn": 1, "tstamp": TIME + len(lines),
                })  # fmt: skip
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (Path(__file__).parent / "mt-bench_pair.jsonl").write_text(text, encoding="utf-8")
