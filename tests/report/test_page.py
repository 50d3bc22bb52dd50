"""The report in a real browser: it draws, asks nobody, can be searched and sorted, and no name gets out of its text."""

from __future__ import annotations

import base64
import itertools
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import crowdwise as cw
from crowdwise.report.page import write_report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: install it, or name it in CHROMIUM")

CHARTS = ["agreement", "calibration", "confidence", "workers"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, audited: Any) -> str:
    audit, truth = audited()
    league = cw.compare(audit.labels, ["majority-vote", "one-coin"], folds=2, truth=truth)
    path = tmp_path_factory.mktemp("plain") / "report.html"
    write_report(audit, path, truth=truth, league=league, title="Spring campaign")
    return path.as_uri()


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory, hostile_audit: Any, hostile: tuple[str, ...]) -> str:
    audit, truth = hostile_audit
    path = tmp_path_factory.mktemp("evil") / "report.html"
    write_report(audit, path, truth=truth, title=hostile[0])
    return path.as_uri()


class Opened:
    """A page, what its console said and what it asked for."""

    def __init__(self, browser: Browser, address: str, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page: Page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.stopped: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("requestfailed", lambda request: self.stopped.append(f"{request.url} {request.failure}"))
        self.page.goto(address)
        if options.get("java_script_enabled", True):
            self.page.wait_for_selector("html[data-ready=yes]", timeout=60_000)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *error: object) -> None:
        self.context.close()

    def column(self, table: str, at: int) -> list[str]:
        return self.page.locator(f"table[data-table={table}] tbody tr > :nth-child({at})").all_inner_texts()

    def style(self, selector: str, name: str) -> str:
        return str(self.page.eval_on_selector(selector, f"node => getComputedStyle(node)['{name}']"))

    @property
    def charts(self) -> dict[str, int]:
        """Marks of each chart; axes and legends left out."""
        marks = ".mark-symbol.role-mark > path, .mark-rect.role-mark > path, .mark-rule.role-mark > line"
        script = f"nodes => nodes.map(node => [node.dataset.chart, node.querySelectorAll('{marks}').length])"
        return dict(self.page.eval_on_selector_all(".plot", script))


def test_it_draws_with_no_word_on_the_console_and_no_request(browser: Browser, plain: str) -> None:
    with Opened(browser, plain) as opened:
        assert opened.said == []
        assert opened.asked == [plain]
        drawn = opened.charts
        assert sorted(drawn) == CHARTS
        assert drawn["workers"] == 40 + 1  # and the line of guessing
        assert all(drawn.values())


def test_searching_narrows_the_table_and_dims_the_map(browser: Browser, plain: str) -> None:
    with Opened(browser, plain) as opened:
        assert len(opened.column("workers", 1)) == 25
        opened.page.get_by_label("Search by name", exact=True).fill("WORKER-003")
        assert sorted(opened.column("workers", 1)) == [f"worker-{at:04}" for at in range(30, 40)]
        assert opened.page.locator(".status[data-for=workers]").inner_text() == "10 of 40 match."
        opened.page.wait_for_timeout(100)
        faint = "[data-chart=workers] .mark-symbol.role-mark > path[opacity='0.04']"
        assert opened.page.locator(faint).count() == 30
        assert opened.page.locator("[data-chart=agreement] path[opacity='0.1']").count() == 30
        opened.page.get_by_label("Verdict").select_option("dependent workers")
        assert opened.column("workers", 1) == []
        opened.page.get_by_label("Search by name", exact=True).fill("")
        assert sorted(opened.column("workers", 1)) == [f"worker-{at:04}" for at in range(8)]
        opened.page.get_by_label("Search by name or class").fill("no such task")
        assert opened.column("tasks", 1) == []
        assert opened.said == []


def test_sorting_by_keyboard(browser: Browser, plain: str, audited: Any) -> None:
    audit, _ = audited()
    with Opened(browser, plain) as opened:
        button = opened.page.get_by_role("button", name="Skill")
        head = opened.page.locator("table[data-table=workers] th", has=button)
        assert head.get_attribute("aria-sort") == "none"
        for key, sort, best_first in (("Enter", "descending", -1), ("Space", "ascending", 1)):
            button.focus()
            opened.page.keyboard.press(key)
            assert head.get_attribute("aria-sort") == sort
            wanted = sorted(audit.model.skill_.tolist(), key=lambda skill: best_first * skill)[:25]
            assert opened.column("workers", 3) == [f"{skill:.1%}" for skill in wanted]
        assert "sorted by skill" in opened.page.locator(".status[data-for=workers]").inner_text()
        name = opened.page.locator("table[data-table=workers]").get_by_role("button", name="Worker")
        name.focus()
        opened.page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "none"
        assert opened.column("workers", 1) == [f"worker-{at:04}" for at in range(25)]
        opened.page.locator(".pager[data-for=workers]").get_by_role("button", name="Next").press("Enter")
        assert opened.column("workers", 1) == [f"worker-{at:04}" for at in range(25, 40)]


