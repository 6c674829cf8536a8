"""Recognises the opening of a section, an article or a point in one line of text, in the languages Chunkscope reads."""

from __future__ import annotations

import re
from typing import NamedTuple

from engine.documents import numerals
from engine.documents.numerals import fold
from engine.models import NodeKind

LONG_HEADING = 200
"""Characters above which a line is a clause, not a title."""
_LOOK = 160
"""Characters of a line that are searched for a label."""

_SECTION_WORDS = {
    "part": "Part Parte Partie Teil Часть Phần الجزء חלק",
    "title": "Title Título Titre Titolo Titel",
    "book": "Book Libro Livro Livre Buch Книга",
    "chapter": "Chapter Capítulo Chapitre Kapitel Capo Глава Bölüm Chương الباب פרק",
    "section": "Section Sección Secção Seção Abschnitt Раздел Mục الفصل",
    "subsection": "Subsection Subsección Subseção Unterabschnitt Подраздел القسم",
    "division": "Division Kısım",
    "annex": "Annex Appendix Schedule Exhibit Anexo Annexe Anhang Allegato Приложение Ek الملحق תוספת",
}
_ARTICLE_WORDS = {
    "article": "Article Art. Artículo Artigo Articolo Artikel Член Чл. Статья Ст. Madde Điều المادة مادة סעיף",
    "clause": "Clause Cláusula",
    "rule": "Rule",
    "regulation": "Regulation",
    "paragraph sign": "§§ §",
}
_PHRASES = {"annex": ["Phụ lục"], "article": ["Geçici Madde", "Ek Madde"]}

_FAMILIES: dict[str, tuple[str, NodeKind]] = {}
for _kind, _table in ((NodeKind.SECTION, _SECTION_WORDS), (NodeKind.ARTICLE, _ARTICLE_WORDS)):
    for _family, _list in _table.items():
        for _word in [*_list.split(), *_PHRASES.get(_family, [])]:
            _FAMILIES[fold(_word).text] = (_family, _kind)

_KEYWORD = "|".join(sorted((re.escape(word) for word in _FAMILIES), key=len, reverse=True)).replace(r"\ ", r"\s+")
_NUMBER = "|".join(
    (
        rf"\(\s*(?:{numerals.DIGITS}|{numerals.ORDINAL})\s*\)",
        numerals.DIGITS,
        numerals.ORDINAL,
        numerals.ROMAN,
        numerals.LETTER,
        numerals.HEBREW,
        rf"{numerals.CJK}(?!\w)",
    )
)
_WORD_NUMBER = re.compile(rf"(?P<word>{_KEYWORD})(?P<gap>\s*)(?:n[o°]?\.?\s*(?=\d)|№\s*)?(?P<number>{_NUMBER})")
_NUMBER_WORD = re.compile(
    rf"(?P<number>{numerals.ORDINAL}|\d{{1,3}}\.)\s+"
    r"(?P<word>bolum|kisim|teil|abschnitt|kapitel|titel|buch|partie|parte|titulo|capitulo|seccion|livre|libro)(?!\w)"
)
_CJK_CLAUSE = re.compile(
    rf"第\s*(?P<number>{numerals.CJK})\s*(?P<word>编|編|篇|部分|部|卷|章|节|節|条|條)(?:之(?P<suffix>{numerals.CJK}))?"
    rf"|제\s*(?P<knumber>\d{{1,4}})\s*(?P<kword>편|장|절|조)(?:의\s*(?P<ksuffix>\d{{1,3}}))?"
    rf"|(?P<annex>附录|附錄|附件|别表|別表|附表|별표)\s*(?P<anumber>{numerals.CJK}|[a-zⅠ-ⅿ](?![a-z]))"
)
_CJK_FAMILIES = {
    **dict.fromkeys(("编", "編", "篇", "편"), ("book", NodeKind.SECTION)),
    **dict.fromkeys(("部分", "部", "卷"), ("part", NodeKind.SECTION)),
    **dict.fromkeys(("章", "장"), ("chapter", NodeKind.SECTION)),
    **dict.fromkeys(("节", "節", "절"), ("section", NodeKind.SECTION)),
    **dict.fromkeys(("条", "條", "조"), ("article", NodeKind.ARTICLE)),
}

