"""A table of text, as Markdown, LaTeX or CSV."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from segcertify import names
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
        heads, *rows = (_row([names.markdown(cell) for cell in row]) for row in (self.heads, *self.rows))
        lines = [f"### {names.markdown(self.title)}", "", heads, _row(["---"] * len(self.heads)), *rows, ""]
        return "\n".join([*lines, *(f"- {names.markdown(note)}" for note in self.notes)]).rstrip() + "\n"

    __str__ = markdown

    def latex(self) -> str:
        """A booktabs table."""
        columns = "l" + "r" * (len(self.heads) - 1)
        lines = [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{names.latex(' '.join((self.title + '.', *self.notes)))}}}",
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

    def html(self) -> str:
        """A table of HTML with its title above and its notes folded below; in the page's own colours."""
        line = "border-bottom:1px solid rgba(128, 128, 128, .45);padding:.25em .6em;text-align:"
        heads, *rows = (
            "".join(
                f'<{tag} style="{line}{"right" if column else "left;white-space:nowrap"}">{names.html(cell)}</{tag}>'
                for column, cell in enumerate(cells)
            )
            for tag, cells in [("th", self.heads), *(("td", row) for row in self.rows)]
        )
        notes = "".join(f"<li>{names.html(note)}</li>" for note in self.notes)
        return (
            f'<div style="font-weight:600">{names.html(self.title)}</div>'
            f'<table style="border-collapse:collapse;font-size:.9em"><thead><tr>{heads}</tr></thead>'
            f"<tbody>{''.join(f'<tr>{row}</tr>' for row in rows)}</tbody></table>"
            + (f"<details><summary>What the numbers say</summary><ul>{notes}</ul></details>" if notes else "")
        )

    _repr_html_ = html

    def csv(self) -> str:
        """Comma-separated values, heads first."""
        return "".join(names.csv_line(row) for row in (self.heads, *self.rows))

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
    return " & ".join(names.latex(cell) for cell in cells) + r" \\"
