"""Public names, and what `import crowdwise` does not load."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import crowdwise as cw

HEAVY = ("torch", "lightning", "altair", "matplotlib", "pandas", "polars", "sklearn", "scipy", "numba", "dask", "rich")


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", cw.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(cw, name) is not None
    assert name in dir(cw)


def test_names_are_sorted_and_no_more() -> None:
    assert cw.__all__ == sorted(cw.__all__)
    assert dir(cw) == sorted([*cw.__all__, "__version__"])
    assert set(cw._HOMES) | set(cw._ROOMS) == set(cw.__all__)
    namespace: dict[str, object] = {}
    exec("from crowdwise import *", namespace)  # noqa: S102
    assert set(cw.__all__) <= set(namespace)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'crowdwise' has no attribute 'Dawid'"):
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
        "labels = cw.datasets.load('anaesthetists').labels\n"
        "for method in cw.methods():\n"
        "    model = method.load()().fit(labels)\n"
        "    model.consensus(), model.workers()\n"
        "print(*sys.modules)"
    )
    loaded = set(run(program).split())
    assert not loaded & {"torch", "lightning", "altair", "matplotlib", "dask"}
    assert "numba" in loaded


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
