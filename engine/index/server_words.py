"""What a Qdrant server's errors mean to whoever runs Chunkscope. Nothing of what a server wrote is repeated: it may hold keys or text."""

from __future__ import annotations

import json

from pydantic import ValidationError
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import UnexpectedResponse

NOT_QDRANTS = (json.JSONDecodeError, UnicodeDecodeError, AssertionError)
"""What the client raises for an answer that is no JSON, or JSON without a result."""

_KEPT = "What was stored before is kept."


def is_missing_collection(error: Exception) -> bool:
    """Whether Qdrant says that it has no such collection; a proxy's 404 says nothing about collections."""
    return isinstance(error, UnexpectedResponse) and error.status_code == 404 and "Not found" in _reason(error)


def in_words(error: Exception, place: str) -> str:
    """`place`: host and port, as people may read them."""
    server = f"The Qdrant server at {place}"
    if isinstance(error, ResourceExhaustedResponse):
        return _limited(server)
    if isinstance(getattr(error, "source", error), (ValidationError, *NOT_QDRANTS)):
        return f"{server} gave an answer that is not Qdrant's. {_KEPT} Check QDRANT_URL: another server or the sign-in page of a proxy may stand there."
    if "CERTIFICATE_VERIFY_FAILED" in str(getattr(error, "source", "")):
        return f"{server} shows a certificate that is not trusted here. {_KEPT} Set SSL_CERT_FILE to a file with the certificate of whoever signed it."
    if not isinstance(error, UnexpectedResponse):
        return f"{server} cannot be reached or did not answer in time. {_KEPT} Check QDRANT_URL and that the server runs, then try again."
    if is_missing_collection(error):
        return f"{server} lost a collection while it was in use. The documents are kept: index them again."
    match error.status_code:
        case 401:
            return f"{server} refuses the key. Nothing was changed. Check QDRANT_API_KEY."
        case 403:
            return f"{server} does not let this key do what was asked. Nothing was changed. Set QDRANT_API_KEY to a key that may read, write and manage collections."
        case 404:
            return f"{server} has nothing at this address. Nothing was changed. Check QDRANT_URL, also a path that a proxy needs before Qdrant's own."
        case 413:
            return f"{server}, or a proxy before it, takes no request of this size. {_KEPT} Allow 32 MB there, which is Qdrant's own limit, then try again."
        case 429:
            return _limited(server)
        case int(status) if 300 <= status < 400:
            return (
                f"{server} sends requests on to another address. Nothing was changed. Set QDRANT_URL to that address."
            )
        case 400 if "Help: " in _reason(error):
            return (
                f"{server} refuses this under its strict mode. {_KEPT} Let whoever runs it allow exact searches, limits of 1,000 and more, "
                "and batches of 1,000 points, at least for the collections of Chunkscope."
            )
        case int(status) if status < 500 and status != 408:
            return f"{server} refuses what was asked ({status}). {_KEPT} Look into the server's log for the reason."
        case status:
            return (
                f"{server} answered with an error ({status}). {_KEPT} Look into the server's log (a full disk is a common cause, "
                "in a cluster a node that is down), then try again."
            )


def _limited(server: str) -> str:
    return f"{server} takes no more requests for now (429). {_KEPT} Wait a minute and try again, or set QDRANT_WRITES lower."


def _reason(error: UnexpectedResponse) -> str:
    """Why Qdrant refused, empty where the answer is not in its form."""
    try:
        return str(json.loads(error.content)["status"]["error"])
    except (ValueError, TypeError, KeyError):
        return ""
