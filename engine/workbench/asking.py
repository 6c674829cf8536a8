"""The Workbench's answers: asked, judged, rated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from engine import ids
from engine import judge as judging
from engine.asking import Asker, Limits
from engine.bench.dry_run import DryRun
from engine.errors import BadRequest, NeedsModel, UserError
from engine.judge import calibration, trust
from engine.judge.calibration import Calibration
from engine.judge.judge import judge_request
from engine.live import LiveAsk
from engine.models import StrategySpec
from engine.providers.base import ChatModel, ChatRequest, Models
from engine.providers.estimate import estimate
from engine.providers.prices import load_prices
from engine.providers.vectors import well_formed
from engine.records import Plan, Query, Question
from engine.workbench.questions import Questions

ASKERS = 4
"""Questions asked at once without a chat model: the work is local."""


def judge_of(models: Models) -> ChatModel:
    """Raises NeedsModel without a judge."""
    if models.judge is None:
        raise NeedsModel(
            "Judging needs a chat model and none is configured. Set OPENAI_API_KEY, or JUDGE_BASE_URL and JUDGE_MODEL."
        )
    return models.judge


class Asking(Questions):
    """Questions and answers of a Workbench."""

    def ask(
        self,
        question: str,
        specs: Sequence[StrategySpec],
        document_ids: Sequence[str] | None = None,
        top_k: int | None = None,
        request_id: str | None = None,
    ) -> list[Query]:
        """One question to several specs side by side, each indexed first where it is not yet. A failing one leaves the others.

        Every query is stored. Raises BadRequest for an empty question, no strategy or no document, BudgetExceeded where it does not fit
        into a quota.
        """
        return self.start_asking(question, specs, document_ids, top_k, request_id).wait()

    def start_asking(
        self,
        question: str,
        specs: Sequence[StrategySpec],
        document_ids: Sequence[str] | None = None,
        top_k: int | None = None,
        request_id: str | None = None,
    ) -> LiveAsk:
        """`ask` in the background: answers can be read while they are written, and are stored whoever still watches."""
        # A terminal passes bytes that are no text as half surrogate pairs, which neither models nor stores take.
        question = well_formed(question)
        if not question.strip():
            raise BadRequest("The question is empty. Write one and ask again.")
        if not specs:
            raise BadRequest("No strategy is chosen. Choose at least one and ask again.")
        chosen = self._document_ids(document_ids)
        request = request_id or ids.new_id()
        k = top_k or self.settings.top_k
        charge = ExitStack()
        models = charge.enter_context(self._paying(lambda: self._asking(question, specs, chosen, k).estimated_cost_usd))
        asker = Asker(models, self._index, self._store.chunks, self._source, Limits.of(self.settings))

        def answer(spec: StrategySpec, on_text: Callable[[str], None]) -> Query:
            try:
                self._indexed(chosen, [spec], models)
            except UserError as error:
                query = asker.failed(question, spec, chosen, k, request, error)
            else:
                query = asker.ask(question, spec, chosen, k, request, on_text=on_text).query
            self._store.save_query(query)
            return query

        return LiveAsk(request, specs, answer, ASKERS, charge.close)

    def dry_run_question(
        self,
        question: str,
        specs: Sequence[StrategySpec],
        document_ids: Sequence[str] | None = None,
        top_k: int | None = None,
    ) -> DryRun:
        """Calls, tokens and cost of one question before it is asked, with the indexing it still needs. Calls no model and stores nothing."""
        return self._asking(question, specs, self._document_ids(document_ids), top_k or self.settings.top_k)

    def _asking(self, question: str, specs: Sequence[StrategySpec], document_ids: Sequence[str], top_k: int) -> DryRun:
        plan = Plan(
            name="question", document_ids=tuple(document_ids), specs=tuple(specs), question_set_id="", top_k=top_k
        )
        return self._dry_runner().estimate(plan, [Question(question_id="question", question=question)])

    def query(self, query_id: str) -> Query:
        """Raises NotFound."""
        return self._store.query(query_id)

    def queries(self, limit: int = 50, request_id: str | None = None) -> list[Query]:
        """The newest queries, newest first; with `request_id`, those of one request."""
        return self._store.recent_queries(limit, request_id)

    def judge(self, query_id: str, expected: str | None = None) -> Query:
        """Have the judge score a stored answer; the verdict is stored with it. `expected`: the right answer, where known.

        Raises NotFound, NotAllowed for an answer of somebody else, NeedsModel without a judge, BadRequest for an extractive or failed answer,
        BudgetExceeded where it does not fit into a quota.
        """
        query = self._store.query(query_id)
        self._store.require_own("query", query_id)
        if query.answer_kind == "extractive":
            raise BadRequest(
                "An extractive answer is made of the delivered text, so its faithfulness is not applicable."
            )
        if query.status == "failed":
            raise BadRequest("This query failed, so there is no answer to judge.")
        judge = judge_of(self.models)
        asked = judge_request(query.question, expected, query.answer, query.retrieved)
        with self._paying(lambda: self._most_usd(judge, [asked])) as models:
            verdict = judging.judge(
                judge_of(models), query.question, expected, query.answer, query.retrieved, self.document
            )
        return self._kept(query.model_copy(update={"judgement": verdict}))

    def rate(self, query_id: str, rating: int | None = None, faithful: bool | None = None) -> Query:
        """Store a person's rating (1 to 10) of an answer, and whether the delivered text supports all of it. Raises NotFound, BadRequest."""
        if rating is not None and not 1 <= rating <= 10:
            raise BadRequest(f"The rating is {rating}. It must be from 1 to 10.")
        return self._kept(self._store.query(query_id).model_copy(update={"rating": rating, "rated_faithful": faithful}))

    def _kept(self, query: Query) -> Query:
        self._store.save_query(query)
        return query

    def calibrate_judge(self) -> Calibration:
        """Score the judge on cases whose verdict is known. Repeated calls come from the cache.

        Raises NeedsModel without a judge, BudgetExceeded where it does not fit into a quota.
        """
        judge = judge_of(self.models)
        with self._paying(lambda: self._most_usd(judge, calibration.requests())) as models:
            return calibration.calibrate(judge_of(models))

    def _most_usd(self, chat: ChatModel, requests: Sequence[ChatRequest]) -> float | None:
        """The most that calls can cost which no cache answers; None: the price is unknown."""
        return estimate(chat, requests, load_prices(self.settings.prices_file)).most_cost_usd

    def judge_warning(self) -> str | None:
        """A warning when the judge scores answers of its own kind."""
        if self.models.chat is None or self.models.judge is None:
            return None
        return trust.self_preference_warning(self.models.chat.model, self.models.judge.model)

    def judge_agreement(self, limit: int = 1000) -> trust.Agreement:
        """The judge beside the people who rated the newest answers."""
        return trust.agreement(self._store.recent_queries(limit))
