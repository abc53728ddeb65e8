"""What an answer may import and use, held to on a rank, whichever way it goes about it."""

import sys

import cloudpickle
import pytest

from hpml.answer import enforce
from hpml.answer.module import as_module
from hpml.answer.rules import ReadyMade, Rules
from hpml.ranks import flavour, launch

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks have no tests

SAMPLER = ReadyMade(
    "`DistributedSampler`",
    (
        "torch.utils.data.distributed.DistributedSampler",
        "torch.distributed.elastic.utils.data.elastic_distributed_sampler.ElasticDistributedSampler",
        "os.system",
    ),
)
WRAPPER = ReadyMade(
    "`DistributedDataParallel`",
    (
        "torch.nn.parallel.DistributedDataParallel",
        "torch.distributed.fsdp.fully_shard",
        "torch.distributed.Reducer",
    ),
)
RULES = Rules(("numpy", "torch"), "`randperm`", (SAMPLER, WRAPPER))
MAY = "an answer may import Python's standard library, numpy and torch"


def found(source: str, rules: Rules | None = RULES) -> dict[str, list[str]]:
    """For each function of the answer whose name begins with `try_`: what it raised, or returned.

    "kind" and text; "" as the kind where it returned.
    """
    evidence = launch(_try_all, 1, answer=source, rules=rules, timeout=30)
    assert evidence.diagnosis is None, evidence.diagnosis
    return evidence.values[0]


def _try_all(answer):
    out = {}
    for name, function in vars(answer).items():
        if not name.startswith("try_"):
            continue
        try:
            out[name] = ["", str(function())]
        except BaseException as error:
            out[name] = [type(error).__name__, str(error)]
    return out


IMPORTS = """\
import importlib, sys, threading

def try_statement():
    import hpml.allreduce

def try_from():
    from hpml.predict.collectives import all_reduce_seconds

def try_import_module():
    importlib.import_module("hpml.allreduce")

def try_import_module_of_another_library():
    list(map(importlib.import_module, ["pandas"]))

def try_exec():
    exec("import pandas", {})

def try_built_in():
    __import__("hpml.predict.amdahl")

def try_thread():
    raised = []
    def load():
        try:
            importlib.import_module("hpml.predict.collectives")
        except BaseException as error:
            raised.append(error)
    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
    raise raised[0]
"""


def test_nothing_but_the_libraries_of_the_rules_is_imported_in_any_way():
    raised = found(IMPORTS)
    assert {name: kind for name, (kind, _) in raised.items()} == dict.fromkeys(
        raised, "NotImportable"
    )
    assert len(raised) == IMPORTS.count("def try_")
    assert raised["try_statement"][1] == f"line 4 of your answer imports hpml.allreduce; {MAY}"


SOURCES = """\
import importlib.util, io, linecache, os, pkgutil, sys

PLACE = sys.modules["hpml"].__path__[0]
FILE = "modules/m08_case_studies/checks/instructors/_layout_model.py"
PATH = os.path.join(PLACE, FILE)

def try_loader():
    spec = importlib.util.spec_from_file_location("mine", PATH)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))

def try_open(): return open(PATH).read()
def try_bytes(): return io.FileIO(os.fsencode(PATH)).read()
def try_descriptor(): return os.open(os.path.join(PLACE, "ranks", "..", FILE), os.O_RDONLY)
def try_folder(): return os.open(os.path.dirname(PATH), os.O_RDONLY)
def try_another_root(): return open("/proc/self/root" + PATH).read()
def try_package(): return pkgutil.get_data("hpml", FILE)
def try_link(): os.symlink(PATH, "model.py")

def try_relative():
    os.chdir(PLACE)
    return open(FILE).read()

def try_import_of_all():
    return sys.modules["builtins"].__import__("hpml." + FILE[:-3].replace("/", "."))
"""

