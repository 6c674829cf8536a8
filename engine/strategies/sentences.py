"""Sentence spans that tile the text: nothing between them, nothing lost.

One pass finds every stop that may end a sentence and every line that begins a unit of its own (after a blank line, a list
item, a heading, a table row); rules about the words on both sides of a stop decide. A line break alone ends nothing, so
hard-wrapped text stays whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from engine.models import Span

_OPENING = "\"'“‘«‹„‚([{「『《*_¿¡"
_QUOTES = frozenset("\"'”’»」』》）)")
_STOPS = ".!?…؟۔।॥։።။。！？｡"
_FULL_WIDTH = frozenset("。！？｡")
_ELLIPSES = frozenset({"...", "…"})

_LINE = re.compile(
    r"\n(?:[^\S\n]*+\n\s*+"
    r"|(?=[^\S\n]*+(?:[-*+•–—] |\d{1,3}[.)]\s|\([0-9A-Za-z]{1,4}\)\s|[A-Za-z]\)\s|\#{1,6}\s|\||```|~~~)))"
)
_HEADING_LINE = re.compile(r"\n {0,3}#{1,6}[ \t][^\n]*\n")
_WORD = re.compile(r"[^\W\d_]+")
_RUN_ON = re.compile(r"[A-Z][a-z]+[\s,]")
_ROMAN = re.compile(r"[IVXLC]+\b")


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_NEVER_LAST = _words(
    """
    dr mr mrs ms mx prof st messrs mme mlle hon rev gen col lt sgt capt gov sen rep pres supt
    cf viz vs v ie eg approx resp ca incl excl seq esp
    bzw vgl ggf gem sog evtl bzgl insb insbes einschl inkl zzgl ca hr fr dipl ing mag lic
    p.ex z.b d.h u.a o.ä i.v.m i.s.d s.o s.u i.d.r u.u m.e i.e e.g a.a.o
    """
)
"""Abbreviations that always have something after them, in lower case without the last stop."""

_BEFORE_NUMBER = _words(
    """
    art arts artt no nos nr nrn num para paras par sec secs sect sects fig figs tab eq eqs p pp pg vol vols ch chap chs
    cl cls reg regs dir dec app ann annex sch sched pt pts subpara subparas subs ss s rz rn rdnr randnr abs ziff lit
    kap bd aufl anl anh bl f ff n nn ref ed eds r rr o ord c cap ex exh
    jan feb mar apr jun jul aug sep sept oct nov dec okt dez
    """
)
"""Abbreviations that name what follows when that is a number, a numeral or a bracket."""

_MAYBE_LAST = _words(
    "etc inc ltd llc llp plc co corp bros jr sr al dept est univ assn intl usw ff ibid op cit sqq ag gmbh"
)
"""Abbreviations that end a sentence only before a word that begins one."""

_SHORTENED = _NEVER_LAST | _BEFORE_NUMBER | _MAYBE_LAST


def _shortened(length: int) -> str:
    """The last letters of abbreviations, of one length, for a look-behind; whole abbreviations below four."""
    tails = {word[-length:] for word in _SHORTENED if length == 4 or len(word) == length}
    return "|".join(sorted(tail for tail in tails if re.fullmatch(f"[a-z]{{{length}}}", tail)))


# What ends a sentence whatever else the text says, before a capital, a digit or what begins a line of Markdown: a question
# or exclamation mark, and a stop after a year, after a word of two or three letters that is no abbreviation, or of more whose
# last four letters are those of none.
_PLAIN = (
    rf"(?:(?<=[?!])"
    rf"|(?<=[a-z]{{4}}\.)(?<!(?:{_shortened(4)})\.)"
    rf"|(?<=\s[a-z]{{3}}\.)(?<!(?:{_shortened(3)})\.)"
    rf"|(?<=\s[a-z]{{2}}\.)(?<!(?:{_shortened(2)})\.)"
    rf"|(?<=\s[0-9]{{4}}\.))\s++(?=[A-Z0-9#|-])"
)
# And what ends none: `Art. 5`.
_REFERENCE = "|".join(sorted(form for word in _BEFORE_NUMBER if len(word) == 3 for form in (word, word.capitalize())))
_PLAINLY_NOT = rf"(?<=\s(?:{_REFERENCE})\.) [0-9]"


@cache
def _stop(first: str) -> re.Pattern[str]:
    """A run of stops that begins with `first`, what closes after it, and white space.

    One pattern for each stop, because looking for one letter is five times as fast as looking for one out of a set. Every
    repeat is possessive, so a run of stops or of white space is read once.
    """
    return re.compile(
        rf"{re.escape(first)}(?<![{_STOPS}].)(?:{_PLAIN}"
        rf"|(?!{_PLAINLY_NOT})([{_STOPS}]*+)"
        r"([\"'”’»›)\]}」』》）*_`]*+(?:\[\^?\w{1,8}\])*+)"
        r"(\s*+))"
    )


_BEGINNERS = _words(
    """
    The This That These Those It Its He She They We You I There Here In On At For From By With As If When While Where Who
    What Which Why How However Moreover Furthermore Therefore Thus Hence Also And But Or So Then A An Not Each Every All
    Any Some Such Under After Before Since Although Because Our Their His Her My Your Unless Until Nor Yet Today Later
    Der Die Das Dies Diese Dieser Ein Eine Es Er Sie Wir Ich Im In Am Auf Bei Wenn Wer Was Wie Aber Und Doch Danach
    Le La Les Il Elle Ils Elles Un Une Ce Cette Nous Vous El Los Las Una Este Esta
    """
)

_AFTER_ORDINAL = _words(
    """
    Januar Jänner Februar März April Mai Juni Juli August September Oktober November Dezember Jan Feb Apr Jun Jul Aug Sep
    Sept Okt Nov Dez Jahrhundert Jahrhunderts Jahrhunderte Jh Quartal Halbjahr Kapitel Abschnitt Absatz Auflage Senat
    Zivilsenat Strafsenat Kammer Weltkrieg Klasse Stock Tag Tages Monat Monats Lebensjahr
    """
)
"""German nouns after an ordinal such as `3.`, whose stop ends nothing."""


def sentence_spans(text: str) -> tuple[Span, ...]:
    """Sentences in order; each ends where the next begins, white space after a sentence belongs to it.

    None is blank, unless the whole text is.
    """
    return tuple(map(Span._make, pairwise(sentence_edges(text))))


def sentence_edges(text: str) -> list[int]:
    """Where the sentences begin, and the text's end."""
    return [0, *sentence_starts(text, 0, len(text)), len(text)] if text else [0]


