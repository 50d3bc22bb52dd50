"""A network that scores items from comparisons, where three in ten workers say the opposite of what they find."""

import tempfile

import numpy as np
from sklearn.datasets import load_digits

import crowdwise as cw
from crowdwise.kinds import simulate_comparisons

X, digit = load_digits(return_X_y=True)
train, test = np.arange(800), np.arange(800, 1797)

# The larger the digit, the better. With your own: model.fit("X.npz", "comparisons.csv"), whose columns are
# worker, left, right and label, the items being rows of the features.
crowd = simulate_comparisons(
    800, 30, answers_per_worker=80, adversaries=0.3, ties=0.0, scores=0.5 * (digit[train] - 4.5), random_state=0
)

for reliability in ("none", "slope"):
    model = cw.ScoringNetwork(reliability=reliability, epochs=15, random_state=0).fit(X[train], crowd.answers)
    print(f"reliability={reliability}: {model.score(X[test], digit[test]):.3f} of the pairs of new images are in order")

workers = model.workers()
opposite = workers["reliability"].to_numpy() < 0.5
print(f"{opposite.sum()} of 30 workers mean the opposite; {(crowd.slope < 0).sum()} do")
print(model.preferences().slice(0, 3).to_pylist())

first, second = np.flatnonzero(digit[test] == 9)[0], np.flatnonzero(digit[test] == 0)[0]
print(f"a 9 before a 0: {model.predict_pairs(X[test], [first], [second])[0]:.2f}")

with tempfile.TemporaryDirectory() as folder:
    model.save(f"{folder}/model")
    again = cw.load(f"{folder}/model")
    print("the saved model says the same:", np.array_equal(again.predict(X[test]), model.predict(X[test])))
