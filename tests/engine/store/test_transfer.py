"""Everything moves from the embedded stores to servers and back, is checked, and nothing else is touched."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from engine import Workbench
from engine.cli.main import main
from engine.errors import BadRequest, TransferRefused
from engine.settings import Settings, load_settings
from engine.store import transfer
from engine.store.transfer import TABLES, Places
from tests.engine.bench.killing import LAW, QUESTIONS
from tests.qdrant_server import QdrantServer

COUNTED = {"documents": 1, "question_sets": 1, "experiments": 1, "jobs": 2, "spec_results": 2, "chunk_sets": 2}


@pytest.fixture
def servers(url: str, qdrant_server: QdrantServer, tmp_path: Path) -> Settings:
    """Server stores, empty; on SQLite, a database beside the data folder stands for the server."""
    return load_settings(database_url=url, qdrant_url=qdrant_server.url, data_dir=tmp_path / "data")


_made: list[Path] = []


@pytest.fixture
def used(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder in which a benchmark was run. It is run once, and each test has a copy."""
    if not _made:
        folder = tmp_path_factory.mktemp("used")
        with Workbench.open(load_settings(data_dir=folder)) as workbench:
            workbench.add_document(LAW.encode(), "law.md")
            questions = workbench.add_question_set(QUESTIONS, "questions.json")
            specs = [workbench.spec("sentence", {"sentences": 1, "overlap": 0}), workbench.spec("parent_child")]
            experiment = workbench.benchmark(workbench.plan(questions.question_set_id, specs))
            workbench.annotate(experiment.experiment_id, tags=["kept"], note="§ 1")
            workbench._store.add_job("benchmark", {"experiment_id": "x"}, job_id="ended")
            workbench._store.cancel_job("ended")
        _made.append(folder)
    return Path(shutil.copytree(_made[0], tmp_path / "data"))


@pytest.fixture
def places(servers: Settings, used: Path) -> Iterator[Places]:
    with Places(servers, used) as places:
        yield places


def rows(place: transfer.Place) -> dict[str, list[tuple[object, ...]]]:
    found = {}
    for table in TABLES:
        with place.store.read() as connection:
            found[table.name] = sorted((tuple(row) for row in connection.execute(select(table))), key=repr)
    return found


def test_everything_moves_to_servers_and_back(servers: Settings, used: Path, tmp_path: Path) -> None:
    with Places(servers, used) as places:
        before = rows(places.embedded)
        moved = {each.name: each.size for each in transfer.move(places.embedded, places.servers)}
        assert {name: moved[name] for name in COUNTED} == COUNTED
        assert moved["chunks"] == moved["sentence_collection"] + moved["parent_child_collection"] > 10
        assert moved["originals"] == 1
        assert rows(places.servers) == before

    with Places(servers, tmp_path / "back") as places:
        back = {each.name: each.size for each in transfer.move(places.servers, places.embedded)}
        assert back == moved
        assert rows(places.embedded) == before

    with (
        Workbench.open(servers) as there,
        Workbench.open(load_settings(data_dir=tmp_path / "back")) as here,
    ):
        (summary,) = there.experiments(tag="kept")
        assert there.experiment(summary.experiment_id) == here.experiment(summary.experiment_id)
        spec = here.spec("sentence", {"sentences": 1, "overlap": 0})
        answers = [each.ask("How high is the fee of class 3?", [spec])[0] for each in (there, here)]
        assert [hit.chunk for hit in answers[0].retrieved] == [hit.chunk for hit in answers[1].retrieved]
        assert len(answers[0].retrieved) == 5
        (document,) = here.documents()
        assert here.index([document.document_id], [spec])[0].reused
        assert there.index([document.document_id], [spec])[0].reused


