from pathlib import Path

from engine.providers.bundled import BundledEmbedder
from engine.providers.guide import EMBEDDING_MODELS, known, prefixes
from engine.settings import BUNDLED


def test_names_are_unique_and_places_are_in_words() -> None:
    assert len({model.name for model in EMBEDDING_MODELS}) == len(EMBEDDING_MODELS)
    for model in EMBEDDING_MODELS:
        assert model.name.startswith("local:") == (model.place == "local")
        assert model.runs
        assert (model.price() is None) == (model.place == "server")


def test_entries_agree_with_what_runs_here() -> None:
    entry = known(BUNDLED)
    assert entry is not None
    assert (entry.dimension, entry.max_input_tokens) == (BundledEmbedder.dimension, BundledEmbedder.max_input_tokens)


def test_lookup() -> None:
    assert known("bge-m3:latest") is known("bge-m3")
    assert known("local:bge-m3:latest") is None
    assert known("unheard-of") is None


def test_prefixes_by_entry_and_by_family() -> None:
    assert prefixes("local:intfloat/multilingual-e5-small") == ("query: ", "passage: ")
    assert prefixes("local:intfloat/e5-large-v2") == ("query: ", "passage: ")
    assert prefixes("local:BAAI/bge-large-en-v1.5")[0].startswith("Represent this sentence")
    assert prefixes("local:BAAI/bge-large-en-v1.5")[1] == ""
    assert prefixes("nomic-embed-text:v1.5") == ("search_query: ", "search_document: ")
    assert prefixes("local:BAAI/bge-m3") == ("", "")
    assert prefixes("text-embedding-3-small") == ("", "")
    assert prefixes("local:intfloat/e5-mistral-7b-instruct") == ("", "")


def test_the_page_lists_every_model(root: Path) -> None:
    page = (root / "docs" / "MODELS.md").read_text(encoding="utf-8")
    for model in EMBEDDING_MODELS:
        row = next((line for line in page.splitlines() if line.startswith(f"| `{model.name}` ")), "")
        assert f"| {model.dimension} |" in row, model.name
