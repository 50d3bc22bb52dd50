"""Counts of a campaign as Prometheus reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.campaign.request_limits import BUCKETS

if TYPE_CHECKING:
    from crowdwise.campaign.request_limits import Counts
    from crowdwise.campaign.running_campaign import Campaign

__all__ = ["describe_metrics"]


def describe_metrics(campaign: Campaign, counts: Counts) -> str:
    """Gauges of the campaign, and requests by route."""
    gauges = {
        "answers": ("Answers that count.", campaign.n_answers),
        "leases": ("Questions that workers have before them.", campaign.n_leased),
        "tasks": ("Tasks.", len(campaign.tasks)),
        "tasks_open": ("Tasks that are not finished.", len(campaign.queue.taken)),
        "workers": ("Workers.", len(campaign.workers)),
        "writes_waiting": ("Requests that wait for the database.", campaign.writer.waiting),
        "commits_total": ("Transactions since the start.", campaign.writer.n_commits),
        "paused": ("Whether no questions are given out.", int(campaign.paused)),
    }
    lines = []
    for name, (words, value) in gauges.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP crowdwise_{name} {words}", f"# TYPE crowdwise_{name} {kind}", f"crowdwise_{name} {value}"]
    lines += [
        "# HELP crowdwise_requests_total Requests by route and status.",
        "# TYPE crowdwise_requests_total counter",
    ]
    lines += [
        f'crowdwise_requests_total{{route="{route}",status="{status}"}} {n}'
        for (route, status), n in sorted(counts.requests.copy().items())
    ]
    lines += ["# HELP crowdwise_request_seconds Time of requests.", "# TYPE crowdwise_request_seconds histogram"]
    for route, row in sorted(counts.seconds.copy().items()):
        total = 0.0
        for most, n in zip((*map(str, BUCKETS), "+Inf"), row, strict=False):
            total += n
            lines.append(f'crowdwise_request_seconds_bucket{{route="{route}",le="{most}"}} {total:g}')
        lines.append(f'crowdwise_request_seconds_sum{{route="{route}"}} {row[-1]:.6f}')
        lines.append(f'crowdwise_request_seconds_count{{route="{route}"}} {total:g}')
    return "\n".join(lines) + "\n"
