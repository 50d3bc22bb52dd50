"""From a table of answers to a consensus, with a check against a known truth: run it as it is."""

import crowdwise as cw

# A crowd with known truth: 20 workers, of whom six answer at random. With your own labels:
# labels = cw.read_labels("labels.csv")
crowd = cw.simulate.simulate("spammers", n_tasks=500, random_state=0)
labels = crowd.labels
print(labels)
print(labels.describe())

for method in (cw.MajorityVote(), cw.DawidSkene(smoothing=0.1)):
    model = method.fit(labels)
    accuracy = cw.metrics.accuracy(crowd.truth, model.posterior_.argmax(axis=1))
    error = cw.metrics.expected_calibration_error(crowd.truth, model.posterior_)
    print(f"{model.slug}: accuracy {accuracy:.3f}, calibration error {error:.3f}")

worst = model.workers().sort_by("skill").slice(0, 6)
print("least skilled:", worst["worker"].to_pylist())
