"""Batches that a provider still holds although nobody carries out their run: cancelled ones that took long to end, and those of deleted
experiments. They are looked at until the provider holds no file of them."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from engine.errors import ModelCallFailed, UserError
from engine.providers.base import Models
from engine.providers.cache import CachedChat
from engine.store import Store
from engine.store.batches import STORED
from engine.store.records import Batch

if TYPE_CHECKING:
    from engine.providers.openai_batch import BatchChat, BatchState

logger = logging.getLogger(__name__)

FIRST_LOOK_SECONDS = 5.0
"""Before the first look, so that a process that lives shorter looks for nothing."""
CLOSE_SECONDS = 10.0
"""Longest wait for a call in flight when the process ends: a provider that hangs must not keep it."""
_GONE = (400, 404)


def chats_of(models: Models) -> dict[str, CachedChat]:
    """The chat models that batches can be sent to, by the name under which a batch notes its own."""
    found: dict[str, CachedChat] = {}
    for chat in (models.chat, models.judge):
        if isinstance(chat, CachedChat):
            known = found.setdefault(chat.model, chat)
            if server_of(known) != server_of(chat):
                found[f"{chat.model} (judge)"] = chat
    return found


def provider_of(chats: Mapping[str, CachedChat], model: str) -> BatchChat:
    """Where the batches of a model are. Raises ModelCallFailed when it is no longer in use."""
    from engine.providers.openai_batch import BatchChat
    from engine.providers.openai_chat import OpenAIChat

    chat = chats.get(model)
    if chat is None or not isinstance(chat.inner, OpenAIChat):
        raise ModelCallFailed(
            f"A batch of this run waits at the provider for {model}, which is no longer a model in use. It is kept. "
            "Set LLM_MODEL or JUDGE_MODEL as it was and resume.",
            "unavailable",
        )
    return BatchChat(chat.inner)


def put_away(store: Store, provider: BatchChat, batch: Batch, state: BatchState, *, forget: bool) -> bool:
    """Have the files of a batch that has ended deleted at the provider. Its answers are stored first as they are, for a run that is resumed;
    with `forget`, or where it was refused as a whole, it goes without. Returns whether the provider holds no file any more."""
    forget = forget or state.state == "failed"
    if not forget and batch.state not in STORED:
        store.fetch_batch(batch.batch_id, {key: json.dumps(row) for key, row in provider.rows(state).items()})
    if not provider.clear(state):
        return False
    if forget:
        store.drop_batch(batch.batch_id)
    else:
        store.clear_batch(batch.batch_id)
    return True


def server_of(chat: CachedChat) -> str:
    """Names the server of a model."""
    return str(getattr(chat.inner, "scope", ""))


class Leftovers:
    """Clears up in the background until it is closed. One per process; several may look at the same batches.

    `poll_seconds`: between two looks.
    """

    def __init__(self, store: Store, models: Models, poll_seconds: float) -> None:
        self._store = store
        self._chats = chats_of(models)
        self._poll_seconds = poll_seconds
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="leftovers", daemon=True)

    def start(self) -> None:
        """Where no model takes batches there is nothing to look for."""
        if self._chats:
            self._thread.start()

    def close(self) -> None:
        """Waits a moment for a call to the provider that is in flight; what it was about is done again by whoever looks next."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def look(self) -> int:
        """One look at every batch that was left. Returns how many are still held. Never raises."""
        try:
            found = self._store.leftover_batches()
        except UserError as error:
            logger.warning("batches that were left at a provider cannot be looked for: %s", error.message)
            return 0
        held = 0
        for batch, is_deleted in found:
            if self._closing.is_set():
                return held + 1
            try:
                held += not self._clear(batch, is_deleted)
            except UserError as error:
                held += 1
                logger.warning("a batch that was left at its provider could not be cleared: %s", error.message)
        return held

    def _work(self) -> None:
        pause = min(self._poll_seconds, FIRST_LOOK_SECONDS)
        while not self._closing.wait(pause):
            self.look()
            pause = self._poll_seconds

    def _clear(self, batch: Batch, is_deleted: bool) -> bool:
        """Whether the provider holds nothing of it any more."""
        provider = provider_of(self._chats, batch.model)
        provider_id = batch.provider_id or provider.find(batch.batch_id)
        if provider_id is None:
            self._store.drop_batch(batch.batch_id)
            return True
        if batch.provider_id is None:
            self._store.set_batch(batch.batch_id, "validating", provider_id)
        try:
            state = provider.state(provider_id)
        except ModelCallFailed as error:
            if not is_deleted or getattr(error, "status_code", None) not in _GONE:
                raise
            self._store.drop_batch(batch.batch_id)
            return True
        if self._closing.is_set():
            return False
        if state.ended:
            return put_away(self._store, provider, batch, state, forget=is_deleted)
        if is_deleted and state.state != "cancelling":
            provider.cancel(provider_id)
        return False
