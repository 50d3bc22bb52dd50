"""Spans that workers marked in documents, until all documents and questions are known.

A worker who went through a document and marked nothing in it gave an answer as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crowdwise.formats.answer_collector import AnswerCollector

__all__ = ["MarkedSpans"]

Span = tuple[int, int, str]


class MarkedSpans:
    """Takes spans of a worker in a document (None for gold), and gives them to a collector as answers to questions."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str | None], None] = {}
        self.spans: dict[str, dict[tuple[str, str | None], list[Span]]] = {}

    def see(self, task: str, worker: str | None) -> None:
        """Take note that a worker went through a document."""
        self.seen[task, worker] = None

    def add(self, question: str, task: str, worker: str | None, span: Span) -> None:
        """Take a span: where it starts, where it ends (first character after it), and its label."""
        self.spans.setdefault(question, {}).setdefault((task, worker), []).append(span)

    def give(self, found: AnswerCollector) -> None:
        """Give everything to the collector, with an answer for every document that a worker went through."""
        for name, marked in self.spans.items():
            asked = found.question(name, "spans")
            for task, worker in self.seen:
                rows = marked.get((task, worker), [])
                if worker is None:
                    asked.add_gold(task, *rows)
                else:
                    asked.add(task, worker, *rows)
