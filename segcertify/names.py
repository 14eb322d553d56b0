"""Names are data: how a text that others wrote becomes part of an output, one function for each kind of output.

Names of classes, scenes, files, models and data sets, licences and cards can hold anything: markup of a terminal or a
page, formulas, commands of LaTeX, characters that turn the line around. Each function gives a text in which nothing
acts, and in which a person reads the name. The time grows with the length of the text, not faster.
"""

import csv as _csv
import hashlib
import html as _html
import io
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_HIDDEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Control characters, those that show nothing or change the direction of text, line ends, and lone surrogates."""


def visible(text: str) -> str:
    r"""For a line on a terminal: an escape for each character that cannot be seen or that does something.

    Whatever prints it must read no markup of its own. All other outputs begin with this.

    >>> print(visible("a\x1b[31mb\u202egnp\udcff"))
    a\x1b[31mb\u202egnp\udcff
    """
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)


def shortened(text: str, length: int = 80) -> str:
    """A text of at most so many characters: a longer one is cut, and a digest tells it from others with its beginning.

    >>> shortened("a" * 100, 20)
    'aaaaaaaaa~2816597888'
    """
    if len(text) <= length:
        return text
    return f"{text[: max(length - 11, 0)]}~{digest(text)[:10]}"


def digest(text: str) -> str:
    """A digest of any text, also of file names that are not UTF-8."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_MARKDOWN = re.compile(
    r"[\\`*<~|$]|\A\[(?=[ x]\])|\](?=[(\[:])"  # code, emphasis, HTML, cells, mathematics, links
    r"|(?<![^\W_])_|_(?![^\W_])"  # emphasis; an underscore inside a word is none
    r"|&(?=#?\w+;)|:(?=//)|@(?=\w)|(?<=www)\."  # entities, and addresses that become links by themselves
    r"|\A>|\A[-+#](?=\s)|#\Z",  # what begins a block or ends a heading
    re.IGNORECASE,
)


def markdown(text: str) -> str:
    r"""For a paragraph, a heading or a cell of a table in Markdown: nothing in it is markup or HTML.

    >>> print(markdown("road_sign <b>|`x`"))
    road_sign \<b>\|\`x\`
    """
    shown = _MARKDOWN.sub(lambda found: f"\\{found[0]}", visible(text))
    return re.sub(r"\A(\d{1,9})([.)])(?=\s)", r"\1\\\2", shown)  # a numbered list


def code(text: str) -> str:
    r"""A span of code in Markdown, as it is: fenced by more backticks than the text has in a row.

    >>> print(code("hrnet:a.pth"), code("a`b"))
    `hrnet:a.pth` `` a`b ``
    """
    shown = visible(text) or " "
    fence = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    space = " " if "`" in shown else ""
    return f"{fence}{space}{shown}{space}{fence}"


def html(text: str) -> str:
    """For the text or an attribute of an HTML page."""
    return _html.escape(visible(text))


def script_json(value: Any) -> str:
    """JSON for a script element of a page: in ASCII, and it can end no script element and open no comment."""
    text = json.dumps(value, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def python(text: str) -> str:
    r"""A literal of Python that stands for the text, in one line: for code that people copy.

    >>> print(python('a"b\n'))
    "a\"b\n"
    """
    return visible(json.dumps(text, ensure_ascii=False))


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "`": r"\textasciigrave{}",
}  # fmt: skip
_LATEX_TABLE = str.maketrans(_LATEX)


def latex(text: str) -> str:
    r"""For running text or a cell of a table in LaTeX: no command, no special character, no ligature of hyphens.

    >>> print(latex(r"\input{x}_1"))
    \textbackslash{}input\{x\}\_1
    """
    shown = visible(text).translate(_LATEX_TABLE)
    shown = re.sub(r"-(?=-)", "-{}", shown)
    return re.sub(r"\A(\s*)([\[*])", r"\1{\2}", shown)  # after \\, and spaces, these would be its arguments


def csv_line(cells: Iterable[str]) -> str:
    r"""A line of comma-separated values. A quote stands before what a spreadsheet would compute as a formula.

    >>> print(csv_line(["=1+1", "-0.5", "-", "+x"]), end="")
    '=1+1,-0.5,-,'+x
    """
    text = io.StringIO()
    _csv.writer(text, lineterminator="\n").writerow(map(_csv_cell, cells))
    return text.getvalue()


def _csv_cell(cell: str) -> str:
    formula = cell.strip().lstrip("'").lstrip()
    shown = visible(cell)
    if not formula.startswith(("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")) or shown.strip() == "-":
        return shown
    return shown if re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", formula) and not cell.startswith("'") else f"'{shown}"


def plotted(text: str) -> str:
    r"""For a text of matplotlib: dollars are dollars, not mathematics.

    >>> print(plotted("$x$"))
    \$x\$
    """
    return visible(text).replace("$", r"\$")


LONGEST = 140
"""Bytes of a name in a file's name: with what else stands there, it stays below the 255 that file systems take."""
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE | re.DOTALL)  # by Windows
_FORBIDDEN = re.compile(r'[/\\:*?"<>|]')
_DIGESTED = re.compile(r".*-[0-9a-f]{16}", re.DOTALL)


def file_name(name: str) -> str:
    r"""A part of a path for a name: the name itself where that is a safe one, else a safe beginning and a digest.

    Different names give different parts. None is ``.`` or ``..``, hidden, or taken for an option.

    >>> file_name("photo 1"), file_name("..")
    ('photo 1', '_-5ec1f7e700f37c3d')
    """
    safe = (
        not (_HIDDEN.search(name) or _FORBIDDEN.search(name) or _RESERVED.fullmatch(name) or _DIGESTED.fullmatch(name))
        and name == unicodedata.normalize("NFC", name)
        and _fits(name)
    )
    return name if safe else _with_digest(_portable(name), name, 16)


def file_names(names: Sequence[str]) -> dict[str, str]:
    """Parts of file names for names that are all different: readable, and no two alike, whatever a system folds.

    Where a name has no other character than letters, digits and ``-_.``, and no other name is like it, it stays.
    """
    found = {each: _portable(each) for each in dict.fromkeys(names)}
    for each, name in found.items():
        if not _fits(name) or _RESERVED.fullmatch(name):
            found[each] = _with_digest(name, each, 8)
    digits = 8
    while alike := _alike(found):
        found |= {each: _with_digest(_portable(each), each, digits) for each in alike}
        digits = min(2 * digits, 64)  # a name may be made to look like the short form of another
    return found


def _alike(found: Mapping[str, str]) -> list[str]:
    """The names whose files some system would hold to be the same."""
    shared = Counter(map(_folded, found.values()))
    return [each for each, name in found.items() if shared[_folded(name)] > 1]


def _portable(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)


def _fits(name: str) -> bool:
    """Whether a name is neither empty nor long, and begins and ends as file names may."""
    return bool(name) and name[0] not in ".- " and name[-1] not in ". " and len(name.encode()) <= LONGEST


def _with_digest(safe: str, name: str, digits: int) -> str:
    """The beginning of a safe form of a name, and so many digits of the name's digest."""
    beginning = safe[: LONGEST // 2].encode()[: LONGEST - 65].decode(errors="ignore").lstrip(".-").rstrip(".")
    return f"{beginning or '_'}-{digest(name)[:digits]}"


def _folded(name: str) -> str:
    """What is the same for names that some file system holds to be the same."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
