"""The vector index: embedded in the process, or a Qdrant server."""

from __future__ import annotations

from engine.index.base import ChunkIndex, CollectionInfo, Hit, IndexPoint, Page, collection_name
from engine.settings import Settings

__all__ = ["ChunkIndex", "CollectionInfo", "Hit", "IndexPoint", "Page", "collection_name", "open_index"]


def open_index(settings: Settings) -> ChunkIndex:
    """The index that the settings name: a server with QDRANT_URL, else Qdrant Edge in DATA_DIR/index. Raises BadSetting, IndexUnavailable."""
    if settings.qdrant_url:
        from engine.index.server import ServerIndex
        from engine.index.server_layout import Layout

        key = settings.qdrant_api_key
        secret = None if key is None else key.get_secret_value()
        return ServerIndex(settings.qdrant_url, secret, layout=Layout.of(settings))
    from engine.index.edge import EdgeIndex

    return EdgeIndex(settings.data_dir.absolute() / "index")
