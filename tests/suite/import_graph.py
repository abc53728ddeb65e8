"""Which files a file rests on: imports, modules named in strings, and files named in strings.

The graph is read from the sources, and nothing is imported. An edge goes from a file of `src`,
`tests` or `slurm` to:

- what it imports, also inside functions, and the `__init__` files on the way there;
- a module that it names in a string, since that is how processes are started (`-m hpml.train`);
- a module beside it whose name is a string: `import_module(f"hpml.cli.{name}")`, or
  `Path(__file__).with_name("mpi_once.py")`;
- for a test, the check of an exercise whose id is a string;
- for a module, what is not Python in its package: tables, templates, recordings;
- for a test or a notebook, a file of the checkout that it names in a string, as
  `slurm/06_one_node.slurm`, or a whole folder of these, as "slurm". Such a file is read: what it
  imports is not followed;
- for a test with a pattern for sources in it, as "*.py", all of them;
- for a test that starts `python -m hpml`, the module of each command that is a string in it;
- for a test, each conftest.py above it. The one of all tests is counted and not followed: it offers
  fixtures of half the library, and a test that uses one of these imports that part itself.

It errs on the side of too many edges. What it cannot see: a name put together at run time. The file
that the suite itself writes is not a source.
"""

import hashlib
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path

from .passed import FILE
from .source_facts import FOLDERS, SOURCES, SourceFacts

ROOT = Path(__file__).resolve().parents[2]
# `hpml` hands on what notebooks use, lazily, and `hpml.__main__` is the command line: a file that
# imports a room passes by them, and rests on none of that.
FRONT_DOORS = {"hpml", "hpml.__main__"}
NOT_FOLLOWED = "tests/conftest.py"
CHECK = re.compile(r"src/hpml/modules/m\d\d_\w+/checks/([a-z]\w*)\.py")
SUITE = "tests/suite/"  # it chooses tests and proves nothing: none but its own rests on it
FOLLOWED = ("src/", "tests/", "slurm/")
MODULES = "src/hpml/modules/"
COMMAND_LINE = "src/hpml/cli/__init__.py"
COMMAND = re.compile(r'"([a-z-]+)": Command\(\s*"([\w.]+)"')  # its name, and its module's
NOT_SOURCES = {"__pycache__", ".ipynb_checkpoints"}