def sentence_starts(text: str, start: int, end: int) -> list[int]:
    """Where a sentence begins, strictly inside the span, which is read on its own. Ascending."""
    part = text[start:end]
    blank = len(part) - len(part.lstrip())
    # A few runs in order, which are sorted in no time; a set would mix them.
    found = sorted([*_after_stops(part), *_at_lines(part), len(part)])
    return [
        start + place
        for place, following in pairwise(found)
        if blank < place < following and not (part[place].isspace() and part[place:following].isspace())
    ]


def _at_lines(text: str) -> Iterator[int]:
    for found in _LINE.finditer(text):
        yield found.end()
    for found in _HEADING_LINE.finditer(text):
        yield found.end()
    if text.startswith("#"):
        yield text.find("\n") + 1


def _after_stops(text: str) -> Iterator[int]:
    """Where a sentence begins after a stop. Ascending for each kind of stop."""
    length = len(text)
    for stop in _STOPS:
        if stop not in text:
            continue
        for found in _stop(stop).finditer(text):
            place = found.end()
            # Where it is told by the pattern, no group took part.
            if found.lastindex is None or (place < length and _begins_after(text, found)):
                yield place


def _begins_after(text: str, found: re.Match[str]) -> bool:
    """Whether a sentence begins at the end of a match of `_stop`, which is before the text's end."""
    place = found.end()
    more, closing, space = found.groups()
    if space and text[place].islower():
        return False
    stop = found.start()
    stops = text[stop] + more
    if stops[0] in _FULL_WIDTH:
        return _ends_full_width(text, found)
    if space:
        return _ends(text, stop, stops, place)
    return stops == "." and not closing and _runs_on(text, stop)


