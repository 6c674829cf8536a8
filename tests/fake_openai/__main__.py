"""Serves the fake OpenAI until it is interrupted, and prints the settings that use it."""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading

from tests.fake_openai.faults import KINDS, Fault
from tests.fake_openai.server import FakeOpenAI


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fake_openai", description=__doc__)
    parser.add_argument("--port", type=int, default=8900)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds every call takes")
    parser.add_argument("--fault", action="append", default=[], choices=sorted(KINDS), help="a fault on every call")
    options = parser.parse_args()
    server = FakeOpenAI(options.port)
    server.latency = options.latency
    for kind in options.fault:
        server.faults.add(Fault(kind, seconds=1.0))
    with server:
        base = server.url.removesuffix("/v1")
        sys.stdout.write(
            f"Serving {server.url}. Use it with:\n"
            f"  OPENAI_BASE_URL={server.url} OPENAI_API_KEY=any python -m app\n"
            f'A fault:  curl {base}/control/faults -d \'{{"kind": "rate_limited", "times": 3, "seconds": 1}}\'\n'
            f"None:     curl -X DELETE {base}/control/faults\n"
            f"Counters: curl {base}/control/counters\n"
        )
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
