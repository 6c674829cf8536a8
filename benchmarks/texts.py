"""Texts to measure on: made from a seed, so that every run reads the same ones, and without long repetitions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import accumulate


def _words(listed: str) -> list[str]:
    return listed.split()


_COMMON = _words(
    "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which one you "
    "were all her she there would their we him been has when who will no more if out so up said what its about than into them "
    "can only other time new some could these two may first then do any like my now over such our man me even most made after "
    "also did many off before must well back through years where much your way down should because long each just state people "
    "those too mr how little good world make very year still see own work men day get here old life both between being under "
    "three never know same last another while us might great go come since against right used take himself few house use place "
    "during high without again home around small however found mrs thought went say part once general united upon school every "
    "does got left number course war until always away something fact water though public less put think almost hand enough "
    "far took head yet government system better set told nothing night end why called find going look asked later point knew "
    "next program city business give group toward young days let room within word given means order right shall section notice "
    "person authority application fee service report provision relevant member period date requirement information decision"
)
_SYLLABLES = _words(
    "an ar ban co com con cor de del der dis en er es fi gen gor in ing ity ka lo ma ment mi nor o pro ra re sta ter tion tri ul us ven"
)


class _Writer:
    """Sentences of frequent and rare words, with the frequencies of natural text."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        rare = ["".join(self.random.choices(_SYLLABLES, k=self.random.choice((1, 2, 2, 3, 3, 4)))) for _ in range(8000)]
        self._words = _COMMON + rare
        self._weights = list(accumulate(1 / (rank + 6) for rank in range(len(self._words))))

    def words(self, count: int) -> list[str]:
        return self.random.choices(self._words, cum_weights=self._weights, k=count)

    def sentence(self) -> str:
        words = self.words(self.random.randint(6, 30))
        words[0] = words[0].capitalize()
        chance = self.random.random()
        if chance < 0.4:
            words[len(words) // 2] += ","
        elif chance < 0.5:
            words[-1] += f" under Art. {self.random.randint(1, 90)}"
        elif chance < 0.55:
            words[-1] += f" of {self.random.randint(1900, 2030)}"
        return " ".join(words) + self.random.choice("......?!")

    def paragraph(self, most: int = 9) -> str:
        return " ".join(self.sentence() for _ in range(self.random.randint(2, most)))


def prose(size: int, seed: int = 1) -> str:
    """Paragraphs; about every second one hard-wrapped."""
    writer = _Writer(seed)
    return _up_to(size, lambda: _wrapped(writer.paragraph(), writer.random.random() < 0.5) + "\n\n")


def markdown(size: int, seed: int = 1) -> str:
    """Headings, paragraphs, lists, tables and fenced code."""
    writer = _Writer(seed)

    def block() -> str:
        chance = writer.random.random()
        if chance < 0.12:
            return "#" * writer.random.randint(1, 4) + " " + " ".join(writer.words(4)).title() + "\n\n"
        if chance < 0.22:
            return "".join(f"- {writer.sentence()}\n" for _ in range(writer.random.randint(3, 8))) + "\n"
        if chance < 0.27:
            lines = (
                f"{name} = {call}({writer.random.randint(1, 999)})\n"
                for name, call in zip(writer.words(12), writer.words(12), strict=True)
            )
            return "```py\n" + "".join(lines) + "```\n\n"
        if chance < 0.31:
            rows = "".join(f"| {word} | {writer.random.randint(1, 9999)} |\n" for word in writer.words(20))
            return "| name | value |\n|---|---|\n" + rows + "\n"
        return writer.paragraph(6) + "\n\n"

    return _up_to(size, block)


def no_white_space(size: int) -> str:
    return "".join(prose(size * 5 // 4).split())[:size]


def one_letter(size: int) -> str:
    return "a" * size


_PEOPLE = ("👨‍👩‍👧‍👦", "👩🏽‍🚀", "👍🏿", "🇩🇪", "🇺🇦", "🏳️‍🌈", "😀", "🧑🏻‍💻", "❤️", "👩‍❤️‍👨")


def emoji(size: int) -> str:
    picked = random.Random(1)
    return _up_to(size, lambda: picked.choice(_PEOPLE))


def chinese(size: int) -> str:
    """Frequent characters between full stops and commas; no spaces."""
    picked = random.Random(1)
    characters = "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管期市直德资命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象完设式色路记南品住告类求据程北边死张该交规万取拉格望觉术领共确传师观清今切院让识候带导争运"

    def clause() -> str:
        return "".join(picked.choices(characters, k=picked.randint(4, 16))) + picked.choice("，，，。。；！")

    return _up_to(size, clause)


def one_line(size: int) -> str:
    return prose(size).replace("\n", " ")[:size]


def unbalanced_quotation_mark(size: int) -> str:
    return ("“" + prose(size))[:size]


WORST: dict[str, Callable[[int], str]] = {
    "no white space": no_white_space,
    "one letter": one_letter,
    "emoji": emoji,
    "Chinese": chinese,
    "one line": one_line,
    "open quotation": unbalanced_quotation_mark,
}


def _wrapped(text: str, wanted: bool) -> str:
    if not wanted:
        return text
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        if len(line) + len(word) > 88:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return "\n".join([*lines, line])


def _up_to(size: int, part: Callable[[], str]) -> str:
    """Parts until their UTF-8 has `size` bytes."""

    def parts() -> Iterator[str]:
        length = 0
        while length < size:
            made = part()
            length += len(made) if made.isascii() else len(made.encode())
            yield made

    return "".join(parts())
