"""Labels of sections, articles and points in running text, and the structure made of them."""

from __future__ import annotations

import pytest

from engine.documents import clauses, numerals
from engine.documents.base import Block
from engine.documents.patterns import Hint, assign, split_number
from engine.models import NodeKind

K = NodeKind


def paragraphs(*texts: str) -> list[Block]:
    return [Block(K.PARAGRAPH, text) for text in texts]


def shape(blocks: list[Block]) -> list[str]:
    """Every block as `kind level label | text`, label and text cut to what they hold."""
    return [f"{block.kind} {block.level} {block.label or ''}|{block.text}" for block in blocks]


@pytest.mark.parametrize(
    ("text", "family", "label", "number", "rest"),
    [
        ("Article 5 Definitions", "article", "Article 5", (5,), "Definitions"),
        ("Article 12bis Scope", "article", "Article 12bis", (12, 2), "Scope"),
        ("ARTICLE FIRST", "article", "ARTICLE FIRST", (1,), ""),
        ("Art. 5º - A associação", "article", "Art. 5º", (5,), "A associação"),
        ("Art. 5-A. Objeto", "article", "Art. 5-A", (5, 1), "Objeto"),
        ("Artigo Vigésimo Primeiro – Objeto", "article", "Artigo Vigésimo Primeiro", (21,), "Objeto"),
        ("Artículo 3.- Ámbito", "article", "Artículo 3", (3,), "Ámbito"),
        ("Article premier", "article", "Article premier", (1,), ""),
        ("Artikel 7: Zuständigkeit", "article", "Artikel 7", (7,), "Zuständigkeit"),
        ("§ 5a Anwendung", "paragraph sign", "§ 5a", (5, 1), "Anwendung"),
        ("Член 4. Обхват", "article", "Член 4", (4,), "Обхват"),
        ("Статья 5. Предмет", "article", "Статья 5", (5,), "Предмет"),
        ("Ст. 6 Сроки", "article", "Ст. 6", (6,), "Сроки"),
        ("Madde 5/A – Kapsam", "article", "Madde 5/A", (5, 1), "Kapsam"),
        ("MADDE 6- (1) Bu", "article", "MADDE 6", (6,), "(1) Bu"),
        ("Geçici Madde 1 –", "gecici madde", "Geçici Madde 1", (1,), ""),
        ("Điều 5. Phạm vi", "article", "Điều 5", (5,), "Phạm vi"),
        ("第十条之一 适用范围", "article", "第十条之一", (10, 1), "适用范围"),
        ("第二十三條 罰則", "article", "第二十三條", (23,), "罰則"),
        ("제3조(목적)", "article", "제3조", (3,), "(목적)"),
        ("المادة (٥): نطاق", "article", "المادة (٥)", (5,), "نطاق"),
        ("المادة الأولى", "article", "المادة الأولى", (1,), ""),
        ("סעיף 5", "article", "סעיף 5", (5,), ""),
        ("Clause 5.1 Payment", "clause", "Clause 5.1", (5, 1), "Payment"),
        ("Rule 4 Service", "rule", "Rule 4", (4,), "Service"),
        ("Regulation 7.—(1)", "regulation", "Regulation 7", (7,), "(1)"),
        ("CHAPTER IV General", "chapter", "CHAPTER IV", (4,), "General"),
        ("Section 1.01 Terms", "section", "Section 1.01", (1, 1), "Terms"),
        ("Annex C", "annex", "Annex C", (3,), ""),
        ("Capítulo Primeiro", "chapter", "Capítulo Primeiro", (1,), ""),
        ("Titre II Des droits", "title", "Titre II", (2,), "Des droits"),
        ("Erster Teil", "part", "Erster Teil", (1,), ""),
        ("Allegato 2", "annex", "Allegato 2", (2,), ""),
        ("Глава первая Общие положения", "chapter", "Глава первая", (1,), "Общие положения"),
        ("Приложение № 3", "annex", "Приложение № 3", (3,), ""),
        ("BİRİNCİ BÖLÜM", "chapter", "BİRİNCİ BÖLÜM", (1,), ""),
        ("Chương III", "chapter", "Chương III", (3,), ""),
        ("Phần thứ nhất", "part", "Phần thứ nhất", (1,), ""),
        ("第一章 总则", "chapter", "第一章", (1,), "总则"),
        ("附录A 资料", "annex", "附录A", (1,), "资料"),
        ("제2장 총칙", "chapter", "제2장", (2,), "총칙"),
        ("الفصل الثاني", "section", "الفصل الثاني", (2,), ""),
        ("פרק א' מבוא", "chapter", "פרק א'", (1,), "מבוא"),
        ("Ａｒｔｉｃｌｅ ５ Scope", "article", "Ａｒｔｉｃｌｅ ５", (5,), "Scope"),
        ("\u200fالمادة 7", "article", "\u200fالمادة 7", (7,), ""),
    ],
)
def test_labels_of_sections_and_articles(
    text: str, family: str, label: str, number: tuple[int, ...], rest: str
) -> None:
    clause = clauses.match_clause(text)

    assert clause is not None
    assert (clause.family, clause.label, clause.number, clause.rest) == (family, label, number, rest)
    assert clause.label + clause.separator + clause.rest == text


