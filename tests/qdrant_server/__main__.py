"""Serves vectors until it is interrupted or terminated, and prints the setting that uses it."""

from __future__ import annotations

import argparse
import signal
import sys
import threading

from tests.qdrant_server.server import QdrantServer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.qdrant_server", description=__doc__)
    parser.add_argument("--port", type=int, default=6333, help="0: any that is free")
    parser.add_argument("--api-key", help="refuse requests without this key")
    options = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with QdrantServer(options.port, options.api_key) as server:
        sys.stdout.write(f"QDRANT_URL={server.url}\n")
        sys.stdout.flush()
        ended.wait()


if __name__ == "__main__":
    main()
