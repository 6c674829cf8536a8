"""Chat answers that depend on the request: found in the texts it carries, and shaped by the JSON schema it asks for."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

NOT_ANSWERED = "The documents do not answer this."
_MARKED = re.compile(r"(?P<label>[^\n:<>]+):\s*\n<(?P<tag>[\w-]+)>\n(?P<text>.*?)\n</(?P=tag)>", re.DOTALL)
_BREAK = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NOT_EVIDENCE = ("question", "answer", "document", "place", "claim", "outline", "heading", "statement", "title")
_LEAST = 1 / 3
"""Share of a question's words that a sentence must hold to answer it."""
_SUPPORT = 0.6
"""Share of a claim's words that must stand in the evidence to support it."""


def words(text: str) -> set[str]:
    """Words of four letters or more, cut to six, and numbers."""
    found = _WORD.findall(text.casefold())
    return {word[:6] for word in found if len(word) > 3 or word.isdigit()}


def sentences(text: str) -> list[str]:
    return [part.strip() for part in _BREAK.split(text) if len(_WORD.findall(part)) > 1]


def overlap(part: str, whole: str) -> float:
    """Share of the words of `part` that stand in `whole`."""
    wanted = words(part)
    return len(wanted & words(whole)) / len(wanted) if wanted else 0.0


@dataclass(frozen=True)
class Found:
    """A piece of text and the passage it stands in: the number in its label, or else its place; 0 for none."""

    text: str
    number: int = 0


class Asked:
    """What a request carries: labelled texts between the marks of a tag, or else the whole last message."""

    def __init__(self, messages: Sequence[Mapping[str, Any]]) -> None:
        texts = [text_of(message.get("content")) for message in messages]
        user = "\n\n".join(
            text for text, message in zip(texts, messages, strict=True) if message.get("role") != "system"
        )
        self.sections = [(found["label"].strip(), found["text"]) for found in _MARKED.finditer(user)]
        self.whole = user

    def section(self, name: str, but: str = "\0") -> str:
        """The first text whose label holds `name` and not `but`."""
        return next(
            (text for label, text in self.sections if name in label.casefold() and but not in label.casefold()), ""
        )

    @cached_property
    def question(self) -> str:
        return self.section("question") or ("" if self.sections else self.whole)

    @cached_property
    def answer(self) -> str:
        """The answer that is to be judged."""
        return self.section("answer", but="expected") or self.section("claim") or self.section("statement")

    @cached_property
    def judges(self) -> bool:
        """Whether there is an answer to judge; it may be an empty one, which claims nothing."""
        return bool(self.answer) or any(
            "answer" in label.casefold() and "expected" not in label.casefold() for label, _ in self.sections
        )

    @cached_property
    def evidence(self) -> list[Found]:
        passages = [
            (label, text)
            for label, text in self.sections
            if not any(name in label.casefold() for name in _NOT_EVIDENCE)
        ]
        if not self.sections:
            return [Found(self.whole, 1)]
        numbers = [re.search(r"\d+$", label) for label, _ in passages]
        return [
            Found(text, int(number[0]) if number else place)
            for place, ((_, text), number) in enumerate(zip(passages, numbers, strict=True), 1)
        ]

    @cached_property
    def evidence_text(self) -> str:
        return "\n".join(passage.text for passage in self.evidence)

    @cached_property
    def evidence_sentences(self) -> list[Found]:
        return [Found(sentence, passage.number) for passage in self.evidence for sentence in sentences(passage.text)]

    @cached_property
    def main_points(self) -> list[Found]:
        """The sentence with most different words of each passage."""
        return [
            Found(max(parts, key=lambda part: len(words(part))), passage.number)
            for passage in self.evidence
            if (parts := sentences(passage.text))
        ]

    @cached_property
    def findings(self) -> list[Found]:
        """What answers the question, best first; without a question, the main points."""
        if not self.question:
            return self.main_points
        best = self.nearest(self.question)
        return [best] if best is not None and overlap(self.question, best.text) >= _LEAST else []

    def nearest(self, text: str) -> Found | None:
        """The sentence of the evidence that shares most words with `text`; None when none shares any."""
        best = max(self.evidence_sentences, key=lambda sentence: overlap(text, sentence.text), default=None)
        return best if best is not None and overlap(text, best.text) > 0 else None

    def verdict(self, claim: str) -> str:
        if overlap(claim, self.evidence_text) < _SUPPORT:
            return "not_found"
        known = set(_NUMBER.findall(self.evidence_text))
        return "supported" if set(_NUMBER.findall(claim)) <= known else "contradicted"


def prose(messages: Sequence[Mapping[str, Any]]) -> str:
    """An answer with a citation where there is a question, else a line about the text."""
    asked = Asked(messages)
    if asked.section("question"):
        return " ".join(f"{found.text} [{found.number}]" for found in asked.findings) or NOT_ANSWERED
    name = asked.section("document") or asked.section("title")
    about = ", ".join(keywords(asked.evidence_text)) or "nothing in particular"
    return f"This part of {name or 'the text'} is about {about}."


