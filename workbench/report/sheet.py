"""A table as data: sections of rows, printed by rich on a terminal and as HTML in a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Section:
    """Rows under a title; all rows have one cell per head."""

    title: str
    rows: list[tuple[str, ...]]
    strong: frozenset[int] = frozenset()  # rows that are marked out


@dataclass(frozen=True)
class Sheet:
    """A table. ``heads``: of two lines each, "\\n" between them; the first is the rows' own."""

    heads: tuple[str, ...]
    sections: list[Section]

    def words(self) -> list[str]:
        """The heads on one line; the first names the rows, not the sections."""
        return [
            self.heads[0].split("\n")[-1].strip(),
            *(" ".join(h.split()) for h in self.heads[1:]),
        ]


def printed(sheet: Sheet, strong: Sequence[int] = ()) -> Table:
    """The sheet for a terminal; ``strong``: columns whose cell stands out in strong rows."""
    table = Table(box=None, padding=(0, 0, 0, 1), header_style="bold")
    table.add_column(sheet.heads[0], no_wrap=True)
    for head in sheet.heads[1:]:
        table.add_column(head, justify="right", no_wrap=True)
    for section in sheet.sections:
        table.add_row(Text(section.title, style="bold underline"))
        for index, (name, *cells) in enumerate(section.rows):
            marked = index in section.strong
            table.add_row(
                f"  {name}",
                *(
                    Text(cell, "bold green" if marked and column in strong else "")
                    for column, cell in enumerate(cells, start=1)
                ),
            )
    return table
