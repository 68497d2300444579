"""The main journeys in a real browser, with screenshots and timings in tests/app/screenshots.

Needs Playwright and Debian's Chromium (.ci/install-browser); skipped without them.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import numpy as np
import pytest

from tests.support import random_requests, write_trace

playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: run .ci/install-browser"),
    pytest.mark.xdist_group("browser"),
]

ROOT = Path(__file__).resolve().parents[2]
SHOTS = Path(__file__).parent / "screenshots"
CHART = "[data-testid=stVegaLiteChart] svg.marks:has(.role-axis-title)"
DRAWN = f"{CHART}:has(.mark-line path, .mark-symbol path)"
# a closed network and no GPU: nothing may be fetched in the background
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def server():
    with _serve() as (url, _):
        yield url


@contextmanager
def _serve() -> Iterator[tuple[str, subprocess.Popen]]:
    """A fresh server that answers; nothing may have failed in it by its end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.headless=true",
        f"--server.port={port}", "--server.address=127.0.0.1", "--server.fileWatcherType=none",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            _wait_for(f"http://127.0.0.1:{port}/_stcore/health", process)
            yield f"http://127.0.0.1:{port}", process
        finally:
            process.terminate()
            said = process.communicate(timeout=30)[0].decode()
    assert "Traceback" not in said, said


def _wait_for(url: str, process: subprocess.Popen) -> None:
    for _ in range(300):
        assert process.poll() is None, process.stdout.read().decode()
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the server did not start")


@pytest.fixture(scope="module")
def browser():
    with playwright_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser, server, request):
    """A page in a window of its own; ``parametrize`` it with (width, scheme) indirectly."""
    width, scheme = getattr(request, "param", (1280, "light"))
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, base_url=server
    )
    context.set_default_timeout(180_000)  # a new machine compiles first, other tests beside it
    yield context.new_page()
    context.close()


def _log(line: str) -> None:
    line += f" (load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)"
    SHOTS.mkdir(exist_ok=True)
    print(line)
    with (SHOTS / "timings.txt").open("a") as file:
        file.write(f"{line}\n")


def _idle_script(page) -> None:
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')


def _idle(page) -> None:
    """Wait until the script rests and no sweep runs."""
    _idle_script(page)
    page.wait_for_function("!document.querySelector('[data-testid=stProgress]')")
    page.wait_for_timeout(400)


def _shoot(page, name: str) -> None:
    """A screenshot of the whole page: Streamlit scrolls inside its own window."""
    SHOTS.mkdir(exist_ok=True)
    size = page.viewport_size
    height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({**size, "height": min(height + 40, 3600)})
    page.wait_for_timeout(700)
    page.screenshot(path=SHOTS / f"{name}.png")
    page.set_viewport_size(size)


def _healthy(page) -> None:
    assert page.locator("[data-testid=stException]").count() == 0
    assert page.locator("[data-testid=stAlertContentError]").count() == 0
    assert "Traceback" not in page.inner_text("body")


def _picture(page) -> str:
    return page.locator(CHART).first.evaluate("drawing => drawing.outerHTML")


def _upload(page, label: str, *, name: str, data: bytes) -> None:
    page.get_by_test_id("stSidebar").get_by_text("Upload your own").click()
    chooser = page.locator("[data-testid=stFileUploader]", has_text=label).locator("input")
    chooser.set_input_files({"name": name, "mimeType": "text/plain", "buffer": data})


def _processor_seconds(process: subprocess.Popen) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_the_first_visit_of_a_fresh_server(browser):
    started = time.monotonic()
    with _serve() as (url, process):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(180_000)  # a new machine compiles first
        page = context.new_page()
        began = time.monotonic()
        page.goto(url)
        page.wait_for_selector(DRAWN)
        first = time.monotonic()
        _log(
            f"cold: first chart {first - began:.2f} s after the visit, {first - started:.2f} s "
            f"after the server's start, {_processor_seconds(process):.2f} s of its processor time"
        )
        page.get_by_role("heading", name=re.compile(r"^At \d+ tok")).wait_for()  # simulated
        _idle(page)
        _log(
            f"cold: all points at full length {time.monotonic() - began:.2f} s after the visit, "
            f"{_processor_seconds(process):.2f} s of processor time"
        )
        _healthy(page)
        context.close()


def test_ctrl_c_ends_a_server_at_work(browser):
    with _serve() as (url, process):
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{url}/?requests=100000")
        page.get_by_test_id("stProgress").wait_for(timeout=180_000)
        process.send_signal(signal.SIGINT)
        process.wait(60)  # its points would take many minutes
        context.close()


