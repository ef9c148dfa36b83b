"""Many small JAX programs, one a function; writes what each computed as JSON, {name: text}, to the file it is given.

Run on plain JAX and through the platform, the outputs must be the same. Values are shown by their bytes, errors by
their type and text. Sums across devices are of small whole numbers, which are exact in any order: plain JAX in one
process adds them in another order than gloo. Plain JAX only: nothing here knows of the platform.
"""

import hashlib
import json
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax.experimental import io_callback
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def mesh_1d():
    return Mesh(np.array(jax.devices()), "d")


def mesh_2d():
    return Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))


def numbers(*shape, dtype=np.float32):
    return (np.arange(np.prod(shape)).reshape(shape) % 23 - 7).astype(dtype)


def sharded(values, spec, mesh=None):
    return jax.device_put(values, NamedSharding(mesh or mesh_1d(), spec))


def error_of(function):
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return "no error"


# Data types, shapes, transfers


def _dtype_case(name):
    def run():
        x = jnp.asarray(numbers(4, 6).astype(name))
        y = jax.jit(lambda a: a[::-1] if a.dtype == bool else a + a)(x)
        return x, y, y.dtype.name

    run.__name__ = f"dtype_{name}"
    CASES[run.__name__] = run


for _name in [
    "bool",
    "int8",
    "int16",
    "int32",
    "uint8",
    "uint16",
    "uint32",
    "float16",
    "float32",
    "bfloat16",
    "complex64",
    "int4",
    "uint4",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3b11fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn",
]:
    _dtype_case(np.dtype(getattr(ml_dtypes, _name, _name)))


@case
def x64():
    with jax.enable_x64(True):
        x = jnp.asarray(numbers(5, dtype=np.float64)) / 3
        i = jnp.asarray([2**40, -(2**41)])
        return x, i, jax.jit(lambda a, b: (a * 2, b + 1, a.astype(jnp.complex128)))(x, i)


@case
def scalars_and_zero_size():
    return jnp.float32(3) + 1, jnp.zeros((0, 3)), jax.jit(lambda x: x.sum())(jnp.zeros((4, 0))), float(jnp.int8(-3))


@case
def zero_size_sharded():
    return sharded(np.zeros((8, 0), np.float32), P("d")) + 1, sharded(np.zeros((0,), np.float32), P())


@case
def strided_uploads():
    x = numbers(6, 8)
    return [jax.device_put(v) for v in (x.T, x[::2], x[:, 1::3], np.asfortranarray(x), x[1:, 3])]


@case
def views_with_negative_and_zero_strides():
    x = numbers(6, 8)
    views = [x[::-1], x[:, ::-3], x[::-1, ::-1], np.broadcast_to(x[0], (4, 8)), np.broadcast_to(np.float32(3), (2, 2))]
    add = jax.jit(lambda a: a + 1)
    put = [jax.device_put(view) for view in views]
    return put, [add(view) for _ in range(3) for view in views], sharded(numbers(16)[::-1], P("d"))


@case
def uploads_that_are_cut():
    x, mesh = numbers(16, 16), mesh_2d()
    specs = [P(), P("x"), P("y"), P("x", "y"), P("y", "x"), P(("y", "x")), P(None, ("x", "y")), P(None, "y")]
    cut = [sharded(view, spec, mesh) for view in (x, x.T, x[::-1], x[8:, ::2].astype("bfloat16")) for spec in specs]
    half = Mesh(np.array(jax.devices())[[5, 2, 7, 0]], "d")
    return cut, [shard.data for array in cut for shard in array.addressable_shards], sharded(x, P("d"), half)


@case
def uploads_that_are_used_as_they_are_and_then_cut():
    f = jax.jit(lambda a, b: a * 2 + b, in_shardings=NamedSharding(mesh_1d(), P("d")))
    x = jax.device_put(numbers(8, 4), jax.devices()[3])
    return f(numbers(8, 4), numbers(8, 4) + 1), x, jax.device_put(x, NamedSharding(mesh_1d(), P())), x + 1


@case
def large_transfers():
    x = (np.arange(3_000_000) % 251).astype(np.uint8)
    y = sharded(x[:2_999_992], P("d"))
    return jax.device_put(x), y, y + 1


@case
def transposed_reads():
    x = jax.jit(lambda a: a.T)(numbers(5, 7))
    return np.asarray(x), np.asarray(x.T), jax.device_get([x, x[1]])


@case
def single_device_each():
    return [jax.jit(lambda a: a * 2)(jax.device_put(numbers(3) + i, d)) for i, d in enumerate(jax.devices())]