@pytest.mark.parametrize(
    "text",
    [
        "artifact 5 is kept",
        "Articles of association",
        "Điều khiển phương tiện",
        "Phần đường xe chạy",
        "Section 3.2 of this DPA contains the terms.",
        "Appendix B provides a template",
        "Title",
        "Article 5(1) of Regulation 2016/679",
        "Article 5, paragraph 2, applies",
        "Artikel 5 Absatz 2 gilt",
        "article 5 applies",
        "Part of the work",
        "第三条规定的条件",
        "제3조에 따라",
        "المادة 5 من هذا القانون",
        "Annexes I and II",
    ],
)
def test_running_text_and_references_are_no_labels(text: str) -> None:
    assert clauses.match_clause(text) is None


@pytest.mark.parametrize(
    ("text", "label", "rest"),
    [
        ("(1) The law", "(1)", "The law"),
        ("1. The law", "1.", "The law"),
        ("1.2.3 The law", "1.2.3", "The law"),
        ("(a) ships", "(a)", "ships"),
        ("a) ships", "a)", "ships"),
        ("(iv) planes", "(iv)", "planes"),
        ("– planes", "–", "planes"),
        ("一、总则", "一、", "总则"),
        ("（一）总则", "（一）", "总则"),
        ("أ) نص", "أ)", "نص"),
        ("ч. 1 Текст", "ч. 1", "Текст"),
        ("① one", "①", "one"),
    ],
)
def test_labels_of_points(text: str, label: str, rest: str) -> None:
    point = clauses.match_point(text)

    assert point is not None
    assert (point.label, point.rest) == (label, rest)
    assert point.label + point.separator + point.rest == text


@pytest.mark.parametrize("text", ["A. Smith wrote", "(the) law", "1990. The year", "2019 was", "well-known", "1.5"])
def test_initials_years_and_words_are_no_points(text: str) -> None:
    assert clauses.match_point(text) is None


def test_numbers_of_several_scripts() -> None:
    assert numerals.roman_value("mcmxcix") == 1999
    assert numerals.roman_value("iiii") is None
    assert numerals.cjk_value("二百三十一") == 231
    assert numerals.cjk_value("二〇一七") == 2017
    assert numerals.ordinal_value("vigesimo primeiro") == 21
    assert numerals.number_value("i", "i") is None
    assert numerals.number_value("יב", "יב") == (12,)


