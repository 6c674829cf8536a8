"""What a page shows when there is nothing to show, or something went wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from app import runtime
from engine import UserError, Workbench, ids

logger = logging.getLogger(__name__)


@contextmanager
def guard() -> Iterator[None]:
    """Show a UserError in words, and any other error as one line with its id; the rest of the page goes on."""
    try:
        yield
    except UserError as error:
        st.error(error.message, icon=":material/error:")
    except Exception:
        request_id = ids.new_id()
        logger.exception("page failed (request %s)", request_id)
        st.error(
            f"Something went wrong in Chunkscope. Nothing stored was lost. Details are in the log under `{request_id}`.",
            icon=":material/bug_report:",
        )


def bench() -> Workbench:
    """The Workbench of this process. When it cannot be opened, the page says why and stops."""
    try:
        return runtime.workbench()
    except UserError as error:
        st.error(error.message, icon=":material/error:")
        st.stop()


def empty(title: str, text: str) -> None:
    """The box of a page that has no data yet."""
    with st.container(border=True):
        st.markdown(f"**{title}**")
        st.write(text)
