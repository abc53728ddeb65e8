"""Hold an answer to its exercise's rules while it runs: its imports, and what is ready-made.

What is not allowed is refused where it is called, by whatever name the answer has reached it. Its
code is replaced, not only its name, so that no reference to the original is left in the process;
and an audit hook, which cannot be taken away again (PEP 578), keeps it from being loaded anew. In a
sandbox the files that it could be loaded from are covered too.
"""

import builtins
import ctypes
import gc
import importlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from importlib.util import cache_from_source
from types import (
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    ModuleType,
)
from typing import Any, NoReturn

from hpml.answer.rules import MACHINERY, OPERATORS, ReadyMade, Rules, importable

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REAL_PACKAGE = os.path.realpath(PACKAGE)
WITHIN = f"{os.sep}{os.path.basename(PACKAGE)}{os.sep}"  # in each path of a file of this package


class NotImportable(ImportError):
    """The answer imports what its exercise's answers may not. The message is a sentence."""


class NotAllowed(RuntimeError):
    """The answer uses what its exercise does not allow. The message is a sentence."""


class NotReadable(NotAllowed, PermissionError):
    """The same, of an answer that reads the source of what is not allowed.

    An OSError, so that a traceback through that file is shown without its lines.
    """


def importing(rules: Rules, filename: str) -> dict[str, Any]:
    """Builtins for the answer in `filename`: as ever, except that `import` goes by the rules.

    Only code with these builtins is held to them: libraries import what they need.
    """

    def held(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> ModuleType:
        if not level and not rules.may_import(name):
            raise _not_importable(name, rules, filename)
        return __import__(name, globals, locals, fromlist, level)

    return {**vars(builtins), "__import__": held}


def install(rules: Rules, source: str, filename: str) -> dict[str, Any]:
    """Hold this process to `rules` for the rest of its life; returns builtins for the answer.

    `source` is the answer, reported as `filename`. A module with something that is not allowed is
    not imported for that: if nobody has imported it yet, nobody can.
    """
    own = importing(rules, filename)
    _hold_import_module(rules, filename, own)
    files: dict[str, Callable[[], NotAllowed]] = {}
    built_in: dict[int, tuple[Any, FunctionType]] = {}
    for ready in rules.not_allowed:
        for key in ready.keys:
            _leave_out(key)
        for name in ready.names:
            refusal = partial(_not_allowed, name, ready, rules, source, filename)
            if name.startswith(OPERATORS):
                _refuse_operator(name.removeprefix(OPERATORS), refusal)
                continue
            module = name.rpartition(".")[0]
            if module in sys.modules:
                built_in |= _replace(name, refusal)
            files |= dict.fromkeys(_files_of(module), refusal)
    _replace_everywhere(built_in)
    names = {os.path.basename(file): refusal for file, refusal in files.items()}

    def audit(event: str, arguments: tuple) -> None:
        if event == "exec" and isinstance(arguments[0], CodeType):
            loaded = arguments[0].co_filename
            if refusal := files.get(loaded):
                raise refusal()
            if module := _outside_machinery(loaded):
                raise _not_importable(module, rules, filename)
        elif event in ("open", "os.symlink") and isinstance(arguments[0], str | bytes):
            path = os.fsdecode(arguments[0])
            full = os.path.abspath(path)
            if WITHIN in full and (module := _of_no_rank(full)):
                raise NotReadable(_reading(module, rules, filename))
            if not files:
                return
            refusal = files.get(os.path.realpath(path))
            if refusal is None and not os.path.isabs(path):
                # It may be relative to an open folder (dir_fd), which the event does not have
                refusal = names.get(os.path.basename(path))
            if refusal is not None:
                raise NotReadable(str(refusal()))

    sys.addaudithook(audit)
    return own


def _files_of(module: str) -> list[str]:
    """The paths under which a module can be loaded; it need not have been imported."""
    package, *inner = module.split(".")
    file = getattr(sys.modules[module if module in sys.modules else package], "__file__", None)
    if file is None:  # it has none: part of an extension module
        return []
    if module not in sys.modules:
        file = os.path.join(os.path.dirname(file), *inner) + ".py"
    return [file, os.path.realpath(file), os.path.realpath(cache_from_source(file))]


def files_to_cover(modules: Iterable[str]) -> list[str]:
    """The files from which these modules could be loaded anew, so that a sandbox covers them.

    This process has imported their packages.
    """
    found = []
    for module in modules:
        files = _files_of(module)
        if not files:
            continue
        source, code = map(os.path.realpath, files[1:])
        folder, name = os.path.dirname(code), os.path.basename(source).removesuffix(".py")
        kept = os.listdir(folder) if os.path.isdir(folder) else []
        # At each level of optimization there may be one
        found += [os.path.join(folder, file) for file in kept if file.startswith(f"{name}.")]
        found += [source] if os.path.isfile(source) else []
    return list(dict.fromkeys(found))


def _hold_import_module(rules: Rules, filename: str, own: dict[str, Any]) -> None:
    """The same for `importlib.import_module`, where the answer calls it."""
    original = importlib.import_module

    def import_module(name: str, package: str | None = None) -> ModuleType:
        held = sys._getframe(1).f_builtins is own
        if held and not name.startswith(".") and not rules.may_import(name):
            raise _not_importable(name, rules, filename)
        return original(name, package)

    importlib.import_module = import_module


def _of_no_rank(path: str) -> str:
    """As `_outside_machinery`, by whatever path the file is reached."""
    return _outside_machinery(os.path.realpath(path), REAL_PACKAGE)


def _outside_machinery(file: str, package: str = PACKAGE) -> str:
    """The name of the module of this package in `file`, if no rank is made of it; else empty."""
    if not file.startswith(package + os.sep):
        return ""
    parts = file[len(package) + 1 :].split(os.sep)
    if parts[0] in MACHINERY:
        return ""
    return ".".join(["hpml", *parts]).removesuffix(".py").removesuffix(".__init__")


def _not_importable(name: str, rules: Rules, filename: str) -> NotImportable:
    return NotImportable(f"{_at(filename)} imports {name}; {_may_import(rules)}", name=name)


def _reading(name: str, rules: Rules, filename: str) -> str:
    return f"{_at(filename)} reads the source of {name}; {_may_import(rules)}"


def _at(filename: str) -> str:
    at = _line(filename)
    return f"line {at} of your answer" if at else "your answer"


def _may_import(rules: Rules) -> str:
    return f"an answer may import {importable(rules.libraries)}".replace("`", "")


def _not_allowed(
    name: str, ready: ReadyMade, rules: Rules, source: str, filename: str
) -> NotAllowed:
    module, _, last = name.rpartition(".")
    at = _line(filename) or _mentioned(last, source)
    where = f"line {at} of your answer" if at else "your answer"
    used = last if "." in module else name
    text = f"{where} uses {used}; not allowed here: {ready.shown}; allowed: {rules.allowed}"
    return NotAllowed(text.replace("`", ""))


def _line(filename: str) -> int | None:
    """The answer's line that is at work, if any is."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename != filename:
        frame = frame.f_back
    return frame and frame.f_lineno


def _mentioned(name: str, source: str) -> int | None:
    """The first line of `source` with this name: a base class, another name for it."""
    word = re.compile(rf"[^#]*\b{name}\b")
    return next((n for n, text in enumerate(source.splitlines(), 1) if word.match(text)), None)


def _replace(name: str, refusal: Callable[[], NotAllowed]) -> dict[int, tuple[Any, FunctionType]]:
    """Let everything that is called in this class or function raise `refusal()`.

    Of a built-in function, returns by its id what is to take its place.
    """
    module, _, last = name.rpartition(".")
    found = getattr(sys.modules[module], last)
    number = len(_REFUSALS)
    _REFUSALS.append(refusal)
    functions = list(_functions(found))
    for function in functions:
        function.__code__ = _raising(function.__code__.co_freevars, number)
    if functions:
        return {}
    built_in = FunctionType(_raising((), number), globals(), last)
    if isinstance(found, type):  # of an extension module
        try:
            found.__init__ = built_in  # type: ignore[misc]  # meant for subclasses too
        except TypeError:  # it is immutable, and an instance of it may be there already
            _replace_methods(found, number)
        return {}
    return {id(found): (found, built_in)}


def _replace_everywhere(built_in: Mapping[int, tuple[Any, FunctionType]]) -> None:
    """Put functions in the place of built-in ones, in all modules: os.system is posix.system."""
    for module in [*sys.modules.values()] if built_in else []:
        names = vars(module) if isinstance(module, ModuleType) else {}
        for name in [name for name, value in names.items() if id(value) in built_in]:
            names[name] = built_in[id(names[name])][1]


def _replace_methods(found: type, number: int) -> None:
    """The same for the methods of a class that lets nobody set its attributes."""
    (members,) = gc.get_referents(vars(found))  # the dict behind the read-only view
    for name, member in [*members.items()]:
        if isinstance(member, MethodDescriptorType | ClassMethodDescriptorType):
            members[name] = FunctionType(_raising((), number), globals(), name)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(found))


def _leave_out(key: str) -> None:
    """Let the dispatcher go past this key's kernels on the CPU, those of the alias for all devices
    too: no call, thread or setting brings them back."""
    own = sys.modules["torch"]._C
    fallthrough = sys.modules["torch"].library.fallthrough_kernel
    on_cpu = key if key.endswith("CPU") else f"{key}CPU"
    names = [
        name.removeprefix("aten::")
        for name in own._dispatch_get_all_op_names()
        if name.startswith("aten::") and own._dispatch_has_kernel_for_dispatch_key(name, key)
    ]
    library = own._dispatch_library("IMPL", "aten", "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a kernel that takes another's place
        for name in names:
            library.impl(name, on_cpu, fallthrough)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))  # as below


def _refuse_operator(name: str, refusal: Callable[[], NotAllowed]) -> None:
    """Let the dispatcher raise `refusal()` for an operator on the CPU, "aten._fused_adam_": what
    `torch`, `torch.ops` and TorchScript call ends there."""
    own = sys.modules["torch"]._C
    space, _, operator = name.partition(".")

    def refused(*_: Any, **__: Any) -> NoReturn:
        raise refusal()

    library = own._dispatch_library("IMPL", space, "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a kernel that takes another's place
        for schema in own._jit_get_schemas_for_operator(f"{space}::{operator}"):
            library.impl(
                ".".join(filter(None, [schema.name, schema.overload_name])), "CPU", refused
            )
    # It is undone where the library is deleted: never, and no answer can find it
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))


def _functions(found: Any) -> Iterator[FunctionType]:
    """A function and those that it wraps; a class's own methods, except class methods.

    A library may call a class method to ask whether the class is in use. What was refused before it
    was made is deleted like any object, and `__del__` has nothing to refuse any more.
    """
    members = [found]
    if isinstance(found, type):
        members = [member for name, member in vars(found).items() if name != "__del__"]
    for member in members:
        if isinstance(member, staticmethod):
            member = member.__func__
        while isinstance(member, FunctionType):
            yield member
            member = getattr(member, "__wrapped__", None)


_REFUSALS: list[Callable[[], NotAllowed]] = []


def refuse(number: int) -> NoReturn:
    """Raise that refusal. Called by the code that `_raising` makes."""
    raise _REFUSALS[number]()


@cache
def _raising(free: tuple[str, ...], number: int) -> CodeType:
    """Code that raises a refusal, for functions with these free variables."""
    text = f"""
def outer():
    {" = ".join([*free, "_"])} = None
    def refused(*_, **__):
        {", ".join(["None", *free])}
        __import__({__name__!r}, None, None, ["refuse"]).refuse({number})
    return refused
"""
    scope: dict[str, Any] = {}
    exec(text, scope)
    return scope["outer"]().__code__
