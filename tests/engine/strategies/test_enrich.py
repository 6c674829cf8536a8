from __future__ import annotations

import pytest

from engine.errors import ModelCallFailed
from engine.models import ChunkSet
from engine.providers.base import ChatReply, Models
from engine.strategies.enrich import summary_requests, with_languages, with_summaries
from engine.strategies.language import language
from engine.strategies.semantic import Semantic
from tests.engine.strategies.doubles import KeywordEmbedder, ScriptedChat, saying, source

TAX, LAW = "The tax is due in March of the year. ", "This law is in force from the first of May. "


def chunks(text: str = TAX + LAW) -> ChunkSet:
    strategy = Semantic()
    return strategy.chunk(
        source(text), strategy.parse({"min_sentences": 1}), Models(embedder=KeywordEmbedder("tax", "law"))
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The member shall pay the fee that is due to the office.", "en"),
        ("Die Gebühr ist von dem Mitglied zu zahlen und wird nicht erstattet.", "de"),
        ("Les membres de la commission sont nommés par le conseil pour une durée de cinq ans.", "fr"),
        ("La tasa que se paga por el servicio es la misma para todos los usuarios.", "es"),
        ("Il pagamento della tassa non è dovuto per le attività che sono escluse.", "it"),
        ("A taxa não é devida para os serviços que não são prestados no país.", "pt"),
        ("De kosten van het onderzoek worden niet door de aanvrager betaald.", "nl"),
        ("会员应当在每年三月缴纳会费。", "zh"),
        ("会員は毎年三月に会費を支払わなければならない。", "ja"),
        ("회원은 매년 삼월에 회비를 납부하여야 한다.", "ko"),
        ("يجب على العضو أن يدفع الرسوم كل سنة.", "ar"),
        ("ہر رکن کو سالانہ فیس ادا کرنی ہے۔", "ur"),
        ("عضو باید هر سال حق عضویت را پرداخت کند چون لازم است.", "fa"),
        ("सदस्य को हर वर्ष शुल्क देना होगा।", "hi"),
        ("Член обязан ежегодно уплачивать взнос.", "ru"),
        ("Член зобов'язаний щороку сплачувати внесок і збір.", "uk"),
        ("Το μέλος καταβάλλει την εισφορά κάθε χρόνο.", "el"),
        ("על החבר לשלם את דמי החבר בכל שנה.", "he"),
        ("สมาชิกต้องชำระค่าธรรมเนียมทุกปี", "th"),
        ("", None),
        ("42", None),
        ("Yes.", None),
        ("x = lambda y: zip(y, range(10)) + qux.frob(zed)", None),
    ],
)
def test_language(text: str, code: str | None) -> None:
    assert language(text) == code


def test_languages_need_no_model() -> None:
    assert [chunk.language for chunk in with_languages(chunks()).chunks] == ["en", "en"]


def test_summary_and_keywords_reach_their_chunk() -> None:
    def answer(request: object) -> ChatReply:
        tax = "The tax is due" in str(request)
        return ChatReply(
            "ok", data={"summary": " Tax  time. " if tax else "Law.", "keywords": ["a b", " a  b ", "", "c"]}
        )

    described = with_summaries(chunks(), ScriptedChat(answer))
    assert [chunk.summary for chunk in described.chunks] == ["Tax time.", "Law."]
    assert described.chunks[0].keywords == ("a b", "c")
    assert [c.chunk_id for c in described.chunks] == [c.chunk_id for c in chunks().chunks]
    assert [c.embed_text for c in described.chunks] == [TAX, LAW]
    assert described.seconds["enrich"] >= 0


def test_a_failed_call_fails_the_enrichment_with_its_cause() -> None:
    def answer(request: object) -> ChatReply:
        if "This law" in str(request):
            return ChatReply("rate_limited", detail="The server is busy.")
        return ChatReply("ok", data={"summary": "s", "keywords": []})

    with pytest.raises(ModelCallFailed, match=r"rate_limited.*The chunks stay as they were\.") as failure:
        with_summaries(chunks(), ScriptedChat(answer))
    assert failure.value.cause == "rate_limited"


def test_blank_chunks_are_not_asked_about() -> None:
    chat = saying(data={"summary": "s", "keywords": []})
    assert with_summaries(chunks("  \n"), chat).chunks[0].summary is None
    assert chat.requests == []


def test_requests_are_equal_for_equal_chunks_and_mark_the_text_as_data() -> None:
    first, again = summary_requests(chunks()), summary_requests(chunks())
    assert first == again
    system, user = (message["content"] for message in first[0].messages)
    tag = user.split("<", 1)[1].split(">", 1)[0]
    assert f"<{tag}>\n{TAX}\n</{tag}>" in user
    assert f"<{tag}> and </{tag}>" in system
    assert tag not in "".join(message["content"] for message in first[1].messages)