@case
def device_to_device():
    devices = jax.devices()
    x = jax.device_put(numbers(1000), devices[0])
    y = jax.device_put(x, devices[7])
    z = jax.device_put(y + 1, devices[1])
    return y, z, [d.id for a in (x, y, z) for d in a.devices()]


@case
def copies_between_hosts_in_a_chain():
    x = jax.device_put(numbers(64), jax.devices()[0])
    for d in [*jax.devices(), *jax.devices()]:
        x = jax.jit(lambda a: a * 3 % 17)(jax.device_put(x, d))
    return x


@case
def resharding():
    mesh = mesh_2d()
    x = sharded(numbers(16, 8), P("x", "y"), mesh)
    specs = [P("y", "x"), P(None, "x"), P(("x", "y")), P()]
    moved = [jax.device_put(x, NamedSharding(mesh, spec)) for spec in specs]
    backwards = Mesh(np.array(jax.devices())[::-1].reshape(4, 2), ("x", "y"))
    return moved, jax.device_put(x, NamedSharding(backwards, P("x", "y")))


@case
def subset_of_devices():
    mesh = Mesh(np.array([jax.devices()[i] for i in (6, 1, 3)]), "d")
    return jax.jit(lambda x: x - x.mean())(sharded(numbers(9, 2), P("d"), mesh))


@case
def shards_one_by_one():
    x = sharded(numbers(8, 4), P("d"))
    parts = [(s.device.id, str(s.index), np.asarray(s.data)) for s in x.addressable_shards]
    again = jax.make_array_from_single_device_arrays(x.shape, x.sharding, [s.data for s in x.addressable_shards])
    return parts, again, again + 1


@case
def from_callback():
    sharding = NamedSharding(mesh_2d(), P("y", "x"))
    return jax.make_array_from_callback((8, 8), sharding, lambda index: numbers(8, 8)[index])


# Programs over all devices


@case
def data_parallel_gradient():
    x, w = sharded(numbers(16, 8), P("d")), sharded(numbers(8, 4), P())
    return jax.jit(jax.value_and_grad(lambda w, x: jnp.mean((x @ w) ** 2)))(w, x)


@case
def fully_sharded_gradient():
    x, w = sharded(numbers(16, 8), P("d")), sharded(numbers(8, 16), P(None, "d"))
    return jax.jit(jax.value_and_grad(lambda w, x: jnp.mean((x @ w) ** 2)))(w, x)


@case
def explicit_mesh():
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Explicit))
    with jax.set_mesh(mesh):
        x = jax.device_put(numbers(8, 8), P("x", "y"))
        y = jax.jit(lambda a: jnp.sin(a) + a.T.T)(x)
        return y, str(jax.typeof(y)), jax.reshard(y, P("y", None))


@case
def auto_mesh():
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto, AxisType.Auto))
    with jax.set_mesh(mesh):

        @jax.jit
        def f(a):
            return lax.with_sharding_constraint(a @ a.T, NamedSharding(mesh, P("y", "x")))

        y = f(numbers(8, 4))
        return y, str(y.sharding.spec)


@case
def constraints_inside_jit():
    mesh = mesh_2d()

    @partial(jax.jit, out_shardings=NamedSharding(mesh, P("y")))
    def f(x):
        return lax.with_sharding_constraint(jnp.cumsum(x, 0), NamedSharding(mesh, P(None, "x"))) * 2

    return f(numbers(8, 4))


def _shard_map_case(name, body, in_spec, out_spec, shape):
    def run():
        return jax.jit(jax.shard_map(body, mesh=mesh_1d(), in_specs=in_spec, out_specs=out_spec, check_vma=False))(
            numbers(*shape)
        )

    run.__name__ = f"shard_map_{name}"
    CASES[run.__name__] = run


_ring = [(i, (i + 1) % 8) for i in range(8)]
_shard_map_case("psum", lambda x: lax.psum(x, "d"), P("d"), P(), (8, 3))
_shard_map_case(
    "pmean_pmax_pmin", lambda x: lax.pmean(x, "d") + lax.pmax(x, "d") * lax.pmin(x, "d"), P("d"), P(), (8, 3)
)
_shard_map_case("all_gather", lambda x: lax.all_gather(x, "d", tiled=True), P("d"), P(), (16, 3))
_shard_map_case("ppermute", lambda x: lax.ppermute(x, "d", _ring), P("d"), P("d"), (8, 3))
_shard_map_case("all_to_all", lambda x: lax.all_to_all(x, "d", 1, 0, tiled=True), P("d"), P("d"), (8, 16))
_shard_map_case("psum_scatter", lambda x: lax.psum_scatter(x, "d", tiled=True), P(None, "d"), P("d"), (8, 8))
_shard_map_case("axis_index", lambda x: x * lax.axis_index("d"), P("d"), P("d"), (8, 2))
_shard_map_case("bfloat16_psum", lambda x: lax.psum(x.astype(jnp.bfloat16), "d"), P("d"), P(), (8, 3))


