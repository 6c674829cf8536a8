"""Finds sections, articles and points by what the text says and how it looks, where the format does not tell.

`assign` is the one entry. It combines the headings a format knows with the label patterns of `clauses`, and falls back,
where a document has neither, to a numbering scheme, to short bold lines, to font sizes, and at last to a flat text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from engine.documents import clauses
from engine.documents.base import Block
from engine.documents.clauses import Clause
from engine.documents.points import label_points
from engine.models import NodeKind, Structure

MIN_RUN = 3
"""Labels of one family that must stand in rising order before a family counts as structure."""
_MOSTLY = 0.6
"""Share of a family's labels that must fit the rising order."""
_SHORT = 120
"""Characters of a line that may be a heading by its form alone."""
_BELOW_ARTICLES = 9
"""Level of a family that stands inside articles."""
_FORM_LEVELS = 4

_HEADINGS = (NodeKind.SECTION, NodeKind.ARTICLE)
_SENTENCE_END = (".", ";", ":", ",", "。", "；", "，", "،")


@dataclass(frozen=True, slots=True)
class Hint:
    """How a block looks in formats that show it."""

    bold: bool = False
    """Every visible run is bold."""
    caps: bool = False
    centered: bool = False
    size: float = 0.0
    """Font size in points; 0 when unknown."""
    contents: bool = False
    """A line of the table of contents."""
    in_table: bool = False


PLAIN = Hint()


class Assigned(NamedTuple):
    """Blocks with their kind, level and label, and the rule that gave the structure."""

    blocks: list[Block]
    structure: Structure
    sources: list[int]
    """Position of the given block each block was made of; a block whose text runs on behind its title gives two."""


class _Made(NamedTuple):
    blocks: list[Block]
    sources: list[int]


class _Candidate(NamedTuple):
    """A block that opens with the label of a section or article."""

    position: int
    clause: Clause
    certain: bool
    """The format calls it a heading, or numbered it automatically."""
    level: int
    """The level the format gives; 0 when it gives none."""


def assign(blocks: Sequence[Block], hints: Sequence[Hint] | None = None) -> Assigned:
    """Turn PARAGRAPH blocks that are headings into SECTION and ARTICLE blocks, and label points.

    Blocks that already are SECTION or ARTICLE come from the format and keep their level; only a pattern may make a
    SECTION an ARTICLE. `hints` stand beside the blocks, one each. Blocks of other kinds pass unchanged.
    """
    looks = list(hints) if hints is not None else [PLAIN] * len(blocks)
    if len(looks) != len(blocks):
        raise ValueError(f"{len(looks)} hints for {len(blocks)} blocks")
    items = list(blocks)
    same = _Made(items, list(range(len(items))))
    from_format = any(block.kind in _HEADINGS for block in items)
    families = _families(items, looks)
    if families:
        made = _apply_patterns(items, families)
        articles = sum(1 for block in made.blocks if block.kind is NodeKind.ARTICLE)
        sure = from_format or articles >= 5
        return _assigned(made, "outline and pattern" if from_format else "pattern", "high" if sure else "medium")
    if from_format:
        rules = Counter(block.rule or "outline" for block in items if block.kind in _HEADINGS)
        return _assigned(same, rules.most_common(1)[0][0], "high")
    numbered = _by_numbers(items, looks)
    if numbered is not None:
        return _assigned(numbered, "numbers", "medium")
    for rule, headings in (("form", _by_form(items, looks)), ("size", _by_size(items, looks))):
        if headings:
            for position, level in headings.items():
                items[position] = replace(items[position], kind=NodeKind.SECTION, level=level, rule=rule)
            return _assigned(same, rule, "low")
    return _assigned(same, "none", "none")


def split_number(block: Block) -> Block:
    """A heading with the number that was typed into it as its label: "3.1 Terms" has the label "3.1"."""
    point = None if block.label else clauses.match_point(block.text)
    if point is None or point.style[0] not in ("digits", "dotted", "cjk") or not point.rest:
        return block
    return replace(block, text=point.rest, label=point.label, separator=point.separator, number_path=point.number)


def _assigned(made: _Made, rule: str, confidence: Literal["high", "medium", "low", "none"]) -> Assigned:
    return Assigned(label_points(made.blocks), Structure(rule=rule, confidence=confidence), made.sources)


# --- label patterns ----------------------------------------------------------------------------------------------