def test_open_change_a_scheduler_drag_the_sla(page):
    page.goto("/")
    page.wait_for_selector(DRAWN)
    _idle(page)
    began = time.monotonic()
    page.reload()
    page.wait_for_selector(DRAWN)
    _log(f"warm server: first chart after {time.monotonic() - began:.2f} s")
    _idle(page)
    _healthy(page)
    _shoot(page, "frontier-1280-light")

    before = _picture(page)
    box = page.get_by_role("combobox", name="Schedulers").first
    box.click()
    box.fill("static:2")
    began = time.monotonic()
    box.press("Enter")
    while _picture(page) == before:
        assert time.monotonic() - began < 180, "the chart did not change"
        page.wait_for_timeout(20)
    warm = time.monotonic() - began
    _log(f"warm: changed scheduler drawn after {warm:.2f} s")
    box.press("Escape")  # as long as the list is open, the rest of the page is hidden to roles
    _idle(page)
    assert "scheduler=static%3A2" in page.url or "scheduler=static:2" in page.url

    before = _picture(page)
    slider = page.locator("[data-testid=stSlider]", has_text="Promised speed").get_by_role("slider")
    slider.focus()
    for _ in range(5):
        slider.press("ArrowRight")
    page.wait_for_function("location.search.includes('sla=')")
    page.get_by_role("heading", name="At 180 tok/s/user").wait_for()
    assert _picture(page) != before
    _healthy(page)

    shared = page.url  # a shared link shows the same view
    other = page.context.new_page()
    other.goto(shared)
    other.get_by_role("heading", name="At 180 tok/s/user").wait_for()
    other.get_by_text("static:2", exact=True).first.wait_for()


def test_click_a_point(page):
    page.goto("/?scheduler=topk&concurrency=8&concurrency=64&requests=80")
    page.wait_for_selector(CHART)
    _idle(page)
    points = page.locator(f"{CHART} .mark-symbol.role-mark").last.locator("path")
    assert points.count() == 2
    points.last.hover(force=True)
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    for figure in ("users", "tok/s/user", "tok/s/GPU", "TTFT p99 (ms)", "verification budget"):
        assert figure in tip.inner_text()
    points.last.click(force=True)
    step = page.get_by_text("A step without prefill: 64 requests")
    step.wait_for()
    page.get_by_text("topk at 64 users").wait_for()
    page.wait_for_function("location.search.includes('point=topk%4064')")
    _shoot(page, "frontier-point")
    other = page.context.new_page()  # the point is part of the shared view
    other.goto(page.url)
    other.get_by_text("topk at 64 users").wait_for()
    page.get_by_role("button", name="Close").click()
    step.wait_for(state="detached")
    page.wait_for_function("!location.search.includes('point=')")
    _idle(page)
    page.locator(f"{CHART} .mark-symbol.role-mark").last.locator("path").last.click(force=True)
    step.wait_for()
    _healthy(page)


def test_upload_a_good_and_a_bad_trace(page, tmp_path):
    path = write_trace(tmp_path / "mine.jsonl", random_requests(np.random.default_rng(1), 40, 3))
    good = path.read_bytes()
    page.goto("/traces")
    page.wait_for_selector(CHART)
    _upload(page, "Trace (", name="bad.jsonl", data=good.replace(b'"accepted"', b'"acepted"'))
    error = page.locator("[data-testid=stAlertContentError]")
    error.wait_for()
    assert "bad.jsonl: line 2, accepted: required field is missing" in error.inner_text()
    _shoot(page, "upload-bad")
    page.locator("[data-testid=stFileUploader]", has_text="Trace (").locator(
        "input"
    ).set_input_files({"name": "mine.jsonl", "mimeType": "text/plain", "buffer": good})
    page.locator("[data-testid=stSidebar]").get_by_text("mine.jsonl · ").first.wait_for()
    page.wait_for_function("location.search.includes('mine.jsonl')")
    error.wait_for(state="detached")
    _idle(page)
    _healthy(page)
    _shoot(page, "upload-good")


def test_export(page):
    page.goto("/export?scheduler=none&scheduler=topk&concurrency=8&requests=80&engine=SGLang")
    page.get_by_text("sps_table.json").first.wait_for()
    _idle(page)
    with page.expect_download() as caught:
        page.get_by_role("button", name="sps_table.json").last.click()
    assert caught.value.suggested_filename == "sps_table.json"
    assert b"bias_seconds" in Path(caught.value.path()).read_bytes()
    _healthy(page)


