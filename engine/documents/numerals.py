"""Numbers as laws and contracts print them: digits of several scripts, Roman, letters, CJK numerals, spelled ordinals."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple


class Folded(NamedTuple):
    """Text reduced for matching, with the way back to the original."""

    text: str
    """Lower case, no accents, no bidi marks, Western digits, ASCII brackets."""
    origin: tuple[int, ...]
    """Position in the original of every folded character, and of the end."""


def fold(text: str) -> Folded:
    """Character by character, so that a match can be cut out of the original."""
    if text.isascii():
        return Folded(text.lower(), tuple(range(len(text) + 1)))
    characters: list[str] = []
    index: list[int] = []
    for position, character in enumerate(text):
        folded = _fold_character(character)
        if folded:
            characters.append(folded)
            index.append(position)
    return Folded("".join(characters), (*index, len(text)))


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    if (
        character
        in "\u200b\u200c\u200d\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff\xad"
    ):
        return ""
    if unicodedata.combining(character):
        return ""
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return str(digit)
    if character == "ı":
        return "i"
    if character in "ºª":
        return "°"
    base = "".join(part for part in unicodedata.normalize("NFKD", character) if not unicodedata.combining(part))
    lowered = (base if len(base) == 1 else character).casefold()
    return lowered if len(lowered) == 1 else character


def _words(*groups: tuple[int, str]) -> dict[str, int]:
    return {fold(word).text: value for value, words in groups for word in words.split()}


ORDINALS = _words(
    (1, "first one primeiro primeira primero primera primer primo prima premier première erster erste erstes"),
    (1, "первая первый первое birinci الأول الأولى nhất único única unico unica unique"),
    (2, "second two segundo segunda secondo seconda deuxième seconde zweiter zweite zweites вторая второй второе"),
    (2, "ikinci الثاني الثانية hai"),
    (3, "third three terceiro terceira tercero tercera tercer terzo terza troisième dritter dritte drittes"),
    (3, "третья третий третье üçüncü الثالث الثالثة ba"),
    (4, "fourth four quarto quarta cuarto cuarta quatrième vierter vierte viertes четвертая четвертый четвертое"),
    (4, "dördüncü الرابع الرابعة tư"),
    (5, "fifth five quinto quinta cinquième fünfter fünfte fünftes пятая пятый пятое beşinci الخامس الخامسة năm"),
    (6, "sixth six sexto sexta sesto sesta sixième sechster sechste sechstes шестая шестой шестое altıncı"),
    (6, "السادس السادسة sáu"),
    (7, "seventh seven sétimo sétima séptimo séptima settimo settima septième siebter siebte siebtes siebenter"),
    (7, "седьмая седьмой седьмое yedinci السابع السابعة bảy"),
    (8, "eighth eight oitavo oitava octavo octava ottavo ottava huitième achter achte achtes восьмая восьмой"),
    (8, "восьмое sekizinci الثامن الثامنة tám"),
    (9, "ninth nine nono nona noveno novena neuvième neunter neunte neuntes девятая девятый девятое dokuzuncu"),
    (9, "التاسع التاسعة chín"),
    (10, "tenth ten décimo décima decima dixième zehnter zehnte zehntes десятая десятый десятое onuncu"),
    (10, "العاشر العاشرة mười"),
    (11, "eleventh eleven undécimo undécima undicesimo undicesima onzième elfter elfte одиннадцатая одиннадцатый"),
    (12, "twelfth twelve duodécimo duodécima dodicesimo dodicesima douzième zwölfter zwölfte двенадцатая двенадцатый"),
    (13, "thirteenth thirteen decimotercero decimotercera tredicesimo tredicesima treizième тринадцатая"),
    (14, "fourteenth fourteen decimocuarto decimocuarta quattordicesimo quatorzième четырнадцатая"),
    (15, "fifteenth fifteen decimoquinto decimoquinta quindicesimo quinzième пятнадцатая"),
    (16, "sixteenth sixteen decimosexto decimosexta sedicesimo seizième шестнадцатая"),
    (17, "seventeenth seventeen decimoséptimo decimoséptima diciassettesimo семнадцатая"),
    (18, "eighteenth eighteen decimoctavo decimoctava diciottesimo восемнадцатая"),
    (19, "nineteenth nineteen decimonoveno decimonovena diciannovesimo девятнадцатая"),
    (20, "twentieth twenty vigésimo vigésima ventesimo ventesima vingtième двадцатая двадцать yirminci"),
    (30, "thirtieth thirty trigésimo trigésima trentesimo trentième тридцатая тридцать otuzuncu"),
    (40, "fortieth forty quadragésimo quadragésima cuadragésimo quarantesimo quarantième сороковая kırkıncı"),
)
"""Spelled numbers, folded."""
_TENS = _words((10, "on"), (20, "yirmi"), (30, "otuz"), (40, "kırk"))
_CJK_DIGITS = {character: value for value, character in enumerate("〇一二三四五六七八九")} | {"零": 0, "两": 2, "兩": 2}
_CJK_UNITS = {"十": 10, "百": 100, "千": 1000}
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100, "d": 500, "m": 1000}
_ROMAN_SHAPE = re.compile(r"m{0,3}(?:cm|cd|d?c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})")
_ROMAN_SIGNS = {chr(0x2160 + offset): offset + 1 for offset in range(12)} | {
    chr(0x2170 + offset): offset + 1 for offset in range(12)
}
_SUFFIXES = {"bis": 2, "ter": 3, "quater": 4, "quinquies": 5, "sexies": 6, "septies": 7, "octies": 8}
_HEBREW = dict(zip("אבגדהוזחטיכלמנסעפצקרשת", [*range(1, 10), *range(10, 100, 10), 100, 200, 300, 400], strict=True))

_WORD = "|".join(sorted((re.escape(word) for word in {*ORDINALS, *_TENS}), key=len, reverse=True))
ORDINAL = rf"(?:thu\s+)?(?:{_WORD})(?:[\s-]+(?:{_WORD}))?(?!\w)"
"""Regular expression of a spelled number in folded text, of one or two words."""
CJK = r"[〇零一二三四五六七八九十百千两兩\d]{1,9}"
DIGITS = (
    r"\d{1,4}(?:[.\-/]\d{1,3})*(?:[o°](?!\w))?"
    r"(?:\s?(?:bis|ter|quater|quinquies|sexies|septies|octies)(?!\w)|[-/]?[a-z](?!\w))?(?!\w)"
)
ROMAN = r"[ivxlcdm]{1,9}(?:[-/][a-z])?(?!\w)|[Ⅰ-ⅿ]"
LETTER = r"(?:[a-z]|[абвгдежзиклмнопрст])(?:[.\-]?\d{1,3}(?:\.\d{1,3})*)?(?!\w)"
HEBREW = r"[א-ת]{1,3}['׳\"״]?[א-ת]?(?!\w)"


def roman_value(text: str) -> int | None:
    """Value of a Roman number in lower case; None when it is not one."""
    if not text or not _ROMAN_SHAPE.fullmatch(text):
        return None
    total = 0
    for character, following in zip(text, [*text[1:], ""], strict=True):
        value = _ROMAN[character]
        total += -value if following and _ROMAN[following] > value else value
    return total


def cjk_value(text: str) -> int | None:
    """Value of a Chinese or Japanese number such as 二十一, or of plain digits."""
    if text.isdigit():
        return int(text)
    if not any(character in _CJK_UNITS for character in text):
        digits = [_CJK_DIGITS.get(character) for character in text]
        return None if None in digits or not digits else int("".join(str(digit) for digit in digits))
    total, current = 0, 0
    for character in text:
        if character in _CJK_UNITS:
            total += (current or 1) * _CJK_UNITS[character]
            current = 0
        elif character in _CJK_DIGITS:
            current = _CJK_DIGITS[character]
        else:
            return None
    return total + current


def ordinal_value(text: str) -> int | None:
    """Value of one or two folded ordinal words: "vigesimo primeiro" is 21."""
    total = 0
    for word in re.split(r"[\s-]+", text.strip()):
        if word == "thu":
            continue
        value = ORDINALS.get(word, _TENS.get(word))
        if value is None:
            return None
        total += value
    return total or None


def number_value(folded: str, original: str) -> tuple[int, ...] | None:
    """Counters of a printed number, outermost first; suffixes ("5a", "12 bis") count as one more level.

    Roman numbers and letters count only in capitals: "Article i" is running text. A lone C, D, L or M is a letter.
    """
    text = folded.strip(" ()")
    capital = original.strip(" ()").isupper()
    if text[:1].isdigit():
        return _digits_value(text)
    if original.strip() in _ROMAN_SIGNS:
        return (_ROMAN_SIGNS[original.strip()],)
    ordinal = ordinal_value(text)
    if ordinal is not None:
        return (ordinal,)
    if all(character in _CJK_DIGITS or character in _CJK_UNITS for character in text):
        value = cjk_value(text)
        return None if value is None else (value,)
    hebrew = [_HEBREW[character] for character in text if character in _HEBREW]
    if hebrew and len(hebrew) >= len(text) - 1:
        return (sum(hebrew),)
    if not capital:
        return None
    head, *suffix = re.split(r"[-/]", text)
    roman = None if head in ("c", "d", "l", "m") else roman_value(head)
    if roman is not None:
        return (roman, *(ord(part) - ord("a") + 1 for part in suffix))
    match = re.fullmatch(r"([a-zа-я])[.\-]?([\d.]*)", text)
    if match is None:
        return None
    return (_letter_value(match[1]), *(int(part) for part in match[2].split(".") if part))


def _letter_value(letter: str) -> int:
    return ord(letter) - ord("a" if letter.isascii() else "а") + 1


def _digits_value(text: str) -> tuple[int, ...] | None:
    match = re.fullmatch(r"(\d+(?:[.\-/]\d+)*)(?:[o°](?!\w))?\s?(.*)", text)
    if match is None:
        return None
    parts = [int(part) for part in re.split(r"[.\-/]", match[1])]
    suffix = match[2].strip("-/ ")
    if suffix in _SUFFIXES:
        parts.append(_SUFFIXES[suffix])
    elif len(suffix) == 1 and suffix.isalpha():
        parts.append(_letter_value(suffix))
    return tuple(parts)
