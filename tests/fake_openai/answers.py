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
_NOT_EVIDENCE = ("question", "answer", "expected", "document", "place", "claim", "outline", "statement", "title")


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
    """A sentence of the evidence."""

    text: str
    number: int
    """Which evidence text it stands in; 1 is the first."""


class Asked:
    """What a request carries: labelled texts between the marks of a tag, or else the whole last message."""

    def __init__(self, messages: Sequence[Mapping[str, Any]]) -> None:
        texts = [text_of(message.get("content")) for message in messages]
        user = "\n\n".join(
            text for text, message in zip(texts, messages, strict=True) if message.get("role") != "system"
        )
        self.sections = [(found["label"].strip(), found["text"]) for found in _MARKED.finditer(user)]
        self.whole = user

    def section(self, *names: str) -> str:
        """The first text whose label holds one of the names."""
        return next((text for label, text in self.sections if any(name in label.casefold() for name in names)), "")

    @cached_property
    def question(self) -> str:
        return self.section("question") or ("" if self.sections else self.whole)

    @cached_property
    def evidence(self) -> list[str]:
        texts = [text for label, text in self.sections if not any(name in label.casefold() for name in _NOT_EVIDENCE)]
        return texts or ([] if self.sections else [self.whole])

    @cached_property
    def target(self) -> list[str]:
        """What a list is about: the sentences of the answer that is judged, or else of the evidence."""
        return sentences(self.section("answer", "claim", "statement")) or [
            s for t in self.evidence for s in sentences(t)
        ]

    def nearest(self, text: str) -> Found | None:
        """The sentence of the evidence that shares most words with `text`; None when none shares any."""
        best, score = None, 0.0
        for number, passage in enumerate(self.evidence, 1):
            for sentence in sentences(passage):
                shared = overlap(text, sentence)
                if shared > score:
                    best, score = Found(sentence, number), shared
        return best

    def verdict(self, claim: str) -> str:
        found = self.nearest(claim)
        if found is None or overlap(claim, " ".join(self.evidence)) < 0.6:
            return "not_found"
        known = set(_NUMBER.findall(" ".join(self.evidence)))
        return "supported" if set(_NUMBER.findall(claim)) <= known else "contradicted"


def prose(messages: Sequence[Mapping[str, Any]]) -> str:
    """An answer with a citation where there is a question, else a line about the text."""
    asked = Asked(messages)
    if asked.section("question"):
        found = asked.nearest(asked.question)
        return NOT_ANSWERED if found is None else f"{found.text} [{found.number}]"
    name = asked.section("document", "title")
    about = ", ".join(keywords(" ".join(asked.evidence))) or "nothing in particular"
    return f"This part of {name or 'the text'} is about {about}."


def keywords(text: str, most: int = 5) -> list[str]:
    counted = Counter(word for word in _WORD.findall(text.casefold()) if len(word) > 4)
    return [word for word, _ in sorted(counted.items(), key=lambda entry: (-entry[1], entry[0]))[:most]]


def instance(schema: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
    """JSON that follows the schema, filled from the request by the names of its properties."""
    return json.dumps(_Filler(Asked(messages), schema).value(schema, "", ""), ensure_ascii=False)


class _Filler:
    def __init__(self, asked: Asked, root: Mapping[str, Any]) -> None:
        self._asked = asked
        self._root = root

    def value(self, schema: Mapping[str, Any], name: str, focus: str) -> Any:
        """A value for the property `name`. `focus`: the sentence that the object around it is about."""
        if "$ref" in schema:
            schema = self._root["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._choice(schema["enum"], focus)
        for options in ("anyOf", "oneOf"):
            if options in schema:
                filled = next(part for part in schema[options] if part.get("type") != "null")
                return self.value(filled, name, focus)
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

    def _object(self, schema: Mapping[str, Any], name: str, focus: str) -> dict[str, Any]:
        return {key: self.value(part, key, focus) for key, part in schema.get("properties", {}).items()}

    def _array(self, schema: Mapping[str, Any], name: str, focus: str) -> list[Any]:
        items = schema.get("items", {})
        if "keyword" in name:
            subjects = keywords(" ".join(self._asked.evidence))
        elif any(part in name for part in ("quote", "citation", "evidence")):
            found = self._asked.nearest(focus or self._asked.question)
            subjects = [] if found is None else [found.text]
        elif any(part in name for part in ("chunk", "passage", "relevance", "score")):
            subjects = self._asked.evidence
        else:
            subjects = self._asked.target
        least, most = schema.get("minItems", 0), schema.get("maxItems", 100)
        subjects = [*subjects, *[""] * (least - len(subjects))][:most]
        return [subject if _plain_text(items) else self.value(items, name, subject) for subject in subjects]

    def _string(self, schema: Mapping[str, Any], name: str, focus: str) -> str:
        found = self._asked.nearest(focus or self._asked.question)
        if any(part in name for part in ("quote", "citation", "evidence")):
            text = found.text if found else ""
        elif "reason" in name or "explanation" in name:
            text = "Judged by the words they share."
        elif "question" in name:
            text = f"What is said about {', '.join(keywords(focus or self._asked.whole, 3)) or 'this'}?"
        elif "summary" in name:
            text = (self._asked.target or [""])[0]
        elif "answer" in name and not focus:
            text = NOT_ANSWERED if found is None else found.text
        else:
            text = focus or (found.text if found else NOT_ANSWERED)
        return text[: schema.get("maxLength", len(text))].ljust(schema.get("minLength", 0), ".")

    def _choice(self, options: Sequence[Any], focus: str) -> Any:
        verdict = self._asked.verdict(focus or self._asked.section("answer", "claim"))
        near = {"supported": ("support", "yes"), "contradicted": ("contra", "refut"), "not_found": ("not", "no", "unk")}
        for start in near[verdict]:
            for option in options:
                if str(option).casefold().startswith(start):
                    return option
        return options[0]

    def _number(self, schema: Mapping[str, Any], name: str, focus: str) -> float:
        found = self._asked.nearest(focus or self._asked.question)
        low = schema.get("minimum", 0)
        if any(part in name for part in ("chunk", "passage", "source", "number", "index", "id")):
            value = float(found.number if found else low)
        else:
            high = schema.get("maximum", 10)
            share = overlap(self._asked.question, focus or " ".join(self._asked.evidence))
            value = low + round(share * (high - low))
        value = min(max(value, low), schema.get("maximum", value))
        return int(value) if schema.get("type") != "number" else value

    def _truth(self, schema: Mapping[str, Any], name: str, focus: str) -> bool:
        if "halluc" in name or "contradict" in name:
            return any(self._asked.verdict(sentence) != "supported" for sentence in self._asked.target)
        return self._asked.nearest(focus or self._asked.question) is not None


def _plain_text(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "string" and "enum" not in schema and "maxLength" not in schema


def text_of(content: Any) -> str:
    """The text of a message, also where it comes in parts."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return content or ""
