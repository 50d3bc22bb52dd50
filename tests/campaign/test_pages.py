"""The pages in a real browser: by keyboard, on a phone, without scripts, and live."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.campaign.campaigns import PASSWORD, TOKEN, make_campaign, serve

from crowdwise.campaign import Client
from crowdwise.campaign.answer_tables import counted_answers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: install it, or name it in CHROMIUM")
MORE = """[answers]
per_task = 9
[instructions]
text = "Say which animal the text is about."
[[instructions.examples]]
text = "It barks."
answer = "dog"
why = "Cats do not bark."
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return make_campaign(tmp_path_factory.mktemp("pages"), 12, more=MORE)


@pytest.fixture(scope="module")
def address(campaign: Any) -> Iterator[str]:
    with serve(campaign) as where:
        yield where


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Any]:
    opened = []

    def _open(worker: str = "", **options: Any) -> Page:
        context = browser.new_context(**options)
        opened.append(context)
        page = context.new_page()
        page.problems = []  # type: ignore[attr-defined]
        page.on("console", lambda line: line.type == "error" and page.problems.append(line.text))  # type: ignore[attr-defined]
        page.on("pageerror", lambda error: page.problems.append(str(error)))  # type: ignore[attr-defined]
        with Client(address, TOKEN) as manager:
            page.goto(manager.add_worker(worker).link if worker else f"{address}/manage")
        return page

    yield _open
    for context in opened:
        context.close()


def answers_of(campaign: Any, worker: str) -> list[str]:
    table = counted_answers(campaign.store)
    rows = zip(table["worker"].to_pylist(), table["answer"].to_pylist(), strict=True)
    return [answer for name, answer in rows if name == worker]


def wait_for_answers(page: Page, n: int) -> None:
    playwright.expect(page.locator("#done")).to_have_text(str(n))


def test_ten_tasks_by_keyboard_alone(open_page: Any, campaign: Any) -> None:
    page = open_page("keyboard")
    for number in range(9):
        page.keyboard.press("12"[number % 2])
        wait_for_answers(page, number + 1)
    page.keyboard.press("u")  # the ninth is taken back …
    wait_for_answers(page, 8)
    page.keyboard.press("2")  # … and given again, otherwise
    wait_for_answers(page, 9)
    page.keyboard.press("s")
    playwright.expect(page.locator("#reason")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    playwright.expect(page.get_by_role("status")).to_have_text("Skipped.")
    for _ in range(20):  # the same without shortcuts: tab to the button of a class
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.value") == "dog":
            break
    page.keyboard.press("Enter")
    wait_for_answers(page, 10)
    assert answers_of(campaign, "keyboard") == ['"cat"', '"dog"'] * 4 + ['"dog"', '"dog"']
    assert page.problems == []


def test_on_a_phone(open_page: Any, campaign: Any) -> None:
    page = open_page("phone", viewport={"width": 360, "height": 700}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    boxes = [each.bounding_box() for each in page.locator("button.choice").all()]
    assert all(box["height"] >= 44 and box["x"] >= 0 and box["x"] + box["width"] <= 360 for box in boxes)
    page.get_by_role("button", name="cat").tap()
    wait_for_answers(page, 1)
    assert answers_of(campaign, "phone") == ['"cat"']


def test_without_a_script(open_page: Any, campaign: Any) -> None:
    page = open_page("plain", java_script_enabled=False)
    for number in range(3):
        page.get_by_role("button", name="dog").click()
        wait_for_answers(page, number + 1)
    page.get_by_role("button", name="Undo last").click()
    wait_for_answers(page, 2)
    page.locator("#skip summary").click()
    page.get_by_label("Why?").select_option(index=1)
    page.get_by_role("button", name="Skip this question").click()
    page.get_by_role("button", name="Stop for now").click()
    playwright.expect(page.get_by_role("heading", name="See you later")).to_be_visible()
    assert answers_of(campaign, "plain") == ['"dog"'] * 2


def test_what_a_screen_reader_hears(open_page: Any) -> None:
    page = open_page("reader")
    assert page.get_by_role("group", name="Which animal is it?").count() == 1
    assert page.get_by_role("heading", name="Which animal is it?").count() == 1
    unnamed = "els => els.filter(e => e.type !== 'hidden' && !e.labels?.length && !e.getAttribute('aria-label')).length"
    assert page.locator("input, select").evaluate_all(unnamed) == 0
    assert page.locator("html").get_attribute("lang") == "en"


def test_the_manager_sees_an_answer_within_two_seconds(open_page: Any, address: str, campaign: Any) -> None:
    page = open_page()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    playwright.expect(page.locator(".live.on")).to_be_visible()
    with Client(address, TOKEN) as manager, Client(address, manager.add_worker("live").token) as worker:
        question = worker.next_questions().questions[0]
        page.wait_for_timeout(700)  # what came before has been drawn
        before = int(page.locator("#n-answers").inner_text())
        began = time.perf_counter()
        worker.answer(question, "cat")
        playwright.expect(page.locator("#n-answers")).to_have_text(str(before + 1), timeout=5_000)
        assert time.perf_counter() - began < 2
    row = page.locator("#workers tr", has_text="live")
    row.get_by_text("Change").click()
    row.get_by_label("Reason").fill("a test")
    row.get_by_role("button", name="Exclude").click()
    playwright.expect(page.locator("#workers tr", has_text="live")).to_contain_text("a test")
    assert answers_of(campaign, "live") == []
    page.locator("#workers tr", has_text="live").get_by_text("Change").click()
    page.locator("#workers tr", has_text="live").get_by_role("button", name="Admit").click()
    playwright.expect(page.locator("#workers tr", has_text="live")).not_to_contain_text("excluded")
    assert answers_of(campaign, "live") == ['"cat"']
    assert page.problems == []