@pytest.mark.parametrize("chart", ["workers", "agreement"])
def test_a_click_on_a_point_looks_the_worker_up(browser: Browser, plain: str, chart: str) -> None:
    with Opened(browser, plain) as opened:
        opened.page.locator(f"[data-chart={chart}] .mark-symbol.role-mark > path").last.click(force=True)
        found = opened.column("workers", 1)
        assert found == [opened.page.get_by_label("Search by name", exact=True).input_value()]


def test_hostile_names_are_text(browser: Browser, evil: str, hostile: tuple[str, ...]) -> None:
    with Opened(browser, evil) as opened:
        page = opened.page
        marks = page.locator("[data-chart=workers] .mark-symbol.role-mark > path")
        for at in range(0, marks.count(), 4):
            marks.nth(at).hover(force=True)
        assert page.locator("#vg-tooltip-element td.value").count() > 0
        assert page.locator("#vg-tooltip-element :is(img, script, svg, b)").count() == 0
        search = page.get_by_label("Search by name", exact=True)
        for name in hostile[:10]:
            search.fill(name)
            assert opened.column("workers", 1) == [name]
        search.fill(hostile[14])
        cut = opened.column("workers", 1)  # two long names that begin alike
        assert [name[:119] for name in cut] == ["x" * 119] * 2
        assert len(set(cut)) == 2
        search.fill("gpj")
        assert opened.column("workers", 1) == [r"\u202egpj.exe\u2066\u2028\x01\x1b[31m"]
        assert page.evaluate("window.pwned") is None
        assert opened.said == []
        assert opened.asked == [evil]
        assert page.locator("img, iframe, object, body script:not(:nth-last-of-type(-n+3))").count() == 0
        assert page.title() == hostile[0]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_items_are_shown_on_every_page_of_the_table(browser: Browser, tmp_path: Path, audited: Any) -> None:
    audit, _ = audited()
    (tmp_path / "one.gif").write_bytes(base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"))
    evil = "<img src=x onerror=window.pwned=1>"
    table = {
        "task": [f"task-{at}" for at in range(300)],
        "text": [f"{evil} number {at}, and " + "so on " * 50 for at in range(300)],
        "image": [str(tmp_path / "one.gif")] * 300,
    }
    path = tmp_path / "report.html"
    write_report(audit, path, items=table)
    with Opened(browser, path.as_uri()) as opened:
        cells = opened.page.locator("table[data-table=tasks] td.item")
        for _ in range(2):
            names = opened.column("tasks", 1)
            assert len(names) == cells.count() == 25
            for at in (0, 24):
                number = names[at].removeprefix("task-")
                assert cells.nth(at).locator("summary").inner_text().startswith(f"{evil} number {number}, and")
                assert not cells.nth(at).locator(".whole").is_visible()
                assert cells.nth(at).locator("img").evaluate("image => image.complete && image.naturalWidth") == 1
            opened.page.locator(".pager[data-for=tasks]").get_by_role("button", name="Next").press("Enter")
        cells.first.locator("summary").click()
        assert cells.first.locator(".whole").is_visible()
        opened.page.get_by_label("Search by name, text or class").fill("number 7,")
        assert opened.column("tasks", 1) in (["task-7"], [])
        assert opened.page.evaluate("window.pwned") is None
        assert opened.said == []
        assert [each for each in opened.asked if not each.startswith("data:")] == [path.as_uri()]


def test_the_policy_would_stop_a_script_that_got_through(browser: Browser, plain: str) -> None:
    with Opened(browser, plain) as opened:
        opened.page.evaluate(
            "() => { const node = document.createElement('script'); node.textContent = 'window.pwned = 1';"
            "document.body.append(node); const image = document.createElement('img');"
            "image.setAttribute('onerror', 'window.pwned = 1'); image.src = 'https://example.org/x.png';"
            "document.body.append(image); }"
        )
        opened.page.wait_for_timeout(200)
        assert opened.page.evaluate("window.pwned") is None
        assert opened.stopped == ["https://example.org/x.png csp"]
        assert any("Content Security Policy" in each for each in opened.said)


@pytest.mark.parametrize(("scheme", "paper", "ink"), [("light", 255, 60), ("dark", 30, 220)])
def test_dark_and_light(browser: Browser, plain: str, scheme: Any, paper: int, ink: int) -> None:
    def grey(colour: str) -> int:
        return int(colour.removeprefix("rgb(").split(",")[0])

    with Opened(browser, plain, color_scheme=scheme) as opened:
        text = "[data-chart=workers] .role-axis-label text"
        assert abs(grey(opened.style("body", "backgroundColor")) - paper) < 30
        assert abs(grey(opened.style("body", "color")) - ink) < 40
        assert opened.style(text, "fill") == opened.style("body", "color")
        other = "Use light colours" if scheme == "dark" else "Use dark colours"
        opened.page.get_by_role("button", name=other).press("Enter")
        assert abs(grey(opened.style("body", "backgroundColor")) - (285 - paper)) < 30
        assert opened.style(text, "fill") == opened.style("body", "color")
        opened.page.emulate_media(media="print", color_scheme=scheme)
        assert opened.style("body", "backgroundColor") == "rgb(255, 255, 255)"
        assert opened.style("nav", "display") == "none"
        assert opened.style("form[data-for=workers]", "display") == "none"


@pytest.mark.parametrize("width", [360, 768])
@pytest.mark.parametrize("which", ["plain", "evil"])
def test_nothing_sticks_out_on_a_narrow_screen(
    browser: Browser, request: pytest.FixtureRequest, which: str, width: int
) -> None:
    address = request.getfixturevalue(which)
    with Opened(browser, address, viewport={"width": width, "height": 740}) as opened:
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        assert all(opened.charts.values())


@pytest.mark.parametrize("which", ["plain", "evil"])
def test_nothing_sticks_out_on_paper(browser: Browser, request: pytest.FixtureRequest, which: str) -> None:
    address = request.getfixturevalue(which)
    with Opened(browser, address, viewport={"width": 688, "height": 970}) as opened:  # A4 within its margins
        opened.page.emulate_media(media="print")
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= 688
        opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert opened.page.locator("details:not([open])").count() == 0


def test_words_tables_and_pictures_without_javascript(browser: Browser, plain: str) -> None:
    with Opened(browser, plain, java_script_enabled=False) as opened:
        page = opened.page
        assert "40 workers gave 1,500 labels on 300 tasks" in page.locator("#summary").inner_text()
        assert len(opened.column("workers", 1)) == 25
        assert len(opened.column("tasks", 1)) == 25
        assert page.locator("noscript svg").count() == len(CHARTS)
        assert not page.locator("form").first.is_visible()
        assert page.get_by_text("The first 25 of 40").is_visible()
        assert page.get_by_text("one-coin").first.is_visible()


def test_it_can_be_used_by_keyboard_and_read_aloud(browser: Browser, plain: str) -> None:
    with Opened(browser, plain) as opened:
        page = opened.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        for landmark in ("banner", "navigation", "main", "contentinfo"):
            assert page.get_by_role(landmark).count() == 1
        assert page.get_by_role("search").count() == 2
        nameless = "nodes => nodes.filter(node => !node.{}).length"
        assert page.eval_on_selector_all("table", nameless.format("caption")) == 0
        assert page.eval_on_selector_all("input, select", nameless.format("labels.length")) == 0
        assert page.eval_on_selector_all("th", nameless.format("scope")) == 0
        assert page.eval_on_selector_all(".plot", nameless.format("ariaLabel")) == 0
        ids = page.eval_on_selector_all("[id]", "nodes => nodes.map(node => node.id)")
        assert len(ids) == len(set(ids))
        targets = page.eval_on_selector_all("nav a", "nodes => nodes.map(node => node.hash.slice(1))")
        assert set(targets) <= set(ids)
        headings = page.eval_on_selector_all("h1, h2, h3", "nodes => nodes.map(node => Number(node.tagName[1]))")
        assert headings[0] == 1
        assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(headings))


def test_many_workers_are_few_marks_and_few_bytes(browser: Browser, tmp_path: Path, audited: Any) -> None:
    audit, _ = audited(n_tasks=1_500, n_workers=3_000, labels_per_task=10)
    path = tmp_path / "report.html"
    write_report(audit, path)
    assert path.stat().st_size < 2_200_000
    with Opened(browser, path.as_uri()) as opened:
        flagged, others = opened.page.evaluate(
            "() => { const rows = JSON.parse(document.getElementById('data').textContent).tables.workers;"
            "return [rows.filter(row => row[5] && row[1]).length, rows.filter(row => !row[5] && row[1]).length]; }"
        )
        assert flagged + others == (audit.labels.labels_per_worker > 0).sum()
        assert opened.charts["workers"] - 1 == flagged + max(500, 2_000 - flagged)
        assert "at random" in opened.page.locator("#workers figcaption").inner_text()
        opened.page.get_by_label("Search by name", exact=True).fill("worker-2999")
        assert opened.column("workers", 1) == ["worker-2999"]
        assert opened.said == []
