"""What the tests of exports share: stories to export, and a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from exports import ROOT
from playwright.sync_api import Browser, Page, sync_playwright
from recording import PROGRAMS

STORIES = ["train", "samples", "timeline", "threads", "spans"]


@pytest.fixture(scope="session", params=STORIES)
def story(
    request: pytest.FixtureRequest,
    lapwing: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A folder with x.lap: made ones, and real ones with and without a timeline."""
    folder = tmp_path_factory.mktemp(request.param)
    options = {"threads": ["--calls"], "spans": ["--calls=timeline"]}
    if request.param in options:
        words = ["run", "--no-summary", *options[request.param], "-o", "x.lap"]
        subprocess.run(
            [lapwing, *words, PROGRAMS / "threads.py", "3", "50"],
            cwd=folder,
            check=True,
            capture_output=True,
        )
    else:
        make = ROOT / "tests" / "golden" / "report" / "make_run.py"
        subprocess.run(["python3", make, request.param, folder / "x.lap"], check=True)
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that may not use the network, and fails the test by its own errors."""
    context = browser.new_context(viewport={"width": 1000, "height": 600})
    errors: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    context.route(
        re.compile("^https?:"), lambda route: errors.append(route.request.url)
    )
    yield page
    context.close()
    assert not errors
