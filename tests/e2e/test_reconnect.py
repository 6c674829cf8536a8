"""An open tab whose session is gone is loaded again, and only then."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Route

from tests.e2e.conftest import Visit

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def test_a_tab_asks_for_its_session_where_the_app_is_reached_and_heeds_nobody_else(visit: Visit) -> None:
    page = visit()
    page.wait_for_function("window.chunkscopeReconnect !== undefined")
    session = page.evaluate("window.chunkscopeSession")
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(urlsplit(route.request.url).path)
        route.fulfill(status=410 if asked[-1].startswith("/app/") else 404)

    page.route("**/session/*", answer)
    # What Streamlit's page asks for when it connects again; the first one as behind a proxy that does not know the app.
    with page.expect_request("**/other/session/*"):
        page.evaluate("fetch('/other/_stcore/host-config')")
    with page.expect_event("load"):
        page.evaluate("fetch('/app/_stcore/host-config')")
    assert asked == [f"/other/session/{session}", *[f"/app/session/{session}"] * 3]
    page.wait_for_function(f"window.chunkscopeSession && window.chunkscopeSession !== '{session}'")
