"""A tab whose session the server no longer has is loaded again, by its link.

Streamlit's page reconnects by itself after a restart, behind a proxy to another app, or when a laptop wakes up, and then looks as before. But
a server that has no such session knows none of its fragments, and what is clicked inside them would do nothing.
"""

from __future__ import annotations

import json

import streamlit as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

_PATH = "/session"
_ASKED_FOR = "/_stcore/host-config"
"""What Streamlit's page asks for before it connects: this, behind every path under which the app might be reached."""
_GONE = 410
"""Nobody else answers so: a 404 may be a proxy's, which knows no such path or no app that is alive."""

_SCRIPT = """<script>
window.chunkscopeSession = %(session)s;
if (!window.chunkscopeReconnect) {
  const isGone = async (server) => {
    const answer = await fetch(server + "%(path)s/" + window.chunkscopeSession, { cache: "no-store" });
    return answer.status === %(gone)d;
  };
  const look = async (server, tries) => {
    if (!(await isGone(server).catch(() => false))) return;
    if (tries > 1) setTimeout(() => look(server, tries - 1), 1000);
    else location.reload();
  };
  window.chunkscopeReconnect = new PerformanceObserver((list) => {
    for (const { name } of list.getEntries())
      if (name.endsWith("%(asked_for)s")) setTimeout(() => look(name.slice(0, -"%(asked_for)s".length), 3), 1000);
  });
  window.chunkscopeReconnect.observe({ type: "resource" });
}
</script>"""


def route() -> Route:
    """Answers 204 for a session that a page is connected to in this process, else 410."""

    async def session(request: Request) -> Response:
        known = runtime.exists() and runtime.get_instance().is_active_session(request.path_params["session_id"])
        return Response(status_code=204 if known else _GONE, headers={"Cache-Control": "no-store"})

    return Route(f"{_PATH}/{{session_id}}", session)


def watch() -> None:
    """Have the page look, each time it connects again, whether its session is still there."""
    context = get_script_run_ctx()
    if context is None:
        return
    values = {"session": json.dumps(context.session_id), "path": _PATH, "asked_for": _ASKED_FOR, "gone": _GONE}
    st.html(_SCRIPT % values, unsafe_allow_javascript=True)
