"""The language of a passage: by its script, and among languages of one script by their commonest words or their own letters."""

from __future__ import annotations

import re
from collections import Counter

_SCRIPTS = {
    "Latin": "A-Za-z\u00c0-\u024f\u1e00-\u1eff",
    "Han": "\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0002ebef",
    "Kana": "\u3041-\u30ff",
    "Hangul": "\u1100-\u11ff\uac00-\ud7a3",
    "Arabic": "\u0620-\u064a\u066e-\u06d3",
    "Devanagari": "\u0900-\u097f",
    "Cyrillic": "\u0400-\u04ff",
    "Greek": "\u0370-\u03ff",
    "Hebrew": "\u05d0-\u05ea",
    "Thai": "\u0e01-\u0e4e",
}
_LETTERS = {script: re.compile(f"[{ranges}]+") for script, ranges in _SCRIPTS.items()}

_ONLY = {"Hangul": "ko", "Devanagari": "hi", "Greek": "el", "Hebrew": "he", "Thai": "th"}

_COMMON_WORDS = {
    "en": "the of and to in is that for it as with be by on are this or which from not shall are was were has have had may can must will any all each its their they there these been",
    "de": "der die und den das von zu ist des mit dem im für auf nicht eine als auch werden oder ein",
    "fr": "le la les des et en un une du est que dans pour qui par sur au pas plus ou cette",
    "es": "el la de que y los las del en se por con una para es al lo como más o su",
    "it": "il di che la e per un è non con del della le una dei sono nel alla si come",
    "pt": "o de que e do da em um para é com não uma os no se na por mais as dos",
    "nl": "de het een van en in is dat op te zijn met voor niet aan er door wordt of bij",
}
_WORDS = {code: frozenset(words.split()) for code, words in _COMMON_WORDS.items()}
COMMON_WORDS = frozenset[str]().union(*_WORDS.values())
"""The commonest words of the Latin languages known here: they say nothing about a text's subject."""
_WORD = re.compile(r"[^\W\d_]+")

_LEAST_LETTERS = 12
"""Fewer letters than this say too little."""
_LEAST_COMMON_WORDS = 0.08
"""Least share of a Latin text's words that are common words of its language; about a third of running prose is."""


def language(text: str) -> str | None:
    """ISO 639-1 code, or None when the passage is too short, mixed or of a language that is not known here.

    Known: English, German, French, Spanish, Italian, Portuguese, Dutch, Chinese, Japanese, Korean, Arabic, Persian, Urdu, Hindi,
    Russian, Ukrainian, Greek, Hebrew, Thai.
    """
    if text.isascii():
        return _latin(text)
    counts = {script: sum(map(len, letters.findall(text))) for script, letters in _LETTERS.items()}
    # One sign of Chinese or Japanese says as much as several letters.
    weights = {**counts, "Han": 3 * counts["Han"], "Kana": 3 * counts["Kana"]}
    script = max(weights, key=lambda name: weights[name])
    if weights[script] < _LEAST_LETTERS:
        return None
    match script:
        case "Latin":
            return _latin(text)
        case "Han" | "Kana":
            return "ja" if counts["Kana"] * 10 > counts["Han"] else "zh"
        case "Arabic":
            return _arabic_script(text)
        case "Cyrillic":
            return "uk" if re.search("[іїєґ]", text.lower()) else "ru"
        case _:
            return _ONLY[script]


def _latin(text: str) -> str | None:
    words = _WORD.findall(text.lower()) if text.isascii() else [word.lower() for word in _WORD.findall(text)]
    if len(words) < _LEAST_LETTERS and sum(map(len, words)) < _LEAST_LETTERS:
        return None
    # Most words are common in no language: what follows looks at the others alone.
    known = Counter(filter(COMMON_WORDS.__contains__, words))
    hits = {code: sum(map(known.__getitem__, common & known.keys())) for code, common in _WORDS.items()}
    best, second = sorted(hits, key=lambda code: (-hits[code], code))[:2]
    different = len(_WORDS[best] & known.keys())
    if different < 2 or hits[best] < _LEAST_COMMON_WORDS * len(words) or hits[best] == hits[second]:
        return None
    return best


def _arabic_script(text: str) -> str:
    if re.search("[ٹڈڑےںھ]", text):
        return "ur"
    return "fa" if re.search("[پچژگ]", text) else "ar"
