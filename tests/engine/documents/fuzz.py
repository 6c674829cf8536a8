"""Reads mutated files and counts how it ends: `python -m tests.engine.documents.fuzz --count 2000`.

Allowed ends are a document and a refusal in words. A reader that fails, a process, a temporary file or memory that is
left over is a finding. The same seed gives the same files.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import re
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from engine.documents.pool import ReaderFailed, WorkerPool
from engine.errors import UserError
from engine.models import Document
from engine.settings import Settings
from tests.engine.documents.files import CONTENT_TYPES, RELATIONSHIPS, WORD, PdfPage, pdf, zipped

ROOT = Path(__file__).parents[3]
REAL = ROOT.parent / "shared" / "data" / "docx"

_TOKENS = (
    b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"<", b">", b"&", b"&#0;", b"&#xD800;", b"]]>", b"<!--",
    b"<![CDATA[", b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"/>", b"-1", b"99999999999999999999", b"0", b"NaN", b"((((", b"\n",
    b"\r", b"\t", b"%", b"|", b"```", b"---\n", b"# ", b"- ", b"1. ", b"> ", b"[^1]: ", b"obj", b"endstream", b"stream\n",
    b"xref", b"<< /Length -5 >>", b"w:p", b"w:tbl", "第一条".encode(), "\u202e\u0301\U0001f600".encode(), b"A" * 500,
)  # fmt: skip


@dataclass
class Outcome:
    """How a run ended."""

    documents: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    """Refusals by their words, names and numbers left out."""
    failures: list[str] = field(default_factory=list)
    """What must not happen: file number, kind of seed and reason."""
    seconds: float = 0.0

    def summary(self) -> str:
        lines = [f"{self.documents} documents, {sum(self.refusals.values())} refusals, {len(self.failures)} failures"]
        lines += [f"  {count:5d}  {words}" for words, count in self.refusals.most_common()]
        lines += [f"  FAILED {failure}" for failure in self.failures]
        return "\n".join(lines)


def seeds(*, real: bool) -> dict[str, bytes]:
    """Small files of every format by name; with `real`, the public Word files beside the repository too, where they are."""
    paragraph = "<w:p><w:pPr><w:pStyle w:val='Heading1'/><w:numPr><w:ilvl w:val='0'/><w:numId w:val='1'/></w:numPr></w:pPr><w:r><w:t>Article</w:t></w:r></w:p>"
    table = "<w:tbl><w:tblGrid><w:gridCol/><w:gridCol/></w:tblGrid><w:tr><w:tc><w:tcPr><w:gridSpan w:val='2'/></w:tcPr><w:p><w:r><w:t>cell</w:t></w:r></w:p></w:tc></w:tr><w:tr><w:tc><w:p/></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    tracked = "<w:p><w:ins w:id='1'><w:r><w:t>in</w:t></w:r></w:ins><w:del w:id='2'><w:r><w:delText>out</w:delText></w:r></w:del><w:sdt><w:sdtContent><w:r><w:t>sdt</w:t><w:br/><w:tab/></w:r></w:sdtContent></w:sdt></w:p>"
    body = f"<w:body>{paragraph * 3}{table}{tracked}<w:sectPr/></w:body>"
    levels = "".join(
        f"<w:lvl w:ilvl='{n}'><w:start w:val='1'/><w:numFmt w:val='upperRoman'/><w:lvlText w:val='Article %{n + 1}'/></w:lvl>"
        for n in range(3)
    )
    numbering = f"<w:numbering xmlns:w='{WORD}'><w:abstractNum w:abstractNumId='0'>{levels}</w:abstractNum><w:num w:numId='1'><w:abstractNumId w:val='0'/></w:num></w:numbering>"
    styles = f"<w:styles xmlns:w='{WORD}'><w:style w:type='paragraph' w:styleId='Heading1'><w:name w:val='heading 1'/><w:pPr><w:outlineLvl w:val='0'/></w:pPr></w:style></w:styles>"
    relations = RELATIONSHIPS.split("<Relationship ")[0] + "".join(
        f"<Relationship Id='r{n}' Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/{kind}' Target='{kind}.xml'/>"
        for n, kind in enumerate(("numbering", "styles"))
    ) + "</Relationships>"  # fmt: skip
    overrides = "".join(
        f"<Override PartName='/word/{kind}.xml' ContentType='application/vnd.openxmlformats-officedocument.wordprocessingml.{kind}+xml'/>"
        for kind in ("numbering", "styles")
    )
    page = (
        PdfPage()
        .text(72, 760, "Title", 20)
        .lines(72, 720, "Article 1 applies to all", "persons who hold a li-", "cence.")
    )
    page.grid(72, 600, [["a", "b"], ["c", "d"]])
    found = {
        "word.docx": zipped(
            {
                "[Content_Types].xml": CONTENT_TYPES.replace("</Types>", f"{overrides}</Types>"),
                "_rels/.rels": RELATIONSHIPS,
                "word/_rels/document.xml.rels": relations,
                "word/document.xml": f"<w:document xmlns:w='{WORD}'>{body}</w:document>",
                "word/numbering.xml": numbering,
                "word/styles.xml": styles,
            }
        ),
        "print.pdf": pdf([page, page], outline=[("Title", 1)], info={"Title": "T", "Author": "A"}),
        "page.html": (
            b"<!doctype html><html><head><title>t</title><meta charset=utf-8></head><body><nav>n</nav><h1>Part I</h1><p>a <b>b</b>"
            b"<a href='x'>c</a><br>d<ul><li>e<ol type=i start=3><li>f</ol></ul><table><tr><th rowspan=2>g<th colspan=3>h<tr><td>i"
            b"</table><pre>j\n k</pre><h2>Article 1</h2><p dir=rtl>l</body></html>"
        ),
        "notes.md": b"---\ntitle: t\n---\n# Part I\n\n## Article 1\n\ntext[^1]\n\n- a\n  - b\n\n    c\n1. d\n\n| e | f |\n|---|---|\n| g | h |\n\n> q\n\n```py\nx\n```\n\n[^1]: note\n",
        "law.txt": "CHAPTER I\n\nArticle 1\nScope\n(a) one;\n(b) two.\n\nArticle 2\nText.\n\nArticle 3\nEnde der Größe.\n".encode(),
        "module.py": b"import os\n\n@deco\nclass A:\n    def m(self):\n        return '\xc3\xa9'\n\ndef f(): pass\n",
        "unit.cpp": b"namespace n { template <class T> struct S { void m() {} }; }\nint *f(int a) { return 0; }\n",
    }  # fmt: skip
    if real and REAL.exists():
        files = [path for path in sorted(REAL.glob("**/*.doc*")) if path.stat().st_size < 150_000]
        found |= {f"{path.parent.name}-{path.name}": path.read_bytes() for path in files}
    return found


def mutated(data: bytes, name: str, chance: random.Random) -> bytes:
    """A changed copy. Zip archives are mostly changed inside, so that the change gets past the checksum."""
    if data.startswith(b"PK") and chance.random() < 0.9:
        return _inside_zip(data, chance)
    return _bytes(data, chance)


def _inside_zip(data: bytes, chance: random.Random) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = {member.filename: archive.read(member) for member in archive.infolist()}
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError):
        return _bytes(data, chance)
    xml = [part for part in parts if part.endswith((".xml", ".rels"))]
    if not xml:
        return _bytes(data, chance)
    for _ in range(chance.randint(1, 3)):
        part = "word/document.xml" if chance.random() < 0.6 else chance.choice(xml)
        action = chance.random()
        if action < 0.1:
            parts.pop(part, None)
        elif part in parts:
            change = _markup if action < 0.9 else _bytes
            parts[part] = change(parts[part], chance)
    return zipped(dict(parts))


def _markup(data: bytes, chance: random.Random) -> bytes:
    """Elements taken out, doubled, moved or renamed, attribute values replaced: mostly still well-formed."""
    tags = [match.span() for match in re.finditer(rb"<[^<>]{1,400}?/>", data)]
    values = [match.span(1) for match in re.finditer(rb"=[\"']([^\"']*)[\"']", data)]
    elements = [
        match.span() for match in re.finditer(rb"<(w:\w+)(?:\s[^<>]*)?>(?:(?!</\1>).){0,400}?</\1>", data, re.DOTALL)
    ]
    kinds = [spans for spans in (tags, values, elements) if spans]
    picks = (
        [(chance.choice(kind), kind is values) for kind in (chance.choice(kinds) for _ in range(chance.randint(1, 4)))]
        if kinds
        else []
    )
    # From the back, so that the places in front stay where they were found.
    limit = len(data)
    for (start, end), is_value in sorted(picks, reverse=True):
        if end > limit:
            continue
        limit = start
        piece = data[start:end]
        if is_value:
            new = chance.choice([b"", b"-1", b"0", b"99999999999", b"x", b"1.5", "第".encode(), piece * 3])
        else:
            new = chance.choice(
                [b"", piece * 2, piece * 40, piece.replace(b"w:", b"v:"), b"<w:unknown>" + piece + b"</w:unknown>"]
            )
        data = data[:start] + new + data[end:]
    return data


def _bytes(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        size = len(changed)
        at = chance.randrange(size) if size else 0
        length = chance.randint(1, max(1, min(200, size // 4)))
        actions: list[Callable[[], None]] = [
            lambda at=at: changed.__setitem__(slice(at, at + 1), bytes([chance.randrange(256)])),
            lambda at=at, length=length: changed.__delitem__(slice(at, at + length)),
            lambda at=at, length=length: changed.__setitem__(slice(at, at), changed[at : at + length] * chance.choice((1, 2, 20))),
            lambda at=at: changed.__setitem__(slice(at, at), chance.choice(_TOKENS)),
            lambda at=at: changed.__setitem__(slice(at, at), chance.randbytes(8)),
        ]  # fmt: skip
        chance.choice(actions)()
        if chance.random() < 0.03:
            del changed[chance.randrange(len(changed) + 1) :]
    return bytes(changed)


def check(document: Document) -> None:
    """Raises AssertionError for a document that breaks the contract of spans and storable text."""
    text = document.text
    text.encode("utf-8")
    assert "\0" not in text, "NUL in the text"
    for node in document.tree.walk():
        assert 0 <= node.span.start <= node.span.end <= len(text), "span outside of the text"
        for child in node.children:
            assert node.span.start <= child.span.start, "child before its parent"
            assert child.span.end <= node.span.end, "child ends behind its parent"
    assert document.kept_characters <= document.visible_characters, "more kept than visible"


def run(
    pool: WorkerPool, count: int, seed: int, files: dict[str, bytes], limits: Settings, keep: Path | None = None
) -> Outcome:
    """Reads `count` mutated files; those that fail are written to `keep`."""
    outcome = Outcome()
    began = time.perf_counter()
    names = sorted(files)
    for number in range(count):
        chance = random.Random(f"{seed}:{number}")
        name = names[number % len(names)]
        data = mutated(files[name], name, chance)
        if not data:
            continue
        reason = None
        try:
            check(pool.read(data, name, limits))
            outcome.documents += 1
        except ReaderFailed as error:
            reason = str(error)
        except UserError as error:
            outcome.refusals[re.sub(r"[\d,.]+", "#", str(error).replace(name, "FILE").split(". ")[0])] += 1
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        if reason is not None:
            outcome.failures.append(f"{number} {name}: {reason}")
            if keep is not None:
                keep.mkdir(exist_ok=True)
                (keep / f"{number}-{name}").write_bytes(data)
    outcome.seconds = time.perf_counter() - began
    return outcome


def resident_mb(process: int) -> float:
    """Resident memory of a process in MB; 0 where the system does not tell."""
    status = Path(f"/proc/{process}/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20 if status.exists() else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for the files that fail")
    arguments = parser.parse_args()
    limits = Settings(_env_file=None)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder
        pool = WorkerPool(size=1)
        files = seeds(real=True)
        run(pool, 20, arguments.seed + 1, files, limits)
        own, workers = resident_mb(os.getpid()), pool.process_ids()
        worker = resident_mb(workers[0]) if workers else 0.0
        outcome = run(pool, arguments.count, arguments.seed, files, limits, arguments.keep)
        left = sorted(path.name for path in Path(folder).iterdir())
        after = pool.process_ids()
        own_after, worker_after = resident_mb(os.getpid()), resident_mb(after[0]) if after else 0.0
        pool.close()
        lines = (
            outcome.summary(),
            f"{arguments.count} files from {len(files)} seeds in {outcome.seconds:.0f} s",
            f"memory of this process: {own:.0f} MB before, {own_after:.0f} MB after",
            f"memory of the worker: {worker:.0f} MB before, {worker_after:.0f} MB after",
            f"processes: {len(after)} before closing, {len(pool.process_ids())} after",
            f"temporary files left: {left or 'none'}",
        )
        sys.stdout.write("\n".join(lines) + "\n")
    return 1 if outcome.failures or left else 0


if __name__ == "__main__":
    sys.exit(main())
