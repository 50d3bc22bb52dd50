"""Public names, and what `import crowdwise` does not load."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import crowdwise as cw

HEAVY = ("torch", "lightning", "altair", "matplotlib", "pandas", "polars", "sklearn", "scipy", "numba", "dask", "rich")


def run(program: str, *flags: str) -> str:
    command = [sys.executable, *flags, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", cw.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(cw, name) is not None
    assert name in dir(cw)


def stub_names(package: str) -> set[str]:
    """What the stub of a package exports, with what the rooms export that it takes whole."""
    stub = Path(cw.__file__).parent.joinpath(*package.split(".")[1:], "__init__.pyi")
    names = set()
    for line in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(line, ast.ImportFrom):
            for each in line.names:
                names |= stub_names(f"{package}.{line.module}") if each.name == "*" else {each.asname or each.name}
    return names


@pytest.mark.parametrize("package", ["crowdwise", *(f"crowdwise.{room}" for room in cw._ROOMS)])
def test_a_package_exports_what_its_stub_says(package: str) -> None:
    module = importlib.import_module(package)
    assert set(module.__all__) == stub_names(package)
    assert sorted(module.__all__) == sorted(dir(module))


@pytest.mark.parametrize("room", ["aggregate", "learn", "audit", "evaluate", "labels", "report"])
def test_a_name_is_one_object_wherever_it_is_taken_from(room: str) -> None:
    module = importlib.import_module(f"crowdwise.{room}")
    for name in module.__all__:
        assert getattr(cw, name) is getattr(module, name)


def test_a_name_is_no_module_of_its_room() -> None:
    """Otherwise what `room.name` is would depend on what was imported before."""
    for room in cw._ROOMS:
        modules = {each.name for each in pkgutil.iter_modules([str(Path(cw.__file__).parent / room)])}
        assert not modules & set(importlib.import_module(f"crowdwise.{room}").__all__)


def test_names_are_sorted() -> None:
    assert cw.__all__ == sorted(cw.__all__)
    namespace: dict[str, object] = {}
    exec("from crowdwise import *", namespace)  # noqa: S102
    assert set(cw.__all__) <= set(namespace)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="No crowdwise attribute Dawid"):
        cw.Dawid  # noqa: B018


@pytest.mark.parametrize("room", ["aggregate", "datasets", "fitting", "kernels", "labels", "metrics", "simulate"])
def test_rooms_export_what_they_say(room: str) -> None:
    module = importlib.import_module(f"crowdwise.{room}")
    for name in getattr(module, "__all__", []):
        assert hasattr(module, name), name


def test_import_is_light() -> None:
    loaded = set(run("import crowdwise, sys; print(*sys.modules)").split())
    assert not loaded & set(HEAVY)


def test_the_whole_package_needs_no_extra() -> None:
    """Torch and plotting are for other rooms: fitting every method and reading its tables loads none of them."""
    program = (
        "import sys, crowdwise as cw\n"
        "from crowdwise.fitting import skill_sampler\n"
        "skill_sampler.SWEEPS = skill_sampler.COIN_SWEEPS = 8\n"
        "labels = cw.datasets.load('anaesthetists').labels\n"
        "for method in cw.methods():\n"
        "    model = method.load()().fit(labels)\n"
        "    model.consensus(), model.workers()\n"
        "print(*sys.modules)"
    )
    loaded = set(run(program).split())
    assert not loaded & {"torch", "lightning", "altair", "matplotlib", "dask"}
    assert "numba" not in loaded  # the anaesthetists are few


def test_learners_without_the_extra() -> None:
    """One process for all three, in the order in which they are asked for: each comes further than the one before."""
    program = (
        "import sys, crowdwise as cw\n"
        "for missing in ('torch', 'safetensors', 'lightning'):\n"
        "    sys.modules[missing] = None\n"
        "    for ask in (cw.learners, lambda: cw.learner('trace')):\n"
        "        try:\n            ask()\n        except cw.InputError as error:\n            print(error)\n"
        "    del sys.modules[missing]\n"
    )
    said = run(program).splitlines()
    assert len(said) == 6
    for missing, lines in (("torch", said[:2]), ("safetensors", said[2:4]), ("lightning", said[4:])):
        assert all(f"needs {missing}" in line and "pip install 'crowdwise[learn]'" in line for line in lines)


def test_without_docstrings() -> None:
    program = (
        "import crowdwise as cw\n"
        "labels = cw.datasets.load('anaesthetists').labels\n"
        "print(repr(cw.method('dawid-skene').summary), cw.DawidSkene().fit(labels).predict()[0])"
    )
    assert run(program, "-OO").split() == ["''", "1"]


def test_methods_are_listed_without_torch() -> None:
    program = "import sys, crowdwise as cw\nprint(len(cw.methods()), *sys.modules)"
    number, *loaded = run(program).split()
    assert int(number) == len(cw.methods())
    assert not set(loaded) & {"torch", "lightning"}


def test_the_command_is_light_too() -> None:
    program = (
        "import sys\n"
        "from crowdwise.cli import main\n"
        "sys.argv = ['crowdwise', '--help']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print('\\nmodules:', *sys.modules)"
    )
    loaded = set(run(program).rpartition("modules:")[2].split())
    assert not loaded & {"torch", "lightning", "altair", "matplotlib", "dask", "numba", "pandas", "sklearn"}


def test_version() -> None:
    assert cw.__version__.count(".") == 2