def test_sections_and_articles_found_by_pattern() -> None:
    blocks, structure, _ = assign(
        paragraphs(
            "CHAPTER I General provisions",
            "Article 1",
            "This law covers ships.",
            "Article 2 – Terms",
            "Terms are these.",
            "Article 3. The authority keeps a register of all the ships and publishes it every year.",
            "CHAPTER II Penalties",
            "Article 4",
            "(1) A fine is due.",
            "(a) at once;",
            "(2) It is paid.",
        )
    )

    assert (structure.rule, structure.confidence) == ("pattern", "medium")
    assert shape(blocks) == [
        "section 1 CHAPTER I|General provisions",
        "article 0 Article 1|",
        "paragraph 0 |This law covers ships.",
        "article 0 Article 2|Terms",
        "paragraph 0 |Terms are these.",
        "article 0 Article 3|",
        "paragraph 0 |The authority keeps a register of all the ships and publishes it every year.",
        "section 1 CHAPTER II|Penalties",
        "article 0 Article 4|",
        "paragraph 1 (1)|A fine is due.",
        "paragraph 2 (a)|at once;",
        "paragraph 1 (2)|It is paid.",
    ]


def test_two_mentions_of_articles_are_no_structure() -> None:
    blocks, structure, _ = assign(paragraphs("Article 5 Data", "Text.", "Article 2 Terms", "More text."))

    assert structure.confidence == "none"
    assert {block.kind for block in blocks} == {K.PARAGRAPH}


def test_a_reference_out_of_order_is_left_in_the_text() -> None:
    blocks, *_ = assign(
        paragraphs("Article 1", "a", "Article 2", "b", "Article 44 Foo Act applies", "c", "Article 3", "d", "Article 4")
    )

    assert [block.label for block in blocks if block.kind is K.ARTICLE] == [f"Article {n}" for n in (1, 2, 3, 4)]


def test_a_typed_table_of_contents_is_not_structure() -> None:
    contents = ["Article 1 Scope\t3", "Article 2 Terms ........ 4", "Article 3 Fines\t5"]
    bare = ["Article 1 Scope", "Article 2 Terms", "Article 3 Fines"]
    body = ["Article 1 Scope", "a", "Article 2 Terms", "b", "Article 3 Fines", "c"]

    for listing in (contents, bare):
        blocks, *_ = assign(paragraphs(*listing, "Here it starts.", *body))
        assert [index for index, block in enumerate(blocks) if block.kind is K.ARTICLE] == [4, 6, 8]


def test_a_family_gets_one_level_when_only_some_members_are_styled() -> None:
    blocks = paragraphs("Article 1", "a", "Article 2", "b")
    blocks[2] = Block(K.SECTION, "Article 2", level=1, rule="style")
    made, structure, _ = assign(blocks)

    assert [(block.kind, block.level, block.rule) for block in made if block.kind is not K.PARAGRAPH] == [
        (K.ARTICLE, 1, "pattern"),
        (K.ARTICLE, 1, "style"),
    ]
    assert (structure.rule, structure.confidence) == ("outline and pattern", "high")


def test_labels_the_word_processor_numbered_are_certain() -> None:
    blocks = [Block(K.PARAGRAPH, "Definitions", label="Article 1"), Block(K.PARAGRAPH, "Text.")]

    made, *_ = assign(blocks)

    assert shape(made) == ["article 0 Article 1|Definitions", "paragraph 0 |Text."]


def test_section_numbers_inside_articles_stand_below_them() -> None:
    blocks, *_ = assign(
        paragraphs(
            "ARTICLE I",
            "a",
            "Section 1.01 Terms",
            "b",
            "Section 1.02 Rules",
            "c",
            "ARTICLE II",
            "d",
            "Section 2.01 Fees",
            "e",
            "ARTICLE III",
            "f",
        )
    )

    levels = {block.label: (block.kind, block.level) for block in blocks if block.label}
    assert levels["ARTICLE I"] == (K.ARTICLE, 0)
    assert levels["Section 1.02"] == (K.SECTION, 9)


def test_restarts_behind_a_higher_heading_are_kept() -> None:
    blocks, *_ = assign(
        paragraphs(
            "PART I", "x", "Article 1", "a", "Article 2", "b", "PART II", "y", "Article 1", "c", "Article 2", "d"
        )
    )

    assert [block.label for block in blocks if block.kind in (K.SECTION, K.ARTICLE)] == [
        "PART I",
        "Article 1",
        "Article 2",
        "PART II",
        "Article 1",
        "Article 2",
    ]