def test_a_move_that_was_cut_off_goes_on_and_can_be_repeated(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0
    upsert = type(places.servers.index).upsert

    def full(*arguments: object) -> None:
        nonlocal written
        written += 1
        if written == 2:
            raise KeyboardInterrupt
        upsert(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(transfer, "PAGE", 7)
    with monkeypatch.context() as cut:
        cut.setattr(type(places.servers.index), "upsert", full)
        with pytest.raises(KeyboardInterrupt):
            transfer.move(places.embedded, places.servers)
    assert sum(info.points for info in places.servers.index.collections()) == 7
    moved = transfer.move(places.embedded, places.servers)
    assert transfer.move(places.embedded, places.servers) == moved
    assert rows(places.servers) == rows(places.embedded)


@pytest.mark.parametrize("other", ["row", "changed row", "collection", "point"])
def test_a_target_that_holds_other_data_is_refused_and_left_alone(places: Places, other: str) -> None:
    transfer.move(places.embedded, places.servers)
    store, index = places.servers.store, places.servers.index
    if other == "row":
        store.add_job("benchmark", {}, job_id="another")
    elif other == "changed row":
        (summary,) = store.experiments()
        store.annotate_experiment(summary.experiment_id, note="another")
    elif other == "collection":
        index.ensure("paragraph_collection", "wordllama", 256)
    else:
        page = index.read("sentence_collection", limit=2)
        index.upsert("sentence_collection", [page.points[0]], page.vectors[1:])
    before = rows(places.servers)
    with pytest.raises(TransferRefused, match=r"the source does not have. Nothing was changed"):
        transfer.move(places.embedded, places.servers)
    assert rows(places.servers) == before
    transfer.empty(places.servers)
    assert all(not found for found in rows(places.servers).values())
    transfer.move(places.embedded, places.servers)
    assert rows(places.servers) == rows(places.embedded)


def test_a_target_that_loses_a_point_is_not_called_the_same(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type(places.servers.index)
    upsert = kind.upsert
    monkeypatch.setattr(kind, "upsert", lambda self, name, points, vectors: upsert(self, name, points[1:], vectors[1:]))
    with pytest.raises(TransferRefused, match="is not the same in source and target"):
        transfer.move(places.embedded, places.servers)


def test_the_command_moves_and_says_what(
    servers: Settings, used: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["migrate", "to-servers"]) == 1
    assert "Set DATABASE_URL and QDRANT_URL" in capsys.readouterr().err
    monkeypatch.setenv("DATABASE_URL", str(servers.database_url))
    monkeypatch.setenv("QDRANT_URL", str(servers.qdrant_url))
    assert main(["migrate", "to-servers", "--json"]) == 0
    there = json.loads(capsys.readouterr().out)
    assert main(["migrate", "to-folder", "--folder", str(tmp_path / "back"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == there
    assert main(["vectors", "recall", "--queries", "5", "--k", "3", "--json"]) == 0
    assert {each["mean"] for each in json.loads(capsys.readouterr().out)} == {1.0}
    assert main(["vectors", "renew"]) == 0
    assert "Renewed 2 collections" in capsys.readouterr().err


def test_an_empty_or_missing_source_does_not_replace_what_is_there(
    servers: Settings, used: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("DATABASE_URL", str(servers.database_url))
    monkeypatch.setenv("QDRANT_URL", str(servers.qdrant_url))
    to_folder = ["migrate", "to-folder", "--folder", str(used), "--replace"]
    assert main(to_folder) == 1
    assert "The source holds nothing" in capsys.readouterr().err
    assert main(["migrate", "to-servers", "--folder", str(used), "--json"]) == 0
    there = json.loads(capsys.readouterr().out)
    assert {each["name"]: each["size"] for each in there}["documents"] == 1
    from_typo = ["migrate", "to-servers", "--folder", str(tmp_path / "typo"), "--replace"]
    assert main(from_typo) == 1
    assert "There is no folder" in capsys.readouterr().err
    assert not (tmp_path / "typo").exists()
    (tmp_path / "typo").mkdir()
    assert main(from_typo) == 1
    assert "The source holds nothing" in capsys.readouterr().err
    assert main([*to_folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == there


def test_a_move_from_servers_needs_the_originals(servers: Settings, used: Path, tmp_path: Path) -> None:
    with Places(servers, used) as places:
        transfer.move(places.embedded, places.servers)
    elsewhere = servers.model_copy(update={"data_dir": tmp_path / "elsewhere"})
    with Places(elsewhere, tmp_path / "back") as places:
        with pytest.raises(TransferRefused, match="1 originals of the documents are not in the data folder"):
            transfer.move(places.servers, places.embedded)
        assert not any(rows(places.embedded).values())
    # A folder that has them already is moved to from anywhere.
    shutil.copytree(used / "originals", tmp_path / "back" / "originals", dirs_exist_ok=True)
    with Places(elsewhere, tmp_path / "back") as places:
        moved = {each.name: each.size for each in transfer.move(places.servers, places.embedded)}
    assert moved["originals"] == moved["documents"] == 1


def test_a_move_needs_both_servers(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="DATABASE_URL and QDRANT_URL"):
        Places(load_settings(data_dir=tmp_path), tmp_path)
