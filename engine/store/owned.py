"""The store as one signed-in user sees it: what is their own, and what is shared. Reading anything else is as if it did not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from engine.errors import NotAllowed, NotFound
from engine.models import ChunkSet, Document, DocumentInfo
from engine.records import Experiment, Query, QuestionResult, QuestionSet
from engine.store.database import moment
from engine.store.jobs import NewJob
from engine.store.owners import Kind
from engine.store.records import ExperimentSummary, IndexState, Job, JobState, QuestionSetInfo
from engine.store.repository import Store

_MOST_QUERIES = 10_000
"""Newest queries of all users among which those of one user are looked for."""


class OwnedStore(Store):
    """The same database, limited to one user. Background jobs use the whole store: what they may do was checked when they were queued."""

    def __init__(self, whole: Store, user: str) -> None:
        # Connections, caches and clock are shared: only what is seen differs.
        self.__dict__.update(whole.__dict__)
        self.user = user

    def require_readable(self, kind: Kind, item_id: str) -> None:
        """Raises NotFound for what the user neither owns nor is shared."""
        found = self.ownership(kind, item_id)
        if self.user not in found.owners and not found.shared:
            raise NotFound(f"There is no {kind} {item_id}.")

    def require_own(self, kind: Kind, item_id: str) -> None:
        """Raises NotFound for what the user may not read, NotAllowed for what they may only read."""
        self.require_readable(kind, item_id)
        if self.user not in self.ownership(kind, item_id).owners:
            raise NotAllowed(
                f"This {kind} is shared with you to read, and only its owner may change it. Nothing was changed. "
                "Ask its owner, or make one of your own."
            )

    def require_local(self) -> None:
        """Raises NotAllowed."""
        raise NotAllowed(
            "Index, caches and models are shared by all users, and only whoever runs this installation may renew, empty or test them. Nothing was "
            "changed. Ask them to do it on the command line."
        )

    # Documents

    def document(self, document_id: str) -> Document:
        self.require_readable("document", document_id)
        return super().document(document_id)

    def document_info(self, document_id: str) -> DocumentInfo:
        self.require_readable("document", document_id)
        return _as_added(super().document_info(document_id), self.claimed("document"))

    def documents(self) -> list[DocumentInfo]:
        mine, since = self.readable("document"), self.claimed("document")
        found = [_as_added(info, since) for info in super().documents() if info.document_id in mine]
        return sorted(found, key=lambda info: info.created_at, reverse=True)

    def delete_document(self, document_id: str) -> list[IndexState]:
        """The last of several owners deletes the document; one before only gives it up."""
        self.require_own("document", document_id)
        return [] if self.disclaim("document", document_id).owners else super().delete_document(document_id)

    def update_chunks(self, chunk_set: ChunkSet) -> None:
        self.require_own("document", chunk_set.document_id)
        super().update_chunks(chunk_set)

    def index_states(self, document_id: str | None = None) -> list[IndexState]:
        mine = self.readable("document")
        return [state for state in super().index_states(document_id) if state.document_id in mine]

    def forget_index(
        self,
        document_id: str | None = None,
        spec_id: str | None = None,
        model: str | None = None,
        strategy_name: str | None = None,
    ) -> int:
        """What other owners still use stays searchable."""
        if document_id is not None and self.ownership("document", document_id).owners:
            return 0
        return super().forget_index(document_id, spec_id, model, strategy_name)

    # Question sets and queries

    def save_question_set(self, question_set: QuestionSet) -> None:
        if self.is_anothers("question set", question_set.question_set_id):
            self.require_own("question set", question_set.question_set_id)
        super().save_question_set(question_set)
        self.claim("question set", question_set.question_set_id)

    def question_set(self, question_set_id: str) -> QuestionSet:
        self.require_readable("question set", question_set_id)
        return super().question_set(question_set_id)

    def question_sets(self) -> list[QuestionSetInfo]:
        mine = self.readable("question set")
        return [info for info in super().question_sets() if info.question_set_id in mine]

    def delete_question_set(self, question_set_id: str) -> None:
        self.require_own("question set", question_set_id)
        if not self.disclaim("question set", question_set_id).owners:
            super().delete_question_set(question_set_id)

    def save_query(self, query: Query) -> None:
        if self.is_anothers("query", query.query_id):
            self.require_own("query", query.query_id)
        super().save_query(query)
        self.claim("query", query.query_id)

    def query(self, query_id: str) -> Query:
        self.require_readable("query", query_id)
        return super().query(query_id)

    def recent_queries(self, limit: int = 50, request_id: str | None = None) -> list[Query]:
        mine = self.readable("query")
        return [query for query in super().recent_queries(_MOST_QUERIES, request_id) if query.query_id in mine][:limit]

    # Experiments and jobs

    def create_experiment(self, experiment: Experiment, job: NewJob | None = None) -> None:
        super().create_experiment(experiment, job)
        self.claim("experiment", experiment.experiment_id)

    def experiment(
        self, experiment_id: str, *, queries: bool = True, cells: bool = True, results: bool = True
    ) -> Experiment:
        self.require_readable("experiment", experiment_id)
        return super().experiment(experiment_id, queries=queries, cells=cells, results=results)

    def experiment_summary(self, experiment_id: str) -> ExperimentSummary:
        self.require_readable("experiment", experiment_id)
        return super().experiment_summary(experiment_id)

    def experiments(
        self, status: str | None = None, *, tag: str | None = None, pinned: bool | None = None, text: str = ""
    ) -> list[ExperimentSummary]:
        mine = self.readable("experiment")
        found = super().experiments(status, tag=tag, pinned=pinned, text=text)
        return [each for each in found if each.experiment_id in mine]

    def cell(self, experiment_id: str, spec_id: str, question_id: str, repeat: int = 0) -> QuestionResult | None:
        self.require_readable("experiment", experiment_id)
        return super().cell(experiment_id, spec_id, question_id, repeat)

    def read_cells(self, experiment: Experiment, *, queries: bool = True) -> Iterator[QuestionResult]:
        self.require_readable("experiment", experiment.experiment_id)
        return super().read_cells(experiment, queries=queries)

    def annotate_experiment(
        self,
        experiment_id: str,
        *,
        name: str | None = None,
        note: str | None = None,
        tags: Iterable[str] | None = None,
        pinned: bool | None = None,
    ) -> None:
        self.require_own("experiment", experiment_id)
        super().annotate_experiment(experiment_id, name=name, note=note, tags=tags, pinned=pinned)

    def set_baseline(self, experiment_id: str, is_baseline: bool = True) -> None:
        self.require_own("experiment", experiment_id)
        super().set_baseline(experiment_id, is_baseline)

    def set_budget(self, experiment_id: str, budget_usd: float | None) -> None:
        self.require_own("experiment", experiment_id)
        super().set_budget(experiment_id, budget_usd)

    def delete_experiment(self, experiment_id: str) -> None:
        self.require_own("experiment", experiment_id)
        super().delete_experiment(experiment_id)
        self.disclaim("experiment", experiment_id)

    def job(self, job_id: str) -> Job:
        self.require_readable("experiment", job_id)
        return super().job(job_id)

    def jobs(self, states: Collection[JobState] | None = None, owner: str | None = None, limit: int = 200) -> list[Job]:
        mine = self.readable("experiment")
        return [job for job in super().jobs(states, owner, limit) if job.job_id in mine]

    def cancel_job(self, job_id: str) -> Job:
        self.require_own("experiment", job_id)
        return super().cancel_job(job_id)


def _as_added(info: DocumentInfo, since: Mapping[str, float]) -> DocumentInfo:
    """With the time at which the user added it, and not somebody else who had the same file before."""
    added = since.get(info.document_id)
    return info if added is None else info.model_copy(update={"created_at": moment(added)})
