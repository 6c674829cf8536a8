from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.strategies import sentences
from engine.strategies.sentences import sentence_spans, sentence_starts

# One case per column of the comparison of sentence splitters: language, the sentences whose concatenation is the text.
CASES = {
    "article number": ("en", ["Under Art. 5 the fee is due. ", "It is not refundable."]),
    "number sign": ("en", ["See Regulation No. 3 for details. ", "It applies since May."]),
    "for example": ("en", ["Bring proof, e.g. Form A or a passport. ", "Copies are refused."]),
    "section number": ("en", ["Section 1.2.3 defines the term. ", "Section 1.2.4 uses it."]),
    "title": ("en", ["Dr. Smith signed it. ", "Mr. Jones did not."]),
    "acronym inside": ("en", ["The U.S. Congress passed the act. ", "It took effect at once."]),
    "acronym at the end": ("en", ["The firm moved to the U.S. ", "She stayed in Canada."]),
    "stop inside quotation marks": ("en", ["“It is done.” ", "She left the room."]),
    "ellipsis": ("en", ["Well... I do not know. ", "Ask the clerk."]),
    "heading before a blank line": ("en", ["General provisions\n\n", "This act applies to all."]),
    "numbered list": ("en", ["1. Pay the fee.\n", "2. Send the form.\n", "3. Wait."]),
    "et al.": ("en", ["Lee et al. (2020) disagree. ", "Others do not."]),
    "figure in brackets": ("en", ["The rate fell (see Fig. 2). ", "It rose again."]),
    "no space after the stop": ("en", ["The motor stopped.", "Then the light went out."]),
    "Chinese": ("zh", ["本法适用于所有人。", "费用不予退还！", "为什么？"]),
    "Japanese": ("ja", ["これは法律です。", "料金は返金されません。"]),
    "Chinese quotation": ("zh", ["他说：“可以。”然后离开了。", "门关上了。"]),
    "Arabic": ("ar", ["هل هذا صحيح؟ ", "نعم بالتأكيد."]),
    "Urdu": ("ur", ["یہ قانون ہے۔ ", "فیس واپس نہیں ہوگی۔"]),
    "Hindi": ("hi", ["यह कानून है। ", "शुल्क वापस नहीं होगा।"]),
    "German abbreviation": ("de", ["Man braucht z. B. Wasser und Brot. ", "Mehr nicht."]),
    "German date": ("de", ["Das Gesetz gilt ab dem 3. Mai 2020. ", "Vorher galt nichts."]),
    "hard-wrapped line": ("en", ["The fee is due when the\nform is filed. ", "It is not\nrefundable."]),
    "question": ("en", ["Who pays? ", "The applicant does."]),
    "question inside a sentence": ("en", ["“Who pays?” she asked. ", "Nobody answered."]),
    "decimal number": ("en", ["The rate is 3.5 per cent. ", "It was 4.0 before."]),
    "initials": ("en", ["J. R. Smith wrote the report. ", "B. Lee read it."]),
    "year at the end": ("en", ["The act dates from 2020. ", "It was amended twice."]),
}

