"""The set-up on the page of a table: data, crowd, training, settings and methods, and what differs from the paper."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from crowdwise.registry import learner
from crowdwise.reproduction.figures import format_axis_value
from crowdwise.reproduction.markdown import escape_markdown, markdown_table

if TYPE_CHECKING:
    from crowdwise.reproduction.table_spec import Method, Setting, Table

__all__ = ["setup_section"]

APART = ("measures", "quick", "limits")  # tables of TOML that are no set-up


def setup_section(table: Table) -> list[str]:
    """Its paragraphs."""
    rows = [[part, _list_values(given)] for part, given in _setup_parts(table)]
    if table.axis is not None:
        values = ", ".join(format_axis_value(x) for x in table.axis.values)
        rows.append(
            [escape_markdown(table.axis.name), escape_markdown(f"{_format_setting(table.axis.sets)} = {values}")]
        )
    rows += [
        [f"setting *{escape_markdown(each.name)}*", _setting_changes(each) or "as above"] for each in table.settings
    ]
    for method in table.methods:
        model = f"`{method.learner or method.aggregator}`"
        more = [_list_values(given, "" if part == "parameters" else part) for part, given in _setup_parts(method)]
        more += [] if method.remove is None else [f"remove = {escape_markdown(method.remove)}"]
        more += _describe_worker_rate(table, method)
        rows.append([f"method *{escape_markdown(method.name)}*", ", ".join([model, *more])])
    parts = ["## Set-up", markdown_table(["", ""], rows)]
    if table.differs:
        parts += ["What differs from the paper:", "\n".join(f"- {escape_markdown(each)}" for each in table.differs)]
    return parts


def _describe_worker_rate(table: Table, method: Method) -> list[str]:
    """The rate of the workers' parameters, where a method learns them by gradient and nothing sets it."""
    if method.learner is None:
        return []
    made = learner(method.learner).load()
    training = table.training | method.training
    by_gradient = made.workers_faster == 1 or (made.models_workers and not made.alternates)
    if not by_gradient or "worker_learning_rate" in training | method.parameters:
        return []
    rate = made.default_worker_rate(training.get("learning_rate", made.learning_rate))
    return [f"rate of the workers = {rate:g}"]


def _setup_parts(each: Table | Setting | Method) -> list[tuple[str, dict[str, Any]]]:
    """What it says of data, crowd, training and the like."""
    named = [(one.name, getattr(each, one.name)) for one in fields(each) if one.name not in APART]
    return [(name, given) for name, given in named if isinstance(given, dict) and given]


def _setting_changes(setting: Setting) -> str:
    return ", ".join(_list_values(given, part) for part, given in _setup_parts(setting))


def _list_values(values: dict[str, Any], part: str = "") -> str:
    return ", ".join(
        escape_markdown(f"{part + '.' if part else ''}{name} = {_format_setting(value)}")
        for name, value in values.items()
    )


def _format_setting(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_format_setting(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_format_setting, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)
