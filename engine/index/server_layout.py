"""How collections lie on a Qdrant server: a name that everybody uses is an alias, and what it stands for can be exchanged.

`sentence_collection` is the alias of `sentence_collection-1`; a renewal fills `sentence_collection-2`, moves the alias in one step and
drops the old one. A collection under its own name, as earlier versions made them, is used as it is until it is rebuilt.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from engine.settings import Settings

_GENERATION = re.compile(r"-(\d+)")

_GRAPH_LINKS = 16
"""Links of a point in the search graph, Qdrant's own default."""


class Binding(NamedTuple):
    model: str
    dimension: int


class Layout(NamedTuple):
    """How new collections are made, from the settings that begin with QDRANT_."""

    shards: int | None = None
    """None, here and below: as the server does by itself."""
    replicas: int | None = None
    consistency: int | None = None
    on_disk: bool = False
    quantization: str = "none"
    graph: bool = False
    """Whether a search graph (HNSW) is built."""
    writes: int = 4
    """Batches on their way at once."""

    @classmethod
    def of(cls, settings: Settings) -> Layout:
        return cls(
            settings.qdrant_shard_number,
            settings.qdrant_replication_factor,
            settings.qdrant_write_consistency_factor,
            settings.qdrant_on_disk,
            settings.qdrant_quantization,
            settings.qdrant_search == "hnsw",
            settings.qdrant_writes,
        )

    def create(self, client: QdrantClient, name: str, binding: Binding) -> bool:
        """Make a collection with its keyword indexes; one that is there already stays, and gets the indexes it lacks.

        Returns whether it was made by this call.
        """
        made = True
        try:
            client.create_collection(
                name,
                vectors_config=models.VectorParams(
                    size=binding.dimension, distance=models.Distance.COSINE, on_disk=self.on_disk
                ),
                shard_number=self.shards,
                replication_factor=self.replicas,
                write_consistency_factor=self.consistency,
                on_disk_payload=self.on_disk,
                # Without approximate searches, the server need not build a graph.
                hnsw_config=models.HnswConfigDiff(m=_GRAPH_LINKS if self.graph else 0),
                quantization_config=self._quantization(),
                metadata=binding._asdict(),
            )
        except UnexpectedResponse as error:
            # Another process made it in the meantime.
            if error.status_code != 409 and not client.collection_exists(name):
                raise
            made = False
        index_fields(client, name)
        return made

    def _quantization(self) -> models.QuantizationConfig | None:
        if self.quantization == "scalar":
            scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
            return models.ScalarQuantization(scalar=scalar)
        if self.quantization == "binary":
            return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
        return None


def index_fields(client: QdrantClient, name: str) -> None:
    for field in ("document_id", "spec_id"):
        client.create_payload_index(name, field, models.PayloadSchemaType.KEYWORD, wait=True)


def first(collection: str) -> str:
    return f"{collection}-1"


def generations(client: QdrantClient, collection: str) -> dict[str, int]:
    """The collections that stand or stood behind a name, or were to, each with its number."""
    names = [each.name for each in client.get_collections().collections]
    numbers = {
        name: _GENERATION.fullmatch(name.removeprefix(collection)) for name in names if name.startswith(collection)
    }
    return {name: int(number[1]) for name, number in numbers.items() if number}


def following(client: QdrantClient, collection: str) -> str:
    """The name after the newest of them: one that is not in use, also not by a renewal that runs elsewhere."""
    return f"{collection}-{max(generations(client, collection).values(), default=0) + 1}"


def is_left_over(name: str) -> bool:
    """Whether a collection that no alias stands for belongs to a renewal that was cut off."""
    return re.search(r"_collection-\d+$", name) is not None


def targets(client: QdrantClient) -> dict[str, str]:
    """What each alias stands for."""
    return {each.alias_name: each.collection_name for each in client.get_aliases().aliases}


def point_at(client: QdrantClient, collection: str, target: str) -> None:
    """Let an alias stand for a collection, in one step: no search falls between the two."""
    # Moves an alias that is there. To delete it first would be a second action, and Qdrant keeps the first when the second is refused.
    now = models.CreateAliasOperation(create_alias=models.CreateAlias(alias_name=collection, collection_name=target))
    client.update_collection_aliases([now])


def search_params(exact: bool) -> models.SearchParams:
    """An exact search reads the full vectors whatever the collection keeps beside them; an approximate one looks at twice as many and scores them anew."""
    if exact:
        return models.SearchParams(exact=True, quantization=models.QuantizationSearchParams(ignore=True))
    return models.SearchParams(
        exact=False, quantization=models.QuantizationSearchParams(rescore=True, oversampling=2.0)
    )


def read_binding(client: QdrantClient, collection: str) -> Binding | None:
    """The embedding model that stands in a collection's metadata; None for a collection of someone else."""
    metadata = client.get_collection(collection).config.metadata or {}
    if "model" not in metadata or "dimension" not in metadata:
        return None
    return Binding(str(metadata["model"]), int(metadata["dimension"]))
