"""Element types: the protocol's numbers, and numpy's (with ml_dtypes') dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from elastic.proto import ifrt_pb2 as pb

_NUMPY = {
    pb.DTypeProto.KIND_PRED: np.bool_,
    pb.DTypeProto.KIND_S2: ml_dtypes.int2,
    pb.DTypeProto.KIND_S4: ml_dtypes.int4,
    pb.DTypeProto.KIND_S8: np.int8,
    pb.DTypeProto.KIND_S16: np.int16,
    pb.DTypeProto.KIND_S32: np.int32,
    pb.DTypeProto.KIND_S64: np.int64,
    pb.DTypeProto.KIND_U2: ml_dtypes.uint2,
    pb.DTypeProto.KIND_U4: ml_dtypes.uint4,
    pb.DTypeProto.KIND_U8: np.uint8,
    pb.DTypeProto.KIND_U16: np.uint16,
    pb.DTypeProto.KIND_U32: np.uint32,
    pb.DTypeProto.KIND_U64: np.uint64,
    pb.DTypeProto.KIND_F16: np.float16,
    pb.DTypeProto.KIND_F32: np.float32,
    pb.DTypeProto.KIND_F64: np.float64,
    pb.DTypeProto.KIND_BF16: ml_dtypes.bfloat16,
    pb.DTypeProto.KIND_C64: np.complex64,
    pb.DTypeProto.KIND_C128: np.complex128,
    pb.DTypeProto.KIND_F8E3M4: ml_dtypes.float8_e3m4,
    pb.DTypeProto.KIND_F8E4M3: ml_dtypes.float8_e4m3,
    pb.DTypeProto.KIND_F8E4M3FN: ml_dtypes.float8_e4m3fn,
    pb.DTypeProto.KIND_F8E4M3B11FNUZ: ml_dtypes.float8_e4m3b11fnuz,
    pb.DTypeProto.KIND_F8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    pb.DTypeProto.KIND_F8E5M2: ml_dtypes.float8_e5m2,
    pb.DTypeProto.KIND_F8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
    pb.DTypeProto.KIND_F8E8M0FNU: ml_dtypes.float8_e8m0fnu,
    pb.DTypeProto.KIND_F4E2M1FN: ml_dtypes.float4_e2m1fn,
}

TOKEN = int(pb.DTypeProto.KIND_TOKEN)
NUMPY_OF_KIND: dict[int, np.dtype] = {int(kind): np.dtype(kind_type) for kind, kind_type in _NUMPY.items()}
"""The numpy dtype of each kind that has bytes of a fixed size."""

KIND_OF_NAME: dict[str, int] = {dtype.name: kind for kind, dtype in NUMPY_OF_KIND.items()}
"""The kind of a numpy dtype's name; names, not numbers, travel to the hosts."""


def numpy_dtype(name: str) -> np.dtype:
    """The dtype of a name such as "bfloat16". Raises `KeyError`."""
    return NUMPY_OF_KIND[KIND_OF_NAME[name]]
