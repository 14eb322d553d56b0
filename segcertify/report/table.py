"""A table of text, as Markdown, LaTeX or CSV."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from segcertify.storage.atomic import write_text


@dataclass(frozen=True)
class Table:
    """A title, column heads and rows of text."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        """A GitHub-flavoured table, with its title above and notes below."""
        lines = [f"### {self.title}", "", _row(self.heads), _row(["---"] * len(self.heads))]
        lines += [_row([cell.replace("|", "\\|") for cell in row]) for row in self.rows]
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes)]).rstrip() + "\n"

    __str__ = markdown

    def latex(self) -> str:
        """A booktabs table."""
        columns = "l" + "r" * (len(self.heads) - 1)
        lines = [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{_escape(' '.join((self.title + '.', *self.notes)))}}}",
            rf"  \begin{{tabular}}{{@{{}}{columns}@{{}}}}",
            r"    \toprule",
            f"    {_latex_row(self.heads)}",
            r"    \midrule",
            *(f"    {_latex_row(row)}" for row in self.rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """Comma-separated values, heads first."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.heads)
        writer.writerows(self.rows)
        return text.getvalue()

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write all three forms; the files written."""
        forms = {"md": self.markdown(), "tex": self.latex(), "csv": self.csv()}
        files = {folder / f"{name}.{suffix}": text for suffix, text in forms.items()}
        for file, text in files.items():
            write_text(file, text)
        return list(files)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(_escape(cell) for cell in cells) + r" \\"


def _escape(text: str) -> str:
    for character in "&%$#_{}":
        text = text.replace(character, f"\\{character}")
    return text
