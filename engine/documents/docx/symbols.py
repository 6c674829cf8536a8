"""Characters of symbol fonts (`w:sym`) as Unicode."""

from __future__ import annotations

UNKNOWN = "□"
"""Stands for a symbol that has no Unicode counterpart here, as Word draws a missing glyph."""
_PRIVATE = 0xF000

_SYMBOL = {
    0x20: (" !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"),
    0xA1: "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑",
    0xF1: "〉∫",
}
_WINGDINGS = {
    0x21: "✏", 0x22: "✂", 0x28: "☎", 0x2A: "✉", 0x36: "⌛", 0x3F: "✍", 0x41: "✌", 0x43: "👍", 0x44: "👎", 0x45: "☜", 0x46: "☞",
    0x4A: "☺", 0x4C: "☹", 0x4E: "☠", 0x6C: "●", 0x6D: "❍", 0x6E: "■", 0x6F: "□", 0x70: "❐", 0x71: "❑", 0x72: "❒", 0x74: "⧫",
    0x75: "◆", 0x76: "❖", 0x77: "⬥", 0x78: "⌧", 0x9E: "·", 0x9F: "•", 0xA1: "○", 0xA7: "▪", 0xA8: "◻", 0xAB: "★", 0xD8: "➢",
    0xDC: "➲", 0xDF: "←", 0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xE7: "⇐", 0xE8: "➔", 0xEF: "⇦", 0xF0: "⇨", 0xF3: "⇔", 0xFB: "✗",
    0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
}  # fmt: skip
_WINGDINGS_2 = {0x4F: "✗", 0x50: "✓", 0x51: "☒", 0x52: "☑", 0x53: "☒", 0x54: "☒", 0xA3: "☐", 0x97: "●"}
_WINGDINGS_3 = {0x7D: "▶", 0x7C: "◀", 0x70: "▲", 0x71: "▼", 0x22: "→", 0x21: "←"}


def symbol(font: str | None, code: str | None) -> str | None:
    """The Unicode character of a `w:sym`; None when it is not known."""
    try:
        number = int(code or "", 16)
    except ValueError:
        return None
    name = (font or "").strip().lower()
    offset = number - _PRIVATE if _PRIVATE <= number <= _PRIVATE + 0xFF else number
    if name == "symbol":
        for start, characters in _SYMBOL.items():
            if start <= offset < start + len(characters):
                return characters[offset - start]
        return None
    tables = {"wingdings": _WINGDINGS, "wingdings 2": _WINGDINGS_2, "wingdings 3": _WINGDINGS_3}
    if name in tables:
        return tables[name].get(offset)
    if 0x20 <= number < 0xD800 or 0xFB00 <= number <= 0xFFFD:
        return chr(number)
    return chr(offset) if 0x20 <= offset < 0x7F else None
