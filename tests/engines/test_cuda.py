"""The CUDA engine against NumPy: on a GPU where there is one, else in Triton's interpreter on the processor."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.engines.test_both_engines import crowd, gold_of

from crowdwise import engines
from crowdwise.engines import prepare
from crowdwise.engines.numpy_engine import ENGINE as NUMPY
from crowdwise.kernels import NO_GOLD
from crowdwise.labels import CrowdLabels, InputError, engine_choice
from crowdwise.labels.engine_choice import use_engine
from crowdwise.registry import method
from crowdwise.simulate import simulate_crowd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.engines import Statistics

torch = pytest.importorskip("torch")
pytest.importorskip("triton")  # tests/conftest.py has it interpret where there is no GPU
cuda_engine = pytest.importorskip("crowdwise.engines.cuda_engine")

CLOSE = 1e-12
# Gold is cut among devices, so it is tried on several; without any, one device is enough.
GOLD = pytest.mark.parametrize(
    ("devices", "with_gold"), [(1, False), (3, True)], indirect=["devices"], ids=["no gold", "gold on three devices"]
)


@pytest.fixture(params=[1, 3], ids=["one device", "three devices"])
def devices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """GPUs, or the processor taken for several of them."""
    one = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    monkeypatch.setattr(cuda_engine, "find_devices", lambda: [one] * request.param)
    engine_choice.find_gpu_fault.cache_clear()
    yield request.param
    engine_choice.find_gpu_fault.cache_clear()


@pytest.fixture(params=[2, 11])
def n_classes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def tables(n_workers: int, n_states: int, n_classes: int, seed: int = 0) -> tuple[Any, Any]:
    """Log-probabilities of states and of labels, with classes and labels that cannot be."""
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.ones(n_classes), (n_workers, n_states))
    table[1, 0, :-1] = 0
    table[2, :, 0] = 0  # a label that no class allows
    with np.errstate(divide="ignore"):
        return np.log(rng.dirichlet(np.ones(n_states))), np.log(table)


def compare(found: Statistics, expected: Statistics) -> None:
    np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=CLOSE)
    np.testing.assert_allclose(found.class_counts, expected.class_counts, atol=100 * CLOSE)
    np.testing.assert_allclose(found.counts, expected.counts, atol=100 * CLOSE)


@GOLD
def test_confusion_pass(devices: int, n_classes: int, with_gold: bool) -> None:
    labels, gold = crowd(n_classes), gold_of(n_classes) if with_gold else NO_GOLD
    plain, ours = NUMPY.lay_out(labels, None), cuda_engine.ENGINE.make_passes(cuda_engine.ENGINE.lay_out(labels, None))
    for n_states in (n_classes, 3 * n_classes):
        log_prior, table = tables(labels.n_workers, n_states, n_classes)
        out, expected = np.empty((labels.n_tasks, n_states)), np.empty((labels.n_tasks, n_states))
        compare(ours.e_step(log_prior, table, gold, out), plain.e_step(log_prior, table, gold, expected))
        np.testing.assert_allclose(out, expected, atol=CLOSE)


@GOLD
def test_vote_pass(devices: int, n_classes: int, with_gold: bool) -> None:
    labels, gold = crowd(n_classes), gold_of(n_classes) if with_gold else NO_GOLD
    plain, ours = NUMPY.lay_out(labels, None), cuda_engine.ENGINE.make_passes(cuda_engine.ENGINE.lay_out(labels, None))
    log_prior, _ = tables(labels.n_workers, n_classes, n_classes)
    bonus = np.random.default_rng(1).normal(size=(labels.n_workers, n_classes))
    out, expected = np.empty((labels.n_tasks, n_classes)), np.empty((labels.n_tasks, n_classes))
    compare(ours.e_step_votes(log_prior, bonus, gold, out), plain.e_step_votes(log_prior, bonus, gold, expected))
    np.testing.assert_allclose(out, expected, atol=CLOSE)
    share = labels.class_shares
    compare(ours.count_against_vote_shares(share, gold), plain.count_against_vote_shares(share, gold))


def test_sums_of_given_values(devices: int, n_classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where lists are cut in pieces."""
    monkeypatch.setattr("crowdwise.engines.device_layout.LONGEST", 4)
    labels = crowd(n_classes)
    plain, ours = NUMPY.lay_out(labels, None), cuda_engine.ENGINE.make_passes(cuda_engine.ENGINE.lay_out(labels, None))
    values = np.random.default_rng(2).dirichlet(np.ones(n_classes), labels.n_tasks)
    compare(ours.accumulate(values), plain.accumulate(values))
    for found, expected in zip(ours.posterior_variance(values), plain.posterior_variance(values), strict=True):
        np.testing.assert_allclose(found, expected, atol=100 * CLOSE)
    log_prior, _ = tables(labels.n_workers, n_classes, n_classes)
    bonus = np.ones((labels.n_workers, n_classes))
    compare(ours.e_step_votes(log_prior, bonus), plain.e_step_votes(log_prior, bonus))


