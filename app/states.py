"""What a page shows when there is nothing to show, something is old, or something went wrong; and how to read the page."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import streamlit as st

from app import runtime, sign_in
from app.text import plain
from engine import UserError, Workbench, ids

logger = logging.getLogger(__name__)


@contextmanager
def guard() -> Iterator[None]:
    """Show a UserError in words, and any other error as one line with its id; the rest of the page goes on.

    Also a decorator, for what runs apart from its page: fragments and dialogs.
    """
    try:
        yield
    except UserError as error:
        show_error(error.message)
    except Exception:
        request_id = ids.new_id()
        logger.exception("page failed (request %s)", request_id)
        st.error(
            f"Something went wrong in Chunkscope. Nothing stored was lost. Details are in the log under `{request_id}`.",
            icon=":material/bug_report:",
        )


def show_error(message: str) -> None:
    st.error(plain(message), icon=":material/error:")


def bench() -> Workbench:
    """The Workbench of this process, on behalf of who is signed in. When it cannot be opened, the page says why and stops."""
    try:
        workbench = runtime.workbench()
        user = sign_in.user()
        return workbench if user is None else workbench.acting_as(user)
    except UserError as error:
        show_error(error.message)
        st.stop()


def empty(title: str, text: str) -> None:
    """The box of a page that has no data yet."""
    with st.container(border=True):
        st.markdown(f"**{title}**")
        st.write(text)


def no_documents(page: str) -> None:
    """Says that `page` needs a document, leads to Upload, and stops the page."""
    empty("No documents yet", f"{page} needs a document. Upload one, or load the sample regulation in one click.")
    st.page_link("../pages/upload.py", label="Go to Upload", icon=":material/upload_file:")
    st.stop()


def stale(text: str) -> None:
    """The banner over a result whose inputs have changed since."""
    st.warning(text, icon=":material/update:")


def exact_text(text: str, height: int) -> None:
    """A text with all its white space, to read and to copy. `height` in pixels."""
    # One line end at either side is dropped where it is drawn.
    st.code(f"\n{text}\n", language=None, wrap_lines=True, height=height)


def heading(page: str, purpose: str, tour: Sequence[str], keys: Sequence[tuple[str, str]] = ()) -> None:
    """Title, purpose, a tour that a reader dismisses once per session, and a help button with the tour and the keys."""
    dismissed = f"{page}.tour.dismissed"
    title, helper = st.columns([5, 1], vertical_alignment="bottom")
    title.title(page)
    with helper.popover("Help", icon=":material/help:", width="stretch"):
        for sentence in tour:
            st.write(sentence)
        if keys:
            st.markdown("**Keys**")
            for key, effect in keys:
                st.markdown(f"`{key}` {effect}")
    st.write(purpose)
    if not st.session_state.get(dismissed):
        with st.container(border=True):
            words, close = st.columns([6, 1], vertical_alignment="center")
            words.caption(" ".join(tour))
            close.button(
                "Got it",
                key=f"{page}.tour.close",
                on_click=lambda: st.session_state.__setitem__(dismissed, True),
                width="stretch",
            )
