"""What the search of History looks in, as one folded text for each experiment."""

from __future__ import annotations

import json
import unicodedata

from sqlalchemy import Connection, text


def m0008_search_of_experiments(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE experiments ADD COLUMN search TEXT NOT NULL DEFAULT ''"))
    found = connection.execute(text("SELECT experiment_id, name, note, tags, summary FROM experiments")).all()
    for row in found:
        summary = json.loads(row.summary)
        parts = (
            row.name,
            row.note,
            summary["question_set_name"],
            summary["embedding_model"],
            summary["llm_model"] or "",
            row.experiment_id,
            *json.loads(row.tags),
            *summary["document_names"],
            *summary["spec_labels"],
        )
        folded = unicodedata.normalize("NFC", " ".join(parts)).casefold().replace("\x00", "")
        connection.execute(
            text("UPDATE experiments SET search = :folded WHERE experiment_id = :key"),
            {"folded": folded.encode("utf-8", "replace").decode("utf-8"), "key": row.experiment_id},
        )
