"""Carry what one project taught about its workers into the next."""

import numpy as np

import crowdwise as cw

crowd = cw.simulate.simulate("dawid-skene", n_tasks=2000, n_workers=30, n_classes=3, labels_per_task=3, random_state=1)
names = crowd.labels.tasks.to_pylist()
first, second = crowd.labels.select(tasks=names[:1900]), crowd.labels.select(tasks=names[1900:])

earlier = cw.DawidSkene(smoothing=0.1).fit(first)
alone = cw.DawidSkene(smoothing=0.1).fit(second)
informed = cw.DawidSkene(smoothing=0.1).fit(second, known_workers=earlier, known_weight=20)

truth = crowd.truth[1900:]
for name, model in (("alone", alone), ("with known workers", informed)):
    print(f"{name}: accuracy {np.mean(model.posterior_.argmax(axis=1) == truth):.3f}")
