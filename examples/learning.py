"""A classifier of handwritten digits from five workers who are wrong half of the time, one label for each image."""

import tempfile
import warnings

import numpy as np
from sklearn.datasets import load_digits

import crowdwise as cw

digits = load_digits()
X, truth = digits.data, digits.target
train, test = np.arange(1200), np.arange(1200, 1797)

# Each worker takes every digit for one other of their choice. With your own labels and features:
# model.fit("X.npz", "labels.csv"), or a folder of images instead of the file
crowd = cw.simulate.simulate(
    "pairwise-flippers", n_tasks=1200, n_workers=5, skill=0.5, labels_per_task=1, truth=truth[train], random_state=0
)
print(f"{crowd.accuracy:.0%} of the labels are right")

for slug in ("hard-labels", "trace"):
    model = cw.learner(slug).make(epochs=20, learning_rate=3e-3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cw.NotIdentifiable)  # the vote's classifier is sure of little
        model.fit(X[train], crowd.labels)
    error = cw.metrics.confusion_error(crowd.confusion, model.confusion_)
    print(f"{slug}: accuracy {model.score(X[test], truth[test]):.3f}, error of the confusion matrices {error:.3f}")

# The last model, trace, with two labels of each new image as well.
new = cw.simulate.simulate_workers(
    crowd.confusion, n_tasks=len(test), labels_per_task=2, truth=truth[test], random_state=1
)
for name, said in (("features alone", None), ("features and labels", new.labels)):
    print(f"{name}: accuracy {np.mean(model.predict(X[test], said) == truth[test]):.3f}")

mistakes = model.confusion_[0] * (1 - np.eye(10))
for digit in range(3):
    other = mistakes[digit].argmax()
    print(f"the first worker takes {digit} for {other} in {mistakes[digit, other]:.0%} of cases")

with tempfile.TemporaryDirectory() as folder:
    model.save(f"{folder}/model")
    again = cw.load(f"{folder}/model")
    print("the saved model says the same:", np.array_equal(again.predict(X[test]), model.predict(X[test])))