def _families(blocks: Sequence[Block], looks: Sequence[Hint]) -> dict[str, list[_Candidate]]:
    """Accepted candidates per keyword family, families in order of first appearance."""
    found = _without_contents(_candidates(blocks, looks), blocks)
    by_family: dict[str, list[_Candidate]] = {}
    for candidate in found:
        by_family.setdefault(candidate.clause.family, []).append(candidate)
    accepted: dict[str, list[_Candidate]] = {}
    weak: dict[str, list[_Candidate]] = {}
    for family, members in by_family.items():
        higher = _positions_of_others(found, family)
        kept = _rising(members, higher)
        certain = any(candidate.certain for candidate in members)
        if certain or (len(kept) >= MIN_RUN and len(kept) >= _MOSTLY * len(members)):
            accepted[family] = kept
        elif kept:
            weak[family] = kept
    for family, members in weak.items():
        if accepted and members[0].clause.kind is NodeKind.SECTION and _stands_alone(members, blocks, looks):
            accepted[family] = members
    order = {family: members[0].position for family, members in accepted.items()}
    return {family: accepted[family] for family in sorted(order, key=order.__getitem__)}


def _candidates(blocks: Sequence[Block], looks: Sequence[Hint]) -> list[_Candidate]:
    found: list[_Candidate] = []
    for position, (block, look) in enumerate(zip(blocks, looks, strict=True)):
        if block.kind not in (*_HEADINGS, NodeKind.PARAGRAPH) or look.contents or look.in_table:
            continue
        is_heading = block.kind in _HEADINGS
        clause = clauses.match_clause(block.label, printed=False) if block.label else None
        if clause is not None and not clause.rest:
            clause = clause._replace(label=block.label or "", separator=block.separator, rest=block.text)
            found.append(_Candidate(position, clause, True, block.level if is_heading else 0))
            continue
        clause = clauses.match_clause(block.text, printed=not is_heading)
        if clause is None or clauses.is_contents_line(block.text):
            continue
        if block.label:
            clause = clause._replace(label=f"{block.label}{block.separator}{clause.label}")
        found.append(_Candidate(position, clause, is_heading, block.level if is_heading else 0))
    return found


def _without_contents(found: list[_Candidate], blocks: Sequence[Block]) -> list[_Candidate]:
    """Leave out a typed table of contents: labels in a row, no text between them, all of them again further down."""
    last_seen = {(item.clause.family, item.clause.number): item.position for item in found}
    kept: list[_Candidate] = []
    run: list[_Candidate] = []
    for item in [*found, None]:
        if item is not None and (not run or item.position == run[-1].position + 1):
            run.append(item)
            continue
        repeated = [one for one in run if last_seen[one.clause.family, one.clause.number] > run[-1].position]
        is_contents = len(run) >= MIN_RUN and len(repeated) >= 0.8 * len(run) and not any(one.level for one in run)
        if not is_contents:
            kept.extend(run)
        run = [item] if item is not None else []
    return kept


def _positions_of_others(found: Sequence[_Candidate], family: str) -> list[int]:
    """Where the labels of other section families stand: behind them a family may start again."""
    return [item.position for item in found if item.clause.family != family and item.clause.kind is NodeKind.SECTION]


def _rising(members: Sequence[_Candidate], restarts: Sequence[int]) -> list[_Candidate]:
    """The labels of a family that rise. A family starts again at 1, or behind a label of another family."""
    kept: list[_Candidate] = []
    segment: list[_Candidate] = []
    for item in members:
        crossed = bool(segment) and bisect_left(restarts, segment[-1].position) < bisect_left(restarts, item.position)
        again = bool(segment) and item.clause.number <= segment[-1].clause.number
        if again and (crossed or item.clause.number[-1] == 1):
            kept.extend(_longest_rising(segment))
            segment = []
        segment.append(item)
    kept.extend(_longest_rising(segment))
    return kept


def _longest_rising(segment: Sequence[_Candidate]) -> list[_Candidate]:
    """The longest strictly rising choice, certain members always in. Patience sorting, O(n log n)."""
    tails: list[tuple[int, ...]] = []
    ends: list[int] = []
    before: list[int] = []
    for position, item in enumerate(segment):
        place = bisect_left(tails, item.clause.number)
        before.append(ends[place - 1] if place else -1)
        if place == len(tails):
            tails.append(item.clause.number)
            ends.append(position)
        else:
            tails[place] = item.clause.number
            ends[place] = position
    chosen: set[int] = {position for position, item in enumerate(segment) if item.certain}
    position = ends[-1] if ends else -1
    while position >= 0:
        chosen.add(position)
        position = before[position]
    return [segment[position] for position in sorted(chosen)]