MACHINERY = """\
import linecache, os, sys

PLACE = sys.modules["hpml"].__path__[0]

def try_lines(): return linecache.getlines(os.path.join(PLACE, "checks", "plays.py"))

def try_machinery():
    with open(os.path.join(PLACE, "errors.py")) as file:
        return len(file.read()) > 0
"""


def test_no_source_of_the_course_is_read_that_no_rank_is_made_of():
    raised = found(SOURCES, Rules(("numpy", "torch"), "anything"))
    assert {name: kind for name, (kind, _) in raised.items()} == dict.fromkeys(
        raised, "NotReadable"
    )
    assert len(raised) == SOURCES.count("def try_")
    model = "hpml.modules.m08_case_studies.checks.instructors._layout_model"
    assert raised["try_open"][1] == (f"line 11 of your answer reads the source of {model}; {MAY}")
    lines = found(MACHINERY, Rules(("numpy", "torch"), "anything"))
    assert lines == {"try_lines": ["", "[]"], "try_machinery": ["", "True"]}


def test_libraries_import_what_they_need_and_the_answer_what_it_may():
    source = """\
import os.path, dataclasses, json
import numpy.linalg
import torch.nn.functional as functional
from concurrent.futures import ThreadPoolExecutor

def try_library():
    from torch.utils import cpp_extension
    return cpp_extension.setuptools.__name__

def try_optional():
    try:
        import pandas
    except ImportError:
        return "without"

def try_pickle():
    import pickle
    return type(pickle.loads(pickle.dumps(Mine()))).__name__

class Mine:
    pass
"""
    assert found(source) == {
        "try_library": ["", "setuptools"],
        "try_optional": ["", "without"],
        "try_pickle": ["", "Mine"],
    }


READY_MADE = """\
import importlib, os, sys
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler, distributed

def try_call():
    return list(DistributedSampler(range(4), 1, 0))

class Heir(DistributedSampler):
    def __init__(self):
        self.dataset, self.num_replicas, self.rank, self.epoch = range(4), 1, 0, 0
        self.shuffle, self.seed, self.drop_last = False, 0, False
        self.num_samples = self.total_size = 4

def try_heir():
    return list(Heir())

def try_modules():
    return sys.modules["torch.utils.data"].DistributedSampler([1], 1, 0)

def try_method():
    return DistributedSampler.__iter__(Heir())

def try_reload():
    return importlib.reload(distributed)

def try_again():
    kept = sys.modules.pop("torch.utils.data.distributed")
    try:
        import torch.utils.data.distributed
    finally:
        sys.modules["torch.utils.data.distributed"] = kept

def try_text():
    scope = {}
    exec(open(distributed.__file__).read(), scope)
    return scope["DistributedSampler"]

def try_module_that_was_not_loaded():
    from torch.distributed.elastic.utils.data import ElasticDistributedSampler

def try_wrapper():
    return DistributedDataParallel(nn.Linear(1, 1))

def try_function():
    from torch.distributed.fsdp import fully_shard
    return fully_shard(nn.Linear(1, 1))

def try_extension():
    from torch.distributed import Reducer
    return Reducer([], [], [], None)

def try_built_in_function():
    return os.system("true")
"""


def test_what_is_ready_made_is_refused_however_it_is_reached():
    raised = found(READY_MADE)
    assert len(raised) == READY_MADE.count("def try_")
    for name, (kind, text) in raised.items():
        assert kind in ("NotAllowed", "NotReadable"), (name, kind, text)
    assert raised["try_call"][1] == (
        "line 7 of your answer uses DistributedSampler; not allowed here: DistributedSampler; "
        "allowed: randperm"
    )


def test_without_rules_all_of_it_works():
    returned = found(READY_MADE.replace("def try_text", "def text"), rules=None)
    works = {"call", "heir", "modules", "method", "reload", "again"}
    works |= {"built_in_function"}
    assert {name for name, (kind, _) in returned.items() if not kind} >= {
        f"try_{name}" for name in works
    }
    assert not any("NotAllowed" in kind for kind, _ in returned.values())


