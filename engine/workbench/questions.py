"""The Workbench's question sets, and documents read again, which moves their evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from engine import documents as reading
from engine import ids, questions
from engine.errors import BadRequest, NeedsModel
from engine.models import Document, DocumentInfo, StrategySpec
from engine.providers.base import ChatModel, Models
from engine.providers.estimate import CallsEstimate, estimate
from engine.providers.prices import load_prices
from engine.questions import edit
from engine.records import QuestionSet
from engine.store import QuestionSetInfo
from engine.store.owners import LOCAL
from engine.workbench.chunks import Chunks


@dataclass(frozen=True, slots=True)
class Reread:
    """What reading an original again changed."""

    document: DocumentInfo
    """As it is now; the same as before when the reader has not changed."""
    changes: tuple[questions.Change, ...]
    """Evidence of question sets that was lost, found or moved."""
    experiments: int
    """Experiments measured on the old text. They stay readable; comparing them with new ones compares two texts."""


@dataclass(frozen=True, slots=True)
class ModelDraft:
    """Questions a model drafted, stored, and how every one it was asked for ended."""

    question_set: QuestionSet
    drafted: questions.Drafted


def _drafter(models: Models) -> ChatModel:
    if models.chat is None:
        raise NeedsModel(
            "Drafting with a model needs a chat model and none is configured. Set OPENAI_API_KEY, or draft without a model."
        )
    return models.chat


class Questions(Chunks):
    """Question sets of a Workbench."""

    def add_question_set(
        self, data: bytes, name: str, document_ids: Sequence[str] | None = None, *, store: bool = True
    ) -> QuestionSet:
        """Read a question set and find its evidence in the documents (all when None); `store=False` only reads it. Raises BadQuestionSet."""
        return self._resolved(questions.load(data, name), document_ids, store)

    def _resolved(
        self, question_set: QuestionSet, document_ids: Sequence[str] | None, store: bool = True
    ) -> QuestionSet:
        documents = self._infos(self._document_ids(document_ids))
        # The same questions of somebody else have their evidence in other documents.
        own_id = self._store.own_id("question set", question_set.question_set_id)
        unresolved = question_set.model_copy(update={"question_set_id": own_id})
        resolved = questions.resolve_among(unresolved, documents, self.document)
        if store:
            self._store.save_question_set(resolved)
        return resolved

    def edit_question_set(
        self, question_set_id: str, rows: Sequence[Mapping[str, Any]], name: str | None = None
    ) -> QuestionSet:
        """Store the set that edited rows make (`questions.edit.EDITED`), its evidence looked up in all documents.

        Where anything changed, it is a new set and the old one stays. Raises NotFound, BadQuestionSet.
        """
        return self._resolved(edit.edited(self.question_set(question_set_id), rows, name), None)

    def resolve_question_set(self, question_set_id: str, document_ids: Sequence[str] | None = None) -> QuestionSet:
        """Look the evidence of a set up again, in the given documents or all that its owner can read now; of one that is only shared, in a
        copy of one's own. Raises NotFound.
        """
        found = self.question_set(question_set_id)
        return (self._keeper(question_set_id) or self)._resolved(found, document_ids)

    def _keeper(self, question_set_id: str) -> Self | None:
        """On whose behalf a set is changed: the user's own, or, for the local user, its owner's, whose documents its evidence lies in.

        None for somebody else's.
        """
        if not self._store.is_anothers("question set", question_set_id):
            return self
        if self.user != LOCAL:
            return None
        return self.acting_as(min(self._store.ownership("question set", question_set_id).owners))

    def choose_copy(self, question_set_id: str, question_id: str, evidence: int, copy: int | None) -> QuestionSet:
        """Store which place of a quote that stands in several is the evidence; every place when `copy` is None. Numbers count from 0.

        The set keeps its id. Raises NotFound, BadRequest when there is no such question, quote or place.
        """
        before = self.question_set(question_set_id)
        question = next((each for each in before.questions if each.question_id == question_id), None)
        if question is None or not 0 <= evidence < len(question.evidence):
            raise BadRequest(
                "This question set has no such question or quote. Nothing was changed. Load the page again."
            )
        if copy is not None and not 0 <= copy < len(question.evidence[evidence].candidates):
            raise BadRequest(
                "The quote does not stand in so many places. Nothing was changed. Look for the evidence again."
            )
        chosen = (
            questions.count_every_copy(question, True) if copy is None else questions.choose(question, evidence, copy)
        )
        changed = tuple(chosen if each is question else each for each in before.questions)
        after = before.model_copy(update={"questions": changed})
        self._store.save_question_set(after)
        return after

    def draft_question_set(self, document_ids: Sequence[str], count: int = 20, seed: int = 0) -> QuestionSet:
        """Questions drafted from documents by rules, without a model, stored as a set to be reviewed. Raises NotFound, BadRequest when there are none."""
        documents = [self.document(document_id) for document_id in document_ids]
        drafted = questions.draft(documents, count, seed)
        if not drafted:
            raise BadRequest(
                "No question could be drafted: no definition, deadline, amount or table row is written in a way the rules understand. Nothing was stored. Write questions in a file and upload it."
            )
        name = f"Drafted from {', '.join(document.name for document in documents)}"
        set_id = ids.digest("question set", name, *(question.question_id for question in drafted))
        question_set = QuestionSet(question_set_id=set_id, name=name, questions=drafted, created_at=datetime.now(UTC))
        return self._resolved(question_set, document_ids)

    def draft_estimate(self, document_ids: Sequence[str], count: int = 20, seed: int = 0) -> CallsEstimate | None:
        """What `draft_with_model` would call and cost; None without a chat model. Calls no model. Raises NotFound."""
        if self.models.chat is None:
            return None
        return self._drafting([self.document(document_id) for document_id in document_ids], count, seed)

    def _drafting(self, documents: Sequence[Document], count: int, seed: int) -> CallsEstimate:
        requests = questions.draft_requests(documents, count, seed)
        return estimate(_drafter(self.models), requests, load_prices(self.settings.prices_file))

    def draft_with_model(self, document_ids: Sequence[str], count: int = 20, seed: int = 0) -> ModelDraft:
        """Questions drafted by the chat model from articles of documents, stored as a set to be reviewed.

        An interrupted draft goes on where it stopped: what was answered comes from the cache. Raises NotFound, NeedsModel, BadRequest when
        no question was usable, BudgetExceeded where it does not fit into a quota.
        """
        writer = _drafter(self.models).model
        documents = [self.document(document_id) for document_id in document_ids]
        with self._paying(lambda: self._drafting(documents, count, seed).most_cost_usd) as models:
            drafted = questions.draft_with_model(documents, _drafter(models), count, seed)
        if not drafted.questions:
            causes = ", ".join(f"{n} {cause.replace('_', ' ')}" for cause, n in drafted.rejected.items())
            raise BadRequest(
                f"{writer} drafted no usable question ({causes or 'no article is of a size to ask about'}). Nothing was stored. Draft without a model, or from another document."
            )
        name = f"Drafted by {writer} from {', '.join(document.name for document in documents)}"
        set_id = ids.digest("question set", name, *(question.question_id for question in drafted.questions))
        made = QuestionSet(question_set_id=set_id, name=name, questions=drafted.questions, created_at=datetime.now(UTC))
        return ModelDraft(self._resolved(made, document_ids), drafted)

    def check_question_set(
        self, question_set_id: str, specs: Sequence[StrategySpec] = (), document_ids: Sequence[str] | None = None
    ) -> tuple[questions.Finding, ...]:
        """What to know about a question set before it is used, on the given documents or all.

        `specs`: the strategies to be compared; those that cut without a cost are cut, so that evidence and documents are held against
        their chunks; without any, against the chunk size of the settings. Raises NotFound.
        """
        stored = [info.document_id for info in self.documents()]
        chosen = stored if document_ids is None else document_ids
        free = [spec for spec in specs if not self.cutting_may_cost(spec)]
        return questions.check(
            self.question_set(question_set_id),
            self._infos(chosen),
            self.document,
            (self.chunk(document_id, spec) for spec in free for document_id in chosen),
            chunk_size=self.settings.chunk_size,
            stored=stored,
        )

    def question_sets(self) -> list[QuestionSetInfo]:
        return self._store.question_sets()

    def question_set(self, question_set_id: str) -> QuestionSet:
        """Raises NotFound."""
        return self._store.question_set(question_set_id)

    def delete_question_set(self, question_set_id: str) -> None:
        self._store.delete_question_set(question_set_id)

    def _infos(self, document_ids: Sequence[str]) -> list[DocumentInfo]:
        """Raises NotFound."""
        known = {info.document_id: info for info in self.documents()}
        return [known.get(document_id) or self._store.document_info(document_id) for document_id in document_ids]

    def _document_ids(self, document_ids: Sequence[str] | None) -> list[str]:
        """The given documents, or all. Raises BadRequest when there are none, NotFound for one that does not exist."""
        known = [info.document_id for info in self.documents()]
        chosen = known if document_ids is None else list(document_ids)
        for document_id in set(chosen) - set(known):
            self._store.document_info(document_id)
        if not chosen:
            raise BadRequest("There are no documents yet. Upload one, or load the samples, then try again.")
        return chosen

    def outdated_documents(self) -> list[DocumentInfo]:
        """Documents that an older version of their reader made, newest first: `reread` makes them anew from their originals."""
        current = reading.parser_versions()
        return [
            info
            for info in self.documents()
            if current.get(info.media_type, info.parser_version) != info.parser_version
        ]

    def reread(self, document_id: str) -> Reread:
        """Read the original again with today's reader and put the result in the old document's place.

        Question sets are resolved in the new text, and what moved is listed. Experiments stay as they were measured.
        Raises NotFound, NotAllowed, BadDocument; the old document stays then.
        """
        self._store.require_own("document", document_id)
        found = self._store.ownership("document", document_id)
        others = sorted(found.owners - {LOCAL}) if self.user == LOCAL else []
        # Whoever else owns it keeps it, with the question sets they have.
        reread = [self.acting_as(owner)._reread(document_id, found.shared) for owner in others]
        if not others or LOCAL in found.owners:
            reread.append(self._reread(document_id, found.shared))
        moved = tuple(change for each in reread for change in each.changes)
        return Reread(reread[-1].document, moved, max(each.experiments for each in reread))

    def _reread(self, document_id: str, shared: bool) -> Reread:
        deletion = self.deletion(document_id)
        document = self.add_document(self.original(document_id), deletion.document.name).document
        if document.document_id == document_id:
            return Reread(document, (), 0)
        if shared:
            self._store.share("document", document.document_id, True)
        moved: list[questions.Change] = []
        for info in self._store.question_sets():
            before = self.question_set(info.question_set_id)
            keeper = self._keeper(info.question_set_id)
            if keeper is None or all(
                gold.document_id != document_id for each in before.questions for gold in each.gold
            ):
                continue
            there = [each.document_id for each in keeper.documents() if each.document_id != document_id]
            moved += questions.changes(before, keeper._resolved(before, there))
        self.delete_document(document_id)
        return Reread(document, tuple(moved), deletion.experiments)
