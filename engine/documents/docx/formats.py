"""Number formats of Word lists (ECMA-376 part 1, section 17.18.59)."""

from __future__ import annotations

_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"), (9, "ix"),
    (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
_CHINESE = "〇一二三四五六七八九"
_LEGAL_CHINESE = "零壹贰叁肆伍陆柒捌玖"
_LATIN = "abcdefghijklmnopqrstuvwxyz"
_RUSSIAN = "абвгдежзиклмнопрстуфхцчшщыэюя"
_ARABIC_ALPHA = "أبتثجحخدذرزسشصضطظعغفقكلمنهوي"
_ARABIC_ABJAD = "أبجدهوزحطيكلمنسعفصقرشتثخذضظغ"
_HEBREW = "אבגדהוזחטיכלמנסעפצקרשת"
_HEBREW_VALUES = (400, "ת"), (300, "ש"), (200, "ר"), (100, "ק"), (90, "צ"), (80, "פ"), (70, "ע"), (60, "ס"), (50, "נ"), (40, "מ"), (30, "ל"), (20, "כ"), (10, "י"), (9, "ט"), (8, "ח"), (7, "ז"), (6, "ו"), (5, "ה"), (4, "ד"), (3, "ג"), (2, "ב"), (1, "א")  # fmt: skip
_AIUEO = "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン"
_IROHA = "イロハニホヘトチリヌルヲワカヨタレソツネナラムウヰノオクヤマケフコエテアサキユメミシヱヒモセスン"
_STEMS = "甲乙丙丁戊己庚辛壬癸"
_BRANCHES = "子丑寅卯辰巳午未申酉戌亥"
_GANADA = "가나다라마바사아자차카타파하"
_CHOSUNG = "ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ"
_HINDI_DIGITS = "०१२३४५६७८९"
_THAI_DIGITS = "๐๑๒๓๔๕๖๗๘๙"
_FULL_WIDTH = "０１２３４５６７８９"

_LARGEST = 32_767
"""Word counts no further; a hostile start value must not spell a million letters."""

LEGAL_DECIMAL = dict.fromkeys(("upperRoman", "lowerRoman", "upperLetter", "lowerLetter", "ordinal", "cardinalText", "ordinalText", "russianLower", "russianUpper", "arabicAlpha", "arabicAbjad", "hebrew1", "hebrew2", "chineseCounting", "chineseCountingThousand", "japaneseCounting", "ideographDigital", "taiwaneseCounting", "koreanCounting"), "decimal")  # fmt: skip
"""Formats that `w:isLgl` turns into plain digits. Formats of digits, decimalZero among them, keep their shape."""

_ONES = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth", "twelve": "twelfth"}  # fmt: skip


def format_number(number: int, name: str, custom: str | None = None) -> str:
    """`number` in a Word number format; plain digits for formats that are not known."""
    if name == "custom":
        return _custom(number, custom)
    if name in ("none", "bullet"):
        return ""
    if number > _LARGEST or (
        number <= 0 and name not in ("decimalZero", "ordinal", "numberInDash", "decimalFullWidth")
    ):
        return str(number)
    formatted = _formatted(number, name)
    return str(number) if formatted is None else formatted


def _formatted(number: int, name: str) -> str | None:
    match name:
        case "decimalZero":
            return f"{number:02d}"
        case "upperRoman":
            return _roman(number).upper()
        case "lowerRoman":
            return _roman(number)
        case "upperLetter":
            return _repeated(number, _LATIN).upper()
        case "lowerLetter":
            return _repeated(number, _LATIN)
        case "russianUpper":
            return _repeated(number, _RUSSIAN).upper()
        case "russianLower":
            return _repeated(number, _RUSSIAN)
        case "ordinal":
            return _ordinal(number)
        case "cardinalText":
            return _words(number).capitalize()
        case "ordinalText":
            return _ordinal_words(number).capitalize()
        case "numberInDash":
            return f"- {number} -"
        case "decimalFullWidth" | "decimalFullWidth2":
            return _digits(number, _FULL_WIDTH)
        case "hindiNumbers":
            return _digits(number, _HINDI_DIGITS)
        case "thaiNumbers":
            return _digits(number, _THAI_DIGITS)
        case "decimalEnclosedCircle" | "decimalEnclosedCircleChinese" | "ideographEnclosedCircle":
            return _circled(number)
        case "decimalEnclosedParen":
            return chr(0x2473 + number) if number <= 20 else f"({number})"
        case "decimalEnclosedFullstop":
            return chr(0x2487 + number) if number <= 20 else f"{number}."
        case "arabicAlpha":
            return _repeated(number, _ARABIC_ALPHA)
        case "arabicAbjad":
            return _repeated(number, _ARABIC_ABJAD)
        case "hebrew1":
            return _hebrew(number)
        case "hebrew2":
            return _repeated(number, _HEBREW)
        case "aiueo" | "aiueoFullWidth":
            return _repeated(number, _AIUEO)
        case "iroha" | "irohaFullWidth":
            return _repeated(number, _IROHA)
        case "ideographTraditional":
            return _repeated(number, _STEMS)
        case "ideographZodiac":
            return _repeated(number, _BRANCHES)
        case "ganada":
            return _repeated(number, _GANADA)
        case "chosung":
            return _repeated(number, _CHOSUNG)
        case "ideographDigital" | "japaneseDigitalTenThousand" | "taiwaneseDigital" | "koreanDigital2":
            return _digits(number, _CHINESE)
        case "chineseCounting" | "taiwaneseCounting":
            return _chinese(number, _CHINESE) if number < 100 else _digits(number, "○一二三四五六七八九")
        case "chineseCountingThousand" | "taiwaneseCountingThousand":
            return _chinese(number, _CHINESE, zero="〇" if name.startswith("taiwan") else "零")
        case "japaneseCounting" | "koreanCounting":
            return _chinese(number, _CHINESE, zero="")
        case "chineseLegalSimplified":
            return _chinese(number, _LEGAL_CHINESE, units="拾佰仟", zero="零", always_one=True)
    return None


def _roman(number: int) -> str:
    parts = []
    for size, letters in _ROMAN:
        count, number = divmod(number, size)
        parts.append(letters * count)
    return "".join(parts)


def _repeated(number: int, alphabet: str) -> str:
    """Word repeats a letter past the alphabet's end: 27 is "aa", 28 "bb"."""
    rounds, index = divmod(number - 1, len(alphabet))
    return alphabet[index] * min(rounds + 1, 100)


def _digits(number: int, digits: str) -> str:
    return "".join(digits[int(digit)] if digit.isdigit() else digit for digit in str(number))


def _circled(number: int) -> str:
    if number <= 20:
        return chr(0x245F + number)
    if number <= 35:
        return chr(0x3250 + number - 20)
    return chr(0x32B0 + number - 35) if number <= 50 else str(number)


def _ordinal(number: int) -> str:
    last = abs(number) % 100
    suffix = "th" if 11 <= last <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(last % 10, "th")
    return f"{number}{suffix}"


def _words(number: int) -> str:
    if number < 20:
        return _ONES[number - 1]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS[tens - 2] + (f"-{_ONES[ones - 1]}" if ones else "")
    if number < 1000:
        hundreds, rest = divmod(number, 100)
        return f"{_ONES[hundreds - 1]} hundred" + (f" {_words(rest)}" if rest else "")
    return str(number)


def _ordinal_words(number: int) -> str:
    if number >= 1000:
        return _ordinal(number)
    words = _words(number)
    head, last = words[: -len(words.replace("-", " ").split()[-1])], words.replace("-", " ").split()[-1]
    if last in _ORDINALS:
        return head + _ORDINALS[last]
    return head + (last[:-1] + "ieth" if last.endswith("y") else last + "th")


def _hebrew(number: int) -> str:
    parts = []
    for size, letter in _HEBREW_VALUES:
        if number in (15, 16):
            # Written 9 + 6 and 9 + 7: the plain letters would spell a name of God.
            parts.append("ט" + ("ו" if number == 15 else "ז"))
            break
        count, number = divmod(number, size)
        parts.append(letter * count)
    return "".join(parts)


def _chinese(number: int, digits: str, *, units: str = "十百千", zero: str = "零", always_one: bool = False) -> str:
    """Counting numbers: 12 is 十二, 105 is 一百零五 where `zero` is printed for gaps."""
    if number >= 10_000:
        high, low = divmod(number, 10_000)
        gap = zero if 0 < low < 1000 else ""
        rest = _chinese(low, digits, units=units, zero=zero, always_one=always_one) if low else ""
        return _chinese(high, digits, units=units, zero=zero, always_one=always_one) + "万" + gap + rest
    text = ""
    pending = False
    for power in range(len(units), -1, -1):
        digit = number // 10**power % 10
        if digit == 0:
            pending = pending or bool(text)
            continue
        if pending:
            text += zero
            pending = False
        leading_ten = digit == 1 and power == 1 and not text and not always_one
        text += "" if leading_ten else digits[digit]
        text += units[power - 1] if power else ""
    return text


def _custom(number: int, pattern: str | None) -> str:
    """A custom format gives its first members: "001, 002, 003, ..." pads to three digits."""
    first = (pattern or "").split(",")[0].strip()
    return str(number).zfill(len(first)) if first.isdigit() else str(number)
