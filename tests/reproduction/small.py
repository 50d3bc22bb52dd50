"""A table that runs in a moment, from which tests make others."""

from __future__ import annotations

SMALL = """
title = "A small crowd"
paper = "Nobody 2024"
place = "table 1"
about = "Two methods."
seeds = 2

[measures]
consensus = { title = "accuracy, %", times = 100 }

[crowd]
name = "hammer-spammers"
n_tasks = 30
n_workers = 5
labels_per_task = 3
n_classes = 3
skill = 0.6

[quick]
crowd = { n_tasks = 12 }

[[settings]]
name = "few"

[[settings]]
name = "many"
crowd = { labels_per_task = 5 }

[[methods]]
name = "vote"
aggregator = "majority-vote"

[[methods]]
name = "DS"
aggregator = "dawid-skene"
parameters = { max_iter = 20 }

[[published]]
measure = "consensus"
tolerance = 1.0

[published.values.few]
"vote" = [70.0, 2.0]
"DS" = 80.0

[[claims]]
says = "DS beats the vote"
measure = "consensus"
order = [["DS"], ["vote"]]
"""
