"""Equations (OMML) as one line of text: (a+b)/(c), x^(2), √(x), ∑_(i=1)^(n)."""

from __future__ import annotations

from typing import Any

from engine.documents.docx.xml import M, W, elements, own_text


def equation_text(element: Any) -> str:
    """Linear text of an `m:oMath` or `m:oMathPara`. Every `m:t` stands in it as it is."""
    return "".join(_render(child) for child in elements(element)).strip()


def _render(element: Any) -> str:
    tag = element.tag
    if tag in (M + "t", W + "t"):
        return own_text(element)
    if not tag.startswith(M) or tag in (
        M + "r",
        M + "oMath",
        M + "oMathPara",
        M + "e",
        M + "box",
        M + "borderBox",
        M + "phant",
    ):
        if tag in (W + "del", W + "moveFrom", W + "rPr"):
            return ""
        return _children(element)
    name = tag[len(M) :]
    if name.endswith("Pr"):
        return ""
    handler = _HANDLERS.get(name)
    return handler(element) if handler is not None else _children(element)


def _children(element: Any) -> str:
    return "".join(_render(child) for child in elements(element))


def _part(element: Any, name: str) -> str:
    child = element.find(M + name)
    return "" if child is None else _children(child).strip()


def _group(text: str) -> str:
    return text if len(text) <= 1 else f"({text})"


def _property(element: Any, group: str, name: str, default: str) -> str:
    child = element.find(f"{M}{group}/{M}{name}")
    return default if child is None else child.get(M + "val") or ""


def _fraction(element: Any) -> str:
    return f"{_group(_part(element, 'num'))}/{_group(_part(element, 'den'))}"


def _scripts(element: Any) -> str:
    lower, upper = _part(element, "sub"), _part(element, "sup")
    return _part(element, "e") + (f"_{_group(lower)}" if lower else "") + (f"^{_group(upper)}" if upper else "")


def _pre_scripts(element: Any) -> str:
    return f"_{_group(_part(element, 'sub'))}^{_group(_part(element, 'sup'))}{_part(element, 'e')}"


def _radical(element: Any) -> str:
    degree = _part(element, "deg")
    return f"√{f'[{degree}]' if degree else ''}({_part(element, 'e')})"


def _large_operator(element: Any) -> str:
    sign = _property(element, "naryPr", "chr", "∫")
    lower, upper = _part(element, "sub"), _part(element, "sup")
    limits = (f"_{_group(lower)}" if lower else "") + (f"^{_group(upper)}" if upper else "")
    return f"{sign}{limits} {_part(element, 'e')}"


def _delimited(element: Any) -> str:
    begin, end = _property(element, "dPr", "begChr", "("), _property(element, "dPr", "endChr", ")")
    separator = _property(element, "dPr", "sepChr", "|")
    return begin + separator.join(_children(child) for child in element.iterchildren(M + "e")) + end


def _function(element: Any) -> str:
    return f"{_part(element, 'fName')} {_part(element, 'e')}"


def _limit(mark: str) -> Any:
    return lambda element: f"{_part(element, 'e')}{mark}{_group(_part(element, 'lim'))}"


def _accent(element: Any) -> str:
    return _part(element, "e") + _property(element, "accPr", "chr", "\u0302")


def _matrix(element: Any) -> str:
    rows = (" & ".join(_children(cell) for cell in row.iterchildren(M + "e")) for row in element.iterchildren(M + "mr"))
    return f"[{'; '.join(rows)}]"


def _array(element: Any) -> str:
    return "; ".join(_children(child) for child in element.iterchildren(M + "e"))


_HANDLERS: dict[str, Any] = {
    "f": _fraction,
    "sSup": _scripts,
    "sSub": _scripts,
    "sSubSup": _scripts,
    "sPre": _pre_scripts,
    "rad": _radical,
    "nary": _large_operator,
    "d": _delimited,
    "func": _function,
    "limLow": _limit("_"),
    "limUpp": _limit("^"),
    "acc": _accent,
    "m": _matrix,
    "eqArr": _array,
}