LEGAL = {
    "paragraph and letter": ["As set out in para. 2 and lit. (b), notice is given. ", "Silence is consent."],
    "several articles": ["Arts. 5 and 6 apply; cf. Art. 7(2) and Sec. IV of the Annex. ", "Nothing else does."],
    "case name": ["In Brown v. Board of Education the court decided. ", "The ruling stands."],
    "regulation": ["Reg. (EU) No. 575/2013 applies. ", "See OJ L 176, p. 1."],
    "that is": ["The owner, i.e. Acme Ltd. or its heirs, pays. ", "The tenant does not."],
    "company at the end": ["The licence was granted to Acme Inc. ", "The fee was waived."],
    "lettered items": ["The applicant shall:\n", "(a) pay the fee;\n", "(b) file the form. ", "Both are required."],
    "nested number at a line start": ["3.2. The deadline is ten days.\n", "3.3. It may be extended."],
    "month": ["It was signed on Jan. 5 and Dec. 12. ", "Both copies are kept."],
    "section sign": ["Vgl. § 5 Abs. 2 Nr. 3 der Verordnung. ", "Die Frist beträgt zehn Tage."],
    "plain no at the end": ["The answer is no. ", "Three members voted against."],
    "footnote mark": ["The fee is due.[1] ", "It is not refundable.[^2] ", "It never was."],
    "time of day": ["The office opens at 9 a.m. ", "It closes at noon."],
    "and so on": ["Bring forms, copies, etc. ", "The clerk checks them."],
    "section heading without a blank line": ["# Scope\n", "This act applies. ", "It binds all."],
    "table rows": ["| a | b |\n", "|---|---|\n", "| 1. x | 2. Y |"],
    "brackets around a sentence": ["It applies. ", "(It did not before.) ", "It will."],
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    _language, sentences = CASES[name]
    text = "".join(sentences)
    assert [span.slice(text) for span in sentence_spans(text)] == sentences


def test_there_are_28_cases() -> None:
    assert len(CASES) == 28


@pytest.mark.parametrize("name", LEGAL)
def test_legal_text(name: str) -> None:
    text = "".join(LEGAL[name])
    assert [span.slice(text) for span in sentence_spans(text)] == LEGAL[name]


def test_empty_and_blank() -> None:
    assert sentence_spans("") == ()
    assert [tuple(span) for span in sentence_spans(" \n\n ")] == [(0, 4)]


def test_a_part_is_read_on_its_own() -> None:
    text = "One. Two. Three. Four."
    assert sentence_starts(text, 5, 17) == [10]


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.text(alphabet="ab A.!?。”\"'()[]1 \n\r\t#|-…\u200d\u0301", max_size=80))
def test_spans_tile_the_text(text: str) -> None:
    spans = sentence_spans(text)
    assert "".join(span.slice(text) for span in spans) == text
    assert all(span.length > 0 for span in spans)


def test_long_runs_are_read_once() -> None:
    # Each of these would take minutes if a run were read again from every one of its characters.
    for text in ("." * 400_000, " " * 400_000, ".)" * 200_000, "\n" * 400_000, "“" + "a" * 400_000, "[" * 400_000):
        assert "".join(span.slice(text) for span in sentence_spans(text)) == text


def test_the_pattern_alone_ends_no_sentence_that_the_rules_would_not() -> None:
    words = [*sorted(sentences._SHORTENED), "of", "fee", "paid", "ended", "www.site", "U.S", "3", "a", "Über", "x-ray"]
    found = 0
    for word in words:
        for before in ("the ", "(", "X", "the\n", ""):
            for stops, after in product(
                (".", "?", "!", "..", "?!"), ("The next", "5 more", "# Next", "| next |", "- next")
            ):
                text = f"{before}{word}{stops} {after}"
                for match in sentences._stop(stops[0]).finditer(text):
                    if match.lastindex is None:
                        found += 1
                        assert sentences._ends(text, match.start(), text[match.start()], match.end()), text
    assert found > 500


def test_the_pattern_alone_ends_most_sentences() -> None:
    text = "The fee is due. Who pays it? The buyer of it. No. He pays on Art. 5 alone! It is so."
    told = [
        match.start() for stop in ".?!" for match in sentences._stop(stop).finditer(text) if match.lastindex is None
    ]
    assert [text[:place].split()[-1] for place in sorted(told)] == ["due", "it", "it", "alone"]


def test_a_run_of_stops_is_one_stop_whatever_it_begins_with() -> None:
    for stops in ("?.", "!?", ".?", "…!", "...", "!!!", "?…."):
        assert [match[0] for match in sentences._stop(stops[0]).finditer(f"So{stops} b")] == [f"{stops} "]
        for other in set(stops[1:]) - {stops[0]}:
            assert not list(sentences._stop(other).finditer(f"So{stops} b"))
