"""What pages are made of: templates, a content security policy, inert JSON, and pictures with ids of their own."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from functools import cache
from importlib import resources
from typing import Any

from crowdwise.labels.errors import InputError

try:
    import altair as alt
    import jinja2
    from markupsafe import Markup
except ModuleNotFoundError as error:
    raise InputError(
        f"The report needs {error.name}, which is not installed: pip install 'crowdwise[report]'."
    ) from error

from crowdwise.report.vega_pictures import bundle_script, draw_svg

__all__ = [
    "Markup",
    "bundle_vega",
    "content_security_policy",
    "draw_picture",
    "escaped_json",
    "load_template",
    "read_asset",
    "rename_svg_ids",
]


def escaped_json(value: Any) -> str:
    r"""JSON that no parser of HTML takes for anything else; what is not a number becomes null.

    >>> escaped_json({"name": "</script><b>", "skill": math.nan})
    '{"name":"\\u003c/script\\u003e\\u003cb\\u003e","skill":null}'
    """
    text = json.dumps(_json_value(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _json_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_asset(name: str) -> str:
    """A file of the page's templates."""
    return (resources.files("crowdwise.report") / "templates" / name).read_text(encoding="utf-8").strip()


@cache
def load_template(name: str) -> jinja2.Template:
    """A page's template, with the filters by which numbers are written."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(read_asset), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["percent"] = _format_percent
    environment.filters["score"] = lambda value: "–" if math.isnan(value) else f"{value:.3f}"
    environment.filters["chance"] = _format_p_value
    return environment.get_template(name)


def _format_percent(share: float) -> str:
    """A share to a tenth of a percent; 100 % only where that is so.

    >>> _format_percent(0.1234), _format_percent(0.99996), _format_percent(1.0)
    ('12.3%', '>99.9%', '100.0%')
    """
    if math.isnan(share):
        return "–"
    return ">99.9%" if 0.9995 <= share < 1 else f"{share:.1%}"


def _format_p_value(p_value: float) -> str:
    """A p-value in words.

    >>> _format_p_value(0.034), _format_p_value(0.00002)
    ('3.4 in 100', 'less than 1 in 1,000')
    """
    if math.isnan(p_value):
        return "not known"
    return "less than 1 in 1,000" if p_value < 0.001 else f"{100 * p_value:.2g} in 100"


@cache
def bundle_vega() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script."""
    version = alt.SCHEMA_VERSION.removeprefix("v").rpartition(".")[0]
    code = bundle_script("window.vegaEmbed = vegaEmbed;", version)
    if re.search(r"</script|<!--", code, re.IGNORECASE) or "\r" in code:
        raise InputError("The charts' script cannot be put into a page. Install another version of vl-convert-python.")
    return code


def content_security_policy(*scripts: str) -> str:
    """Nothing is loaded, and these scripts alone are run; styles may be inline, as Vega's tooltips are."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes) or "'none'"
    rest = "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {allowed}; {rest}"


def draw_picture(spec: dict[str, Any], config: dict[str, Any], name: str) -> str:
    """A chart as SVG, to be put into a page under this name."""
    return rename_svg_ids(draw_svg(spec, config), name)


def rename_svg_ids(picture: str, name: str) -> str:
    """The picture with ids of its own, since a page holds several; Vega counts them on from chart to chart."""
    ids = dict.fromkeys(re.findall(r'\bid="([\w-]+)"', picture))
    for number, each in enumerate(ids):
        picture = picture.replace(f'id="{each}"', f'id="{name}-{number}"').replace(
            f"url(#{each})", f"url(#{name}-{number})"
        )
    return picture
