"""The page of a panel of judges, in a real browser: nothing on the console, nothing requested, nothing run."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.report.judges_page import make_judges_page

if TYPE_CHECKING:
    from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
HOSTILE = '"><img src=x onerror=alert(1)>'
pytestmark = pytest.mark.usefixtures("no_size")


def evaluate_comparisons() -> Any:
    """Two judges of pairs, one of them a contestant with a hostile name, and people."""
    rng = np.random.default_rng(0)
    names = np.array([HOSTILE, "beta", "gamma"])
    rows: dict[str, list[Any]] = {
        name: [] for name in ("task", "judge", "left", "right", "winner", "left_length", "right_length")
    }
    people: dict[str, list[Any]] = {name: [] for name in ("task", "worker", "left", "right", "winner")}
    for task in range(60):
        one, other = rng.choice(3, 2, replace=False)
        for judge in (HOSTILE, "omega"):
            for left, right in ((one, other), (other, one)):
                row = (
                    task,
                    judge,
                    names[left],
                    names[right],
                    "left" if rng.random() < 0.7 else "right",
                    *rng.integers(9, 99, 2),
                )
                for name, value in zip(rows, row, strict=True):
                    rows[name].append(value)
        for worker in "xy":
            said = (task, worker, names[one], names[other], rng.choice(["left", "right", "tie"]))
            for name, value in zip(people, said, strict=True):
                people[name].append(value)
    return cw.judges.evaluate_panel(rows, people)


@pytest.fixture(scope="module")
def page(request: pytest.FixtureRequest) -> str:
    return make_judges_page(evaluate_comparisons(), title=HOSTILE)


def test_biases_are_drawn_and_names_escaped(page: str) -> None:
    assert "Preference for the answer shown first" in page
    assert "<img" not in page
    assert "Biases of the judges" in page
    assert len(page) < 4_000_000


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: install it, or name it in CHROMIUM")
def test_in_a_browser(page: str, tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")
    path = tmp_path / "judges.html"
    path.write_text(page, encoding="utf-8")
    said: list[str] = []
    asked: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page(viewport={"width": 390, "height": 800})
        opened.on("console", lambda message: said.append(message.text))
        opened.on("pageerror", lambda error: said.append(str(error)))
        opened.on("dialog", lambda dialog: said.append(dialog.message))
        opened.on("request", lambda request: asked.append(request.url))
        opened.goto(path.as_uri())
        assert opened.locator("figure.chart svg").count() >= 4
        assert opened.locator("h1").inner_text() == HOSTILE
        wide = opened.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        broken = opened.eval_on_selector_all(
            "nav a", "links => links.filter(a => !document.querySelector(a.hash)).length"
        )
        browser.close()
    assert said == []
    assert asked == [path.as_uri()]
    assert wide <= 0
    assert broken == 0
