"""Serves an OpenID Connect provider until it is interrupted or terminated, and prints the secrets.toml that uses it."""

from __future__ import annotations

import argparse
import signal
import sys
import threading

from tests.oidc.server import Provider


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.oidc", description=__doc__)
    parser.add_argument("--port", type=int, default=8600, help="0: any that is free")
    parser.add_argument("--app", default="http://localhost:8501", help="where the browser reaches Chunkscope")
    options = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with Provider(options.app, options.port) as provider:
        sys.stdout.write(provider.secrets())
        sys.stdout.flush()
        ended.wait()


if __name__ == "__main__":
    main()
