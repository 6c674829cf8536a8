"""A real server in a thread of the test process, for clients that need a socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from app import logs, runtime
from app.__main__ import build_api
from engine.settings import Settings, load_settings


@contextmanager
def served(settings: Settings | None = None) -> Iterator[str]:
    """Serves API and health pages as `python -m app --api-only` does; gives the address. Its Workbench is `runtime.workbench()`."""
    settings = settings or load_settings()
    config = uvicorn.Config(build_api(settings), log_config=None, access_log=False, timeout_graceful_shutdown=10)
    server = uvicorn.Server(config)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    configure, logs.configure = logs.configure, lambda *_: None
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the server did not start")
            thread.join(0.02)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
        logs.configure = configure
        runtime.close()
