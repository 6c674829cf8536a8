"""On PostgreSQL, an index of the tags that History filters by."""

from __future__ import annotations

from sqlalchemy import Connection, text

# JSON may hold what jsonb does not (an escaped NUL, half a surrogate pair); such a value is not indexed instead of not stored.
_FUNCTION = r"""
CREATE FUNCTION chunkscope_jsonb(value TEXT) RETURNS JSONB LANGUAGE plpgsql IMMUTABLE STRICT AS $body$
BEGIN
    RETURN value::jsonb;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END
$body$
"""
_INDEX = "CREATE INDEX experiments_by_tag ON experiments USING gin (chunkscope_jsonb(tags))"


def m0004_tags_on_postgres(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text(_FUNCTION))
        connection.execute(text(_INDEX))
