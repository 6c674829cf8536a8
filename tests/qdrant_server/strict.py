"""Strict mode of a collection, as Qdrant 1.19 answers: limits that a server sets for what it is asked, checked before anything is done."""

from __future__ import annotations

from typing import Any

BODY = dict[str, Any]


class Refused(Exception):
    """An answer with an error status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Strict:
    """What a collection's `strict_mode_config` refuses."""

    def __init__(self, config: BODY) -> None:
        self._config = config if config.get("enabled") else {}

    def check_limit(self, limit: int) -> None:
        most = self._config.get("max_query_limit")
        if most is not None and limit > most:
            raise _refused(
                f'Limit exceeded {limit} > {most} for "limit"', f'Reduce the "limit" parameter to or below {most}.'
            )

    def check_exact(self, exact: bool) -> None:
        if exact and self._config.get("search_allow_exact") is False:
            raise _refused("Exact search disabled!", "Set exact=false.")

    def check_graph(self, links: int) -> None:
        if links == 0 and self._config.get("search_allow_exact") is False:
            raise _refused(
                "Request is forbidden because global vector indexing is disabled (hnsw_config.m = 0)",
                "Use tenant-specific filter, enable global vector indexing or enable strict mode `search_allow_exact` option",
            )

    def check_batch(self, number: int) -> None:
        most = self._config.get("upsert_max_batchsize")
        if most is not None and number > most:
            raise _refused(
                f'Limit exceeded {number} > {most} for "upsert limit"',
                f'Reduce the "upsert limit" parameter to or below {most}.',
            )

    def check_filter(self, condition: BODY | None, indexed: set[str], *, writes: bool = False) -> None:
        setting = "unindexed_filtering_update" if writes else "unindexed_filtering_retrieve"
        for each in (condition or {}).get("must") or ():
            if self._config.get(setting) is False and each["key"] not in indexed:
                raise _refused(
                    f'Index required but not found for "{each["key"]}" of one of the following types: [keyword]',
                    "Create an index for this key or use a different filter.",
                )
            size, most = len(each["match"].get("any") or ()), self._config.get("condition_max_size")
            if most is not None and size > most:
                raise _refused(f"Condition size limit reached ({size} > {most})", "Reduce the size of your condition.")


def _refused(reason: str, remedy: str) -> Refused:
    return Refused(400, f"Bad request: {reason}. Help: {remedy}")