_SEPARATOR = re.compile(r"[\s.:)\]–—―\-ـ]*")
_SUBREFERENCE = re.compile(r"(?:\s*\(\w{1,4}\))+")
_REFERENCE_WORDS = re.compile(
    r"(?:abs(?:atz|\.)|satz|nummer|nr\.|buchstabe|para(?:graph)?[s.]?|n[.°]|п\.|ч\.|abs\.|fikra)(?!\w)"
)
_UNCASED_REFERENCE = re.compile(
    r"第|规定|規定|所述|所称|所指|和|及|至|与|或|的|中|の|に|から|、"
    r"|에|의|및|부터|을|를|와|과|은|는|이\s"
    r"|من(?!\w)|والماد|أعلاه|المذكور|של\s|לחוק|לעיל"
)
_PAGE_TAIL = re.compile(r"(?:\.{3,}|…+|\t|(?:\. ){3,}|·{3,})[\s.…]*\d{1,4}\s*$")
_TITLE_END = re.compile(r"(?<=[^\W\d_]{2})[.:](?=\s)|\s[–—-](?=\s)|(?<=\S)[。：](?=\S)|\s(?=\t)|\n")
_SENTENCE_END = (".", ";", "。", "；", ",", "،", "؛")


class Clause(NamedTuple):
    """The label that opens a line, and what stands behind it."""

    family: str
    """Keyword family: all members get one level."""
    kind: NodeKind
    label: str
    """As printed."""
    number: tuple[int, ...]
    separator: str
    """What stands between label and rest."""
    rest: str


class Title(NamedTuple):
    """A heading's rest cut into its title and the text that runs on behind it."""

    title: str
    body: str


def match_clause(text: str, *, printed: bool = True) -> Clause | None:
    """The section or article label that opens `text`; None for ordinary text and for references to other clauses.

    `printed=False` for labels that the word processor numbered: they are no references.
    """
    text = text.strip()
    folded = fold(text[:_LOOK])
    found = _keyword_clause(folded.text, folded.origin, text) or _cjk_clause(folded.text, folded.origin, text)
    if found is None or not printed:
        return found
    return None if _is_reference(found, text) else found


def is_contents_line(text: str) -> bool:
    """Whether a line ends like a line of a table of contents: leader dots or a tab, then a page number."""
    return _PAGE_TAIL.search(text[-60:]) is not None


def split_title(rest: str) -> Title:
    """A short rest is the title; of a long one, or of sentences, only what stands before the first title separator."""
    rest = rest.strip()
    if len(rest) <= LONG_HEADING and not _is_sentence(rest):
        return Title(rest, "")
    match = _TITLE_END.search(rest[:120])
    if match is not None:
        head, body = rest[: match.end()].strip(), rest[match.end() :].strip()
        if body and len(head.split()) <= 8 and not head[:1].islower():
            return Title(head, body)
    return Title("", rest)


def _is_sentence(text: str) -> bool:
    if "\n" in text:
        return True
    words = len(text.split())
    return (words >= 7 or (words < 3 and len(text) > 25)) and text.endswith(_SENTENCE_END)


def _keyword_clause(folded: str, index: tuple[int, ...], text: str) -> Clause | None:
    match = _WORD_NUMBER.match(folded)
    turned = match is None
    if match is None:
        match = _NUMBER_WORD.match(folded)
        if match is None:
            return None
    elif (
        not match["gap"]
        and not match["number"][0].isdigit()
        and match["word"][-1] not in ".§"
        and match["number"][0] != "("
    ):
        return None
    original = text[index[match.start("number")] : index[match.end("number")]]
    number = numerals.number_value(match["number"].rstrip("."), original)
    if number is None or text[index[match.start()]].islower():
        return None
    word = " ".join(match["word"].split())
    if turned:
        family, kind = _FAMILIES.get(word, ("section", NodeKind.SECTION))
        if family in ("division", "chapter") and word in ("kisim", "bolum"):
            family = "part" if word == "kisim" else "chapter"
    else:
        family, kind = _FAMILIES[word]
    if word in ("gecici madde", "ek madde"):
        family = word
    return _clause(family, kind, number, index[match.end()], text)


def _cjk_clause(folded: str, index: tuple[int, ...], text: str) -> Clause | None:
    match = _CJK_CLAUSE.match(folded)
    if match is None:
        return None
    if match["annex"]:
        numeral = match["anumber"]
        start, end = match.span("anumber")
        number = numerals.number_value(numeral, text[index[start] : index[end]])
        family, kind = "annex", NodeKind.SECTION
    else:
        value = numerals.cjk_value(match["number"] or match["knumber"])
        suffix = match["suffix"] or match["ksuffix"]
        extra = numerals.cjk_value(suffix) if suffix else None
        number = None if value is None else (value,) if extra is None else (value, extra)
        family, kind = _CJK_FAMILIES[match["word"] or match["kword"]]
    if number is None:
        return None
    return _clause(family, kind, number, index[match.end()], text)


