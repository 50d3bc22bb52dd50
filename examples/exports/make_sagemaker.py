"""Files of Amazon SageMaker Ground Truth, by its documentation (the service has no package that writes them).

Writes beside this file: sagemaker/ (the folder of a job: worker responses to six rows by three workers, and the input
manifest) and sagemaker-request.json (the request to a consolidation function, with the same answers).
"""

import json
import random
import shutil
from pathlib import Path

HERE = Path(__file__).parent
LABELS = ["cat", "dog"]
WORKERS = {"private.us-east-1.aaa": 0.95, "private.us-east-1.bbb": 0.8, "private.us-east-1.ccc": 0.7}


def make_answers() -> list[list[dict]]:
    rng, rows = random.Random(4), []
    for row in range(6):
        answers = []
        for number, (who, skill) in enumerate(WORKERS.items()):
            said = LABELS[row % 2] if rng.random() < skill else rng.choice(LABELS)
            answers.append({
                "acceptanceTime": f"2026-03-0{row + 1}T10:0{number}:00.000Z",
                "answerContent": {"crowd-image-classifier": {"label": said}},
                "submissionTime": f"2026-03-0{row + 1}T10:0{number}:12.500Z",
                "timeSpentInSeconds": 12.5,
                "workerId": who,
                "workerMetadata": {"identityData": {"identityProviderType": "Cognito", "sub": who[-3:]}},
            })  # fmt: skip
        rows.append(answers)
    return rows


if __name__ == "__main__":
    rows = make_answers()
    job = HERE / "sagemaker"
    shutil.rmtree(job, ignore_errors=True)
    request = []
    for row, answers in enumerate(rows):
        folder = job / "annotations" / "worker-response" / "iteration-1" / str(row)
        folder.mkdir(parents=True)
        (folder / f"2026-03-0{row + 1}_10-05-00.json").write_text(json.dumps({"answers": answers}) + "\n")
        annotations = [
            {"workerId": each["workerId"], "annotationData": {"content": json.dumps(each["answerContent"])}}
            for each in answers
        ]
        data = {"s3Uri": f"s3://bucket/{row}.jpg"}
        request.append({"datasetObjectId": str(row), "dataObject": data, "annotations": annotations})
    lines = [json.dumps({"source-ref": f"s3://bucket/{row}.jpg"}) + "\n" for row in range(len(rows))]
    (job / "input.manifest").write_text("".join(lines))
    (HERE / "sagemaker-request.json").write_text(json.dumps(request, indent=1) + "\n")
