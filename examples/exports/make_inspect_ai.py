"""Logs of inspect_ai 0.3 as the package writes them: inspect-ai.eval and inspect-ai.json beside this file.

    pip install inspect_ai && python make_inspect_ai.py

Eight questions, the answers of a model, and three judges of these, who are right with different
probability; the last judge gives no score to the last question.
"""

import random
import tempfile
from pathlib import Path

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Score, accuracy, scorer
from inspect_ai.solver import solver

SKILLS = [0.95, 0.8, 0.7]


@solver
def answer():
    async def solve(state, generate):  # noqa: ARG001 (without asking a model, which would count tokens)
        state.output = ModelOutput.from_content("mockllm/model", f"Answer {state.sample_id}")
        return state

    return solve


@scorer(metrics=[accuracy()])
def judge(number: int):
    async def score(state, target):  # noqa: ARG001
        task = int(state.sample_id)
        if (number, task) == (2, 8):
            return Score(value=float("nan"))
        rng = random.Random(f"{number} {task}")
        truth = "CI"[task % 2]
        return Score(value=truth if rng.random() < SKILLS[number] else rng.choice("CIP"))

    return score


if __name__ == "__main__":
    samples = [
        Sample(id=task, input=f"Question {task}?", target="yes", metadata={"topic": "ab"[task % 4 // 2]})
        for task in range(1, 9)
    ]
    with tempfile.TemporaryDirectory() as folder:
        (log,) = evaluate(
            Task(dataset=samples, solver=answer(), scorer=[judge(number) for number in range(3)]),
            model="mockllm/model", log_dir=folder, display="none",
        )  # fmt: skip
        whole = read_eval_log(log.location)
        whole.eval.revision = None  # of the folder that this was run in
    for suffix in ("eval", "json"):
        write_eval_log(whole, str(Path(__file__).parent / f"inspect-ai.{suffix}"))
