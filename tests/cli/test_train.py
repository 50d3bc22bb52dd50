"""`crowdwise train` and `crowdwise predict`."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from crowdwise.cli.commands.train import TrainOptions
from crowdwise.labels import CrowdLabels
from crowdwise.learn import CrowdLayer
from crowdwise.saved import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

N = 120
CLASSES = ("cat", "dog")
QUICK = ("--network", "linear", "--epochs", 20, "--learning-rate", 0.1)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Features, labels, truth, and as much again to predict."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=2 * N)
    names = np.array([f"t{number}" for number in range(2 * N)])
    X = rng.normal(size=(2 * N, 3)) + 3 * truth[:, None]
    lines = [
        f"{names[task]},{worker},{CLASSES[truth[task] if rng.random() < 0.8 else 1 - truth[task]]}\n"
        for task in range(2 * N)
        for worker in ("ann", "bob", "cy")
    ]
    head = "task,worker,label\n"
    np.savez(tmp_path / "X.npz", X=X[:N], task=names[:N])
    np.savez(tmp_path / "new.npz", X=X[N:], task=names[N:])
    (tmp_path / "labels.csv").write_text(head + "".join(lines[: 3 * N]))
    (tmp_path / "new.csv").write_text(head + "".join(lines[3 * N :]))
    (tmp_path / "truth.csv").write_text(
        "task,label\n" + "".join(f"{name},{CLASSES[k]}\n" for name, k in zip(names, truth, strict=True))
    )
    return tmp_path


@pytest.fixture
def train(cw: Callable[..., Any], place: Path) -> Callable[..., Any]:
    def run(*arguments: object, **given: Any) -> Any:
        return cw("train", "--features", place / "X.npz", "--labels", place / "labels.csv", *QUICK, *arguments, **given)

    return run


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_page(train: Callable[..., Any], place: Path) -> None:
    ran = train("--truth", place / "truth.csv", "--out", place / "out")
    assert (ran.code, ran.err) == (0, "")
    page = " ".join(ran.out.split())
    for part in (
        "A classifier of 2 classes, from the features of 120 tasks and 360 labels by 3 workers.",
        "By trace with the network linear",
        "epoch kept",
        "of 20",
        "labels held out",
        "against the truth of 120 tasks",
        "Workers, best first",
        "out/history.csv",
        "crowdwise predict",
    ):
        assert part in page
    assert max(map(len, ran.out.split("\nWritten")[0].splitlines())) <= 80
    assert {file.name for file in (place / "out").iterdir()} == {"consensus.csv", "workers.csv", "history.csv", "model"}
    consensus = rows((place / "out" / "consensus.csv").read_text())
    assert [row["task"] for row in consensus] == [f"t{number}" for number in range(N)]
    assert [row["worker"] for row in rows((place / "out" / "workers.csv").read_text())] == ["ann", "bob", "cy"]
    history = rows((place / "out" / "history.csv").read_text())
    assert [row["epoch"] for row in history] == [str(epoch) for epoch in range(1, 21)]
    assert load(place / "out" / "model").epochs == 20


@pytest.mark.parametrize(
    ("method", "measure"),
    [
        ("trace", "mean log-probability; 0 is perfect"),
        ("max-mig", "information shared with the classifier; 0 is none"),
        ("learn2agree", "minus the classifier's cost; 0 is perfect"),
    ],
)
def test_what_was_held_out_is_named(method: str, measure: str, train: Callable[..., Any]) -> None:
    assert measure in " ".join(train("--method", method).out.split())


@pytest.mark.parametrize(
    ("given", "new"),
    [
        ("X.npz:X_train", "new.npz"),
        ("X.npy", "new.npy"),
        ("my.features.csv.gz", "new.csv.gz"),
        ("a.b.parquet", "new.parquet"),
        ("-", "new.npz"),
        (".", "new-images"),
    ],
)
def test_the_next_step_names_features_of_the_same_kind(given: str, new: str) -> None:
    assert TrainOptions(features=given).example_features_name == new


def test_json(train: Callable[..., Any], place: Path) -> None:
    ran = train("--truth", place / "truth.csv", "--json")
    facts = ran.json
    assert (facts["method"], facts["network"], facts["n_tasks"], facts["n_labels"]) == ("trace", "linear", 120, 360)
    assert facts["n_epochs"] == 20
    assert -0.8 < facts["held_out"] < 0
    assert facts["valid_accuracy"] is None
    assert (facts["n_truth"], facts["accuracy"] > 0.85) == (120, True)
    assert train("--truth", place / "truth.csv", "--json").json["held_out"] == facts["held_out"]
    assert train("--truth", place / "truth.csv", "--json", "--seed", 1).json["held_out"] != facts["held_out"]


def test_validation_set(train: Callable[..., Any], place: Path) -> None:
    ran = train("--valid", place / "new.npz", "--valid-truth", place / "truth.csv", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["held_out"] is None
    assert ran.json["valid_accuracy"] > 0.9
    page = train("--valid", place / "new.npz", "--valid-truth", place / "truth.csv").out
    assert "right, from the features alone" in page


def test_predict(train: Callable[..., Any], cw: Callable[..., Any], place: Path) -> None:
    assert train("--out", place / "out").code == 0
    model = place / "out" / "model"
    alone = cw("predict", model, "--features", place / "new.npz")
    assert (alone.code, alone.err) == (0, "")
    table = rows(alone.out)
    assert list(table[0]) == ["task", "label", "confidence", "p_cat", "p_dog"]
    assert [row["task"] for row in table] == [f"t{number}" for number in range(N, 2 * N)]
    assert all(
        float(row["confidence"]) == float(row[f"p_{row['label']}"]) == max(float(row["p_cat"]), float(row["p_dog"]))
        for row in table
    )
    facts = cw("predict", model, "--features", place / "new.npz", "--truth", place / "truth.csv", "--json").json
    assert facts["accuracy"] > 0.9
    scored = cw("predict", model, "--features", place / "new.npz", "--truth", place / "truth.csv")
    assert scored.out == alone.out
    assert f"against the truth of 120 tasks: accuracy {facts['accuracy']:.1%}, log loss" in scored.err
    assert facts["predictions"][0]["probabilities"]["cat"] == pytest.approx(float(table[0]["p_cat"]))
    shares = load(model).predict_proba(place / "new.npz", place / "new.csv")
    ran = cw("predict", model, "--features", place / "new.npz", "--labels", place / "new.csv", "--out", place / "p.csv")
    assert (ran.code, ran.err) == (0, "")
    assert "120 tasks classified by trace from features and labels" in " ".join(ran.out.split())
    with_labels = rows((place / "p.csv").read_text())
    np.testing.assert_allclose([float(row["p_dog"]) for row in with_labels], shares[:, 1], atol=1e-12)
    assert [row["p_dog"] for row in with_labels] != [row["p_dog"] for row in table]


def test_new_workers_are_told(train: Callable[..., Any], cw: Callable[..., Any], place: Path) -> None:
    train("--out", place / "out")
    stdin = (place / "new.csv").read_bytes().replace(b"bob", b"eve")
    ran = cw("predict", place / "out" / "model", "--features", place / "new.npz", "--labels", "-", stdin=stdin)
    assert ran.code == 0
    assert "note: 1 worker the model has not met" in ran.err


def test_images_and_tables(cw: Callable[..., Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for number in range(40):
        pixels = (rng.integers(100, size=(6, 5)) + 150 * (number % 2)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{number}.png")
    lines = [f"{number},{worker},{CLASSES[number % 2]}\n" for number in range(40) for worker in ("ann", "bob")]
    (tmp_path / "labels.csv").write_text("task,worker,label\n" + "".join(lines))
    asked = ["--labels", tmp_path / "labels.csv", "--epochs", 2, "--batch-size", 10, "--json"]
    ran = cw("train", "--features", tmp_path / "images", *asked, "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert (ran.json["network"], ran.json["n_tasks"]) == ("cnn", 40)
    said = cw("predict", tmp_path / "out" / "model", "--features", tmp_path / "images")
    assert len(rows(said.out)) == 40
    assert load(tmp_path / "out" / "model").shape_ == (1, 6, 5)
    ran = cw("train", "--features", tmp_path / "images", "--image-size", 4, *asked, "--out", tmp_path / "small")
    assert load(tmp_path / "small" / "model").shape_ == (1, 4, 4)
    ran = cw("predict", tmp_path / "small" / "model", "--features", tmp_path / "images")
    assert (ran.code, len(rows(ran.out))) == (0, 40)
    assert "note: Images are taken at 4 × 4 pixels, as in training." in ran.err
    ran = cw("predict", tmp_path / "small" / "model", "--features", tmp_path / "images", "--image-size", 5)
    assert (ran.code, ran.out) == (2, "")
    assert "trained on features of shape (1, 4, 4), not (1, 5, 5)" in ran.err
    table = "task,x,y\n" + "".join(f"{number},{number % 2},{rng.random():.3f}\n" for number in range(40))
    ran = cw("train", "--features", "-", *asked, stdin=table.encode())
    assert ran.code == 0, ran.err
    assert ran.json["network"] == "mlp"
    (tmp_path / "table.csv").write_text(table)
    cw("train", "--features", tmp_path / "table.csv", *asked, "--out", tmp_path / "rows")
    (tmp_path / "turned.csv").write_text(table.replace("task,x,y", "task,y,x"))
    ran = cw("predict", tmp_path / "rows" / "model", "--features", tmp_path / "turned.csv")
    assert (ran.code, ran.out) == (2, "")
    assert "Column 1 of the features is 'y'; in training it was 'x'." in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "trase"], "There is no learner 'trase'. Did you mean 'trace'?"),
        (["--method", "oracle"], "oracle needs the workers' true confusion matrices"),
        (["--network", "transformer"], "network is 'transformer'; it must be one of linear"),
        (["--network", "cnn"], "The network 'cnn' is for images"),
        (["--learning-rate", "-1"], "learning_rate"),
        (["--device", "tpu"], "device"),
        (["--image-size", "8"], "An image size is for a folder of images"),
        (["--valid", "x.npz"], "--valid and --valid-truth belong together"),
        (["--valid", "gone.npz", "--valid-truth", "gone.csv"], "There is no file"),
        (["--truth", "-", "--valid", "-", "--valid-truth", "t.csv"], "only one of the files"),
        (["--classes", "cat,cow"], "cow"),
    ],
)
def test_refused(arguments: list[str], message: str, train: Callable[..., Any], place: Path) -> None:
    ran = train(*arguments, "--out", place / "out")
    assert (ran.code, ran.out) == (2, "")
    assert message in " ".join(ran.err.split())
    assert ran.err.count("\n") == 1
    assert not (place / "out").exists()


def test_features_of_other_tasks(cw: Callable[..., Any], place: Path) -> None:
    ran = cw("train", "--features", place / "new.npz", "--labels", place / "labels.csv")
    assert ran.code == 2
    assert "120 of 120 tasks have labels but no features: 't0'" in ran.err
    half = place / "half.csv"
    half.write_text("task,label\nt120,cat\n")
    ran = cw(
        *("train", "--features", place / "X.npz", "--labels", place / "labels.csv"),
        *("--valid", place / "new.npz", "--valid-truth", half),
    )
    assert ran.code == 2
    assert "119 of 120 rows of the features have no truth: 't121'" in ran.err


def test_models_that_cannot_predict(cw: Callable[..., Any], place: Path) -> None:
    assert cw("aggregate", place / "labels.csv", "--method", "dawid-skene", "--out", place / "votes").code == 0
    (place / "values.csv").write_text("task,worker,value\n1,a,0.5\n1,b,0.7\n2,a,0.2\n")
    assert cw("aggregate", place / "values.csv", "--method", "mean", "--out", place / "means").code == 0
    for model, message in (
        ("votes/model", "is of labels alone (dawid-skene)"),
        ("means/model", "is of answers (values) alone (mean). Give one that `crowdwise train` wrote, or use predict("),
        ("gone", "holds no saved model"),
        ("votes", "Did you mean the folder model in it?"),
    ):
        ran = cw("predict", place / model, "--features", place / "new.npz", "--out", place / "p.csv")
        assert (ran.code, ran.out) == (2, "")
        assert message in ran.err
        assert not (place / "p.csv").exists()


def test_warnings_become_notes(train: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "crowdwise.metrics.identifiability_conditions.ANCHOR", 2.0
    )  # no task and no worker is ever so sure
    monkeypatch.setattr("crowdwise.metrics.identifiability_conditions.EXPERT", 2.0)
    ran = train("--json")
    assert ran.code == 0
    assert "crowdwise: note: trace: the classifier and the workers may not be told apart" in ran.err
    assert any("may not be told apart" in note for note in ran.json["notes"])
    assert "may not be told apart" in " ".join(train().out.partition("Please note")[2].split())


def test_skills_that_promise_too_much_are_noted(train: Callable[..., Any]) -> None:
    counted = train("--method", "em", "--json").json
    assert not any("By the workers' skills" in note for note in counted["notes"])
    slow = train("--method", "coinnet", "--learning-rate", 1e-4, "--epochs", 1, "--json").json  # at their start
    assert any("By the workers' skills 9" in note and "Compare --method em." in note for note in slow["notes"])


def test_without_torch(place: Path) -> None:
    program = (
        "import sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'torch': raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "from crowdwise.cli import main\n"
        f"sys.exit(main(['train', '--features', {str(place / 'X.npz')!r}, '--labels', "
        f"{str(place / 'labels.csv')!r}, '--out', {str(place / 'out')!r}]))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "needs torch, which is not installed: pip install 'crowdwise[learn]'" in ran.stderr
    assert not (place / "out").exists()


def test_classes_whose_names_are_written_alike_keep_their_columns(cw: Callable[..., Any], tmp_path: Path) -> None:
    """A name with an unseen character, and one that holds the letters by which it is written out."""
    classes = ["a\u200b", r"a\u200b", "b"]
    answers = [(task, worker, classes[task % 3]) for task in range(30) for worker in ("ann", "bob")]
    labels = CrowdLabels.from_arrays(*zip(*answers, strict=True), classes=classes)
    X = np.eye(3)[np.arange(30) % 3]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        CrowdLayer(epochs=1, network="linear").fit(X, labels).save(tmp_path / "model")
    np.save(tmp_path / "X.npy", X)
    assert cw("predict", tmp_path / "model", "--features", tmp_path / "X.npy", "--out", tmp_path / "p.csv").code == 0
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[3:] == [r"p_a\u200b", r"p_a\\u200b", "p_b"]
    assert sum(float(rows[0][name]) for name in list(rows[0])[3:]) == pytest.approx(1)