def _ends_full_width(text: str, found: re.Match[str]) -> bool:
    """A closing quotation mark right before more text belongs to a quotation inside the sentence."""
    closing = found[2]
    return not closing or bool(found[3]) or closing[-1] not in _QUOTES or text[found.end()] in _OPENING


def _runs_on(text: str, stop: int) -> bool:
    """Whether a sentence begins right after the stop because its space is missing: `it stopped.Then it`."""
    word = text[max(0, stop - 24) : stop].rsplit(None, 1)
    return (
        len(word) == 2
        and len(word[1]) >= 3
        and word[1].isalpha()
        and word[1].islower()
        and _RUN_ON.match(text, stop + 1) is not None
    )


def _ends(text: str, stop: int, stops: str, after: int) -> bool:
    """Whether the stop at `stop`, with white space up to `after`, ends a sentence."""
    first = after
    while first < len(text) and text[first] in _OPENING and first < after + 4:
        first += 1
    following = text[first : first + 1]
    if following.islower():
        return False
    if stops in _ELLIPSES:
        return _begins(text, first) and text[first : first + 2] not in ("I ", "I'")
    if stops != ".":
        return True
    words = text[max(0, stop - 24) : stop].rsplit(None, 1)
    if not words or text[stop - 1].isspace():
        return bool(words)
    word = words[-1].lstrip(_OPENING)
    if not word:
        return False
    if len(word) < 12 and word[0].isdigit() and word.replace(".", "").isdigit():
        return _ends_after_number(text, stop, word, first)
    lower = word.lower()
    if lower not in _SHORTENED and len(word) > 1 and "." not in word:
        return True
    if lower in _NEVER_LAST:
        return False
    if lower in _BEFORE_NUMBER and (following.isdigit() or following in "§" or _is_reference(text, after)):
        return False
    if len(word) == 1:
        return _ends_after_letter(text, stop, word, first)
    if lower in _MAYBE_LAST or _is_acronym(word):
        return _begins(text, first)
    return True


def _ends_after_number(text: str, stop: int, number: str, after: int) -> bool:
    if len(number) <= 2 and (noun := _WORD.match(text, after)) is not None and noun[0] in _AFTER_ORDINAL:
        return False
    return not (_begins_line(text, stop - len(number)) and len(number.split(".")[0]) <= 3)


def _ends_after_letter(text: str, stop: int, letter: str, after: int) -> bool:
    if not letter.isalpha():
        return True
    if _begins_line(text, stop - 1):
        return False
    if letter.islower():
        # `z. B.`, `d. h.`: one letter and a stop on both sides.
        return text[after + 1 : after + 2] != "."
    return _begins(text, after) and text[after + 1 : after + 2] != "."


def _begins_line(text: str, place: int) -> bool:
    """Whether only white space or markup stands before `place` on its line or in its table cell: a number there is a label."""
    first = max(0, place - 12)
    line = max(text.rfind("\n", first, place), text.rfind("|", first, place))
    if line < 0 and place > 12:
        return False
    return not text[line + 1 : place].strip(" \t*_>-+(")


def _is_reference(text: str, place: int) -> bool:
    return text[place : place + 1] in "([" or _ROMAN.match(text, place) is not None


def _is_acronym(word: str) -> bool:
    """Letters with stops between: `U.S`, `a.m`."""
    return "." in word and all(len(part) == 1 and part.isalpha() for part in word.split("."))


def _begins(text: str, place: int) -> bool:
    word = _WORD.match(text, place)
    return word is not None and word[0] in _BEGINNERS
