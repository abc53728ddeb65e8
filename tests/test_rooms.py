"""The library's structure is the one that README.md draws: floors, and no circles."""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from .suite import kept
from .suite.import_graph import FRONT_DOORS, ImportGraph
from .suite.plugin import FACTS

ROOT = Path(__file__).parents[1]
GRAPH = ImportGraph(kept=kept.folder() / FACTS)
MODULES = {name: ROOT / file for name, file in GRAPH.modules.items()}


@cache
def imports() -> dict[str, set[str]]:
    """The modules of the library that each of them imports, also inside its functions."""
    return {name: GRAPH.imports(name) for name in MODULES}


def room(module: str) -> str:
    """`hpml.ranks.parent.launch` is in the room `ranks`."""
    return module.split(".")[1]


def floors() -> list[list[str]]:
    """The rooms of each floor, from the top, as README.md lists them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = re.search(r"<!-- the floors.*?-->(.*?)<!-- end of the floors -->", text, re.DOTALL)[1]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [re.findall(r"`(\w+)`", cell) for cell in cells]


def test_readme_lists_every_room_once():
    listed = [name for floor in floors() for name in floor]
    there = {room(name) for name in MODULES if name not in FRONT_DOORS}
    assert sorted(listed) == sorted(there)


def test_a_room_imports_only_from_floors_below():
    height = {name: -number for number, floor in enumerate(floors()) for name in floor}
    upward = [
        f"{name} imports {other}"
        for name, others in imports().items()
        if name not in FRONT_DOORS
        for other in others - FRONT_DOORS
        if room(name) != room(other) and height[room(other)] >= height[room(name)]
    ]
    assert not upward


def test_imports_have_whole_names():
    relative = {name: GRAPH.relative_imports(name) for name in MODULES}
    assert {name: found for name, found in relative.items() if found} == {}


def module_of(file: str) -> str | None:
    """The module of the day that a file belongs to: "04". None for what modules share."""
    found = re.match(r"(?:src/hpml/modules/m|notebooks/|solutions/|slurm/)(\d\d)_", file)
    return found[1] if found else None


@cache
def users() -> dict[str, set[str]]:
    """The library, lectures, solutions and job scripts that rest on each file of the library."""
    found: dict[str, set[str]] = {file: set() for file in GRAPH.modules.values()}
    places = ("src/", "slurm/", "notebooks/", "solutions/")
    for user in (file for file in GRAPH.files if file.startswith(places)):
        for file in GRAPH.edges(user) & found.keys():
            found[file].add(user)
    return found


def test_a_module_is_imported_by_nobody_else():
    """Not by another module, and by the engine only through the registry of checks."""
    others = [
        f"{user} rests on {file}"
        for file, its in users().items()
        if (module := module_of(file)) and not file.endswith("__init__.py")
        for user in its
        if module_of(user) != module
    ]
    assert not others


def test_what_one_module_alone_uses_lives_in_its_folder():
    alone = [
        f"{file} moves to src/hpml/modules/m{module}_*/: nothing else uses it"
        for file, its in users().items()
        if its and not module_of(file) and not file.endswith("__init__.py")
        for module in {module_of(user) for user in its}
        if module and {module_of(user) for user in its} == {module}
    ]
    assert not alone


# Each process of a launch forks the next, and may import what that one runs. The parent believes
# nothing of a rank: it imports nothing that runs in one.
FORKED_BELOW = {
    "parent": ("server", "supervisor"),
    "server": ("supervisor", "proxy", "rank"),
    "supervisor": ("proxy", "rank"),
    "proxy": ("rank",),
    "agent": ("rank",),
    "rank": (),
}


def process(module: str) -> str | None:
    """`hpml.ranks.rank.recorder` runs in the process `rank`; `hpml.ranks.evidence` in several."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["hpml", "ranks"] and len(parts) > 3 else None


def test_every_folder_of_ranks_is_a_process():
    assert {process(name) for name in MODULES} - {None} == set(FORKED_BELOW)


def test_a_process_imports_what_it_forks_and_what_several_share():
    wrong = [
        f"{name} imports {other}"
        for name, others in imports().items()
        for other in others
        if name.startswith("hpml.ranks.") and process(other)
        if process(other) not in (process(name), *FORKED_BELOW.get(process(name), ()))
    ]
    assert not wrong


def test_no_files_import_each_other_in_a_circle():
    graph = {name: others - FRONT_DOORS for name, others in imports().items()}
    TopologicalSorter(graph).prepare()  # raises CycleError with the circle


def test_every_name_that_is_imported_is_there():
    """Also what a function imports only when it is called, in the library, tests and notebooks."""
    defined = {name: names_in(path) for name, path in MODULES.items()}
    sources = [
        p for f in ("src", "tests", "notebooks", "solutions") for p in (ROOT / f).rglob("*.py")
    ]
    missing = [
        f"{path.relative_to(ROOT)} imports {alias.name} from {node.module}"
        for path in sources
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hpml"
        for alias in node.names
        if f"{node.module}.{alias.name}" not in MODULES
        and not {alias.name, "__getattr__"} & defined.get(node.module, set())
    ]
    assert not missing


def names_in(path: Path) -> set[str]:
    """What a module defines or imports anywhere: more than it offers, and enough to miss a name."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names