def test_its_line_is_found_where_only_the_caller_is_at_work():
    source = "from torch.utils.data import DistributedSampler\n\n\nOther = DistributedSampler\n"
    evidence = launch(lambda answer: answer.Other([1], 1, 0), 1, answer=source, rules=RULES)
    raised = evidence.ranks[0].raised
    assert raised.kind == "NotAllowed"
    assert raised.message.startswith("line 1 of your answer uses DistributedSampler")


def test_an_import_that_nobody_uses_costs_nothing():
    source = "from torch.nn.parallel import DistributedDataParallel\n\ndef try_it(): return 3\n"
    assert found(source) == {"try_it": ["", "3"]}


def test_in_a_notebook_imports_are_refused_too():
    held = enforce.importing(RULES, "<ring>")
    as_module("import torch, json\n", "<ring>", held)
    with pytest.raises(enforce.NotImportable, match=r"^line 2 of your answer imports"):
        as_module("import torch\nimport hpml.answer\n", "<ring>", held)


@pytest.mark.skipif(flavour.missing("horovod") is not None, reason="Horovod is not installed")
def test_static_methods_of_horovod_are_refused_too():
    half = ReadyMade("`hvd.Compression.fp16`", ("horovod.torch.compression.FP16Compressor",))
    rules = Rules(("torch", "horovod"), "`half`", (half,))
    source = """\
import horovod.torch as hvd
import torch

def try_fp16(): return hvd.Compression.fp16.compress(torch.ones(1))
def try_none(): return hvd.Compression.none.compress(torch.ones(1))[0].item()
"""
    evidence = launch(_try_all, 1, answer=source, rules=rules, flavour="horovod", timeout=60)
    (raised,) = evidence.values
    assert raised["try_none"] == ["", "1.0"]
    assert raised["try_fp16"] == [
        "NotAllowed",
        "line 4 of your answer uses FP16Compressor; not allowed here: hvd.Compression.fp16; "
        "allowed: half",
    ]


OPERATORS = """\
import torch

PARAMETERS = [torch.ones(3) for _ in range(2)]

def step(operator):
    operator(*[[each] for each in PARAMETERS], [], weight_decay=0.0, momentum=0.0, lr=0.1,
             dampening=0.0, nesterov=False, maximize=False, is_first_step=True)
    return PARAMETERS[0].sum().item()

def try_function(): return step(torch._fused_sgd_)
def try_operator(): return step(torch.ops.aten._fused_sgd_)
def try_overload(): return step(torch.ops.aten._fused_sgd_.default)
def try_functions_of_variables(): return step(torch._C._VariableFunctions._fused_sgd_)
def try_optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1, fused=True)
def try_script(): return step(torch.jit.script(scripted))

def scripted(p: list[torch.Tensor], g: list[torch.Tensor], b: list[torch.Tensor],
             weight_decay: float, momentum: float, lr: float, dampening: float, nesterov: bool,
             maximize: bool, is_first_step: bool):
    torch._fused_sgd_(p, g, b, weight_decay=weight_decay, momentum=momentum, lr=lr,
                      dampening=dampening, nesterov=nesterov, maximize=maximize,
                      is_first_step=is_first_step)
"""


def test_an_operator_is_refused_by_whatever_name_it_is_called():
    fused = ReadyMade("fused steps", ("torch.ops.aten._fused_sgd_",))
    raised = found(OPERATORS, Rules(("torch",), "the rest", (fused,)))
    made, script = raised.pop("try_optimizer"), raised.pop("try_script")
    assert made[0] == ""  # only what it calls in a step is refused
    assert "NotAllowed" in " ".join(script)
    assert {name: kind for name, (kind, _) in raised.items()} == dict.fromkeys(raised, "NotAllowed")
    assert raised["try_function"][1] == (
        "line 6 of your answer uses _fused_sgd_; not allowed here: fused steps; allowed: the rest"
    )
    assert found(OPERATORS, rules=None)["try_overload"][0] == ""


