from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from engine.errors import BadQuestionSet, NotFound
from engine.models import Span
from engine.tokens import TokenMap
from engine.validate import PUBLISHED, fixed_spans, in_lines, recursive_spans, validate


def folder(path: Path, corpora: dict[str, str], questions: list[tuple[str, str, list[tuple[int, int]]]]) -> Path:
    """The layout of the published data: corpora/*.md and questions_df.csv."""
    (path / "corpora").mkdir()
    for name, text in corpora.items():
        (path / "corpora" / f"{name}.md").write_text(text, encoding="utf-8")
    with (path / "questions_df.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "references", "corpus_id"])
        for question, corpus, spans in questions:
            text = corpora[corpus]
            references = [{"content": text[a:b], "start_index": a, "end_index": b} for a, b in spans]
            writer.writerow([question, json.dumps(references), corpus])
    return path


def test_a_short_corpus_by_hand(tmp_path: Path) -> None:
    """Both texts fit one chunk of every size, so precision-omega is gold / text: 4 of 10 and 5 of 20 characters."""
    texts = {"one": "abcd efghi", "two": "word word word word1"}
    result = validate(folder(tmp_path, texts, [("a?", "one", [(0, 4)]), ("b?", "two", [(0, 2), (10, 13)])]))
    assert result.questions == 2
    assert not result.comparable
    assert result.misplaced == 0
    assert [row.label for row in result.rows] == [published.label for published in PUBLISHED]
    for row in result.rows:
        assert row.chunks == 2
        assert row.strict_mean == pytest.approx(32.5)
        assert row.strict_deviation == pytest.approx(7.5)
        assert row.mean == pytest.approx(32.5)
    assert any("not compared" in line for line in in_lines(result))


def test_gold_of_another_corpus_does_not_count(tmp_path: Path) -> None:
    """The same words stand in both texts; only the chunk of the corpus that is meant counts."""
    result = validate(folder(tmp_path, {"one": "same words", "two": "same words"}, [("a?", "two", [(0, 4)])]))
    assert result.rows[0].strict_mean == pytest.approx(40)


def test_fixed_windows_by_hand() -> None:
    """Ten tokens of one word each: windows of four that begin every two tokens, the last ends with the text."""
    text = TokenMap(" ".join("abcdefghij"))
    assert text.n_tokens == 10
    assert [span.slice(text.text).strip() for span in fixed_spans(text, 4, 2)] == [
        "a b c d",
        "c d e f",
        "e f g h",
        "g h i j",
    ]
    assert list(fixed_spans(text, 20, 0)) == [Span(0, 19)]


def test_the_recursive_rule_by_hand() -> None:
    """Paragraphs of 4 and 2 tokens merge while the sum stays within the size; white space at the edges goes."""
    text = TokenMap("one two three four\n\nfive six\n\nseven eight nine")
    chunks = [span.slice(text.text) for span in recursive_spans(text, 8, 0)]
    assert chunks == ["one two three four\n\nfive six", "seven eight nine"]
    overlapped = [span.slice(text.text) for span in recursive_spans(text, 8, 4)]
    assert overlapped == ["one two three four\n\nfive six", "five six\n\nseven eight nine"]


def test_a_piece_that_is_too_long_is_cut_with_the_next_separator() -> None:
    text = TokenMap("one two three. four five six. seven")
    assert [span.slice(text.text) for span in recursive_spans(text, 5, 0)] == [
        "one two three",
        ". four five six",
        ". seven",
    ]


def test_the_real_corpus(tmp_path: Path, shared_data: Path) -> None:
    """On one of the five corpora: at every size the recursive splitter allows more precision than the fixed one, as published, and each orders its sizes so."""
    text = (shared_data / "chroma_sotu" / "state_of_the_union.md").read_text(encoding="utf-8")
    rows = json.loads((shared_data / "chroma_sotu" / "questions.json").read_text(encoding="utf-8"))
    questions = [
        (row["question"], "state_of_the_union", [(e["start"], e["end"]) for e in row["evidence"]]) for row in rows
    ]
    result = validate(folder(tmp_path, {"state_of_the_union": text}, questions))
    assert (result.questions, result.misplaced, result.comparable) == (76, 0, False)
    means = {row.label: row.mean for row in result.rows}
    published = {row.label: row.published_mean for row in result.rows}
    for splitter in ("recursive", "fixed"):
        own = [label for label in means if label.startswith(splitter)]
        assert sorted(own, key=lambda label: means[label]) == sorted(own, key=lambda label: published[label])
    for size in ("800/400", "400/200", "400/0", "200/0"):
        assert means[f"recursive {size}"] > means[f"fixed {size}"]
    assert all(abs(row.mean - row.strict_mean) < 1 for row in result.rows)
    assert all(row.mean_tokens <= int(row.label.split()[1].split("/")[0]) for row in result.rows)


def test_what_is_missing_or_wrong_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="corpora"):
        validate(tmp_path)
    (tmp_path / "corpora").mkdir()
    (tmp_path / "corpora" / "one.md").write_text("text", encoding="utf-8")
    with pytest.raises(NotFound, match=r"questions_df\.csv"):
        validate(tmp_path)
    for content, words in (
        ("question,references,corpus_id\n", "holds no questions"),
        ("question,references,corpus_id\na?,[],one\n", "row 1, field `references`"),
        (
            'question,references,corpus_id\na?,"[{""content"": ""t"", ""start_index"": 0, ""end_index"": 1}]",two\n',
            "corpora/two.md",
        ),
    ):
        (tmp_path / "questions_df.csv").write_text(content, encoding="utf-8")
        with pytest.raises(BadQuestionSet, match=words):
            validate(tmp_path)


def test_references_that_are_not_at_their_offsets_are_counted(tmp_path: Path) -> None:
    built = folder(tmp_path, {"one": "abcd efghi"}, [("a?", "one", [(0, 4)])])
    path = built / "questions_df.csv"
    path.write_text(path.read_text(encoding="utf-8").replace("abcd", "abcx"), encoding="utf-8")
    result = validate(built)
    assert result.misplaced == 1
    assert any("do not hold the text" in line for line in in_lines(result))