class ImportGraph:
    """The files of a checkout, and what each rests on. Paths are texts, relative to its root."""

    def __init__(self, root: Path = ROOT, kept: Path | None = None) -> None:
        """`kept`: a file to keep what was read in, since to parse all sources takes seconds."""
        self.root = root
        self._facts = SourceFacts(kept)
        self._edges: dict[str, frozenset[str]] = {}
        self._digests: dict[str, str] = {}
        self._hashes: dict[frozenset[str], list[str]] = {}

    @cached_property
    def files(self) -> frozenset[str]:
        """Every file that git knows or would add; without git, every file that is not a cache."""
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=self.root,
            capture_output=True,
            text=True,
        )
        if listed.returncode == 0:
            there = frozenset(f for f in listed.stdout.splitlines() if (self.root / f).is_file())
        else:
            found = (p.relative_to(self.root) for p in self.root.rglob("*") if p.is_file())
            there = frozenset(str(p) for p in found if not NOT_SOURCES & set(p.parts))
        return there - {FILE}

    @cached_property
    def modules(self) -> dict[str, str]:
        """Each module of the library by its dotted name."""
        found = {}
        for file in sorted(self.files):
            if file.startswith("src/hpml/") and file.endswith(".py"):
                dotted = file.removeprefix("src/").removesuffix(".py").replace("/", ".")
                found[dotted.removesuffix(".__init__")] = file
        return found

    @cached_property
    def checks(self) -> dict[str, str]:
        """The file of each exercise's check, by the exercise's id."""
        found = (CHECK.fullmatch(file) for file in self.files)
        return {match[1]: match[0] for match in found if match}

    @cached_property
    def commands(self) -> dict[str, str]:
        """The file of each command of `./hpml`, by the command's name."""
        if COMMAND_LINE not in self.files:
            return {}
        found = COMMAND.findall((self.root / COMMAND_LINE).read_text(encoding="utf-8"))
        return {
            name: f"{COMMAND_LINE.rpartition('/')[0]}/{module.replace('.', '/')}.py"
            for name, module in found
        }

    @cached_property
    def _data(self) -> dict[str, list[str]]:
        """What is not Python in the library, by the folder of the package that it belongs to."""
        found: dict[str, list[str]] = {}
        for file in sorted(self.files):
            if file.startswith("src/hpml/") and not file.endswith(".py"):
                folder = file.rpartition("/")[0]
                while f"{folder}/__init__.py" not in self.files:
                    folder = folder.rpartition("/")[0]
                found.setdefault(folder, []).append(file)
        return found

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        """Files other than Python by each way to name them: `a/b/c.toml`, `b/c.toml`, `c.toml`."""
        names: dict[str, list[str]] = {}
        for file in self.files:
            if not file.endswith(".py") or file.startswith(FOLDERS):
                parts = file.split("/")
                for start in range(len(parts)):
                    names.setdefault("/".join(parts[start:]), []).append(file)
        return names

    def digest(self, file: str) -> str:
        """The hash of a file's text, as it was when it was first asked for."""
        if file not in self._digests:
            text = (self.root / file).read_bytes()
            self._digests[file] = hashlib.sha256(text).hexdigest()
        return self._digests[file]

    @cached_property
    def _installed(self) -> str:
        """Python, the packages, and Horovod's patch: what every proof rests on."""
        locks = {"requirements.lock", "src/hpml/horovod/horovod-0.28.1.patch"} & self.files
        digests = [self.digest(lock) for lock in sorted(locks)]
        return "\0".join([platform.python_version(), platform.machine(), *digests])

    def save(self) -> None:
        """Keep what was read, for the next process."""
        self._facts.save()

    def edges(self, file: str) -> frozenset[str]:
        """What a file rests on, itself not counted."""
        if file not in self._edges:
            self._edges[file] = self._read(file)
        return self._edges[file]

    def _read(self, file: str) -> frozenset[str]:
        script = file.startswith("slurm/")
        if file == NOT_FOLLOWED or not (file.endswith(".py") or script):
            return frozenset()
        facts = self._facts.of(self.root / file)
        found = {other for name in facts.imports for other in self._imported(name)}
        found |= {other for name in facts.names for other in self._module_named(name)}
        folder = file.rpartition("/")[0]
        found |= self.files & {f"{folder}/{word}.py" for word in facts.words}
        found |= self.files & {f"{folder}/{name}" for name in facts.names if name.endswith(".py")}
        found.update(self._data.get(folder, ()))
        if not file.startswith("src/"):
            found |= {other for name in facts.names for other in self._file_named(name)}
        if file.startswith("tests/"):
            found |= {self.checks[word] for word in facts.words if word in self.checks}
            helpers = {*self._beside(file, facts.relative), *self._conftests(folder)}
            if not file.startswith(SUITE):
                helpers = {each for each in helpers if not each.startswith(SUITE)}
            found |= helpers
            if any(self._starts_commands(each) for each in [file, *helpers - {NOT_FOLLOWED}]):
                found |= {self.commands[word] for word in facts.words if word in self.commands}
        return frozenset(found - {file})

    def _starts_commands(self, file: str) -> bool:
        facts = self._facts.of(self.root / file)
        return "hpml" in facts.words or "./hpml" in facts.names

    def imports(self, module: str) -> set[str]:
        """The modules of the library that one of them imports, also inside its functions."""
        found = set()
        for name in self._facts.of(self.root / self.modules[module]).imports:
            found.add(name if name in self.modules else name.rpartition(".")[0])
        return found & self.modules.keys() - {module}

    def relative_imports(self, module: str) -> tuple[tuple[int, str], ...]:
        """Its imports that begin with dots: how many dots, and what follows."""
        return self._facts.of(self.root / self.modules[module]).relative

    def reach(self, files: Iterable[str]) -> frozenset[str]:
        """The files, and all that they rest on."""
        found = set(files)
        todo = list(found)
        while todo:
            new = self.edges(todo.pop()) - found
            found |= new
            todo += (file for file in new if file.startswith(FOLLOWED))
        return frozenset(found)

    def nearly(self, files: Iterable[str]) -> frozenset[str]:
        """The files and what they import themselves, or by what belongs to a module of the day."""
        found = set(files)
        todo = list(found)
        while todo:
            new = self.edges(todo.pop()) - found
            found |= new
            todo += (file for file in new if file.startswith(MODULES))
        return frozenset(found)

    def key(self, files: Iterable[str], *texts: str) -> str:
        """Two hashes with a - between them, each of `texts` and of what is installed: with what the
        files rest on nearly, and with all that they rest on."""
        roots = frozenset(files)
        if roots not in self._hashes:  # many answers rest on the same files
            self._hashes[roots] = [
                _hash(self._installed, *(f"{file} {self.digest(file)}" for file in sorted(rested)))
                for rested in (self.nearly(roots), self.reach(roots))
            ]
        near, whole = (_hash(rested, *texts) for rested in self._hashes[roots])
        return f"{near}-{whole}"

    def distances(self, changed: Iterable[str]) -> dict[str, int]:
        """How many edges each file that rests on a changed one is away from the nearest of them."""
        users: dict[str, set[str]] = {}
        for file in self.files:
            for other in self.edges(file):
                users.setdefault(other, set()).add(file)
        found = dict.fromkeys(changed, 0)
        todo = list(found)
        for file in todo:  # grows while it is gone through
            if found[file] and not file.startswith(FOLLOWED):
                continue
            for user in sorted(users.get(file, set()) - found.keys()):
                found[user] = found[file] + 1
                todo.append(user)
        return found

    def _imported(self, name: str) -> Iterator[str]:
        """The files of `hpml.room.module`, or `hpml.room.module.name`, and of packages above."""
        if name not in self.modules:
            name = name.rpartition(".")[0]
        if name in self.modules:
            yield self.modules[name]
            while name := name.rpartition(".")[0]:
                if name in self.modules and name not in FRONT_DOORS:
                    yield self.modules[name]

    def _module_named(self, text: str) -> Iterator[str]:
        """The file of a module that a string names, or of what is above `hpml.room.function`."""
        if text.startswith("hpml."):
            while text not in self.modules:
                text = text.rpartition(".")[0]
            if text not in FRONT_DOORS:
                yield from self._imported(text)

    def _file_named(self, text: str) -> Iterator[str]:
        """The files that a string names."""
        if text in FOLDERS:
            yield from (file for file in self.files if file.startswith(f"{text}/"))
        elif text == SOURCES:
            yield from (file for file in self.files if file.endswith(".py"))
        elif text == "./hpml":
            yield "hpml"
        else:
            yield from self._by_name.get(text.removeprefix("./"), ())

    def _beside(self, file: str, relative: Iterable[tuple[int, str]]) -> Iterator[str]:
        """What relative imports of a test name."""
        for level, name in relative:
            place = Path(*Path(file).parts[:-level], *name.split("."))
            for path in (place, place.parent):
                if (found := f"{path}.py") in self.files:
                    yield found

    def _conftests(self, folder: str) -> Iterator[str]:
        while folder:
            if f"{folder}/conftest.py" in self.files:
                yield f"{folder}/conftest.py"
            folder = folder.rpartition("/")[0]


def _hash(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


@cache
def check_file(exercise: str) -> str:
    """The file of an exercise's check."""
    (found,) = ROOT.glob(f"src/hpml/modules/m[0-9]*_*/checks/{exercise}.py")
    return str(found.relative_to(ROOT))
