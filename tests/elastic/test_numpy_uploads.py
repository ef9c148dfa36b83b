"""Views that jaxlib's proxy client would refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax._src import literals, pjit
from jax._src.interpreters import pxla

from elastic import numpy_uploads
from elastic.numpy_uploads import uploadable

slices = st.builds(
    slice, st.none() | st.integers(-5, 5), st.none() | st.integers(-5, 5), st.sampled_from([-3, -1, 1, 2])
)


@st.composite
def views(draw):
    """Any mixture of slices backwards, new dimensions, transposition and broadcasts."""
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    view = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    view = view[tuple(draw(slices) if draw(st.booleans()) else slice(None) for _ in shape)]
    if draw(st.booleans()):
        view = view[draw(st.sampled_from([(), (None,), (..., None)]))]
    view = view.transpose(draw(st.permutations(range(view.ndim))))
    if draw(st.booleans()):
        view = np.broadcast_to(view, (draw(st.integers(0, 3)), *view.shape))
    return view


@given(views())
def test_a_view_becomes_the_same_values_with_positive_strides(view):
    got = uploadable(view)
    assert (got.dtype, got.shape) == (view.dtype, view.shape)
    assert np.array_equal(got, view)
    # An array without elements has strides of zero whatever one does.
    assert not got.size or all(stride > 0 for stride in got.strides)


@given(views())
def test_only_what_must_be_is_copied(view):
    copied = any(stride <= 0 for stride in view.strides)
    assert (uploadable(view) is view) != copied
    if copied:
        assert not np.shares_memory(uploadable(view), view)


@pytest.mark.parametrize(
    "value",
    [np.arange(6).reshape(2, 3).T, np.arange(6)[::2], np.array(3), np.float32(3), 3.5, [1, 2], None],
    ids=["transposed", "every-second", "0-d", "numpy-scalar", "number", "list", "none"],
)
def test_all_else_is_left_as_it_is(value):
    assert uploadable(value) is value


def test_a_copied_view_no_longer_follows_its_array():
    values = np.arange(3)
    copied = uploadable(values[::-1])
    values[...] = 7
    assert copied.tolist() == [2, 1, 0]


class Client:
    """A backend's client, of a platform of this version; its devices and device lists stand for it."""

    def __init__(self, platform_version):
        self.platform_version = platform_version
        self.client = self.xla_executable = self._internal_device_list = self

    def __getitem__(self, index):
        return self


POOL, ANOTHER = Client("elastic 1"), Client("<unknown>")


class Limit:
    """What is counted as uploaded."""

    def __init__(self):
        self.made = 0
        self.counted = []

    def make(self):
        self.made += 1
        return self

    def uploaded(self, nbytes, marker):
        self.counted.append(nbytes)


@pytest.fixture
def limit():
    return Limit()


@pytest.fixture
def installed(monkeypatch, limit):
    """What reaches JAX's own functions once ours are in their place; JAX is itself again after the test."""
    reached = []

    def device_put(*given, **options):
        reached.append((given, options))
        return "an array"

    monkeypatch.setattr(pxla, "batched_device_put", device_put)
    monkeypatch.setattr(pjit, "_get_fastpath_data", lambda *given: "the fast path")
    for kind in (np.ndarray, literals.TypedNdArray):
        monkeypatch.setitem(pxla.shard_arg_handlers, kind, pxla.shard_arg_handlers[kind])
    numpy_uploads.install(limit.make)
    return reached


def test_views_are_copied_before_jax_puts_them_on_devices(installed):
    view, plain = np.arange(3)[::-1], np.arange(3)
    assert pxla.batched_device_put("aval", POOL, [view, plain], "devices", True, enable_x64=True) == "an array"
    ((aval, sharding, (copied, kept), devices, committed), options) = installed[0]
    assert (aval, sharding, devices, committed, options) == ("aval", POOL, "devices", True, {"enable_x64": True})
    assert copied.strides == (plain.strides[0],)
    assert copied.tolist() == [2, 1, 0]
    assert kept is plain


def test_only_numpy_bytes_that_go_to_a_pool_are_counted(installed, limit):
    for sharding in (ANOTHER, POOL):
        pxla.batched_device_put("aval", sharding, ["an array of jax"], "devices")
        pxla.batched_device_put("aval", sharding, [np.ones(2), np.ones(3, np.int8)], "devices")
        pxla.batched_device_put("aval", sharding, [np.broadcast_to(np.int8(1), (5,))], "devices")
    assert limit.counted == [19, 5]
    assert limit.made == 1


def test_installing_twice_is_as_installing_once(installed, limit):
    ours = pxla.batched_device_put, pjit._get_fastpath_data
    numpy_uploads.install(limit.make)
    assert (pxla.batched_device_put, pjit._get_fastpath_data) == ours


@pytest.mark.parametrize(
    ("executable", "arguments", "fast"),
    [
        (POOL, [np.ones(2)], False),
        (POOL, [1.0, "an array of jax"], True),
        (ANOTHER, [np.ones(2)], True),
        (object(), [np.ones(2)], True),
    ],
    ids=["numpy-on-a-pool", "no-numpy", "another-backend", "not-loaded"],
)
def test_only_calls_of_a_pool_with_numpy_arrays_leave_the_fast_path(installed, executable, arguments, fast):
    got = pjit._get_fastpath_data(executable, "tree", arguments, "more")
    assert got == ("the fast path" if fast else None)