def _stands_alone(members: Sequence[_Candidate], blocks: Sequence[Block], looks: Sequence[Hint]) -> bool:
    """Whether every label of a short family stands on a line of its own that looks like a heading."""
    for item in members:
        text, look = blocks[item.position].text.strip(), looks[item.position]
        if len(text) > _SHORT or text.endswith(_SENTENCE_END):
            return False
        if not (item.clause.label.isupper() or look.bold or look.centered or not item.clause.rest):
            return False
    return True


def _apply_patterns(blocks: list[Block], families: dict[str, list[_Candidate]]) -> _Made:
    levels = _family_levels(families)
    heads: dict[int, Block] = {}
    for family, members in families.items():
        for item in members:
            block, clause = blocks[item.position], item.clause
            heads[item.position] = replace(
                block,
                kind=clause.kind,
                text=clause.rest,
                label=clause.label,
                separator=clause.separator,
                number_path=block.number_path or clause.number,
                level=levels[family],
                rule=block.rule if block.kind in _HEADINGS and block.rule else "pattern",
            )
    return _with_heads(blocks, heads | _list_siblings(blocks, heads))


def _list_siblings(blocks: Sequence[Block], heads: Mapping[int, Block]) -> dict[int, Block]:
    """Titles that the word processor numbered in the same list and on the same level as sections found by pattern."""
    levels = {
        (head.attributes["list"], len(head.number_path)): head.level
        for head in heads.values()
        if head.kind is NodeKind.SECTION and "list" in head.attributes
    }
    found: dict[int, Block] = {}
    for position, block in enumerate(blocks):
        level = levels.get((block.attributes.get("list"), len(block.number_path))) if levels else None
        if level is not None and position not in heads and block.kind is NodeKind.PARAGRAPH and _titled(block.text):
            found[position] = replace(block, kind=NodeKind.SECTION, level=level, rule="pattern")
    return found


def _with_heads(blocks: Sequence[Block], heads: Mapping[int, Block]) -> _Made:
    """The blocks with `heads` in their places; text that runs on behind a title becomes a paragraph of its own."""
    made = _Made([], [])
    for position, block in enumerate(blocks):
        head = heads.get(position)
        title = clauses.split_title(head.text) if head else None
        made.blocks.append(replace(head, text=title.title) if head and title else block)
        made.sources.append(position)
        if head and title and title.body:
            body = Block(NodeKind.PARAGRAPH, title.body, rule=head.rule, attributes=dict(head.attributes))
            made.blocks.append(body)
            made.sources.append(position)
    return made


def _family_levels(families: dict[str, list[_Candidate]]) -> dict[str, int]:
    """One level per family: the one the format gives most of its members, else by order of appearance.

    Articles without a level hang on the innermost open section. A section family with two-part numbers that appears
    after the articles ("Section 1.01" in "Article I") stands inside them. Annexes stand at the top.
    """
    levels: dict[str, int] = {}
    article_seen = False
    depth = 0
    for family, members in families.items():
        given = Counter(item.level for item in members if item.level)
        kind = members[0].clause.kind
        if given:
            levels[family] = given.most_common(1)[0][0]
            depth = max(depth, levels[family]) if kind is NodeKind.SECTION and family != "annex" else depth
        elif kind is NodeKind.ARTICLE:
            levels[family] = 0
        elif family == "annex":
            levels[family] = 1
        elif article_seen and all(len(item.clause.number) > 1 for item in members):
            levels[family] = _BELOW_ARTICLES
        else:
            depth += 1
            levels[family] = depth
        article_seen = article_seen or kind is NodeKind.ARTICLE
    return levels


# --- fallbacks ---------------------------------------------------------------------------------------------------


class _Numbered(NamedTuple):
    position: int
    label: str
    path: tuple[int, ...]
    separator: str
    text: str