def test_numbers_are_the_fallback() -> None:
    blocks, structure, _ = assign(
        paragraphs(
            "1. SUBJECT",
            "1.1. The seller sells the goods that are listed in the annex to the buyer.",
            "1.2 Quality",
            "1.2.1. Goods are new.",
            "2. PRICE",
            "2.1. The price is fixed and it is paid in advance.",
            "3. TERM",
            "It ends in May.",
        )
    )

    assert (structure.rule, structure.confidence) == ("numbers", "medium")
    assert [(block.kind, block.label, block.text) for block in blocks[:5]] == [
        (K.SECTION, "1.", "SUBJECT"),
        (K.ARTICLE, "1.1.", ""),
        (K.PARAGRAPH, None, "The seller sells the goods that are listed in the annex to the buyer."),
        (K.ARTICLE, "1.2", "Quality"),
        (K.PARAGRAPH, "1.2.1.", "Goods are new."),
    ]


def test_a_numbered_list_is_not_a_numbering_scheme() -> None:
    blocks, structure, _ = assign(paragraphs("Buy:", "1. Milk", "2. Bread", "3. Eggs", "Then go home."))

    assert structure.rule == "none"
    assert [block.label for block in blocks] == [None, "1.", "2.", "3.", None]


def test_bold_lines_then_sizes_then_nothing() -> None:
    texts = paragraphs("Scope", "Long text here.", "Terms", "More text here.")
    bold = [Hint(bold=True, size=11), Hint(size=11), Hint(bold=True, size=11), Hint(size=11)]
    large = [Hint(size=16), Hint(size=11), Hint(size=16), Hint(size=11)]

    assert [block.kind for block in assign(texts, bold).blocks] == [K.SECTION, K.PARAGRAPH, K.SECTION, K.PARAGRAPH]
    assert assign(texts, bold).structure.rule == "form"
    assert assign(texts, large).structure.rule == "size"
    assert (assign(texts).structure.rule, assign(texts).structure.confidence) == ("none", "none")


def test_table_cells_and_contents_lines_are_never_headings() -> None:
    texts = paragraphs("Article 1 A", "x", "Article 2 B", "x", "Article 3 C", "x")

    for hint in (Hint(in_table=True), Hint(contents=True)):
        assert {block.kind for block in assign(texts, [hint] * 6).blocks} == {K.PARAGRAPH}


def test_letters_and_roman_numbers_are_told_apart_by_their_neighbours() -> None:
    labels = ["(a)", "(i)", "(ii)", "(b)", *(f"({letter})" for letter in "cdefgh"), "(i)", "(j)"]
    blocks, *_ = assign(paragraphs(*(f"{label} text" for label in labels)))

    assert [block.level for block in blocks] == [1, 2, 2, 1, *[1] * 6, 1, 1]


def test_no_text_is_lost_or_added() -> None:
    texts = [
        "CHAPTER I.- General",
        "Art. 1º - Objeto. A associação é regida por este estatuto e pelas leis vigentes.",
        "Art. 2º: Sede",
        "(a) uma;",
        "Art. 3º",
    ]
    blocks, *_ = assign(paragraphs(*texts))

    printed = "".join(f"{block.label or ''}{block.separator if block.label else ''}{block.text}" for block in blocks)
    assert "".join(printed.split()) == "".join("".join(texts).split())


def test_a_block_that_runs_on_behind_its_title_names_its_source_twice() -> None:
    body = "The authority keeps a register of all the ships and publishes it every year."
    blocks, _, sources = assign(paragraphs("Article 1 Scope", "One.", "Article 2", f"Article 3. Register. {body}"))

    assert sources == [0, 1, 2, 3, 3]
    assert [block.text for block in blocks[3:]] == ["Register.", body]


def test_a_number_typed_into_a_heading_becomes_its_label() -> None:
    typed = Block(K.SECTION, "3.1 Terms", level=2)

    assert (split_number(typed).label, split_number(typed).text) == ("3.1", "Terms")
    assert split_number(Block(K.SECTION, "Terms", level=2)).label is None
