"""Vega's engine, which draws charts as files and bundles the script of a page.

It reserves far more addresses than memory when it is started. Where the shell allows fewer (`ulimit -v`) it ends the
whole process, so that this is looked at before.
"""

from __future__ import annotations

from typing import Any

from crowdwise.labels.errors import InputError

try:
    import vl_convert
except ModuleNotFoundError as error:
    raise InputError(
        f"Charts as files need {error.name}, which is not installed: pip install 'crowdwise[report]'."
    ) from error

__all__ = ["bundle_script", "draw_png", "draw_svg", "refuse_few_addresses"]

RESERVED = 65 << 30  # bytes of addresses, of the engine and of Python


def draw_svg(spec: dict[str, Any], config: dict[str, Any]) -> str:
    """A chart as SVG."""
    refuse_few_addresses()
    picture: str = vl_convert.vegalite_to_svg(spec, config=config)
    return picture


def draw_png(spec: dict[str, Any], config: dict[str, Any], scale: float) -> bytes:
    """A chart as PNG, with so many pixels for each unit."""
    refuse_few_addresses()
    picture: bytes = vl_convert.vegalite_to_png(spec, config=config, scale=scale)
    return picture


def bundle_script(code: str, version: str) -> str:
    """Vega, Vega-Lite and Vega-Embed with this code behind them, as one script."""
    refuse_few_addresses()
    script: str = vl_convert.javascript_bundle(code, version)
    return script


def refuse_few_addresses() -> None:
    """Refuse to start the engine where it would end the process."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limit
        return
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if allowed != resource.RLIM_INFINITY and allowed < RESERVED:
        raise InputError(
            f"Charts reserve {RESERVED >> 30} GB of addresses (not of memory), and `ulimit -v` allows "
            f"{allowed / (1 << 30):.1f} GB here. Raise it (ulimit -v unlimited), or run this elsewhere."
        )