ENGINE = """\
import torch

def walk(engine):
    x = torch.ones(3, requires_grad=True)
    engine.run_backward((x.sum(),), (torch.ones(()),), False, False, (), allow_unreachable=True,
                        accumulate_grad=True)
    return x.grad.sum().item()

def try_engine(): return walk(torch.autograd.Variable._execution_engine)
def try_a_new_one(): return walk(type(torch.autograd.Variable._execution_engine)())
def try_tensor(): return torch.ones((), requires_grad=True).backward()
"""


def test_methods_of_an_immutable_class_are_refused_of_every_instance():
    engine = ReadyMade("the engine", ("torch._C._ImperativeEngine",))
    raised = found(ENGINE, Rules(("torch",), "the rest", (engine,)))
    assert {name: kind for name, (kind, _) in raised.items()} == dict.fromkeys(raised, "NotAllowed")
    assert raised["try_engine"][1] == (
        "line 5 of your answer uses _ImperativeEngine; not allowed here: the engine; "
        "allowed: the rest"
    )
    assert found(ENGINE, rules=None)["try_engine"][0] == ""


FOLDER = """\
import os
import torch

def try_folder():
    folder = os.open(os.path.dirname(torch.optim.__file__), os.O_RDONLY)
    return os.read(os.open("sgd.py", os.O_RDONLY, dir_fd=folder), 10).decode()

def try_link():
    os.symlink(os.path.join(os.path.dirname(torch.optim.__file__), "sgd.py"), "a link to it")
"""


def test_a_source_is_not_read_relative_to_its_folder():
    sgd = ReadyMade("torch.optim", ("torch.optim.sgd.SGD",))
    raised = found(FOLDER, Rules(("torch",), "the rest", (sgd,)))
    assert {name: kind for name, (kind, _) in raised.items()} == dict.fromkeys(
        raised, "NotReadable"
    )


RECORDED = """\
import threading
import torch

def walk():
    x = torch.ones(3, requires_grad=True)
    y = (x * x.exp()).sum()
    return y.requires_grad

def cast():
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    torch.set_autocast_enabled("cpu", True)
    return (torch.ones(2, 2) @ torch.ones(2, 2)).dtype

def elsewhere(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]

def try_walk(): return walk()
def try_walk_in_a_thread(): return elsewhere(walk)
def try_cast(): return cast()
def try_cast_in_a_thread(): return elsewhere(cast)
"""


def test_what_a_dispatch_key_does_is_left_out_in_each_thread():
    left_out = ReadyMade("autograd", keys=("Autograd", "AutocastCPU"))
    there = found(RECORDED, Rules(("torch",), "the rest", (left_out,)))
    walks, casts = (["", "False"], ["", "torch.float32"])
    assert [*there.values()] == [walks, walks, casts, casts]
    walks, casts = (["", "True"], ["", "torch.bfloat16"])
    assert [*found(RECORDED, rules=None).values()] == [walks, walks, casts, casts]


BELOW = """\
import torch
from torch.autograd import graph

def try_module(): return torch._C._autograd._push_saved_tensors_default_hooks(id, id)
def try_another(): return torch.autograd._push_saved_tensors_default_hooks(id, id)
def try_class_method():
    class Square(torch.autograd.Function):
        forward = backward = staticmethod(lambda ctx, x: x)
    return Square.apply(torch.ones(3))
"""


def test_functions_and_class_methods_of_an_extension_are_refused_in_all_modules():
    names = ("_C._autograd._push_saved_tensors_default_hooks", "_C._FunctionBase")
    hooks = ReadyMade("hooks", tuple(f"torch.{name}" for name in names))
    raised = found(BELOW, Rules(("torch",), "the rest", (hooks,)))
    assert {name: kind for name, (kind, _) in raised.items()} == dict.fromkeys(raised, "NotAllowed")
    assert {kind for kind, _ in found(BELOW, rules=None).values()} == {""}