@case
def shard_map_two_axes():
    f = jax.shard_map(
        lambda x: lax.psum(lax.ppermute(x, "x", [(i, (i + 1) % 4) for i in range(4)]), "y"),
        mesh=mesh_2d(),
        in_specs=P("x", "y"),
        out_specs=P("x", None),
    )
    return jax.jit(f)(numbers(8, 4))


@case
def pmap():
    f = jax.pmap(lambda x, y: (x + lax.psum(y, "i"), x * y), axis_name="i", in_axes=(0, None))
    return f(numbers(8, 3), numbers(3)), jax.pmap(lambda x: x.sum())(numbers(4, 5))


@case
def scan_while_cond():
    @jax.jit
    def f(x):
        carry, ys = lax.scan(lambda c, a: (c * 0.9 + a, c), jnp.zeros(3), x)
        return (
            lax.while_loop(lambda v: v[0] < 10, lambda v: (v[0] + 1, v[1] * 2), (0, carry)),
            ys,
            lax.cond(carry[0] > 0, lambda: 1, lambda: 2),
        )

    return f(numbers(5, 3))


@case
def linear_algebra():
    a = numbers(6, 6) + 10 * np.eye(6, dtype=np.float32)
    return jnp.linalg.cholesky(a @ a.T), jnp.linalg.solve(a, numbers(6)), jnp.sort(numbers(9)), jnp.fft.fft(numbers(8))


@case
def random_numbers():
    key = jax.random.key(7)
    keys = jax.random.split(key, 8)
    draws = jax.jit(jax.vmap(lambda k: jax.random.normal(k, (3,))))(sharded(keys, P("d")))
    return draws, jax.random.permutation(key, 10), jax.random.key_data(keys), jax.random.bits(jax.random.PRNGKey(1))


@case
def donation():
    @partial(jax.jit, donate_argnums=0)
    def step(x):
        return x * 2

    x = sharded(numbers(16), P("d"))
    alive = x + 0
    y = step(x)
    for _ in range(5):
        y = step(y)
    return y, alive, x.is_deleted(), error_of(lambda: np.asarray(x))


@case
def donation_leaves_copies_alone():
    x = sharded(numbers(16), P("d"))
    copy = jax.device_put(x, x.sharding, may_alias=False)
    y = jax.jit(lambda x: x * 2, donate_argnums=0)(x)
    return y, copy, x.is_deleted(), copy.is_deleted()


@case
def donated_twice():
    step = jax.jit(lambda a, b: (a + 1, b + 2), donate_argnums=(0,))
    x = jax.device_put(numbers(4))
    return error_of(lambda: step(x, x)).split(":")[:2]  # The proxy client says it in other words.


@case
def deletion():
    x = sharded(numbers(8), P("d"))
    pieces = [s.data for s in x.addressable_shards]
    x.delete()
    return x.is_deleted(), [p.is_deleted() for p in pieces], error_of(lambda: x + 1)


@case
def mutable_refs():
    ref = jax.new_ref(jnp.zeros(4))

    @jax.jit
    def add(r, x):
        r[...] += x

    for i in range(3):
        add(ref, jnp.full(4, i + 1.0))
    return ref[...], jax.freeze(ref)


@case
def ahead_of_time():
    x = numbers(4, 4)
    compiled = jax.jit(lambda a: a @ a + 1).lower(x).compile()
    estimate = jax.jit(lambda a: a @ a + 1).lower(x).cost_analysis()["flops"]
    return compiled(x), sorted(compiled.cost_analysis())[:3], "HloModule" in compiled.as_text(), estimate


@case
def constants_and_closures():
    big = np.arange(5000, dtype=np.int32)
    return jax.jit(lambda i: jnp.asarray(big)[i] + big[17])(jnp.int32(9))


@case
def many_results_and_arguments():
    outputs = jax.jit(lambda *xs: [x + i for i, x in enumerate(xs)])(*[np.float32(i) for i in range(100)])
    return outputs, jax.jit(lambda x: ())(1.0), jax.jit(lambda: 3)()


@case
def long_chain():
    x = sharded(numbers(8), P("d"))
    step = jax.jit(lambda a: a - a.mean() + 1)
    for _ in range(20):
        x = step(x)
    return x


@case
def platform():
    d = jax.devices()[0]
    return d.platform, jax.default_backend(), len(jax.devices()), jax.device_count(), repr(d), str(d), d.device_kind