def _query(page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def _open(page, name: str) -> None:
    """Change to the page that the navigation calls ``name``."""
    page.get_by_role("link", name=name).click()
    page.get_by_role("heading", name=name, exact=True).wait_for()


CHOICES = {
    "scheduler": ["none", "topk"], "trace": ["code"], "graphs": ["1,2,4,8-256:8"],
    "concurrency": ["4", "8"], "R": ["64"], "k": ["2"], "tune users": ["12"],
}  # fmt: skip


@pytest.mark.parametrize("more", [{}, {"requests": ["20000"]}], ids=["ended", "while-it-runs"])
def test_choices_follow_from_page_to_page(page, more):
    chosen = {**CHOICES, **more}
    page.goto("/?" + urlencode(chosen, doseq=True))
    page.wait_for_selector(CHART)
    if not more:
        _idle(page)
    names = ["Traces", "Load", "Scheduler lab", "Tune", "Profiles", "Calibration", "Frontier"]
    for name in names:
        _open(page, name)
        assert _query(page) == chosen
    _idle_script(page)
    assert _query(page) == chosen
    page.locator("[data-testid=stMultiSelect]", has_text="code").first.wait_for()
    if more:
        page.get_by_test_id("stMain").get_by_role("button", name="Stop").click()
    _healthy(page)


def _move(page, slider: str) -> None:
    """One step to the right; back once it was sent, 200 ms later, not once it was answered."""
    page.locator("[data-testid=stSlider]", has_text=slider).get_by_role("slider").press(
        "ArrowRight"
    )
    page.evaluate("new Promise(done => setTimeout(done, 250))")


def test_a_choice_made_just_before_the_page_is_changed_is_kept(page):
    page.goto("/lab?R=64")
    page.wait_for_selector(CHART)
    _idle(page)
    _move(page, "Decoding requests")
    _open(page, "Traces")
    _move(page, "Draft position")
    _open(page, "Scheduler lab")
    page.wait_for_selector(CHART)
    _idle(page)
    assert _query(page) == {"R": ["96"], "k": ["2"]}


def test_back_brings_the_choice_before(page):
    page.goto("/lab?R=64")
    page.wait_for_selector(CHART)
    _idle(page)
    slider = page.locator("[data-testid=stSlider]", has_text="Decoding requests").get_by_role(
        "slider"
    )
    slider.press("ArrowRight")
    page.wait_for_function("location.search == '?R=96'")
    _idle(page)
    page.go_back()
    page.wait_for_function("location.search == '?R=64'")
    _idle(page)
    assert slider.get_attribute("aria-valuetext") == "64"
    page.go_forward()
    page.wait_for_function("location.search == '?R=96'")
    _idle(page)
    assert slider.get_attribute("aria-valuetext") == "96"
    _open(page, "Traces")
    _idle(page)
    page.go_back()
    page.get_by_role("heading", name="Scheduler lab", exact=True).wait_for()
    _idle(page)
    assert _query(page) == {"R": ["96"]}
    assert slider.get_attribute("aria-valuetext") == "96"


def test_a_long_sweep_is_ended_and_goes_on(page):
    page.goto("/?requests=50000")
    main = page.get_by_test_id("stMain")
    main.get_by_role("button", name="Stop").click()
    page.get_by_text("Ended before all points").wait_for()
    page.get_by_role("button", name="Go on").click()
    page.get_by_test_id("stProgress").wait_for()
    main.get_by_role("button", name="Stop").click()  # else it keeps the other tests waiting
    page.get_by_text("Ended before all points").wait_for()
    _healthy(page)


@pytest.mark.parametrize(
    "page",
    [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")],
    ids=lambda kind: f"{kind[0]}-{kind[1]}",
    indirect=True,
)
def test_every_page_at_each_width_and_colour(page, request):
    kind = request.node.callspec.id
    shown = {"export": "[data-testid=stCode]", "tune": "text=Start"}
    for name in ("", "lab", "load", "profiles", "traces", "calibration", "tune", "export"):
        page.goto(f"/{name}" + ("?tune+trials=8&tune+users=4" if name == "tune" else ""))
        page.wait_for_selector(shown.get(name, CHART))
        if name == "tune":
            page.get_by_role("button", name="Start").click()
            page.get_by_role("heading", name="The best").wait_for()
        _idle(page)
        _healthy(page)
        wide = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide <= 1, f"{name or 'frontier'} scrolls sideways"
        _shoot(page, f"{name or 'frontier'}-{kind}")
