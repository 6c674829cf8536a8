"""A dashboard session without a browser: a websocket client that speaks Streamlit's protocol.

It does what a browser does to the server: it asks for runs with the widgets that were changed, receives and decodes everything that is
drawn, remembers large messages so that they are not sent twice, follows the address, and lets fragments with `run_every` run again on time.
It draws nothing and runs no script.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import websockets
from streamlit.proto.Alert_pb2 import Alert
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState

PATIENCE = 60.0
"""Seconds after which an action that has not ended counts as failed."""


class SessionError(Exception):
    """A page showed an error, did not answer, or the connection was closed."""


@dataclass(frozen=True, slots=True)
class Element:
    """Something a page has drawn. `kind` is its field in Streamlit's `Element`, `proto` the message there."""

    kind: str
    proto: Any
    fragment_id: str


@dataclass
class _Run:
    script_run_id: str
    fragment_ids: tuple[str, ...]


@dataclass
class _Wanted:
    """An action that was sent and has not ended."""

    fragment_id: str
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    begun: bool = False


class Session:
    """One browser tab. Use it in `async with`; one action at a time."""

    def __init__(self, address: str) -> None:
        """`address`: of the app, such as http://127.0.0.1:8501."""
        self._address = address
        self._host = urlsplit(address).netloc
        self._elements: dict[tuple[int, ...], tuple[int, Element]] = {}
        self._generation = 0
        self._known: dict[str, ForwardMsg] = {}
        self._run = _Run("", ())
        self._wanted: _Wanted | None = None
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._closed: BaseException | None = None
        self.query = ""
        """The query string of the address."""
        self.pages: dict[str, str] = {}
        """Script hash of each page, by the last part of its address; empty for the first page."""
        self.page = ""
        """Script hash of the page that is shown."""
        self.problems: list[str] = []
        """Errors that pages have shown."""
        self.untold = 0
        """Actions whose end the server did not tell, so that it was taken from the run that followed."""
        self.received = 0
        """Bytes."""

    async def __aenter__(self) -> Self:
        self._socket = await websockets.connect(
            f"ws://{self._host}/_stcore/stream",
            origin=websockets.Origin(self._address),
            subprotocols=[websockets.Subprotocol("streamlit")],
            max_size=None,
            open_timeout=PATIENCE,
            ping_timeout=None,
        )
        self._receiver = asyncio.create_task(self._receive())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_timers(list(self._timers))
        self._receiver.cancel()
        await self._socket.close()
        await asyncio.gather(self._receiver, return_exceptions=True)

    # What is shown

    def elements(self, kind: str) -> Iterator[Any]:
        """Protos of the elements of a kind, in the order of the page."""
        for _, (_, element) in sorted(self._elements.items()):
            if element.kind == kind:
                yield element.proto

    def widget(self, key: str) -> Element:
        """The widget with a key. Raises SessionError when the page shows none."""
        element = self._find(key)
        if element is None:
            raise SessionError(f"no widget {key} on the page")
        return element

    def has_widget(self, key: str) -> bool:
        return self._find(key) is not None

    def _find(self, key: str) -> Element | None:
        for _, element in self._elements.values():
            if str(getattr(element.proto, "id", "")).endswith(f"-{key}"):
                return element
        return None

    def headings(self) -> list[str]:
        return [each.body for each in self.elements("heading")]

    async def shows(self, condition: Callable[[Session], bool]) -> None:
        """Wait until a condition of the page holds. Raises SessionError after `PATIENCE`."""
        async with _patience("what was waited for is not shown"):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()
                self._check_open()

    # What is done

    async def open(self, page: str = "", query: str = "") -> float:
        """Load the app at a page's address, as its first run. Returns seconds."""
        self.query = query
        return await self._act(ClientState(page_name=page, query_string=query))

    async def go_to(self, page: str, query: str = "") -> float:
        """Change the page by a link. `page`: the last part of its address. Returns seconds."""
        self.query, self.page = query, self.pages[page]
        return await self._act(ClientState(page_script_hash=self.page, query_string=query))

    async def change(self, values: dict[str, object]) -> float:
        """Change widgets, by their keys, and wait for the run that follows. Returns seconds.

        `True` for a button presses it. A select box takes the option's text, a table `{"rows": [...]}`, a component its state.
        """
        found = {key: self.widget(key) for key in values}
        states = [_state(found[key], value) for key, value in values.items()]
        fragments = {element.fragment_id for element in found.values()}
        if len(fragments) > 1:
            raise ValueError("widgets of different fragments cannot change in one action")
        wanted = ClientState(page_script_hash=self.page, query_string=self.query, fragment_id=fragments.pop())
        wanted.widget_states.widgets.extend(states)
        return await self._act(wanted)

    async def _act(self, wanted: ClientState) -> float:
        self._check_open()
        problems = len(self.problems)
        self._wanted = _Wanted(wanted.fragment_id)
        if not wanted.fragment_id:
            self._stop_timers(list(self._timers))
        began = time.perf_counter()
        await self._send(wanted)
        try:
            async with _patience("the page did not answer"):
                await self._wanted.ended.wait()
        finally:
            self._wanted = None
        seconds = time.perf_counter() - began
        self._check_open()
        if len(self.problems) > problems:
            raise SessionError(self.problems[-1])
        return seconds

    async def _send(self, wanted: ClientState) -> None:
        wanted.cached_message_hashes.extend(self._known)
        await self._socket.send(BackMsg(rerun_script=wanted).SerializeToString())

    def _check_open(self) -> None:
        if self._closed is not None:
            raise SessionError(f"the connection was closed: {self._closed!r}")

    # What the server says

    async def _receive(self) -> None:
        try:
            async for data in self._socket:
                self.received += len(data)
                self._handle(ForwardMsg.FromString(data if isinstance(data, bytes) else data.encode()))
            raise ConnectionError("closed by the server")
        except Exception as error:
            self._closed = error
        finally:
            self._changed.set()
            if self._wanted is not None:
                self._wanted.ended.set()

    def _handle(self, message: ForwardMsg) -> None:
        kind = message.WhichOneof("type")
        if kind == "ref_hash":
            # As a browser does: the message that was sent before, at the place of this one.
            before = self._known[message.ref_hash]
            metadata = message.metadata
            message = ForwardMsg()
            message.CopyFrom(before)
            message.metadata.CopyFrom(metadata)
            kind = message.WhichOneof("type")
        elif message.metadata.cacheable:
            self._known[message.hash] = message
        if kind == "new_session":
            self._begin(message)
        elif kind == "delta":
            self._draw(message)
        elif kind == "script_finished":
            self._finish(message)
        elif kind == "auto_rerun":
            self._time(message.auto_rerun.fragment_id, message.auto_rerun.interval)
        elif kind == "stop_auto_rerun":
            self._stop_timers(list(message.stop_auto_rerun.fragment_ids))
        elif kind == "page_info_changed":
            self.query = message.page_info_changed.query_string
        elif kind == "navigation":
            self.pages = {
                "" if page.is_default else page.url_pathname: page.page_script_hash
                for page in message.navigation.app_pages
            }
            self.page = message.navigation.page_script_hash

    def _begin(self, message: ForwardMsg) -> None:
        run = message.metadata.run
        self._run = _Run(run.script_run_id, tuple(run.fragment_ids))
        self._generation += 1
        if not self._run.fragment_ids:
            self._stop_timers(list(self._timers))
        wanted = self._wanted
        if wanted is None:
            return
        if not self._run.fragment_ids or wanted.fragment_id in self._run.fragment_ids:
            # Also a whole run, which follows `st.rerun` in a fragment.
            wanted.begun = True
        elif wanted.begun:
            # Runs of a session follow each other. Streamlit drops or rewrites the message that a run has finished when the timer of a
            # fragment starts the next one before that message is sent.
            self.untold += 1
            wanted.ended.set()

    def _draw(self, message: ForwardMsg) -> None:
        path = tuple(message.metadata.delta_path)
        delta = message.delta
        if delta.WhichOneof("type") != "new_element":
            return
        element = delta.new_element
        kind = element.WhichOneof("type") or ""
        proto = getattr(element, kind) if kind else None
        self._elements[path] = (self._generation, Element(kind, proto, delta.fragment_id))
        if kind == "exception":
            self.problems.append(f"exception on the page: {element.exception.type} {element.exception.message}")
        elif kind == "alert" and element.alert.format == Alert.ERROR:
            self.problems.append(f"error on the page: {element.alert.body}")

    def _finish(self, message: ForwardMsg) -> None:
        status = message.script_finished
        if status == ForwardMsg.FINISHED_WITH_COMPILE_ERROR:
            self.problems.append("a page could not be compiled")
        is_whole = status in (ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_WITH_COMPILE_ERROR)
        if is_whole:
            # What the run has not drawn again is gone.
            self._elements = {path: drawn for path, drawn in self._elements.items() if drawn[0] == self._generation}
        wanted = self._wanted
        if wanted is not None and wanted.begun:
            is_its = wanted.fragment_id in self._run.fragment_ids
            if is_whole or (is_its and status == ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY):
                wanted.ended.set()
        self._changed.set()

    # Fragments that run again by themselves

    def _time(self, fragment_id: str, interval: float) -> None:
        async def again() -> None:
            while True:
                await asyncio.sleep(interval)
                wanted = ClientState(
                    page_script_hash=self.page, query_string=self.query, fragment_id=fragment_id, is_auto_rerun=True
                )
                await self._send(wanted)

        self._stop_timers([fragment_id])
        self._timers[fragment_id] = asyncio.create_task(again())

    def _stop_timers(self, fragment_ids: list[str]) -> None:
        for fragment_id in fragment_ids:
            timer = self._timers.pop(fragment_id, None)
            if timer is not None:
                timer.cancel()


@asynccontextmanager
async def _patience(reason: str) -> AsyncIterator[None]:
    """`PATIENCE` seconds for a block, then SessionError with the reason."""
    try:
        async with asyncio.timeout(PATIENCE):
            yield
    except TimeoutError:
        raise SessionError(f"{reason} within {PATIENCE:g} s") from None


def _state(element: Element, value: object) -> WidgetState:
    """A widget's new value as the browser writes it."""
    state = WidgetState(id=element.proto.id)
    if element.kind == "button":
        state.trigger_value = True
    elif element.kind == "checkbox":
        state.bool_value = bool(value)
    elif element.kind == "number_input":
        state.double_value = float(str(value))
    elif element.kind in ("button_group", "multiselect"):
        state.string_array_value.data.extend([str(each) for each in value] if isinstance(value, list) else [str(value)])
    elif element.kind == "dataframe":
        state.string_value = json.dumps({"selection": value})
    elif element.kind == "bidi_component":
        state.json_value = json.dumps(value)
    else:
        state.string_value = str(value)
    return state
