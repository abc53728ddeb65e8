"""Cells that conclude are folded in what is built, and on the report's pages."""

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from hpml.course import folded, page
from hpml.course.execute import open_notebook
from hpml.course.instructors import build

CONCLUDING = "\n# %%\nfrom hpml.publish import conclude\n\nconclude(6 * 7 == 42, 'It is 42.', '')\n"


def test_what_concludes_is_a_call_in_a_code_cell():
    texts = ["conclude(True, 'a', 'b')", "if found:\n    conclude(found.held, 'a', 'b')"]
    others = ["concluded(cell)", "print('conclude(')", "from hpml.publish import conclude"]
    assert all(folded.concludes(new_code_cell(text)) for text in texts)
    assert not any(folded.concludes(new_code_cell(text)) for text in others)
    assert not folded.concludes(new_markdown_cell(texts[0]))


def test_a_lecture_is_built_with_its_concluding_cells_folded(unbuilt):
    module = unbuilt.modules[0]
    script = unbuilt.root / module.notebook.with_suffix(".py")
    script.write_text(script.read_text() + CONCLUDING)
    assert build.build(unbuilt, [module]) == []
    made = nbformat.read(unbuilt.root / module.notebook, as_version=4)
    hidden = [
        cell for cell in made.cells if cell.metadata.get("jupyter") == {"source_hidden": True}
    ]
    assert ["It is 42." in cell.source for cell in hidden] == [True]
    assert build.check(unbuilt, [module]) == []


def test_the_page_of_a_folded_cell_shows_its_output_and_opens_its_source(tmp_path):
    cells = [new_code_cell("measure()"), new_code_cell("conclude(held, 'a', 'b')")]
    notebook = new_notebook(cells=cells)
    folded.fold(notebook)
    nbformat.write(notebook, tmp_path / "03_rings.ipynb")
    shown = page.cells(open_notebook(tmp_path / "03_rings.ipynb"), link=str)
    assert [cell.folded for cell in shown] == [False, True]
