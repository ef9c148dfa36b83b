import re

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from elastic.dtypes import KIND_OF_NAME, NUMPY_OF_KIND, TOKEN, numpy_dtype
from elastic.proto import ifrt_pb2 as pb

KINDS = dict(pb.DTypeProto.Kind.items())
WITHOUT_BYTES = {"KIND_UNSPECIFIED", "KIND_TOKEN", "KIND_OPAQUE", "KIND_STRING"}
UNKNOWN_TO_NUMPY = {"KIND_S1", "KIND_U1"}
LETTERS = {"PRED": "bool", "S": "int", "U": "uint", "F": "float", "BF": "bfloat", "C": "complex"}


def name_of(kind):
    """The numpy name that a kind's own name spells: KIND_F8E4M3FN is float8_e4m3fn."""
    letters, bits, rest = re.fullmatch(r"KIND_([A-Z]+?)(\d*)((?:E\d.*)?)", kind).groups()
    return LETTERS[letters] + bits + ("_" + rest.lower() if rest else "")


@pytest.mark.parametrize("kind", sorted(set(KINDS) - WITHOUT_BYTES - UNKNOWN_TO_NUMPY))
def test_every_kind_that_has_bytes_is_the_dtype_that_its_name_says(kind):
    assert NUMPY_OF_KIND[KINDS[kind]].name == name_of(kind)


@pytest.mark.parametrize("kind", sorted(WITHOUT_BYTES | UNKNOWN_TO_NUMPY))
def test_kinds_without_bytes_of_a_fixed_size_have_no_dtype(kind):
    assert KINDS[kind] not in NUMPY_OF_KIND


def test_names_and_kinds_tell_each_other():
    assert len(KIND_OF_NAME) == len(NUMPY_OF_KIND)
    for name, kind in KIND_OF_NAME.items():
        assert numpy_dtype(name) == NUMPY_OF_KIND[kind]
        assert numpy_dtype(name).name == name


@pytest.mark.parametrize("name", sorted(KIND_OF_NAME))
def test_jax_means_the_same_by_each_name(name):
    assert jnp.dtype(name) == numpy_dtype(name)


@pytest.mark.parametrize("name", sorted(KIND_OF_NAME))
def test_values_go_through_their_bytes_unchanged(name):
    dtype = numpy_dtype(name)
    values = np.ones(4).astype(dtype)  # Not every type has a zero.
    there = values.reshape(-1).view(np.uint8).tobytes()
    assert len(there) == 4 * dtype.itemsize
    assert np.array_equal(np.frombuffer(there, dtype), values)


@pytest.mark.parametrize("name", ["", "float33", "object", "str", "token", "FLOAT32", "int1"])
def test_another_name_is_no_dtype(name):
    with pytest.raises(KeyError):
        numpy_dtype(name)


def test_every_float_of_ml_dtypes_with_whole_bytes_is_known():
    """Those that JAX could send one day: a new one here is a new line in the table."""
    smaller_than_a_byte = {"int1", "uint1", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"}
    names = {name for name in dir(ml_dtypes) if re.fullmatch(r"(b?float|u?int)\d+\w*", name)} - smaller_than_a_byte
    assert names <= set(KIND_OF_NAME)


def test_a_token_is_not_an_array():
    assert KINDS["KIND_TOKEN"] == TOKEN
    assert TOKEN not in NUMPY_OF_KIND
