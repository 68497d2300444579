"""docs/cost-model.md: every number of the worked example is recomputed from its own profile."""

import pytest

from tests.profiles.samples import COST_MODEL, cost, worked_example


def rows():
    lines = [line for line in COST_MODEL.read_text().splitlines() if line.startswith("|")]
    start = next(i for i, line in enumerate(lines) if line.startswith("| R |"))
    table = []
    for line in lines[start + 2 :]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 14:
            break
        table.append(cells)
    return table


def test_the_example_has_its_five_steps():
    assert len(rows()) == 5


@pytest.mark.parametrize("cells", rows(), ids=lambda cells: f"B={cells[7]}")
def test_worked_example(cells):
    requests, drafts, context, chunk, after, drafted = map(int, cells[:6])
    batch_tokens = requests + drafts + chunk
    assert batch_tokens == int(cells[7])
    parts = cost(worked_example()).step_parts(
        requests=requests,
        batch_tokens=batch_tokens,
        mean_context=context,
        chunk_tokens=[chunk] if chunk else [],
        context_tokens=[after] if chunk else [],
        draft_tokens=drafted,
        sync=cells[6] == "sync",
    )
    assert [1e3 * part for part in (*parts, parts.total)] == pytest.approx(
        [float(cell) for cell in cells[8:]]
    )