def _clause(family: str, kind: NodeKind, number: tuple[int, ...], end: int, text: str) -> Clause:
    gap = _SEPARATOR.match(text, end)
    rest_start = gap.end() if gap else end
    return Clause(family, kind, text[:end], number, text[end:rest_start], text[rest_start:])


def _is_reference(clause: Clause, text: str) -> bool:
    """Whether the line goes on like a sentence that only mentions a clause."""
    if not clause.rest or clause.separator.strip():
        return False
    sub = _SUBREFERENCE.match(clause.rest)
    rest = clause.rest[sub.end() :].lstrip() if sub else clause.rest
    if sub and (not rest or re.fullmatch(r"\s*\(\d+\)", sub[0]) is None):
        rest = clause.rest if sub[0].strip(" ()").isalpha() and len(sub[0].strip(" ()")) > 1 else rest
        if not rest:
            return True
    first = rest[:1]
    if first.islower() or first in ",;،؛、，；/&":
        return True
    if not clause.separator and first.isalnum() and first.isascii():
        return True
    folded = fold(rest[:24]).text
    return bool(_REFERENCE_WORDS.match(folded) or _UNCASED_REFERENCE.match(rest))


# --- points ------------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    """The label of a numbered paragraph or point."""

    label: str
    style: tuple[str, ...]
    """Shape of the label: brackets and kind of number. Points of one style stand on one level."""
    number: tuple[int, ...]
    """Counters; empty for letters and Roman numbers, which only their neighbours tell apart."""
    letters: str
    """The letters of a letter or Roman label, in lower case; else empty."""
    separator: str
    rest: str


_POINT = re.compile(
    r"(?P<label>"
    r"\((?P<inner>\d{1,3}[a-z]?|[a-z]{1,5}|[а-я]|[א-ת]|[ء-ي]|[一二三四五六七八九十]{1,3})\)"
    r"|(?P<dotted>\d{1,3}(?:\.\d{1,3}){1,6})[.)]?(?=\s)"
    r"|(?P<plain>\d{1,3}[a-z]?)(?:[.)](?=\s)|\))"
    r"|(?P<part>ч\.\s?\d{1,2})(?!\w)"
    r"|(?P<letter>[a-z]|[ivx]{1,5}|[а-я]|[א-ת]|[ء-ي])(?:\)|\.(?=\s))"
    r"|(?P<cjk>[一二三四五六七八九十]{1,3})、"
    r"|(?P<dash>[–—•·‣▪●○-])(?=\s)"
    r")(?P<gap>\s*)"
)


def match_point(text: str) -> Point | None:
    """The paragraph or point label that opens `text`: "(1)", "1.", "1.2", "(a)", "a)", "(i)", "–", "一、", "（一）", "أ)"."""
    stripped = text.lstrip()
    if stripped[:1] in "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳" and stripped:
        rest = stripped[1:].lstrip()
        return Point(
            stripped[0], ("circled",), (ord(stripped[0]) - 0x245F,), "", stripped[1 : len(stripped) - len(rest)], rest
        )
    folded = fold(stripped[:40])
    match = _POINT.match(folded.text)
    if match is None:
        return None
    end, rest_start = folded.origin[match.end("label")], folded.origin[match.end()]
    label = stripped[:end]
    style = _point_style(match, label)
    if style is None:
        return None
    return Point(label, *style, stripped[end:rest_start], stripped[rest_start:])


def _point_style(match: re.Match[str], label: str) -> tuple[tuple[str, ...], tuple[int, ...], str] | None:
    """Style, counters and letters of a label; None for initials ("A. Smith") and words in brackets."""
    if match["dash"]:
        return ("dash", match["dash"]), (), ""
    if match["dotted"]:
        parts = tuple(int(part) for part in match["dotted"].split("."))
        return ("dotted", str(len(parts))), parts, ""
    if match["part"]:
        return ("part",), (int(re.sub(r"\D", "", match["part"])),), ""
    core = match["inner"] or match["plain"] or match["letter"] or match["cjk"]
    shape = match["label"].replace(core, "*", 1)
    if core[0].isdigit():
        return ("digits", shape), (int(re.sub(r"\D", "", core)),), ""
    if numerals.cjk_value(core) is not None:
        return ("cjk", shape), (numerals.cjk_value(core) or 0,), ""
    case = "upper" if any(character.isupper() for character in label) else "lower"
    roman = numerals.roman_value(core) is not None
    if not roman and len(set(core)) > 1:
        return None
    if case == "upper" and match["letter"] and shape.endswith(".") and not roman:
        return None
    return ("letters", case, shape), (), core