def _by_numbers(blocks: Sequence[Block], looks: Sequence[Hint]) -> _Made | None:
    """A numbering scheme "1", "1.1", "1.1.1": first level sections, second articles, deeper points. None without one."""
    numbered = [item for position, block in enumerate(blocks) if (item := _number(position, block, looks[position]))]
    tops = [item for item in numbered if len(item.path) == 1]
    rising = _longest_rising(
        [
            _Candidate(
                item.position, Clause("number", NodeKind.SECTION, item.label, item.path, "", item.text), False, 0
            )
            for item in tops
        ]
    )
    if len(rising) < MIN_RUN or len(rising) < _MOSTLY * len(tops):
        return None
    top_positions = {item.position for item in rising}
    short = [item for item in tops if item.position in top_positions and _titled(item.text)]
    followed = sum(
        1
        for first, second in zip(rising, [*rising[1:], None], strict=True)
        if (second.position if second else len(blocks)) > first.position + 1
    )
    if len(short) < _MOSTLY * len(rising) or followed < len(rising) / 2:
        return None
    heads: dict[int, Block] = {}
    for item in numbered:
        if len(item.path) == 2 or item.position in top_positions:
            block = blocks[item.position]
            heads[item.position] = replace(
                block,
                kind=NodeKind.SECTION if len(item.path) == 1 else NodeKind.ARTICLE,
                text=item.text,
                label=item.label,
                separator=item.separator,
                number_path=block.number_path or item.path,
                level=len(item.path),
                rule="numbers",
            )
    return _with_heads(blocks, heads)


def _number(position: int, block: Block, look: Hint) -> _Numbered | None:
    """The digits that open a paragraph, printed or automatic."""
    if block.kind is not NodeKind.PARAGRAPH or look.contents or look.in_table:
        return None
    source = f"{block.label} " if block.label else block.text
    point = clauses.match_point(source)
    if point is None or point.style[0] not in ("digits", "dotted") or point.label.startswith("("):
        return None
    if block.label:
        return _Numbered(position, block.label, point.number, block.separator, block.text)
    if clauses.is_contents_line(block.text):
        return None
    return _Numbered(position, point.label, point.number, point.separator, point.rest)


def _titled(text: str) -> bool:
    text = text.strip()
    return bool(text) and len(text) <= _SHORT and not text.endswith(_SENTENCE_END) and not text[0].islower()


def _by_form(blocks: Sequence[Block], looks: Sequence[Hint]) -> dict[int, int]:
    """Short bold, capital or centred lines followed by text that is not: position and level by look. Empty without."""
    form: dict[int, tuple[float, bool, bool, bool]] = {}
    body = [position for position, block in enumerate(blocks) if block.text.strip() or block.rows]
    for position, following in pairwise([*body, -1]):
        block, look = blocks[position], looks[position]
        if following < 0 or block.kind is not NodeKind.PARAGRAPH or look.in_table or look.contents:
            continue
        caps = look.caps or _is_capital(block.text)
        if not (look.bold or caps) or not _form_text(block):
            continue
        after = looks[following]
        if (after.bold and look.bold and not caps) or (caps and _is_capital(blocks[following].text)):
            continue
        form[position] = (look.size, look.bold, caps, look.centered)
    if len(form) < 2 or len(form) > 0.5 * len(body):
        return {}
    return _ranked(form)


def _form_text(block: Block) -> bool:
    text = block.text.strip()
    return bool(text) and len(text) <= _SHORT and not text.endswith(_SENTENCE_END) and any(map(str.isalpha, text))


def _is_capital(text: str) -> bool:
    letters = [character for character in text if character.isalpha()]
    return len(letters) >= 4 and all(character.isupper() for character in letters)


def _by_size(blocks: Sequence[Block], looks: Sequence[Hint]) -> dict[int, int]:
    """Short lines clearly larger than the body's size: position and level by size. Empty without."""
    weight: Counter[float] = Counter()
    for block, look in zip(blocks, looks, strict=True):
        if look.size and block.kind is NodeKind.PARAGRAPH:
            weight[look.size] += len(block.text)
    if len(weight) < 2:
        return {}
    body = weight.most_common(1)[0][0]
    large = {
        position: (look.size, False, False, False)
        for position, (block, look) in enumerate(zip(blocks, looks, strict=True))
        if look.size >= 1.1 * body and block.kind is NodeKind.PARAGRAPH and not look.in_table and _form_text(block)
    }
    return _ranked(large) if len(large) >= 2 else {}


def _ranked(form: dict[int, tuple[float, bool, bool, bool]]) -> dict[int, int]:
    ranks = {look: rank for rank, look in enumerate(sorted(set(form.values()), reverse=True), start=1)}
    return {position: min(ranks[look], _FORM_LEVELS) for position, look in form.items()}
