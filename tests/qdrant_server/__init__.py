"""A small vector server that speaks the part of Qdrant's REST protocol that Chunkscope uses, on top of Qdrant Edge.

It lets several processes share an index on a machine without a Qdrant server. Answers, errors, strict mode, aliases and the merging of
shards follow the published sources of Qdrant 1.19. It is one node: replica, disk and quantisation settings are kept and told, and have no
effect. What it knows of collections and aliases ends with the process.
"""

from tests.qdrant_server.server import QdrantServer

__all__ = ["QdrantServer"]