def keywords(text: str, most: int = 5) -> list[str]:
    counted = Counter(word for word in _WORD.findall(text.casefold()) if len(word) > 4)
    return [word for word, _ in sorted(counted.items(), key=lambda entry: (-entry[1], entry[0]))[:most]]


def instance(schema: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
    """JSON that follows the schema, filled from the request by the names of its properties."""
    return json.dumps(_Filler(Asked(messages), schema).value(schema, "", None), ensure_ascii=False)


class _Filler:
    def __init__(self, asked: Asked, root: Mapping[str, Any]) -> None:
        self._asked = asked
        self._root = root

    def value(self, schema: Mapping[str, Any], name: str, focus: Found | None) -> Any:
        """A value for the property `name`. `focus`: what the object around it is about."""
        if "$ref" in schema:
            schema = self._root["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._choice(schema["enum"], focus)
        for options in ("anyOf", "oneOf"):
            if options in schema:
                parts = {part.get("type"): part for part in schema[options]}
                if "null" in parts and "similar" in name and not self._asked.section("expected"):
                    return None
                return self.value(next(part for kind, part in parts.items() if kind != "null"), name, focus)
        kind = schema.get("type", "object" if "properties" in schema else "string")
        kind = next((k for k in kind if k != "null"), "null") if isinstance(kind, list) else kind
        return {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "integer": self._number,
            "number": self._number,
            "boolean": self._truth,
        }.get(kind, lambda *_: None)(schema, name.casefold(), focus)

    def _object(self, schema: Mapping[str, Any], name: str, focus: Found | None) -> dict[str, Any]:
        return {key: self.value(part, key, focus) for key, part in schema.get("properties", {}).items()}

    def _array(self, schema: Mapping[str, Any], name: str, focus: Found | None) -> list[Any]:
        asked = self._asked
        if "keyword" in name:
            subjects = [Found(word) for word in keywords(asked.evidence_text)]
        elif any(part in name for part in ("quote", "citation")):
            subjects = asked.findings
        elif any(part in name for part in ("chunk", "passage", "relevance", "score")):
            subjects = asked.evidence
        elif asked.judges:
            subjects = [Found(sentence) for sentence in sentences(asked.answer)]
        else:
            subjects = asked.evidence_sentences
        least, most = schema.get("minItems", 0), schema.get("maxItems", 100)
        subjects = [*subjects, *[Found("")] * (least - len(subjects))][:most]
        return [self.value(schema.get("items", {}), "item", subject) for subject in subjects]

    def _string(self, schema: Mapping[str, Any], name: str, focus: Found | None) -> str:
        asked = self._asked
        if "reason" in name or "explanation" in name:
            text = "Judged by the words they share."
        elif "question" in name:
            points = asked.main_points or [Found(asked.whole)]
            text = f"What is said about {', '.join(keywords(points[0].text, 4)) or 'this'}?"
        elif "quote" in name and focus is not None and not focus.number:
            nearest = None if asked.verdict(focus.text) == "not_found" else asked.nearest(focus.text)
            text = nearest.text if nearest else ""
        elif focus is not None:
            text = focus.text
        elif "summary" in name:
            text = next(iter(sentences(asked.evidence_text)), "")
        else:
            text = " ".join(found.text for found in asked.findings)
        return text[: schema.get("maxLength", len(text))].ljust(schema.get("minLength", 0), ".")

    def _choice(self, options: Sequence[Any], focus: Found | None) -> Any:
        verdict = self._asked.verdict(focus.text if focus else self._asked.answer)
        near = {"supported": ("support", "yes"), "contradicted": ("contra", "refut"), "not_found": ("not", "no", "unk")}
        for start in near[verdict]:
            for option in options:
                if str(option).casefold().startswith(start):
                    return option
        return options[0]

    def _number(self, schema: Mapping[str, Any], name: str, focus: Found | None) -> float:
        low, high = schema.get("minimum", 0), schema.get("maximum", 10)
        if any(part in name for part in ("chunk", "passage", "source", "number", "index")):
            nearest = (
                focus if focus and focus.number else self._asked.nearest(focus.text if focus else self._asked.question)
            )
            value = nearest.number if nearest else low
        elif "similar" in name:
            value = low + round(overlap(self._asked.section("expected"), self._asked.answer) * (high - low))
        else:
            share = overlap(self._asked.question, focus.text if focus else self._asked.evidence_text)
            value = low + round(share * (high - low))
        value = min(max(value, low), schema.get("maximum", value))
        return float(value) if schema.get("type") == "number" else int(value)

    def _truth(self, schema: Mapping[str, Any], name: str, focus: Found | None) -> bool:
        if "halluc" in name or "contradict" in name:
            return any(self._asked.verdict(sentence) != "supported" for sentence in sentences(self._asked.answer))
        return bool(self._asked.findings)


def text_of(content: Any) -> str:
    """The text of a message, also where it comes in parts."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return content or ""
