"""Cells that conclude are folded in what is built, and on the report's pages."""

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from hpml.course import folded, page
from hpml.course.execute import open_notebook


def test_what_concludes_is_a_call_in_a_code_cell():
    texts = ["conclude(True, 'a', 'b')", "if found:\n    conclude(found.held, 'a', 'b')"]
    others = ["concluded(cell)", "print('conclude(')", "from hpml.publish import conclude"]
    assert all(folded.concludes(new_code_cell(text)) for text in texts)
    assert not any(folded.concludes(new_code_cell(text)) for text in others)
    assert not folded.concludes(new_markdown_cell(texts[0]))


def test_the_page_of_a_folded_cell_shows_its_output_and_opens_its_source(tmp_path):
    cells = [new_code_cell("measure()"), new_code_cell("conclude(held, 'a', 'b')")]
    notebook = new_notebook(cells=cells)
    folded.fold(notebook)
    nbformat.write(notebook, tmp_path / "03_rings.ipynb")
    shown = page.cells(open_notebook(tmp_path / "03_rings.ipynb"), link=str)
    assert [cell.folded for cell in shown] == [False, True]