def test_m_step_stays_on_the_device(devices: int) -> None:
    labels = crowd(3)
    with use_engine("cuda"):
        found = prepare(labels).count_against_vote_shares(labels.class_shares)
    expected = NUMPY.lay_out(labels, None).count_against_vote_shares(labels.class_shares)
    assert isinstance(found, cuda_engine.DeviceStatistics)
    for pseudo in (np.zeros((1, 3, 3)), np.full((1, 3, 3), 0.5), np.random.default_rng(0).random((12, 3, 3))):
        rows = found.log_rows(pseudo)
        assert isinstance(rows, cuda_engine.DeviceTable)
        assert rows.shape == (12, 3, 3)
        np.testing.assert_allclose(np.asarray(rows), expected.log_rows(pseudo), rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize("devices", [2], indirect=True)
@pytest.mark.parametrize("slug", ["dawid-skene", "one-coin", "mean-field", "ebcc"])
def test_methods_on_the_device(devices: int, slug: str) -> None:
    """Fits agree with the processor's to rounding, and twice on the device to the bit."""
    labels = simulate_crowd(n_tasks=9, n_workers=6, n_classes=3, labels_per_task=4, random_state=3).labels
    options = {"max_iter": 2, "tol": 0} | ({"n_subtypes": 2, "n_restarts": 1} if slug == "ebcc" else {})
    fits = [method(slug).load()(engine=engine, **options).fit(labels) for engine in ("numpy", "cuda", "cuda")]
    np.testing.assert_allclose(fits[1].posterior_, fits[0].posterior_, atol=1e-9)
    np.testing.assert_allclose(fits[1].log_likelihood_, fits[0].log_likelihood_, rtol=1e-9)
    np.testing.assert_array_equal(fits[1].posterior_, fits[2].posterior_)
    np.testing.assert_array_equal(fits[1].confusion_, fits[2].confusion_)


def test_no_gpu_falls_back_with_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_engine, "find_devices", list)
    engine_choice.find_gpu_fault.cache_clear()
    with pytest.warns(RuntimeWarning, match="'cuda' cannot run here .PyTorch sees no GPU"), use_engine("cuda"):
        assert engine_choice.choose_pass_engine(100, 2) == "numpy"
    engine_choice.find_gpu_fault.cache_clear()


def test_auto_takes_the_gpu_for_many_labels_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_choice, "has_gpu_driver", lambda: True)
    monkeypatch.setattr(engine_choice, "find_gpu_fault", lambda: "")
    assert engine_choice.choose_pass_engine(10**6, 10) == "numba"
    assert engine_choice.choose_pass_engine(10**8, 10) == "cuda"
    monkeypatch.setattr(engine_choice, "has_gpu_driver", lambda: False)
    assert engine_choice.choose_pass_engine(10**8, 10) == "numba"


@pytest.mark.parametrize("asked", ["by name", "around it", "by the environment", "by the size"])
def test_fits_run_on_the_gpu_however_it_is_asked_for(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = CrowdLabels.from_dense([["x", "x", "y"], ["y", "x", "y"]])
    run: list[str] = []

    def note(name: str) -> Any:
        run.append(name)
        return NUMPY

    monkeypatch.setattr(engines, "load_engine", note)
    monkeypatch.setattr(engine_choice, "find_gpu_fault", lambda: "")
    monkeypatch.setattr(engine_choice, "has_gpu_driver", lambda: asked == "by the size")
    if asked == "by the size":
        monkeypatch.setattr(engine_choice, "LARGE", 10)
    if asked == "by the environment":
        monkeypatch.setenv("CROWDWISE_ENGINE", "cuda")
    model = method("one-coin").load()(engine="cuda" if asked == "by name" else "auto")
    with use_engine("cuda") if asked == "around it" else contextlib.nullcontext():
        model.fit(labels).predict(labels)
    assert set(run) == {"cuda"}


def test_out_of_memory_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(cuda_engine, "find_devices", lambda: [torch.device("cpu")])
    monkeypatch.setattr(cuda_engine, "lay_out_part", refuse)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**30, 8 * 2**30))
    labels = CrowdLabels.from_codes([0, 1], [0, 0], [0, 1], tasks=2, workers=1, classes=2)
    with pytest.raises(InputError, match=r"1\.0 of 8\.0 GiB are free.*'stream'"):
        cuda_engine.ENGINE.lay_out(labels, None)


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from crowdwise.engines import triton_passes

WHOLE = ("task_ptr", "cell", "gold", "start", "member", "column")
SETTINGS = {"STATES": 16, "STRIDE": 16, "LISTS": 8, "AT_ONCE": 8, "ROUNDS": 2, "CLASSES": 10}
SETTINGS |= {"HAS_GOLD": True, "BY_WORKER": True, "INDIRECT": True}
for name in triton_passes.__all__:
    loop = getattr(triton_passes, name)
    constants = {each: SETTINGS[each] for each in loop.arg_names if each in SETTINGS}
    types = {each: "*i32" if each in WHOLE else "*fp64" for each in loop.arg_names}
    types |= {each: "i32" for each in loop.arg_names if each.startswith(("n_", "per_"))}
    types |= dict.fromkeys(constants, "constexpr")
    source = ASTSource(fn=loop, signature=types, constexprs=constants)
    assert triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"enable_fp_fusion": True}).asm["cubin"]
"""


def test_loops_compile_for_a_gpu() -> None:
    """The interpreter forgives what the compiler does not; a GPU is not needed for this."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
