"""`python -m samples.build` writes samples/regulation.docx from samples/source: the same bytes in every build."""

from __future__ import annotations

from pathlib import Path

from samples import markup, word

SAMPLES = Path(__file__).parent
REGULATION = SAMPLES / "regulation.docx"
TITLE = "Regulation on the Operational Resilience and Data Governance of Payment Institutions"
HEADER = "Payments Authority of Velmar - Regulation PA 2026/14"


def source() -> str:
    """The text of the regulation: one file per chapter, in the order of their names."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((SAMPLES / "source").glob("*.txt")))


def build() -> bytes:
    return word.write(markup.parse(source()), title=TITLE, header=HEADER)


if __name__ == "__main__":
    REGULATION.write_bytes(build())