@case
def memory_kinds():
    d = jax.devices()[0]
    kind = d.default_memory().kind
    x = jax.device_put(numbers(4), NamedSharding(mesh_1d(), P(), memory_kind="pinned_host"))
    return kind, sorted(m.kind for m in d.addressable_memories()), x, x.sharding.memory_kind


# Host callbacks and effects


@case
def pure_callback():
    double = jax.jit(
        lambda x: jax.pure_callback(
            lambda a: np.asarray(a) * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="sequential"
        )
    )
    return double(numbers(4)), jax.vmap(double)(numbers(3, 2)), double(sharded(numbers(8), P("d")))


@case
def ordered_io_callbacks():
    seen = []

    def note(value):
        seen.append(int(value))
        return np.float32(value * 2)

    @jax.jit
    def f(x):
        def body(carry, i):
            result = io_callback(note, jax.ShapeDtypeStruct((), np.float32), i, ordered=True)
            return carry + result, result

        return lax.scan(body, x, jnp.arange(6))

    outcome = f(jnp.float32(0)), f(jnp.float32(1))
    jax.effects_barrier()
    return outcome, seen


@case
def callbacks_of_every_shard():
    seen = []

    def f(index, x):
        io_callback(lambda i, v: seen.append((int(i[0]), v.tolist())), None, index, x, ordered=True)
        return x + 1

    mapped = jax.jit(jax.shard_map(f, mesh=mesh_1d(), in_specs=(P("d"), P("d")), out_specs=P("d"), check_vma=False))
    outcome = mapped(jnp.arange(8), numbers(16))
    jax.effects_barrier()
    return outcome, sorted(seen)


@case
def callbacks_that_wait_for_another_device_while_much_is_queued():
    there = jax.devices()[-1]
    double = jax.jit(lambda x: x * 2)
    on_the_first = jax.jit(
        lambda x: (
            jax.pure_callback(
                lambda a: np.asarray(double(jax.device_put(np.float32(a), there))) % 7,
                jax.ShapeDtypeStruct((), np.float32),
                x,
            )
            + 1
        )
    )
    x = jax.device_put(np.float32(0), jax.devices()[0])
    for _ in range(200):
        x = on_the_first(x)
    return x


@case
def debug_callbacks_run_once_an_execution():
    seen = []

    @jax.jit
    def f(x):
        jax.debug.callback(lambda v: seen.append(np.asarray(v).tolist()), x, ordered=True)
        return x * 2

    for i in range(20):
        f(np.float32(i))
    jax.effects_barrier()
    return seen


@case
def callbacks_outlive_their_program():
    seen = []
    for i in range(5):
        jax.jit(lambda x: jax.debug.callback(lambda v: seen.append(float(v)), x))(np.float32(i))
        jax.clear_caches()
    jax.effects_barrier()
    return sorted(seen)


@case
def callback_errors():
    def fail(value):
        raise ValueError("no luck with this value")

    run = jax.jit(lambda x: jax.pure_callback(fail, jax.ShapeDtypeStruct((), np.float32), x))
    try:
        jax.block_until_ready(run(np.float32(1)))
    except Exception as error:
        return (
            type(error).__name__,
            str(error).splitlines()[0][:45],
            "ValueError: no luck with this value" in str(error),
        )


# Errors


@case
def shape_error():
    return error_of(lambda: jnp.ones((2, 3)) @ jnp.ones((4, 5)))


@case
def mesh_larger_than_the_pool():
    return error_of(lambda: jax.make_mesh((16,), ("d",)))


@case
def uneven_sharding():
    return error_of(lambda: sharded(numbers(9), P("d")))


@case
def debug_nans():
    with jax.debug_nans(True):
        return error_of(lambda: jnp.log(jnp.asarray(-1.0)).block_until_ready())


@case
def failed_compilation():
    return error_of(lambda: jax.jit(lambda: 1, compiler_options={"no_such_option": 1})())


def text_of(value):
    if isinstance(value, (str, int, float, bool, type(None))):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(text_of, value)) + "]"
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    array = np.asarray(value)
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
    shown = np.array2string(array, threshold=12) if array.size <= 12 else ""
    return f"{array.dtype}{list(array.shape)} {digest} {shown}"


def main():
    results = {}
    wanted = sys.argv[2:] or list(CASES)
    for name in wanted:
        print(name, file=sys.stderr, flush=True)
        try:
            results[name] = text_of(CASES[name]())
        except Exception as error:
            results[name] = f"FAILED {type(error).__name__}: {str(error)[:600]}"
    Path(sys.argv[1]).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
