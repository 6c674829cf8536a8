"""A server that speaks OpenAI's protocol, for tests and for trying the app by hand: `python -m tests.fake_openai`."""

from tests.fake_openai.faults import KINDS, Fault
from tests.fake_openai.server import FakeOpenAI

__all__ = ["KINDS", "FakeOpenAI", "Fault"]
