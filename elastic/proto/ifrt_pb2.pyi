# mypy: disable-error-code="type-arg"
from google.protobuf import any_pb2 as _any_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ArrayCopySemantics(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ARRAY_COPY_SEMANTICS_UNSPECIFIED: _ClassVar[ArrayCopySemantics]
    ARRAY_COPY_SEMANTICS_ALWAYS_COPY: _ClassVar[ArrayCopySemantics]
    ARRAY_COPY_SEMANTICS_REUSE_INPUT: _ClassVar[ArrayCopySemantics]
    ARRAY_COPY_SEMANTICS_DONATE_INPUT: _ClassVar[ArrayCopySemantics]

class SingleDeviceShardSemantics(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SINGLE_DEVICE_SHARD_SEMANTICS_UNSPECIFIED: _ClassVar[SingleDeviceShardSemantics]
    SINGLE_DEVICE_SHARD_SEMANTICS_ADDRESSABLE_SHARDS: _ClassVar[SingleDeviceShardSemantics]
    SINGLE_DEVICE_SHARD_SEMANTICS_ALL_SHARDS: _ClassVar[SingleDeviceShardSemantics]

class PrimitiveType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIMITIVE_TYPE_INVALID: _ClassVar[PrimitiveType]
    PRED: _ClassVar[PrimitiveType]
    S1: _ClassVar[PrimitiveType]
    S2: _ClassVar[PrimitiveType]
    S4: _ClassVar[PrimitiveType]
    S8: _ClassVar[PrimitiveType]
    S16: _ClassVar[PrimitiveType]
    S32: _ClassVar[PrimitiveType]
    S64: _ClassVar[PrimitiveType]
    U1: _ClassVar[PrimitiveType]
    U2: _ClassVar[PrimitiveType]
    U4: _ClassVar[PrimitiveType]
    U8: _ClassVar[PrimitiveType]
    U16: _ClassVar[PrimitiveType]
    U32: _ClassVar[PrimitiveType]
    U64: _ClassVar[PrimitiveType]
    F16: _ClassVar[PrimitiveType]
    F32: _ClassVar[PrimitiveType]
    BF16: _ClassVar[PrimitiveType]
    F64: _ClassVar[PrimitiveType]
    F8E5M2: _ClassVar[PrimitiveType]
    F8E4M3: _ClassVar[PrimitiveType]
    F8E4M3FN: _ClassVar[PrimitiveType]
    F8E4M3B11FNUZ: _ClassVar[PrimitiveType]
    F8E3M4: _ClassVar[PrimitiveType]
    F8E5M2FNUZ: _ClassVar[PrimitiveType]
    F8E4M3FNUZ: _ClassVar[PrimitiveType]
    F4E2M1FN: _ClassVar[PrimitiveType]
    F8E8M0FNU: _ClassVar[PrimitiveType]
    F6E3M2FN: _ClassVar[PrimitiveType]
    F6E2M3FN: _ClassVar[PrimitiveType]
    C64: _ClassVar[PrimitiveType]
    C128: _ClassVar[PrimitiveType]
    TUPLE: _ClassVar[PrimitiveType]
    OPAQUE_TYPE: _ClassVar[PrimitiveType]
    TOKEN: _ClassVar[PrimitiveType]
    BUFFER: _ClassVar[PrimitiveType]

class DimLevelType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIM_DENSE: _ClassVar[DimLevelType]
    DIM_COMPRESSED: _ClassVar[DimLevelType]
    DIM_SINGLETON: _ClassVar[DimLevelType]
    DIM_LOOSE_COMPRESSED: _ClassVar[DimLevelType]
ARRAY_COPY_SEMANTICS_UNSPECIFIED: ArrayCopySemantics
ARRAY_COPY_SEMANTICS_ALWAYS_COPY: ArrayCopySemantics
ARRAY_COPY_SEMANTICS_REUSE_INPUT: ArrayCopySemantics
ARRAY_COPY_SEMANTICS_DONATE_INPUT: ArrayCopySemantics
SINGLE_DEVICE_SHARD_SEMANTICS_UNSPECIFIED: SingleDeviceShardSemantics
SINGLE_DEVICE_SHARD_SEMANTICS_ADDRESSABLE_SHARDS: SingleDeviceShardSemantics
SINGLE_DEVICE_SHARD_SEMANTICS_ALL_SHARDS: SingleDeviceShardSemantics
PRIMITIVE_TYPE_INVALID: PrimitiveType
PRED: PrimitiveType
S1: PrimitiveType
S2: PrimitiveType
S4: PrimitiveType
S8: PrimitiveType
S16: PrimitiveType
S32: PrimitiveType
S64: PrimitiveType
U1: PrimitiveType
U2: PrimitiveType
U4: PrimitiveType
U8: PrimitiveType
U16: PrimitiveType
U32: PrimitiveType
U64: PrimitiveType
F16: PrimitiveType
F32: PrimitiveType
BF16: PrimitiveType
F64: PrimitiveType
F8E5M2: PrimitiveType
F8E4M3: PrimitiveType
F8E4M3FN: PrimitiveType
F8E4M3B11FNUZ: PrimitiveType
F8E3M4: PrimitiveType
F8E5M2FNUZ: PrimitiveType
F8E4M3FNUZ: PrimitiveType
F4E2M1FN: PrimitiveType
F8E8M0FNU: PrimitiveType
F6E3M2FN: PrimitiveType
F6E2M3FN: PrimitiveType
C64: PrimitiveType
C128: PrimitiveType
TUPLE: PrimitiveType
OPAQUE_TYPE: PrimitiveType
TOKEN: PrimitiveType
BUFFER: PrimitiveType
DIM_DENSE: DimLevelType
DIM_COMPRESSED: DimLevelType
DIM_SINGLETON: DimLevelType
DIM_LOOSE_COMPRESSED: DimLevelType

class IfrtProxyVersion(_message.Message):
    __slots__ = ("protocol_version", "ifrt_serdes_version_number")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    IFRT_SERDES_VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    ifrt_serdes_version_number: int
    def __init__(self, protocol_version: _Optional[int] = ..., ifrt_serdes_version_number: _Optional[int] = ...) -> None: ...

class GrpcGetVersionRequest(_message.Message):
    __slots__ = ("min_version", "max_version")
    MIN_VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_VERSION_FIELD_NUMBER: _ClassVar[int]
    min_version: IfrtProxyVersion
    max_version: IfrtProxyVersion
    def __init__(self, min_version: _Optional[_Union[IfrtProxyVersion, _Mapping]] = ..., max_version: _Optional[_Union[IfrtProxyVersion, _Mapping]] = ...) -> None: ...

class GrpcGetVersionResponse(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: IfrtProxyVersion
    def __init__(self, version: _Optional[_Union[IfrtProxyVersion, _Mapping]] = ...) -> None: ...

class GrpcIfrtSessionMetadata(_message.Message):
    __slots__ = ("version", "initialization_data")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INITIALIZATION_DATA_FIELD_NUMBER: _ClassVar[int]
    version: IfrtProxyVersion
    initialization_data: AttributeMapProto
    def __init__(self, version: _Optional[_Union[IfrtProxyVersion, _Mapping]] = ..., initialization_data: _Optional[_Union[AttributeMapProto, _Mapping]] = ...) -> None: ...

class GrpcHostBufferStoreMetadata(_message.Message):
    __slots__ = ("session_id", "handle", "buffer_size")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    BUFFER_SIZE_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    handle: int
    buffer_size: int
    def __init__(self, session_id: _Optional[int] = ..., handle: _Optional[int] = ..., buffer_size: _Optional[int] = ...) -> None: ...

class GrpcHostBufferStoreRequest(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class GrpcHostBufferStoreResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GrpcHostBufferReadFromDiskRequest(_message.Message):
    __slots__ = ("metadata",)
    METADATA_FIELD_NUMBER: _ClassVar[int]
    metadata: GrpcHostBufferStoreMetadata
    def __init__(self, metadata: _Optional[_Union[GrpcHostBufferStoreMetadata, _Mapping]] = ...) -> None: ...

class GrpcHostBufferReadFromDiskResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GrpcHostBufferLookupRequest(_message.Message):
    __slots__ = ("session_id", "handle")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    handle: int
    def __init__(self, session_id: _Optional[int] = ..., handle: _Optional[int] = ...) -> None: ...

class GrpcHostBufferLookupResponse(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class GrpcHostBufferDeleteRequest(_message.Message):
    __slots__ = ("session_id", "handle")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    handle: int
    def __init__(self, session_id: _Optional[int] = ..., handle: _Optional[int] = ...) -> None: ...

class GrpcHostBufferDeleteResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IfrtRequest(_message.Message):
    __slots__ = ("request_metadata", "init_request", "check_future_request", "check_value_ready_request", "make_array_from_host_buffer_request", "make_arrays_from_host_buffer_shards_request", "make_error_arrays_request", "assemble_array_from_single_device_arrays_request", "remap_arrays_request", "bitcast_arrays_request", "reshard_arrays_request", "copy_to_host_buffer_request", "disassemble_into_single_device_arrays_request", "delete_array_request", "copy_arrays_request", "fully_replicated_shard_request", "is_array_deleted_request", "destruct_array_request", "compile_request", "loaded_executable_metadata_request", "loaded_executable_execute_request", "loaded_executable_fetch_execute_result_request", "loaded_executable_cost_analysis_request", "loaded_executable_human_readable_program_text_request", "loaded_executable_delete_request", "loaded_executable_is_deleted_request", "loaded_executable_destruct_request", "loaded_executable_mpmd_metadata_request", "loaded_executable_mpmd_cost_analysis_request", "loaded_host_callback_poll_request", "loaded_host_callback_return_request", "get_default_device_assignment_request", "get_default_layout_request")
    REQUEST_METADATA_FIELD_NUMBER: _ClassVar[int]
    INIT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    CHECK_FUTURE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    CHECK_VALUE_READY_REQUEST_FIELD_NUMBER: _ClassVar[int]
    MAKE_ARRAY_FROM_HOST_BUFFER_REQUEST_FIELD_NUMBER: _ClassVar[int]
    MAKE_ARRAYS_FROM_HOST_BUFFER_SHARDS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    MAKE_ERROR_ARRAYS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    ASSEMBLE_ARRAY_FROM_SINGLE_DEVICE_ARRAYS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    REMAP_ARRAYS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    BITCAST_ARRAYS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    RESHARD_ARRAYS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    COPY_TO_HOST_BUFFER_REQUEST_FIELD_NUMBER: _ClassVar[int]
    DISASSEMBLE_INTO_SINGLE_DEVICE_ARRAYS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    DELETE_ARRAY_REQUEST_FIELD_NUMBER: _ClassVar[int]
    COPY_ARRAYS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    FULLY_REPLICATED_SHARD_REQUEST_FIELD_NUMBER: _ClassVar[int]
    IS_ARRAY_DELETED_REQUEST_FIELD_NUMBER: _ClassVar[int]
    DESTRUCT_ARRAY_REQUEST_FIELD_NUMBER: _ClassVar[int]
    COMPILE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_METADATA_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_EXECUTE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_FETCH_EXECUTE_RESULT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_COST_ANALYSIS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_HUMAN_READABLE_PROGRAM_TEXT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_DELETE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_IS_DELETED_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_DESTRUCT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_MPMD_METADATA_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_MPMD_COST_ANALYSIS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_HOST_CALLBACK_POLL_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOADED_HOST_CALLBACK_RETURN_REQUEST_FIELD_NUMBER: _ClassVar[int]
    GET_DEFAULT_DEVICE_ASSIGNMENT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    GET_DEFAULT_LAYOUT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    request_metadata: RequestMetadata
    init_request: InitRequest
    check_future_request: CheckFutureRequest
    check_value_ready_request: CheckValueReadyRequest
    make_array_from_host_buffer_request: MakeArrayFromHostBufferRequest
    make_arrays_from_host_buffer_shards_request: MakeArraysFromHostBufferShardsRequest
    make_error_arrays_request: MakeErrorArraysRequest
    assemble_array_from_single_device_arrays_request: AssembleArrayFromSingleDeviceArraysRequest
    remap_arrays_request: RemapArraysRequest
    bitcast_arrays_request: BitcastArraysRequest
    reshard_arrays_request: ReshardArraysRequest
    copy_to_host_buffer_request: CopyToHostBufferRequest
    disassemble_into_single_device_arrays_request: DisassembleIntoSingleDeviceArraysRequest
    delete_array_request: DeleteArrayRequest
    copy_arrays_request: CopyArraysRequest
    fully_replicated_shard_request: FullyReplicatedShardRequest
    is_array_deleted_request: IsArrayDeletedRequest
    destruct_array_request: DestructArrayRequest
    compile_request: CompileRequest
    loaded_executable_metadata_request: LoadedExecutableMetadataRequest
    loaded_executable_execute_request: LoadedExecutableExecuteRequest
    loaded_executable_fetch_execute_result_request: LoadedExecutableFetchExecuteResultRequest
    loaded_executable_cost_analysis_request: LoadedExecutableCostAnalysisRequest
    loaded_executable_human_readable_program_text_request: LoadedExecutableHumanReadableProgramTextRequest
    loaded_executable_delete_request: LoadedExecutableDeleteRequest
    loaded_executable_is_deleted_request: LoadedExecutableIsDeletedRequest
    loaded_executable_destruct_request: LoadedExecutableDestructRequest
    loaded_executable_mpmd_metadata_request: LoadedExecutableMpmdMetadataRequest
    loaded_executable_mpmd_cost_analysis_request: LoadedExecutableMpmdCostAnalysisRequest
    loaded_host_callback_poll_request: LoadedHostCallbackPollRequest
    loaded_host_callback_return_request: LoadedHostCallbackReturnRequest
    get_default_device_assignment_request: GetDefaultDeviceAssignmentRequest
    get_default_layout_request: GetDefaultLayoutRequest
    def __init__(self, request_metadata: _Optional[_Union[RequestMetadata, _Mapping]] = ..., init_request: _Optional[_Union[InitRequest, _Mapping]] = ..., check_future_request: _Optional[_Union[CheckFutureRequest, _Mapping]] = ..., check_value_ready_request: _Optional[_Union[CheckValueReadyRequest, _Mapping]] = ..., make_array_from_host_buffer_request: _Optional[_Union[MakeArrayFromHostBufferRequest, _Mapping]] = ..., make_arrays_from_host_buffer_shards_request: _Optional[_Union[MakeArraysFromHostBufferShardsRequest, _Mapping]] = ..., make_error_arrays_request: _Optional[_Union[MakeErrorArraysRequest, _Mapping]] = ..., assemble_array_from_single_device_arrays_request: _Optional[_Union[AssembleArrayFromSingleDeviceArraysRequest, _Mapping]] = ..., remap_arrays_request: _Optional[_Union[RemapArraysRequest, _Mapping]] = ..., bitcast_arrays_request: _Optional[_Union[BitcastArraysRequest, _Mapping]] = ..., reshard_arrays_request: _Optional[_Union[ReshardArraysRequest, _Mapping]] = ..., copy_to_host_buffer_request: _Optional[_Union[CopyToHostBufferRequest, _Mapping]] = ..., disassemble_into_single_device_arrays_request: _Optional[_Union[DisassembleIntoSingleDeviceArraysRequest, _Mapping]] = ..., delete_array_request: _Optional[_Union[DeleteArrayRequest, _Mapping]] = ..., copy_arrays_request: _Optional[_Union[CopyArraysRequest, _Mapping]] = ..., fully_replicated_shard_request: _Optional[_Union[FullyReplicatedShardRequest, _Mapping]] = ..., is_array_deleted_request: _Optional[_Union[IsArrayDeletedRequest, _Mapping]] = ..., destruct_array_request: _Optional[_Union[DestructArrayRequest, _Mapping]] = ..., compile_request: _Optional[_Union[CompileRequest, _Mapping]] = ..., loaded_executable_metadata_request: _Optional[_Union[LoadedExecutableMetadataRequest, _Mapping]] = ..., loaded_executable_execute_request: _Optional[_Union[LoadedExecutableExecuteRequest, _Mapping]] = ..., loaded_executable_fetch_execute_result_request: _Optional[_Union[LoadedExecutableFetchExecuteResultRequest, _Mapping]] = ..., loaded_executable_cost_analysis_request: _Optional[_Union[LoadedExecutableCostAnalysisRequest, _Mapping]] = ..., loaded_executable_human_readable_program_text_request: _Optional[_Union[LoadedExecutableHumanReadableProgramTextRequest, _Mapping]] = ..., loaded_executable_delete_request: _Optional[_Union[LoadedExecutableDeleteRequest, _Mapping]] = ..., loaded_executable_is_deleted_request: _Optional[_Union[LoadedExecutableIsDeletedRequest, _Mapping]] = ..., loaded_executable_destruct_request: _Optional[_Union[LoadedExecutableDestructRequest, _Mapping]] = ..., loaded_executable_mpmd_metadata_request: _Optional[_Union[LoadedExecutableMpmdMetadataRequest, _Mapping]] = ..., loaded_executable_mpmd_cost_analysis_request: _Optional[_Union[LoadedExecutableMpmdCostAnalysisRequest, _Mapping]] = ..., loaded_host_callback_poll_request: _Optional[_Union[LoadedHostCallbackPollRequest, _Mapping]] = ..., loaded_host_callback_return_request: _Optional[_Union[LoadedHostCallbackReturnRequest, _Mapping]] = ..., get_default_device_assignment_request: _Optional[_Union[GetDefaultDeviceAssignmentRequest, _Mapping]] = ..., get_default_layout_request: _Optional[_Union[GetDefaultLayoutRequest, _Mapping]] = ...) -> None: ...

class IfrtResponse(_message.Message):
    __slots__ = ("response_metadata", "init_response", "check_future_response", "check_value_ready_response", "make_array_from_host_buffer_response", "make_arrays_from_host_buffer_shards_response", "make_error_arrays_response", "assemble_array_from_single_device_arrays_response", "remap_arrays_response", "bitcast_arrays_response", "reshard_arrays_response", "copy_to_host_buffer_response", "disassemble_into_single_device_arrays_response", "delete_array_response", "copy_arrays_response", "fully_replicated_shard_response", "is_array_deleted_response", "destruct_array_response", "compile_response", "loaded_executable_metadata_response", "loaded_executable_execute_response", "loaded_executable_fetch_execute_result_response", "loaded_executable_cost_analysis_response", "loaded_executable_human_readable_program_text_response", "loaded_executable_delete_response", "loaded_executable_is_deleted_response", "loaded_executable_destruct_response", "loaded_executable_mpmd_metadata_response", "loaded_executable_mpmd_cost_analysis_response", "loaded_host_callback_poll_response", "loaded_host_callback_return_response", "get_default_device_assignment_response", "get_default_layout_response")
    RESPONSE_METADATA_FIELD_NUMBER: _ClassVar[int]
    INIT_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    CHECK_FUTURE_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    CHECK_VALUE_READY_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    MAKE_ARRAY_FROM_HOST_BUFFER_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    MAKE_ARRAYS_FROM_HOST_BUFFER_SHARDS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    MAKE_ERROR_ARRAYS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ASSEMBLE_ARRAY_FROM_SINGLE_DEVICE_ARRAYS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    REMAP_ARRAYS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    BITCAST_ARRAYS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    RESHARD_ARRAYS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    COPY_TO_HOST_BUFFER_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    DISASSEMBLE_INTO_SINGLE_DEVICE_ARRAYS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    DELETE_ARRAY_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    COPY_ARRAYS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    FULLY_REPLICATED_SHARD_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    IS_ARRAY_DELETED_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    DESTRUCT_ARRAY_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    COMPILE_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_METADATA_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_EXECUTE_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_FETCH_EXECUTE_RESULT_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_COST_ANALYSIS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_HUMAN_READABLE_PROGRAM_TEXT_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_DELETE_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_IS_DELETED_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_DESTRUCT_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_MPMD_METADATA_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_EXECUTABLE_MPMD_COST_ANALYSIS_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_HOST_CALLBACK_POLL_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    LOADED_HOST_CALLBACK_RETURN_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    GET_DEFAULT_DEVICE_ASSIGNMENT_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    GET_DEFAULT_LAYOUT_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    response_metadata: ResponseMetadata
    init_response: InitResponse
    check_future_response: CheckFutureResponse
    check_value_ready_response: CheckValueReadyResponse
    make_array_from_host_buffer_response: MakeArrayFromHostBufferResponse
    make_arrays_from_host_buffer_shards_response: MakeArraysFromHostBufferShardsResponse
    make_error_arrays_response: MakeErrorArraysResponse
    assemble_array_from_single_device_arrays_response: AssembleArrayFromSingleDeviceArraysResponse
    remap_arrays_response: RemapArraysResponse
    bitcast_arrays_response: BitcastArraysResponse
    reshard_arrays_response: ReshardArraysResponse
    copy_to_host_buffer_response: CopyToHostBufferResponse
    disassemble_into_single_device_arrays_response: DisassembleIntoSingleDeviceArraysResponse
    delete_array_response: DeleteArrayResponse
    copy_arrays_response: CopyArraysResponse
    fully_replicated_shard_response: FullyReplicatedShardResponse
    is_array_deleted_response: IsArrayDeletedResponse
    destruct_array_response: DestructArrayResponse
    compile_response: CompileResponse
    loaded_executable_metadata_response: LoadedExecutableMetadataResponse
    loaded_executable_execute_response: LoadedExecutableExecuteResponse
    loaded_executable_fetch_execute_result_response: LoadedExecutableFetchExecuteResultResponse
    loaded_executable_cost_analysis_response: LoadedExecutableCostAnalysisResponse
    loaded_executable_human_readable_program_text_response: LoadedExecutableHumanReadableProgramTextResponse
    loaded_executable_delete_response: LoadedExecutableDeleteResponse
    loaded_executable_is_deleted_response: LoadedExecutableIsDeletedResponse
    loaded_executable_destruct_response: LoadedExecutableDestructResponse
    loaded_executable_mpmd_metadata_response: LoadedExecutableMpmdMetadataResponse
    loaded_executable_mpmd_cost_analysis_response: LoadedExecutableMpmdCostAnalysisResponse
    loaded_host_callback_poll_response: LoadedHostCallbackPollResponse
    loaded_host_callback_return_response: LoadedHostCallbackReturnResponse
    get_default_device_assignment_response: GetDefaultDeviceAssignmentResponse
    get_default_layout_response: GetDefaultLayoutResponse
    def __init__(self, response_metadata: _Optional[_Union[ResponseMetadata, _Mapping]] = ..., init_response: _Optional[_Union[InitResponse, _Mapping]] = ..., check_future_response: _Optional[_Union[CheckFutureResponse, _Mapping]] = ..., check_value_ready_response: _Optional[_Union[CheckValueReadyResponse, _Mapping]] = ..., make_array_from_host_buffer_response: _Optional[_Union[MakeArrayFromHostBufferResponse, _Mapping]] = ..., make_arrays_from_host_buffer_shards_response: _Optional[_Union[MakeArraysFromHostBufferShardsResponse, _Mapping]] = ..., make_error_arrays_response: _Optional[_Union[MakeErrorArraysResponse, _Mapping]] = ..., assemble_array_from_single_device_arrays_response: _Optional[_Union[AssembleArrayFromSingleDeviceArraysResponse, _Mapping]] = ..., remap_arrays_response: _Optional[_Union[RemapArraysResponse, _Mapping]] = ..., bitcast_arrays_response: _Optional[_Union[BitcastArraysResponse, _Mapping]] = ..., reshard_arrays_response: _Optional[_Union[ReshardArraysResponse, _Mapping]] = ..., copy_to_host_buffer_response: _Optional[_Union[CopyToHostBufferResponse, _Mapping]] = ..., disassemble_into_single_device_arrays_response: _Optional[_Union[DisassembleIntoSingleDeviceArraysResponse, _Mapping]] = ..., delete_array_response: _Optional[_Union[DeleteArrayResponse, _Mapping]] = ..., copy_arrays_response: _Optional[_Union[CopyArraysResponse, _Mapping]] = ..., fully_replicated_shard_response: _Optional[_Union[FullyReplicatedShardResponse, _Mapping]] = ..., is_array_deleted_response: _Optional[_Union[IsArrayDeletedResponse, _Mapping]] = ..., destruct_array_response: _Optional[_Union[DestructArrayResponse, _Mapping]] = ..., compile_response: _Optional[_Union[CompileResponse, _Mapping]] = ..., loaded_executable_metadata_response: _Optional[_Union[LoadedExecutableMetadataResponse, _Mapping]] = ..., loaded_executable_execute_response: _Optional[_Union[LoadedExecutableExecuteResponse, _Mapping]] = ..., loaded_executable_fetch_execute_result_response: _Optional[_Union[LoadedExecutableFetchExecuteResultResponse, _Mapping]] = ..., loaded_executable_cost_analysis_response: _Optional[_Union[LoadedExecutableCostAnalysisResponse, _Mapping]] = ..., loaded_executable_human_readable_program_text_response: _Optional[_Union[LoadedExecutableHumanReadableProgramTextResponse, _Mapping]] = ..., loaded_executable_delete_response: _Optional[_Union[LoadedExecutableDeleteResponse, _Mapping]] = ..., loaded_executable_is_deleted_response: _Optional[_Union[LoadedExecutableIsDeletedResponse, _Mapping]] = ..., loaded_executable_destruct_response: _Optional[_Union[LoadedExecutableDestructResponse, _Mapping]] = ..., loaded_executable_mpmd_metadata_response: _Optional[_Union[LoadedExecutableMpmdMetadataResponse, _Mapping]] = ..., loaded_executable_mpmd_cost_analysis_response: _Optional[_Union[LoadedExecutableMpmdCostAnalysisResponse, _Mapping]] = ..., loaded_host_callback_poll_response: _Optional[_Union[LoadedHostCallbackPollResponse, _Mapping]] = ..., loaded_host_callback_return_response: _Optional[_Union[LoadedHostCallbackReturnResponse, _Mapping]] = ..., get_default_device_assignment_response: _Optional[_Union[GetDefaultDeviceAssignmentResponse, _Mapping]] = ..., get_default_layout_response: _Optional[_Union[GetDefaultLayoutResponse, _Mapping]] = ...) -> None: ...

class RequestMetadata(_message.Message):
    __slots__ = ("op_id", "user_context_id", "payloads")
    OP_ID_FIELD_NUMBER: _ClassVar[int]
    USER_CONTEXT_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    op_id: int
    user_context_id: int
    payloads: _containers.RepeatedCompositeFieldContainer[_any_pb2.Any]
    def __init__(self, op_id: _Optional[int] = ..., user_context_id: _Optional[int] = ..., payloads: _Optional[_Iterable[_Union[_any_pb2.Any, _Mapping]]] = ...) -> None: ...

class ResponseMetadata(_message.Message):
    __slots__ = ("op_id", "status", "seq_num", "destroyed_user_context_ids")
    OP_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_NUM_FIELD_NUMBER: _ClassVar[int]
    DESTROYED_USER_CONTEXT_IDS_FIELD_NUMBER: _ClassVar[int]
    op_id: int
    status: StatusProto
    seq_num: int
    destroyed_user_context_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, op_id: _Optional[int] = ..., status: _Optional[_Union[StatusProto, _Mapping]] = ..., seq_num: _Optional[int] = ..., destroyed_user_context_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class InitRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class InitResponse(_message.Message):
    __slots__ = ("session_id", "platform_name", "platform_version", "platform_id", "process_index", "runtime_type", "all_devices", "primary_device_ids", "addressable_device_ids", "memories", "client_attributes")
    class Device(_message.Message):
        __slots__ = ("id", "local_device_id", "local_hardware_id", "platform_name", "device_kind", "default_memory_id", "memory_ids", "debug_string", "to_string", "attributes")
        ID_FIELD_NUMBER: _ClassVar[int]
        LOCAL_DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
        LOCAL_HARDWARE_ID_FIELD_NUMBER: _ClassVar[int]
        PLATFORM_NAME_FIELD_NUMBER: _ClassVar[int]
        DEVICE_KIND_FIELD_NUMBER: _ClassVar[int]
        DEFAULT_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
        MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
        DEBUG_STRING_FIELD_NUMBER: _ClassVar[int]
        TO_STRING_FIELD_NUMBER: _ClassVar[int]
        ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
        id: int
        local_device_id: int
        local_hardware_id: int
        platform_name: str
        device_kind: str
        default_memory_id: int
        memory_ids: _containers.RepeatedScalarFieldContainer[int]
        debug_string: str
        to_string: str
        attributes: AttributeMapProto
        def __init__(self, id: _Optional[int] = ..., local_device_id: _Optional[int] = ..., local_hardware_id: _Optional[int] = ..., platform_name: _Optional[str] = ..., device_kind: _Optional[str] = ..., default_memory_id: _Optional[int] = ..., memory_ids: _Optional[_Iterable[int]] = ..., debug_string: _Optional[str] = ..., to_string: _Optional[str] = ..., attributes: _Optional[_Union[AttributeMapProto, _Mapping]] = ...) -> None: ...
    class Memory(_message.Message):
        __slots__ = ("id", "memory_space_kind", "kind_id", "device_ids", "debug_string", "to_string")
        ID_FIELD_NUMBER: _ClassVar[int]
        MEMORY_SPACE_KIND_FIELD_NUMBER: _ClassVar[int]
        KIND_ID_FIELD_NUMBER: _ClassVar[int]
        DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
        DEBUG_STRING_FIELD_NUMBER: _ClassVar[int]
        TO_STRING_FIELD_NUMBER: _ClassVar[int]
        id: int
        memory_space_kind: str
        kind_id: int
        device_ids: _containers.RepeatedScalarFieldContainer[int]
        debug_string: str
        to_string: str
        def __init__(self, id: _Optional[int] = ..., memory_space_kind: _Optional[str] = ..., kind_id: _Optional[int] = ..., device_ids: _Optional[_Iterable[int]] = ..., debug_string: _Optional[str] = ..., to_string: _Optional[str] = ...) -> None: ...
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_NAME_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_VERSION_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_ID_FIELD_NUMBER: _ClassVar[int]
    PROCESS_INDEX_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    ALL_DEVICES_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    ADDRESSABLE_DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    session_id: int
    platform_name: str
    platform_version: str
    platform_id: int
    process_index: int
    runtime_type: str
    all_devices: _containers.RepeatedCompositeFieldContainer[InitResponse.Device]
    primary_device_ids: _containers.RepeatedScalarFieldContainer[int]
    addressable_device_ids: _containers.RepeatedScalarFieldContainer[int]
    memories: _containers.RepeatedCompositeFieldContainer[InitResponse.Memory]
    client_attributes: AttributeMapProto
    def __init__(self, session_id: _Optional[int] = ..., platform_name: _Optional[str] = ..., platform_version: _Optional[str] = ..., platform_id: _Optional[int] = ..., process_index: _Optional[int] = ..., runtime_type: _Optional[str] = ..., all_devices: _Optional[_Iterable[_Union[InitResponse.Device, _Mapping]]] = ..., primary_device_ids: _Optional[_Iterable[int]] = ..., addressable_device_ids: _Optional[_Iterable[int]] = ..., memories: _Optional[_Iterable[_Union[InitResponse.Memory, _Mapping]]] = ..., client_attributes: _Optional[_Union[AttributeMapProto, _Mapping]] = ...) -> None: ...

class CheckFutureRequest(_message.Message):
    __slots__ = ("future_handle",)
    FUTURE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    future_handle: int
    def __init__(self, future_handle: _Optional[int] = ...) -> None: ...

class CheckFutureResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckValueReadyRequest(_message.Message):
    __slots__ = ("value_handles",)
    VALUE_HANDLES_FIELD_NUMBER: _ClassVar[int]
    value_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, value_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class CheckValueReadyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetDefaultDeviceAssignmentRequest(_message.Message):
    __slots__ = ("num_replicas", "num_partitions")
    NUM_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    NUM_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    num_replicas: int
    num_partitions: int
    def __init__(self, num_replicas: _Optional[int] = ..., num_partitions: _Optional[int] = ...) -> None: ...

class GetDefaultDeviceAssignmentResponse(_message.Message):
    __slots__ = ("device_assignment",)
    DEVICE_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    device_assignment: DeviceAssignmentProto
    def __init__(self, device_assignment: _Optional[_Union[DeviceAssignmentProto, _Mapping]] = ...) -> None: ...

class GetDefaultLayoutRequest(_message.Message):
    __slots__ = ("dtype", "dims", "device_id", "memory_kind")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    DIMS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KIND_FIELD_NUMBER: _ClassVar[int]
    dtype: DTypeProto
    dims: _containers.RepeatedScalarFieldContainer[int]
    device_id: int
    memory_kind: str
    def __init__(self, dtype: _Optional[_Union[DTypeProto, _Mapping]] = ..., dims: _Optional[_Iterable[int]] = ..., device_id: _Optional[int] = ..., memory_kind: _Optional[str] = ...) -> None: ...

class GetDefaultLayoutResponse(_message.Message):
    __slots__ = ("serialized_pjrt_layout",)
    SERIALIZED_PJRT_LAYOUT_FIELD_NUMBER: _ClassVar[int]
    serialized_pjrt_layout: bytes
    def __init__(self, serialized_pjrt_layout: _Optional[bytes] = ...) -> None: ...

class MakeArrayFromHostBufferRequest(_message.Message):
    __slots__ = ("dtype", "shape", "sharding", "layout", "host_buffer_handle", "byte_strides", "array_handle")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    SHARDING_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    HOST_BUFFER_HANDLE_FIELD_NUMBER: _ClassVar[int]
    BYTE_STRIDES_FIELD_NUMBER: _ClassVar[int]
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    dtype: DTypeProto
    shape: ShapeProto
    sharding: ShardingProto
    layout: LayoutProto
    host_buffer_handle: int
    byte_strides: ByteStrides
    array_handle: int
    def __init__(self, dtype: _Optional[_Union[DTypeProto, _Mapping]] = ..., shape: _Optional[_Union[ShapeProto, _Mapping]] = ..., sharding: _Optional[_Union[ShardingProto, _Mapping]] = ..., layout: _Optional[_Union[LayoutProto, _Mapping]] = ..., host_buffer_handle: _Optional[int] = ..., byte_strides: _Optional[_Union[ByteStrides, _Mapping]] = ..., array_handle: _Optional[int] = ...) -> None: ...

class MakeArrayFromHostBufferResponse(_message.Message):
    __slots__ = ("array_handle",)
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    array_handle: int
    def __init__(self, array_handle: _Optional[int] = ...) -> None: ...

class MakeArraysFromHostBufferShardsRequest(_message.Message):
    __slots__ = ("specs", "array_handles")
    class HostBuffer(_message.Message):
        __slots__ = ("dtype", "shape", "host_buffer_handle", "byte_strides")
        DTYPE_FIELD_NUMBER: _ClassVar[int]
        SHAPE_FIELD_NUMBER: _ClassVar[int]
        HOST_BUFFER_HANDLE_FIELD_NUMBER: _ClassVar[int]
        BYTE_STRIDES_FIELD_NUMBER: _ClassVar[int]
        dtype: DTypeProto
        shape: ShapeProto
        host_buffer_handle: int
        byte_strides: ByteStrides
        def __init__(self, dtype: _Optional[_Union[DTypeProto, _Mapping]] = ..., shape: _Optional[_Union[ShapeProto, _Mapping]] = ..., host_buffer_handle: _Optional[int] = ..., byte_strides: _Optional[_Union[ByteStrides, _Mapping]] = ...) -> None: ...
    class ShardIndices(_message.Message):
        __slots__ = ("indices",)
        INDICES_FIELD_NUMBER: _ClassVar[int]
        indices: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, indices: _Optional[_Iterable[int]] = ...) -> None: ...
    class MakeArraysFromHostBufferShardsSpec(_message.Message):
        __slots__ = ("addressable_shard_indices", "host_buffers", "array_spec")
        ADDRESSABLE_SHARD_INDICES_FIELD_NUMBER: _ClassVar[int]
        HOST_BUFFERS_FIELD_NUMBER: _ClassVar[int]
        ARRAY_SPEC_FIELD_NUMBER: _ClassVar[int]
        addressable_shard_indices: _containers.RepeatedCompositeFieldContainer[MakeArraysFromHostBufferShardsRequest.ShardIndices]
        host_buffers: _containers.RepeatedCompositeFieldContainer[MakeArraysFromHostBufferShardsRequest.HostBuffer]
        array_spec: ArraySpecProto
        def __init__(self, addressable_shard_indices: _Optional[_Iterable[_Union[MakeArraysFromHostBufferShardsRequest.ShardIndices, _Mapping]]] = ..., host_buffers: _Optional[_Iterable[_Union[MakeArraysFromHostBufferShardsRequest.HostBuffer, _Mapping]]] = ..., array_spec: _Optional[_Union[ArraySpecProto, _Mapping]] = ...) -> None: ...
    SPECS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    specs: _containers.RepeatedCompositeFieldContainer[MakeArraysFromHostBufferShardsRequest.MakeArraysFromHostBufferShardsSpec]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, specs: _Optional[_Iterable[_Union[MakeArraysFromHostBufferShardsRequest.MakeArraysFromHostBufferShardsSpec, _Mapping]]] = ..., array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class MakeArraysFromHostBufferShardsResponse(_message.Message):
    __slots__ = ("array_handles",)
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class MakeErrorArraysRequest(_message.Message):
    __slots__ = ("error", "array_specs", "array_handles")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ARRAY_SPECS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    error: StatusProto
    array_specs: _containers.RepeatedCompositeFieldContainer[ArraySpecProto]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, error: _Optional[_Union[StatusProto, _Mapping]] = ..., array_specs: _Optional[_Iterable[_Union[ArraySpecProto, _Mapping]]] = ..., array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class MakeErrorArraysResponse(_message.Message):
    __slots__ = ("array_handles",)
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class AssembleArrayFromSingleDeviceArraysRequest(_message.Message):
    __slots__ = ("shape", "sharding", "single_device_array_handles", "copy_semantics", "single_device_shard_semantics", "result_handle", "dtype")
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    SHARDING_FIELD_NUMBER: _ClassVar[int]
    SINGLE_DEVICE_ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    COPY_SEMANTICS_FIELD_NUMBER: _ClassVar[int]
    SINGLE_DEVICE_SHARD_SEMANTICS_FIELD_NUMBER: _ClassVar[int]
    RESULT_HANDLE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    shape: ShapeProto
    sharding: ShardingProto
    single_device_array_handles: _containers.RepeatedScalarFieldContainer[int]
    copy_semantics: ArrayCopySemantics
    single_device_shard_semantics: SingleDeviceShardSemantics
    result_handle: int
    dtype: DTypeProto
    def __init__(self, shape: _Optional[_Union[ShapeProto, _Mapping]] = ..., sharding: _Optional[_Union[ShardingProto, _Mapping]] = ..., single_device_array_handles: _Optional[_Iterable[int]] = ..., copy_semantics: _Optional[_Union[ArrayCopySemantics, str]] = ..., single_device_shard_semantics: _Optional[_Union[SingleDeviceShardSemantics, str]] = ..., result_handle: _Optional[int] = ..., dtype: _Optional[_Union[DTypeProto, _Mapping]] = ...) -> None: ...

class AssembleArrayFromSingleDeviceArraysResponse(_message.Message):
    __slots__ = ("array_handle",)
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    array_handle: int
    def __init__(self, array_handle: _Optional[int] = ...) -> None: ...

class RemapArraysRequest(_message.Message):
    __slots__ = ("plan", "array_handles", "copy_semantics", "result_handles")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    COPY_SEMANTICS_FIELD_NUMBER: _ClassVar[int]
    RESULT_HANDLES_FIELD_NUMBER: _ClassVar[int]
    plan: RemapPlanProto
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    copy_semantics: ArrayCopySemantics
    result_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, plan: _Optional[_Union[RemapPlanProto, _Mapping]] = ..., array_handles: _Optional[_Iterable[int]] = ..., copy_semantics: _Optional[_Union[ArrayCopySemantics, str]] = ..., result_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class RemapArraysResponse(_message.Message):
    __slots__ = ("array_handles",)
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class BitcastArraysRequest(_message.Message):
    __slots__ = ("array_handles", "array_specs", "copy_semantics", "result_handles")
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    ARRAY_SPECS_FIELD_NUMBER: _ClassVar[int]
    COPY_SEMANTICS_FIELD_NUMBER: _ClassVar[int]
    RESULT_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    array_specs: _containers.RepeatedCompositeFieldContainer[ArraySpecProto]
    copy_semantics: ArrayCopySemantics
    result_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ..., array_specs: _Optional[_Iterable[_Union[ArraySpecProto, _Mapping]]] = ..., copy_semantics: _Optional[_Union[ArrayCopySemantics, str]] = ..., result_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class BitcastArraysResponse(_message.Message):
    __slots__ = ("array_handles",)
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class ReshardArraysRequest(_message.Message):
    __slots__ = ("array_handles", "array_specs", "copy_semantics", "result_handles")
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    ARRAY_SPECS_FIELD_NUMBER: _ClassVar[int]
    COPY_SEMANTICS_FIELD_NUMBER: _ClassVar[int]
    RESULT_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    array_specs: _containers.RepeatedCompositeFieldContainer[ArraySpecProto]
    copy_semantics: ArrayCopySemantics
    result_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ..., array_specs: _Optional[_Iterable[_Union[ArraySpecProto, _Mapping]]] = ..., copy_semantics: _Optional[_Union[ArrayCopySemantics, str]] = ..., result_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class ReshardArraysResponse(_message.Message):
    __slots__ = ("array_handles",)
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class CopyToHostBufferRequest(_message.Message):
    __slots__ = ("array_handle", "byte_strides", "host_buffer_handle")
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    BYTE_STRIDES_FIELD_NUMBER: _ClassVar[int]
    HOST_BUFFER_HANDLE_FIELD_NUMBER: _ClassVar[int]
    array_handle: int
    byte_strides: ByteStrides
    host_buffer_handle: int
    def __init__(self, array_handle: _Optional[int] = ..., byte_strides: _Optional[_Union[ByteStrides, _Mapping]] = ..., host_buffer_handle: _Optional[int] = ...) -> None: ...

class CopyToHostBufferResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DisassembleIntoSingleDeviceArraysRequest(_message.Message):
    __slots__ = ("array_handle", "copy_semantics", "single_device_shard_semantics", "result_handles")
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    COPY_SEMANTICS_FIELD_NUMBER: _ClassVar[int]
    SINGLE_DEVICE_SHARD_SEMANTICS_FIELD_NUMBER: _ClassVar[int]
    RESULT_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handle: int
    copy_semantics: ArrayCopySemantics
    single_device_shard_semantics: SingleDeviceShardSemantics
    result_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handle: _Optional[int] = ..., copy_semantics: _Optional[_Union[ArrayCopySemantics, str]] = ..., single_device_shard_semantics: _Optional[_Union[SingleDeviceShardSemantics, str]] = ..., result_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class DisassembleIntoSingleDeviceArraysResponse(_message.Message):
    __slots__ = ("array_handles",)
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class CopyArraysRequest(_message.Message):
    __slots__ = ("array_handles", "device_ids", "memory_kind", "copy_semantics", "result_handles")
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KIND_FIELD_NUMBER: _ClassVar[int]
    COPY_SEMANTICS_FIELD_NUMBER: _ClassVar[int]
    RESULT_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    device_ids: _containers.RepeatedScalarFieldContainer[int]
    memory_kind: str
    copy_semantics: ArrayCopySemantics
    result_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ..., device_ids: _Optional[_Iterable[int]] = ..., memory_kind: _Optional[str] = ..., copy_semantics: _Optional[_Union[ArrayCopySemantics, str]] = ..., result_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class CopyArraysResponse(_message.Message):
    __slots__ = ("array_handles",)
    ARRAY_HANDLES_FIELD_NUMBER: _ClassVar[int]
    array_handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handles: _Optional[_Iterable[int]] = ...) -> None: ...

class FullyReplicatedShardRequest(_message.Message):
    __slots__ = ("array_handle", "copy_semantics", "result_handle")
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    COPY_SEMANTICS_FIELD_NUMBER: _ClassVar[int]
    RESULT_HANDLE_FIELD_NUMBER: _ClassVar[int]
    array_handle: int
    copy_semantics: ArrayCopySemantics
    result_handle: int
    def __init__(self, array_handle: _Optional[int] = ..., copy_semantics: _Optional[_Union[ArrayCopySemantics, str]] = ..., result_handle: _Optional[int] = ...) -> None: ...

class FullyReplicatedShardResponse(_message.Message):
    __slots__ = ("array_handle",)
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    array_handle: int
    def __init__(self, array_handle: _Optional[int] = ...) -> None: ...

class DeleteArrayRequest(_message.Message):
    __slots__ = ("array_handle",)
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    array_handle: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handle: _Optional[_Iterable[int]] = ...) -> None: ...

class DeleteArrayResponse(_message.Message):
    __slots__ = ("deletion_future_handle",)
    DELETION_FUTURE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    deletion_future_handle: int
    def __init__(self, deletion_future_handle: _Optional[int] = ...) -> None: ...

class IsArrayDeletedRequest(_message.Message):
    __slots__ = ("array_handle",)
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    array_handle: int
    def __init__(self, array_handle: _Optional[int] = ...) -> None: ...

class IsArrayDeletedResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    def __init__(self, deleted: _Optional[bool] = ...) -> None: ...

class DestructArrayRequest(_message.Message):
    __slots__ = ("array_handle",)
    ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    array_handle: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, array_handle: _Optional[_Iterable[int]] = ...) -> None: ...

class DestructArrayResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CompileRequest(_message.Message):
    __slots__ = ("program", "compile_options", "host_callbacks")
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    COMPILE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    HOST_CALLBACKS_FIELD_NUMBER: _ClassVar[int]
    program: Serialized
    compile_options: Serialized
    host_callbacks: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, program: _Optional[_Union[Serialized, _Mapping]] = ..., compile_options: _Optional[_Union[Serialized, _Mapping]] = ..., host_callbacks: _Optional[_Iterable[bytes]] = ...) -> None: ...

class CompileResponse(_message.Message):
    __slots__ = ("loaded_executable_handle", "loaded_host_callback_handles", "name", "num_devices", "device_ids", "addressable_device_ids", "mpmd_addressable_devices", "mpmd_addressable_devices_error", "fingerprint_value", "fingerprint_error", "ready_future_handle")
    class MpmdDeviceList(_message.Message):
        __slots__ = ("mpmd_addressable_device_ids",)
        MPMD_ADDRESSABLE_DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
        mpmd_addressable_device_ids: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, mpmd_addressable_device_ids: _Optional[_Iterable[int]] = ...) -> None: ...
    class MpmdAddressableDevices(_message.Message):
        __slots__ = ("mpmd_addressable_devices",)
        class MpmdAddressableDevicesEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: CompileResponse.MpmdDeviceList
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[CompileResponse.MpmdDeviceList, _Mapping]] = ...) -> None: ...
        MPMD_ADDRESSABLE_DEVICES_FIELD_NUMBER: _ClassVar[int]
        mpmd_addressable_devices: _containers.MessageMap[str, CompileResponse.MpmdDeviceList]
        def __init__(self, mpmd_addressable_devices: _Optional[_Mapping[str, CompileResponse.MpmdDeviceList]] = ...) -> None: ...
    LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    LOADED_HOST_CALLBACK_HANDLES_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUM_DEVICES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    ADDRESSABLE_DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    MPMD_ADDRESSABLE_DEVICES_FIELD_NUMBER: _ClassVar[int]
    MPMD_ADDRESSABLE_DEVICES_ERROR_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_VALUE_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_ERROR_FIELD_NUMBER: _ClassVar[int]
    READY_FUTURE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    loaded_executable_handle: int
    loaded_host_callback_handles: _containers.RepeatedScalarFieldContainer[int]
    name: str
    num_devices: int
    device_ids: _containers.RepeatedScalarFieldContainer[int]
    addressable_device_ids: _containers.RepeatedScalarFieldContainer[int]
    mpmd_addressable_devices: CompileResponse.MpmdAddressableDevices
    mpmd_addressable_devices_error: StatusProto
    fingerprint_value: bytes
    fingerprint_error: StatusProto
    ready_future_handle: int
    def __init__(self, loaded_executable_handle: _Optional[int] = ..., loaded_host_callback_handles: _Optional[_Iterable[int]] = ..., name: _Optional[str] = ..., num_devices: _Optional[int] = ..., device_ids: _Optional[_Iterable[int]] = ..., addressable_device_ids: _Optional[_Iterable[int]] = ..., mpmd_addressable_devices: _Optional[_Union[CompileResponse.MpmdAddressableDevices, _Mapping]] = ..., mpmd_addressable_devices_error: _Optional[_Union[StatusProto, _Mapping]] = ..., fingerprint_value: _Optional[bytes] = ..., fingerprint_error: _Optional[_Union[StatusProto, _Mapping]] = ..., ready_future_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableMetadataRequest(_message.Message):
    __slots__ = ("loaded_executable_handle",)
    LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    loaded_executable_handle: int
    def __init__(self, loaded_executable_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableMetadataResponse(_message.Message):
    __slots__ = ("parameter_shardings", "output_shardings", "parameter_layouts_list", "parameter_layouts_error", "output_layouts_list", "output_layouts_error", "output_memory_kinds", "donated_input_indices", "donated_input_indices_error", "compiled_memory_stats", "compiled_memory_stats_error", "mpmd_compiled_memory_stats", "mpmd_compiled_memory_stats_error", "size_of_generated_code_in_bytes")
    class ShardingList(_message.Message):
        __slots__ = ("shardings",)
        SHARDINGS_FIELD_NUMBER: _ClassVar[int]
        shardings: _containers.RepeatedCompositeFieldContainer[OpSharding]
        def __init__(self, shardings: _Optional[_Iterable[_Union[OpSharding, _Mapping]]] = ...) -> None: ...
    class LayoutList(_message.Message):
        __slots__ = ("layouts",)
        LAYOUTS_FIELD_NUMBER: _ClassVar[int]
        layouts: _containers.RepeatedCompositeFieldContainer[XlaLayoutProto]
        def __init__(self, layouts: _Optional[_Iterable[_Union[XlaLayoutProto, _Mapping]]] = ...) -> None: ...
    class MemoryKindList(_message.Message):
        __slots__ = ("memory_kinds",)
        MEMORY_KINDS_FIELD_NUMBER: _ClassVar[int]
        memory_kinds: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, memory_kinds: _Optional[_Iterable[str]] = ...) -> None: ...
    class OutputMemoryKind(_message.Message):
        __slots__ = ("status", "memory_kind_lists")
        STATUS_FIELD_NUMBER: _ClassVar[int]
        MEMORY_KIND_LISTS_FIELD_NUMBER: _ClassVar[int]
        status: StatusProto
        memory_kind_lists: _containers.RepeatedCompositeFieldContainer[LoadedExecutableMetadataResponse.MemoryKindList]
        def __init__(self, status: _Optional[_Union[StatusProto, _Mapping]] = ..., memory_kind_lists: _Optional[_Iterable[_Union[LoadedExecutableMetadataResponse.MemoryKindList, _Mapping]]] = ...) -> None: ...
    class DonatedInputIndices(_message.Message):
        __slots__ = ("donated_input_indices",)
        DONATED_INPUT_INDICES_FIELD_NUMBER: _ClassVar[int]
        donated_input_indices: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, donated_input_indices: _Optional[_Iterable[int]] = ...) -> None: ...
    class MpmdCompiledMemoryStats(_message.Message):
        __slots__ = ("compiled_memory_stats",)
        class CompiledMemoryStatsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: CompiledMemoryStatsProto
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[CompiledMemoryStatsProto, _Mapping]] = ...) -> None: ...
        COMPILED_MEMORY_STATS_FIELD_NUMBER: _ClassVar[int]
        compiled_memory_stats: _containers.MessageMap[str, CompiledMemoryStatsProto]
        def __init__(self, compiled_memory_stats: _Optional[_Mapping[str, CompiledMemoryStatsProto]] = ...) -> None: ...
    PARAMETER_SHARDINGS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SHARDINGS_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_LAYOUTS_LIST_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_LAYOUTS_ERROR_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LAYOUTS_LIST_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LAYOUTS_ERROR_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_MEMORY_KINDS_FIELD_NUMBER: _ClassVar[int]
    DONATED_INPUT_INDICES_FIELD_NUMBER: _ClassVar[int]
    DONATED_INPUT_INDICES_ERROR_FIELD_NUMBER: _ClassVar[int]
    COMPILED_MEMORY_STATS_FIELD_NUMBER: _ClassVar[int]
    COMPILED_MEMORY_STATS_ERROR_FIELD_NUMBER: _ClassVar[int]
    MPMD_COMPILED_MEMORY_STATS_FIELD_NUMBER: _ClassVar[int]
    MPMD_COMPILED_MEMORY_STATS_ERROR_FIELD_NUMBER: _ClassVar[int]
    SIZE_OF_GENERATED_CODE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    parameter_shardings: LoadedExecutableMetadataResponse.ShardingList
    output_shardings: LoadedExecutableMetadataResponse.ShardingList
    parameter_layouts_list: LoadedExecutableMetadataResponse.LayoutList
    parameter_layouts_error: StatusProto
    output_layouts_list: LoadedExecutableMetadataResponse.LayoutList
    output_layouts_error: StatusProto
    output_memory_kinds: LoadedExecutableMetadataResponse.OutputMemoryKind
    donated_input_indices: LoadedExecutableMetadataResponse.DonatedInputIndices
    donated_input_indices_error: StatusProto
    compiled_memory_stats: CompiledMemoryStatsProto
    compiled_memory_stats_error: StatusProto
    mpmd_compiled_memory_stats: LoadedExecutableMetadataResponse.MpmdCompiledMemoryStats
    mpmd_compiled_memory_stats_error: StatusProto
    size_of_generated_code_in_bytes: int
    def __init__(self, parameter_shardings: _Optional[_Union[LoadedExecutableMetadataResponse.ShardingList, _Mapping]] = ..., output_shardings: _Optional[_Union[LoadedExecutableMetadataResponse.ShardingList, _Mapping]] = ..., parameter_layouts_list: _Optional[_Union[LoadedExecutableMetadataResponse.LayoutList, _Mapping]] = ..., parameter_layouts_error: _Optional[_Union[StatusProto, _Mapping]] = ..., output_layouts_list: _Optional[_Union[LoadedExecutableMetadataResponse.LayoutList, _Mapping]] = ..., output_layouts_error: _Optional[_Union[StatusProto, _Mapping]] = ..., output_memory_kinds: _Optional[_Union[LoadedExecutableMetadataResponse.OutputMemoryKind, _Mapping]] = ..., donated_input_indices: _Optional[_Union[LoadedExecutableMetadataResponse.DonatedInputIndices, _Mapping]] = ..., donated_input_indices_error: _Optional[_Union[StatusProto, _Mapping]] = ..., compiled_memory_stats: _Optional[_Union[CompiledMemoryStatsProto, _Mapping]] = ..., compiled_memory_stats_error: _Optional[_Union[StatusProto, _Mapping]] = ..., mpmd_compiled_memory_stats: _Optional[_Union[LoadedExecutableMetadataResponse.MpmdCompiledMemoryStats, _Mapping]] = ..., mpmd_compiled_memory_stats_error: _Optional[_Union[StatusProto, _Mapping]] = ..., size_of_generated_code_in_bytes: _Optional[int] = ...) -> None: ...

class LoadedExecutableCostAnalysisRequest(_message.Message):
    __slots__ = ("loaded_executable_handle",)
    LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    loaded_executable_handle: int
    def __init__(self, loaded_executable_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableCostAnalysisResponse(_message.Message):
    __slots__ = ("status", "attributes")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    status: StatusProto
    attributes: AttributeMapProto
    def __init__(self, status: _Optional[_Union[StatusProto, _Mapping]] = ..., attributes: _Optional[_Union[AttributeMapProto, _Mapping]] = ...) -> None: ...

class LoadedExecutableHumanReadableProgramTextRequest(_message.Message):
    __slots__ = ("loaded_executable_handle",)
    LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    loaded_executable_handle: int
    def __init__(self, loaded_executable_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableHumanReadableProgramTextResponse(_message.Message):
    __slots__ = ("status", "human_readable_program_text")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    HUMAN_READABLE_PROGRAM_TEXT_FIELD_NUMBER: _ClassVar[int]
    status: StatusProto
    human_readable_program_text: str
    def __init__(self, status: _Optional[_Union[StatusProto, _Mapping]] = ..., human_readable_program_text: _Optional[str] = ...) -> None: ...

class LoadedExecutableExecuteRequest(_message.Message):
    __slots__ = ("loaded_executable_handle", "args_handles", "execute_options", "device_ids", "result_array_handle", "result_status_handle")
    LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    ARGS_HANDLES_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    RESULT_ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
    RESULT_STATUS_HANDLE_FIELD_NUMBER: _ClassVar[int]
    loaded_executable_handle: int
    args_handles: _containers.RepeatedScalarFieldContainer[int]
    execute_options: ExecuteOptionsProto
    device_ids: _containers.RepeatedScalarFieldContainer[int]
    result_array_handle: _containers.RepeatedScalarFieldContainer[int]
    result_status_handle: int
    def __init__(self, loaded_executable_handle: _Optional[int] = ..., args_handles: _Optional[_Iterable[int]] = ..., execute_options: _Optional[_Union[ExecuteOptionsProto, _Mapping]] = ..., device_ids: _Optional[_Iterable[int]] = ..., result_array_handle: _Optional[_Iterable[int]] = ..., result_status_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableExecuteResponse(_message.Message):
    __slots__ = ("status_handle", "outputs")
    class Output(_message.Message):
        __slots__ = ("dtype", "shape", "sharding", "array_handle")
        DTYPE_FIELD_NUMBER: _ClassVar[int]
        SHAPE_FIELD_NUMBER: _ClassVar[int]
        SHARDING_FIELD_NUMBER: _ClassVar[int]
        ARRAY_HANDLE_FIELD_NUMBER: _ClassVar[int]
        dtype: DTypeProto
        shape: ShapeProto
        sharding: ShardingProto
        array_handle: int
        def __init__(self, dtype: _Optional[_Union[DTypeProto, _Mapping]] = ..., shape: _Optional[_Union[ShapeProto, _Mapping]] = ..., sharding: _Optional[_Union[ShardingProto, _Mapping]] = ..., array_handle: _Optional[int] = ...) -> None: ...
    STATUS_HANDLE_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    status_handle: int
    outputs: _containers.RepeatedCompositeFieldContainer[LoadedExecutableExecuteResponse.Output]
    def __init__(self, status_handle: _Optional[int] = ..., outputs: _Optional[_Iterable[_Union[LoadedExecutableExecuteResponse.Output, _Mapping]]] = ...) -> None: ...

class LoadedExecutableFetchExecuteResultRequest(_message.Message):
    __slots__ = ("result_status_handle",)
    RESULT_STATUS_HANDLE_FIELD_NUMBER: _ClassVar[int]
    result_status_handle: int
    def __init__(self, result_status_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableFetchExecuteResultResponse(_message.Message):
    __slots__ = ("device_time",)
    class DeviceTimeEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    DEVICE_TIME_FIELD_NUMBER: _ClassVar[int]
    device_time: _containers.ScalarMap[str, float]
    def __init__(self, device_time: _Optional[_Mapping[str, float]] = ...) -> None: ...

class LoadedExecutableDeleteRequest(_message.Message):
    __slots__ = ("loaded_executable_handle",)
    LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    loaded_executable_handle: int
    def __init__(self, loaded_executable_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableDeleteResponse(_message.Message):
    __slots__ = ("future_handle",)
    FUTURE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    future_handle: int
    def __init__(self, future_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableIsDeletedRequest(_message.Message):
    __slots__ = ("loaded_executable_handle",)
    LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    loaded_executable_handle: int
    def __init__(self, loaded_executable_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableIsDeletedResponse(_message.Message):
    __slots__ = ("is_deleted",)
    IS_DELETED_FIELD_NUMBER: _ClassVar[int]
    is_deleted: bool
    def __init__(self, is_deleted: _Optional[bool] = ...) -> None: ...

class LoadedExecutableDeleteOptionsProto(_message.Message):
    __slots__ = ("deletion_stream_id",)
    DELETION_STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    deletion_stream_id: int
    def __init__(self, deletion_stream_id: _Optional[int] = ...) -> None: ...

class LoadedExecutableDestructRequest(_message.Message):
    __slots__ = ("loaded_executable_handle", "delete_options")
    LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    DELETE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    loaded_executable_handle: int
    delete_options: LoadedExecutableDeleteOptionsProto
    def __init__(self, loaded_executable_handle: _Optional[int] = ..., delete_options: _Optional[_Union[LoadedExecutableDeleteOptionsProto, _Mapping]] = ...) -> None: ...

class LoadedExecutableDestructResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LoadedExecutableMpmdMetadataRequest(_message.Message):
    __slots__ = ("mpmd_loaded_executable_handle",)
    MPMD_LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    mpmd_loaded_executable_handle: int
    def __init__(self, mpmd_loaded_executable_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableMpmdMetadataResponse(_message.Message):
    __slots__ = ("mpmd_compiled_memory_stats", "mpmd_compiled_memory_stats_error")
    class MpmdCompiledMemoryStats(_message.Message):
        __slots__ = ("compiled_memory_stats",)
        class CompiledMemoryStatsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: CompiledMemoryStatsProto
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[CompiledMemoryStatsProto, _Mapping]] = ...) -> None: ...
        COMPILED_MEMORY_STATS_FIELD_NUMBER: _ClassVar[int]
        compiled_memory_stats: _containers.MessageMap[str, CompiledMemoryStatsProto]
        def __init__(self, compiled_memory_stats: _Optional[_Mapping[str, CompiledMemoryStatsProto]] = ...) -> None: ...
    MPMD_COMPILED_MEMORY_STATS_FIELD_NUMBER: _ClassVar[int]
    MPMD_COMPILED_MEMORY_STATS_ERROR_FIELD_NUMBER: _ClassVar[int]
    mpmd_compiled_memory_stats: LoadedExecutableMpmdMetadataResponse.MpmdCompiledMemoryStats
    mpmd_compiled_memory_stats_error: StatusProto
    def __init__(self, mpmd_compiled_memory_stats: _Optional[_Union[LoadedExecutableMpmdMetadataResponse.MpmdCompiledMemoryStats, _Mapping]] = ..., mpmd_compiled_memory_stats_error: _Optional[_Union[StatusProto, _Mapping]] = ...) -> None: ...

class LoadedExecutableMpmdCostAnalysisRequest(_message.Message):
    __slots__ = ("loaded_executable_handle",)
    LOADED_EXECUTABLE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    loaded_executable_handle: int
    def __init__(self, loaded_executable_handle: _Optional[int] = ...) -> None: ...

class LoadedExecutableMpmdCostAnalysisResponse(_message.Message):
    __slots__ = ("status", "attributes")
    class MpmdAttributes(_message.Message):
        __slots__ = ("attributes",)
        class AttributesEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: AttributeMapProto
            def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[AttributeMapProto, _Mapping]] = ...) -> None: ...
        ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
        attributes: _containers.MessageMap[str, AttributeMapProto]
        def __init__(self, attributes: _Optional[_Mapping[str, AttributeMapProto]] = ...) -> None: ...
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    status: StatusProto
    attributes: LoadedExecutableMpmdCostAnalysisResponse.MpmdAttributes
    def __init__(self, status: _Optional[_Union[StatusProto, _Mapping]] = ..., attributes: _Optional[_Union[LoadedExecutableMpmdCostAnalysisResponse.MpmdAttributes, _Mapping]] = ...) -> None: ...

class LoadedHostCallbackPollRequest(_message.Message):
    __slots__ = ("loaded_host_callback_handle", "operand_host_buffer_handle")
    LOADED_HOST_CALLBACK_HANDLE_FIELD_NUMBER: _ClassVar[int]
    OPERAND_HOST_BUFFER_HANDLE_FIELD_NUMBER: _ClassVar[int]
    loaded_host_callback_handle: int
    operand_host_buffer_handle: int
    def __init__(self, loaded_host_callback_handle: _Optional[int] = ..., operand_host_buffer_handle: _Optional[int] = ...) -> None: ...

class LoadedHostCallbackPollResponse(_message.Message):
    __slots__ = ("host_callback_execution_handle",)
    HOST_CALLBACK_EXECUTION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    host_callback_execution_handle: int
    def __init__(self, host_callback_execution_handle: _Optional[int] = ...) -> None: ...

class LoadedHostCallbackReturnRequest(_message.Message):
    __slots__ = ("host_callback_execution_handle", "result_host_buffer_handle", "error")
    HOST_CALLBACK_EXECUTION_HANDLE_FIELD_NUMBER: _ClassVar[int]
    RESULT_HOST_BUFFER_HANDLE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    host_callback_execution_handle: int
    result_host_buffer_handle: int
    error: StatusProto
    def __init__(self, host_callback_execution_handle: _Optional[int] = ..., result_host_buffer_handle: _Optional[int] = ..., error: _Optional[_Union[StatusProto, _Mapping]] = ...) -> None: ...

class LoadedHostCallbackReturnResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CompiledMemoryStatsProto(_message.Message):
    __slots__ = ("generated_code_size_in_bytes", "argument_size_in_bytes", "output_size_in_bytes", "alias_size_in_bytes", "temp_size_in_bytes", "peak_memory_in_bytes", "total_size_in_bytes", "total_allocation_bytes", "indefinite_allocations", "peak_unpadded_heap_bytes", "host_generated_code_size_in_bytes", "host_argument_size_in_bytes", "host_output_size_in_bytes", "host_alias_size_in_bytes", "host_temp_size_in_bytes", "serialized_buffer_assignment")
    GENERATED_CODE_SIZE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    ARGUMENT_SIZE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SIZE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    ALIAS_SIZE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    TEMP_SIZE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_SIZE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_ALLOCATION_BYTES_FIELD_NUMBER: _ClassVar[int]
    INDEFINITE_ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    PEAK_UNPADDED_HEAP_BYTES_FIELD_NUMBER: _ClassVar[int]
    HOST_GENERATED_CODE_SIZE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    HOST_ARGUMENT_SIZE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    HOST_OUTPUT_SIZE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    HOST_ALIAS_SIZE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    HOST_TEMP_SIZE_IN_BYTES_FIELD_NUMBER: _ClassVar[int]
    SERIALIZED_BUFFER_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    generated_code_size_in_bytes: int
    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    peak_memory_in_bytes: int
    total_size_in_bytes: int
    total_allocation_bytes: int
    indefinite_allocations: int
    peak_unpadded_heap_bytes: int
    host_generated_code_size_in_bytes: int
    host_argument_size_in_bytes: int
    host_output_size_in_bytes: int
    host_alias_size_in_bytes: int
    host_temp_size_in_bytes: int
    serialized_buffer_assignment: bytes
    def __init__(self, generated_code_size_in_bytes: _Optional[int] = ..., argument_size_in_bytes: _Optional[int] = ..., output_size_in_bytes: _Optional[int] = ..., alias_size_in_bytes: _Optional[int] = ..., temp_size_in_bytes: _Optional[int] = ..., peak_memory_in_bytes: _Optional[int] = ..., total_size_in_bytes: _Optional[int] = ..., total_allocation_bytes: _Optional[int] = ..., indefinite_allocations: _Optional[int] = ..., peak_unpadded_heap_bytes: _Optional[int] = ..., host_generated_code_size_in_bytes: _Optional[int] = ..., host_argument_size_in_bytes: _Optional[int] = ..., host_output_size_in_bytes: _Optional[int] = ..., host_alias_size_in_bytes: _Optional[int] = ..., host_temp_size_in_bytes: _Optional[int] = ..., serialized_buffer_assignment: _Optional[bytes] = ...) -> None: ...

class ByteStrides(_message.Message):
    __slots__ = ("strides",)
    STRIDES_FIELD_NUMBER: _ClassVar[int]
    strides: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, strides: _Optional[_Iterable[int]] = ...) -> None: ...

class StringArrayContents(_message.Message):
    __slots__ = ("strings",)
    STRINGS_FIELD_NUMBER: _ClassVar[int]
    strings: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, strings: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Serialized(_message.Message):
    __slots__ = ("type_name", "data")
    TYPE_NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    type_name: str
    data: bytes
    def __init__(self, type_name: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class AttributeMapProto(_message.Message):
    __slots__ = ("version_number", "attributes")
    class Value(_message.Message):
        __slots__ = ("string_value", "bool_value", "int64_value", "int64_list_value", "float_value")
        class Int64List(_message.Message):
            __slots__ = ("elements",)
            ELEMENTS_FIELD_NUMBER: _ClassVar[int]
            elements: _containers.RepeatedScalarFieldContainer[int]
            def __init__(self, elements: _Optional[_Iterable[int]] = ...) -> None: ...
        STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
        BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
        INT64_VALUE_FIELD_NUMBER: _ClassVar[int]
        INT64_LIST_VALUE_FIELD_NUMBER: _ClassVar[int]
        FLOAT_VALUE_FIELD_NUMBER: _ClassVar[int]
        string_value: bytes
        bool_value: bool
        int64_value: int
        int64_list_value: AttributeMapProto.Value.Int64List
        float_value: float
        def __init__(self, string_value: _Optional[bytes] = ..., bool_value: _Optional[bool] = ..., int64_value: _Optional[int] = ..., int64_list_value: _Optional[_Union[AttributeMapProto.Value.Int64List, _Mapping]] = ..., float_value: _Optional[float] = ...) -> None: ...
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: AttributeMapProto.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[AttributeMapProto.Value, _Mapping]] = ...) -> None: ...
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    attributes: _containers.MessageMap[str, AttributeMapProto.Value]
    def __init__(self, version_number: _Optional[int] = ..., attributes: _Optional[_Mapping[str, AttributeMapProto.Value]] = ...) -> None: ...

class DTypeProto(_message.Message):
    __slots__ = ("version_number", "kind")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[DTypeProto.Kind]
        KIND_PRED: _ClassVar[DTypeProto.Kind]
        KIND_S1: _ClassVar[DTypeProto.Kind]
        KIND_S2: _ClassVar[DTypeProto.Kind]
        KIND_S4: _ClassVar[DTypeProto.Kind]
        KIND_S8: _ClassVar[DTypeProto.Kind]
        KIND_S16: _ClassVar[DTypeProto.Kind]
        KIND_S32: _ClassVar[DTypeProto.Kind]
        KIND_S64: _ClassVar[DTypeProto.Kind]
        KIND_U1: _ClassVar[DTypeProto.Kind]
        KIND_U2: _ClassVar[DTypeProto.Kind]
        KIND_U4: _ClassVar[DTypeProto.Kind]
        KIND_U8: _ClassVar[DTypeProto.Kind]
        KIND_U16: _ClassVar[DTypeProto.Kind]
        KIND_U32: _ClassVar[DTypeProto.Kind]
        KIND_U64: _ClassVar[DTypeProto.Kind]
        KIND_F16: _ClassVar[DTypeProto.Kind]
        KIND_F32: _ClassVar[DTypeProto.Kind]
        KIND_F64: _ClassVar[DTypeProto.Kind]
        KIND_BF16: _ClassVar[DTypeProto.Kind]
        KIND_C64: _ClassVar[DTypeProto.Kind]
        KIND_C128: _ClassVar[DTypeProto.Kind]
        KIND_TOKEN: _ClassVar[DTypeProto.Kind]
        KIND_OPAQUE: _ClassVar[DTypeProto.Kind]
        KIND_F8E3M4: _ClassVar[DTypeProto.Kind]
        KIND_F8E4M3: _ClassVar[DTypeProto.Kind]
        KIND_F8E4M3FN: _ClassVar[DTypeProto.Kind]
        KIND_F8E4M3B11FNUZ: _ClassVar[DTypeProto.Kind]
        KIND_F8E4M3FNUZ: _ClassVar[DTypeProto.Kind]
        KIND_F8E5M2: _ClassVar[DTypeProto.Kind]
        KIND_F8E5M2FNUZ: _ClassVar[DTypeProto.Kind]
        KIND_F8E8M0FNU: _ClassVar[DTypeProto.Kind]
        KIND_F4E2M1FN: _ClassVar[DTypeProto.Kind]
        KIND_STRING: _ClassVar[DTypeProto.Kind]
    KIND_UNSPECIFIED: DTypeProto.Kind
    KIND_PRED: DTypeProto.Kind
    KIND_S1: DTypeProto.Kind
    KIND_S2: DTypeProto.Kind
    KIND_S4: DTypeProto.Kind
    KIND_S8: DTypeProto.Kind
    KIND_S16: DTypeProto.Kind
    KIND_S32: DTypeProto.Kind
    KIND_S64: DTypeProto.Kind
    KIND_U1: DTypeProto.Kind
    KIND_U2: DTypeProto.Kind
    KIND_U4: DTypeProto.Kind
    KIND_U8: DTypeProto.Kind
    KIND_U16: DTypeProto.Kind
    KIND_U32: DTypeProto.Kind
    KIND_U64: DTypeProto.Kind
    KIND_F16: DTypeProto.Kind
    KIND_F32: DTypeProto.Kind
    KIND_F64: DTypeProto.Kind
    KIND_BF16: DTypeProto.Kind
    KIND_C64: DTypeProto.Kind
    KIND_C128: DTypeProto.Kind
    KIND_TOKEN: DTypeProto.Kind
    KIND_OPAQUE: DTypeProto.Kind
    KIND_F8E3M4: DTypeProto.Kind
    KIND_F8E4M3: DTypeProto.Kind
    KIND_F8E4M3FN: DTypeProto.Kind
    KIND_F8E4M3B11FNUZ: DTypeProto.Kind
    KIND_F8E4M3FNUZ: DTypeProto.Kind
    KIND_F8E5M2: DTypeProto.Kind
    KIND_F8E5M2FNUZ: DTypeProto.Kind
    KIND_F8E8M0FNU: DTypeProto.Kind
    KIND_F4E2M1FN: DTypeProto.Kind
    KIND_STRING: DTypeProto.Kind
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    kind: DTypeProto.Kind
    def __init__(self, version_number: _Optional[int] = ..., kind: _Optional[_Union[DTypeProto.Kind, str]] = ...) -> None: ...

class ShapeProto(_message.Message):
    __slots__ = ("version_number", "dims")
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    DIMS_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    dims: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, version_number: _Optional[int] = ..., dims: _Optional[_Iterable[int]] = ...) -> None: ...

class BoundedDynamicShapeTagProto(_message.Message):
    __slots__ = ("version_number", "is_dynamic_dims")
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    IS_DYNAMIC_DIMS_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    is_dynamic_dims: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, version_number: _Optional[int] = ..., is_dynamic_dims: _Optional[_Iterable[bool]] = ...) -> None: ...

class DynamicShapeProto(_message.Message):
    __slots__ = ("version_number", "shape", "bounded_dynamic_shape_tag")
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    BOUNDED_DYNAMIC_SHAPE_TAG_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    shape: ShapeProto
    bounded_dynamic_shape_tag: BoundedDynamicShapeTagProto
    def __init__(self, version_number: _Optional[int] = ..., shape: _Optional[_Union[ShapeProto, _Mapping]] = ..., bounded_dynamic_shape_tag: _Optional[_Union[BoundedDynamicShapeTagProto, _Mapping]] = ...) -> None: ...

class DeviceListProto(_message.Message):
    __slots__ = ("version_number", "device_ids")
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    device_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, version_number: _Optional[int] = ..., device_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class ArraySpecProto(_message.Message):
    __slots__ = ("version_number", "dtype", "shape", "sharding", "layout")
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    SHARDING_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    dtype: DTypeProto
    shape: ShapeProto
    sharding: ShardingProto
    layout: bytes
    def __init__(self, version_number: _Optional[int] = ..., dtype: _Optional[_Union[DTypeProto, _Mapping]] = ..., shape: _Optional[_Union[ShapeProto, _Mapping]] = ..., sharding: _Optional[_Union[ShardingProto, _Mapping]] = ..., layout: _Optional[bytes] = ...) -> None: ...

class ExecuteOptionsProto(_message.Message):
    __slots__ = ("version_number", "untuple_result", "launch_id", "non_donatable_input_indices", "fill_status", "execution_stream_id", "custom_options")
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    UNTUPLE_RESULT_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_ID_FIELD_NUMBER: _ClassVar[int]
    NON_DONATABLE_INPUT_INDICES_FIELD_NUMBER: _ClassVar[int]
    FILL_STATUS_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    untuple_result: bool
    launch_id: int
    non_donatable_input_indices: _containers.RepeatedScalarFieldContainer[int]
    fill_status: bool
    execution_stream_id: int
    custom_options: AttributeMapProto
    def __init__(self, version_number: _Optional[int] = ..., untuple_result: _Optional[bool] = ..., launch_id: _Optional[int] = ..., non_donatable_input_indices: _Optional[_Iterable[int]] = ..., fill_status: _Optional[bool] = ..., execution_stream_id: _Optional[int] = ..., custom_options: _Optional[_Union[AttributeMapProto, _Mapping]] = ...) -> None: ...

class RemapPlanProto(_message.Message):
    __slots__ = ("version_number", "input_specs", "output_specs", "mappings", "input_devices_for_output")
    class MappingProto(_message.Message):
        __slots__ = ("in_array", "out_array", "from_start", "from_end", "from_step", "to_start", "to_end", "to_step")
        IN_ARRAY_FIELD_NUMBER: _ClassVar[int]
        OUT_ARRAY_FIELD_NUMBER: _ClassVar[int]
        FROM_START_FIELD_NUMBER: _ClassVar[int]
        FROM_END_FIELD_NUMBER: _ClassVar[int]
        FROM_STEP_FIELD_NUMBER: _ClassVar[int]
        TO_START_FIELD_NUMBER: _ClassVar[int]
        TO_END_FIELD_NUMBER: _ClassVar[int]
        TO_STEP_FIELD_NUMBER: _ClassVar[int]
        in_array: int
        out_array: int
        from_start: _containers.RepeatedScalarFieldContainer[int]
        from_end: _containers.RepeatedScalarFieldContainer[int]
        from_step: _containers.RepeatedScalarFieldContainer[int]
        to_start: _containers.RepeatedScalarFieldContainer[int]
        to_end: _containers.RepeatedScalarFieldContainer[int]
        to_step: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, in_array: _Optional[int] = ..., out_array: _Optional[int] = ..., from_start: _Optional[_Iterable[int]] = ..., from_end: _Optional[_Iterable[int]] = ..., from_step: _Optional[_Iterable[int]] = ..., to_start: _Optional[_Iterable[int]] = ..., to_end: _Optional[_Iterable[int]] = ..., to_step: _Optional[_Iterable[int]] = ...) -> None: ...
    class InputDevices(_message.Message):
        __slots__ = ("in_array", "device_list")
        IN_ARRAY_FIELD_NUMBER: _ClassVar[int]
        DEVICE_LIST_FIELD_NUMBER: _ClassVar[int]
        in_array: int
        device_list: DeviceListProto
        def __init__(self, in_array: _Optional[int] = ..., device_list: _Optional[_Union[DeviceListProto, _Mapping]] = ...) -> None: ...
    class InputDevicesForOutput(_message.Message):
        __slots__ = ("out_array", "input_devices")
        OUT_ARRAY_FIELD_NUMBER: _ClassVar[int]
        INPUT_DEVICES_FIELD_NUMBER: _ClassVar[int]
        out_array: int
        input_devices: _containers.RepeatedCompositeFieldContainer[RemapPlanProto.InputDevices]
        def __init__(self, out_array: _Optional[int] = ..., input_devices: _Optional[_Iterable[_Union[RemapPlanProto.InputDevices, _Mapping]]] = ...) -> None: ...
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    INPUT_SPECS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SPECS_FIELD_NUMBER: _ClassVar[int]
    MAPPINGS_FIELD_NUMBER: _ClassVar[int]
    INPUT_DEVICES_FOR_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    input_specs: _containers.RepeatedCompositeFieldContainer[ArraySpecProto]
    output_specs: _containers.RepeatedCompositeFieldContainer[ArraySpecProto]
    mappings: _containers.RepeatedCompositeFieldContainer[RemapPlanProto.MappingProto]
    input_devices_for_output: _containers.RepeatedCompositeFieldContainer[RemapPlanProto.InputDevicesForOutput]
    def __init__(self, version_number: _Optional[int] = ..., input_specs: _Optional[_Iterable[_Union[ArraySpecProto, _Mapping]]] = ..., output_specs: _Optional[_Iterable[_Union[ArraySpecProto, _Mapping]]] = ..., mappings: _Optional[_Iterable[_Union[RemapPlanProto.MappingProto, _Mapping]]] = ..., input_devices_for_output: _Optional[_Iterable[_Union[RemapPlanProto.InputDevicesForOutput, _Mapping]]] = ...) -> None: ...

class StatusProto(_message.Message):
    __slots__ = ("code", "message", "payload")
    class Code(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OK: _ClassVar[StatusProto.Code]
        CANCELLED: _ClassVar[StatusProto.Code]
        UNKNOWN: _ClassVar[StatusProto.Code]
        INVALID_ARGUMENT: _ClassVar[StatusProto.Code]
        DEADLINE_EXCEEDED: _ClassVar[StatusProto.Code]
        NOT_FOUND: _ClassVar[StatusProto.Code]
        ALREADY_EXISTS: _ClassVar[StatusProto.Code]
        PERMISSION_DENIED: _ClassVar[StatusProto.Code]
        UNAUTHENTICATED: _ClassVar[StatusProto.Code]
        RESOURCE_EXHAUSTED: _ClassVar[StatusProto.Code]
        FAILED_PRECONDITION: _ClassVar[StatusProto.Code]
        ABORTED: _ClassVar[StatusProto.Code]
        OUT_OF_RANGE: _ClassVar[StatusProto.Code]
        UNIMPLEMENTED: _ClassVar[StatusProto.Code]
        INTERNAL: _ClassVar[StatusProto.Code]
        UNAVAILABLE: _ClassVar[StatusProto.Code]
        DATA_LOSS: _ClassVar[StatusProto.Code]
    OK: StatusProto.Code
    CANCELLED: StatusProto.Code
    UNKNOWN: StatusProto.Code
    INVALID_ARGUMENT: StatusProto.Code
    DEADLINE_EXCEEDED: StatusProto.Code
    NOT_FOUND: StatusProto.Code
    ALREADY_EXISTS: StatusProto.Code
    PERMISSION_DENIED: StatusProto.Code
    UNAUTHENTICATED: StatusProto.Code
    RESOURCE_EXHAUSTED: StatusProto.Code
    FAILED_PRECONDITION: StatusProto.Code
    ABORTED: StatusProto.Code
    OUT_OF_RANGE: StatusProto.Code
    UNIMPLEMENTED: StatusProto.Code
    INTERNAL: StatusProto.Code
    UNAVAILABLE: StatusProto.Code
    DATA_LOSS: StatusProto.Code
    class PayloadEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    code: StatusProto.Code
    message: str
    payload: _containers.ScalarMap[str, bytes]
    def __init__(self, code: _Optional[_Union[StatusProto.Code, str]] = ..., message: _Optional[str] = ..., payload: _Optional[_Mapping[str, bytes]] = ...) -> None: ...

class ShardingProto(_message.Message):
    __slots__ = ("serialized_sharding",)
    SERIALIZED_SHARDING_FIELD_NUMBER: _ClassVar[int]
    serialized_sharding: Serialized
    def __init__(self, serialized_sharding: _Optional[_Union[Serialized, _Mapping]] = ...) -> None: ...

class HloShardingProto(_message.Message):
    __slots__ = ("version_number", "devices", "memory_kind", "xla_op_sharding")
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KIND_FIELD_NUMBER: _ClassVar[int]
    XLA_OP_SHARDING_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    devices: DeviceListProto
    memory_kind: str
    xla_op_sharding: OpSharding
    def __init__(self, version_number: _Optional[int] = ..., devices: _Optional[_Union[DeviceListProto, _Mapping]] = ..., memory_kind: _Optional[str] = ..., xla_op_sharding: _Optional[_Union[OpSharding, _Mapping]] = ...) -> None: ...

class SingleDeviceShardingProto(_message.Message):
    __slots__ = ("version_number", "device_id", "memory_kind")
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KIND_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    device_id: int
    memory_kind: str
    def __init__(self, version_number: _Optional[int] = ..., device_id: _Optional[int] = ..., memory_kind: _Optional[str] = ...) -> None: ...

class OpaqueShardingProto(_message.Message):
    __slots__ = ("version_number", "devices", "memory_kind")
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KIND_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    devices: DeviceListProto
    memory_kind: str
    def __init__(self, version_number: _Optional[int] = ..., devices: _Optional[_Union[DeviceListProto, _Mapping]] = ..., memory_kind: _Optional[str] = ...) -> None: ...

class ConcreteShardingProto(_message.Message):
    __slots__ = ("version_number", "devices", "memory_kind", "shape", "dynamic_shape", "shard_shapes", "shard_dynamic_shapes")
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KIND_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DYNAMIC_SHAPE_FIELD_NUMBER: _ClassVar[int]
    SHARD_SHAPES_FIELD_NUMBER: _ClassVar[int]
    SHARD_DYNAMIC_SHAPES_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    devices: DeviceListProto
    memory_kind: str
    shape: ShapeProto
    dynamic_shape: DynamicShapeProto
    shard_shapes: _containers.RepeatedCompositeFieldContainer[ShapeProto]
    shard_dynamic_shapes: _containers.RepeatedCompositeFieldContainer[DynamicShapeProto]
    def __init__(self, version_number: _Optional[int] = ..., devices: _Optional[_Union[DeviceListProto, _Mapping]] = ..., memory_kind: _Optional[str] = ..., shape: _Optional[_Union[ShapeProto, _Mapping]] = ..., dynamic_shape: _Optional[_Union[DynamicShapeProto, _Mapping]] = ..., shard_shapes: _Optional[_Iterable[_Union[ShapeProto, _Mapping]]] = ..., shard_dynamic_shapes: _Optional[_Iterable[_Union[DynamicShapeProto, _Mapping]]] = ...) -> None: ...

class ConcreteEvenShardingProto(_message.Message):
    __slots__ = ("version_number", "devices", "memory_kind", "shape", "shard_shape", "is_fully_replicated")
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KIND_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    SHARD_SHAPE_FIELD_NUMBER: _ClassVar[int]
    IS_FULLY_REPLICATED_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    devices: DeviceListProto
    memory_kind: str
    shape: ShapeProto
    shard_shape: ShapeProto
    is_fully_replicated: bool
    def __init__(self, version_number: _Optional[int] = ..., devices: _Optional[_Union[DeviceListProto, _Mapping]] = ..., memory_kind: _Optional[str] = ..., shape: _Optional[_Union[ShapeProto, _Mapping]] = ..., shard_shape: _Optional[_Union[ShapeProto, _Mapping]] = ..., is_fully_replicated: _Optional[bool] = ...) -> None: ...

class ShardingParamShardingProto(_message.Message):
    __slots__ = ("version_number", "sharding_param", "devices", "memory_kind")
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    SHARDING_PARAM_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_KIND_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    sharding_param: ShardingParamProto
    devices: DeviceListProto
    memory_kind: str
    def __init__(self, version_number: _Optional[int] = ..., sharding_param: _Optional[_Union[ShardingParamProto, _Mapping]] = ..., devices: _Optional[_Union[DeviceListProto, _Mapping]] = ..., memory_kind: _Optional[str] = ...) -> None: ...

class ShardingParamProto(_message.Message):
    __slots__ = ("version_number", "dim_shards", "permutation", "axis_sizes", "unreduced_axes")
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    DIM_SHARDS_FIELD_NUMBER: _ClassVar[int]
    PERMUTATION_FIELD_NUMBER: _ClassVar[int]
    AXIS_SIZES_FIELD_NUMBER: _ClassVar[int]
    UNREDUCED_AXES_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    dim_shards: _containers.RepeatedScalarFieldContainer[int]
    permutation: _containers.RepeatedScalarFieldContainer[int]
    axis_sizes: _containers.RepeatedScalarFieldContainer[int]
    unreduced_axes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, version_number: _Optional[int] = ..., dim_shards: _Optional[_Iterable[int]] = ..., permutation: _Optional[_Iterable[int]] = ..., axis_sizes: _Optional[_Iterable[int]] = ..., unreduced_axes: _Optional[_Iterable[int]] = ...) -> None: ...

class LayoutProto(_message.Message):
    __slots__ = ("serialized_layout",)
    SERIALIZED_LAYOUT_FIELD_NUMBER: _ClassVar[int]
    serialized_layout: Serialized
    def __init__(self, serialized_layout: _Optional[_Union[Serialized, _Mapping]] = ...) -> None: ...

class CompactLayoutProto(_message.Message):
    __slots__ = ("version_number", "major_to_minor")
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    MAJOR_TO_MINOR_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    major_to_minor: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, version_number: _Optional[int] = ..., major_to_minor: _Optional[_Iterable[int]] = ...) -> None: ...

class PjRtLayoutProto(_message.Message):
    __slots__ = ("version_number", "xla_layout")
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    XLA_LAYOUT_FIELD_NUMBER: _ClassVar[int]
    version_number: int
    xla_layout: XlaLayoutProto
    def __init__(self, version_number: _Optional[int] = ..., xla_layout: _Optional[_Union[XlaLayoutProto, _Mapping]] = ...) -> None: ...

class XlaCompileOptionsProto(_message.Message):
    __slots__ = ("compile_options",)
    COMPILE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    compile_options: CompileOptionsProto
    def __init__(self, compile_options: _Optional[_Union[CompileOptionsProto, _Mapping]] = ...) -> None: ...

class CompileOptionsProto(_message.Message):
    __slots__ = ("argument_layouts", "parameter_is_tupled_arguments", "executable_build_options", "compile_portable_executable", "profile_version", "serialized_multi_slice_config", "env_option_overrides", "target_config", "allow_in_place_mlir_modification", "matrix_unit_operand_precision", "compiler_variant")
    class Precision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DEFAULT: _ClassVar[CompileOptionsProto.Precision]
        HIGH: _ClassVar[CompileOptionsProto.Precision]
        HIGHEST: _ClassVar[CompileOptionsProto.Precision]
    DEFAULT: CompileOptionsProto.Precision
    HIGH: CompileOptionsProto.Precision
    HIGHEST: CompileOptionsProto.Precision
    class EnvOptionOverridesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: OptionOverrideProto
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[OptionOverrideProto, _Mapping]] = ...) -> None: ...
    ARGUMENT_LAYOUTS_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_IS_TUPLED_ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLE_BUILD_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    COMPILE_PORTABLE_EXECUTABLE_FIELD_NUMBER: _ClassVar[int]
    PROFILE_VERSION_FIELD_NUMBER: _ClassVar[int]
    SERIALIZED_MULTI_SLICE_CONFIG_FIELD_NUMBER: _ClassVar[int]
    ENV_OPTION_OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    TARGET_CONFIG_FIELD_NUMBER: _ClassVar[int]
    ALLOW_IN_PLACE_MLIR_MODIFICATION_FIELD_NUMBER: _ClassVar[int]
    MATRIX_UNIT_OPERAND_PRECISION_FIELD_NUMBER: _ClassVar[int]
    COMPILER_VARIANT_FIELD_NUMBER: _ClassVar[int]
    argument_layouts: _containers.RepeatedCompositeFieldContainer[XlaShapeProto]
    parameter_is_tupled_arguments: bool
    executable_build_options: ExecutableBuildOptionsProto
    compile_portable_executable: bool
    profile_version: int
    serialized_multi_slice_config: bytes
    env_option_overrides: _containers.MessageMap[str, OptionOverrideProto]
    target_config: UnparsedProto
    allow_in_place_mlir_modification: bool
    matrix_unit_operand_precision: CompileOptionsProto.Precision
    compiler_variant: str
    def __init__(self, argument_layouts: _Optional[_Iterable[_Union[XlaShapeProto, _Mapping]]] = ..., parameter_is_tupled_arguments: _Optional[bool] = ..., executable_build_options: _Optional[_Union[ExecutableBuildOptionsProto, _Mapping]] = ..., compile_portable_executable: _Optional[bool] = ..., profile_version: _Optional[int] = ..., serialized_multi_slice_config: _Optional[bytes] = ..., env_option_overrides: _Optional[_Mapping[str, OptionOverrideProto]] = ..., target_config: _Optional[_Union[UnparsedProto, _Mapping]] = ..., allow_in_place_mlir_modification: _Optional[bool] = ..., matrix_unit_operand_precision: _Optional[_Union[CompileOptionsProto.Precision, str]] = ..., compiler_variant: _Optional[str] = ...) -> None: ...

class ExecutableBuildOptionsProto(_message.Message):
    __slots__ = ("device_ordinal", "result_layout", "comp_envs", "debug_options", "num_replicas", "num_partitions", "use_spmd_partitioning", "use_auto_spmd_partitioning", "exec_time_optimization_effort", "memory_fitting_effort", "optimization_level", "memory_fitting_level", "deduplicate_hlo", "device_assignment", "alias_passthrough_params", "run_backend_only", "allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output", "fdo_profile", "device_memory_size", "auto_spmd_partitioning_mesh_shape", "auto_spmd_partitioning_mesh_ids", "use_shardy_partitioner", "process_index", "process_count", "slice_size")
    class EffortLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        EFFORT_UNKNOWN: _ClassVar[ExecutableBuildOptionsProto.EffortLevel]
        EFFORT_O0: _ClassVar[ExecutableBuildOptionsProto.EffortLevel]
        EFFORT_O1: _ClassVar[ExecutableBuildOptionsProto.EffortLevel]
        EFFORT_O2: _ClassVar[ExecutableBuildOptionsProto.EffortLevel]
        EFFORT_O3: _ClassVar[ExecutableBuildOptionsProto.EffortLevel]
    EFFORT_UNKNOWN: ExecutableBuildOptionsProto.EffortLevel
    EFFORT_O0: ExecutableBuildOptionsProto.EffortLevel
    EFFORT_O1: ExecutableBuildOptionsProto.EffortLevel
    EFFORT_O2: ExecutableBuildOptionsProto.EffortLevel
    EFFORT_O3: ExecutableBuildOptionsProto.EffortLevel
    DEVICE_ORDINAL_FIELD_NUMBER: _ClassVar[int]
    RESULT_LAYOUT_FIELD_NUMBER: _ClassVar[int]
    COMP_ENVS_FIELD_NUMBER: _ClassVar[int]
    DEBUG_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    NUM_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    NUM_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    USE_SPMD_PARTITIONING_FIELD_NUMBER: _ClassVar[int]
    USE_AUTO_SPMD_PARTITIONING_FIELD_NUMBER: _ClassVar[int]
    EXEC_TIME_OPTIMIZATION_EFFORT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FITTING_EFFORT_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZATION_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FITTING_LEVEL_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATE_HLO_FIELD_NUMBER: _ClassVar[int]
    DEVICE_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    ALIAS_PASSTHROUGH_PARAMS_FIELD_NUMBER: _ClassVar[int]
    RUN_BACKEND_ONLY_FIELD_NUMBER: _ClassVar[int]
    ALLOW_SPMD_SHARDING_PROPAGATION_TO_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_SPMD_SHARDING_PROPAGATION_TO_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    FDO_PROFILE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_MEMORY_SIZE_FIELD_NUMBER: _ClassVar[int]
    AUTO_SPMD_PARTITIONING_MESH_SHAPE_FIELD_NUMBER: _ClassVar[int]
    AUTO_SPMD_PARTITIONING_MESH_IDS_FIELD_NUMBER: _ClassVar[int]
    USE_SHARDY_PARTITIONER_FIELD_NUMBER: _ClassVar[int]
    PROCESS_INDEX_FIELD_NUMBER: _ClassVar[int]
    PROCESS_COUNT_FIELD_NUMBER: _ClassVar[int]
    SLICE_SIZE_FIELD_NUMBER: _ClassVar[int]
    device_ordinal: int
    result_layout: XlaShapeProto
    comp_envs: UnparsedProto
    debug_options: UnparsedProto
    num_replicas: int
    num_partitions: int
    use_spmd_partitioning: bool
    use_auto_spmd_partitioning: bool
    exec_time_optimization_effort: float
    memory_fitting_effort: float
    optimization_level: ExecutableBuildOptionsProto.EffortLevel
    memory_fitting_level: ExecutableBuildOptionsProto.EffortLevel
    deduplicate_hlo: bool
    device_assignment: DeviceAssignmentProto
    alias_passthrough_params: bool
    run_backend_only: bool
    allow_spmd_sharding_propagation_to_parameters: _containers.RepeatedScalarFieldContainer[bool]
    allow_spmd_sharding_propagation_to_output: _containers.RepeatedScalarFieldContainer[bool]
    fdo_profile: bytes
    device_memory_size: int
    auto_spmd_partitioning_mesh_shape: _containers.RepeatedScalarFieldContainer[int]
    auto_spmd_partitioning_mesh_ids: _containers.RepeatedScalarFieldContainer[int]
    use_shardy_partitioner: bool
    process_index: int
    process_count: int
    slice_size: int
    def __init__(self, device_ordinal: _Optional[int] = ..., result_layout: _Optional[_Union[XlaShapeProto, _Mapping]] = ..., comp_envs: _Optional[_Union[UnparsedProto, _Mapping]] = ..., debug_options: _Optional[_Union[UnparsedProto, _Mapping]] = ..., num_replicas: _Optional[int] = ..., num_partitions: _Optional[int] = ..., use_spmd_partitioning: _Optional[bool] = ..., use_auto_spmd_partitioning: _Optional[bool] = ..., exec_time_optimization_effort: _Optional[float] = ..., memory_fitting_effort: _Optional[float] = ..., optimization_level: _Optional[_Union[ExecutableBuildOptionsProto.EffortLevel, str]] = ..., memory_fitting_level: _Optional[_Union[ExecutableBuildOptionsProto.EffortLevel, str]] = ..., deduplicate_hlo: _Optional[bool] = ..., device_assignment: _Optional[_Union[DeviceAssignmentProto, _Mapping]] = ..., alias_passthrough_params: _Optional[bool] = ..., run_backend_only: _Optional[bool] = ..., allow_spmd_sharding_propagation_to_parameters: _Optional[_Iterable[bool]] = ..., allow_spmd_sharding_propagation_to_output: _Optional[_Iterable[bool]] = ..., fdo_profile: _Optional[bytes] = ..., device_memory_size: _Optional[int] = ..., auto_spmd_partitioning_mesh_shape: _Optional[_Iterable[int]] = ..., auto_spmd_partitioning_mesh_ids: _Optional[_Iterable[int]] = ..., use_shardy_partitioner: _Optional[bool] = ..., process_index: _Optional[int] = ..., process_count: _Optional[int] = ..., slice_size: _Optional[int] = ...) -> None: ...

class OptionOverrideProto(_message.Message):
    __slots__ = ("string_field", "bool_field", "int_field", "double_field")
    STRING_FIELD_FIELD_NUMBER: _ClassVar[int]
    BOOL_FIELD_FIELD_NUMBER: _ClassVar[int]
    INT_FIELD_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_FIELD_FIELD_NUMBER: _ClassVar[int]
    string_field: str
    bool_field: bool
    int_field: int
    double_field: float
    def __init__(self, string_field: _Optional[str] = ..., bool_field: _Optional[bool] = ..., int_field: _Optional[int] = ..., double_field: _Optional[float] = ...) -> None: ...

class XlaHostCallbackProto(_message.Message):
    __slots__ = ("operands", "results", "serialized_callback", "use_major_to_minor_data_layout_for_callbacks")
    class ArgInfo(_message.Message):
        __slots__ = ("channel_id", "shape")
        CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
        SHAPE_FIELD_NUMBER: _ClassVar[int]
        channel_id: int
        shape: XlaShapeProto
        def __init__(self, channel_id: _Optional[int] = ..., shape: _Optional[_Union[XlaShapeProto, _Mapping]] = ...) -> None: ...
    OPERANDS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    SERIALIZED_CALLBACK_FIELD_NUMBER: _ClassVar[int]
    USE_MAJOR_TO_MINOR_DATA_LAYOUT_FOR_CALLBACKS_FIELD_NUMBER: _ClassVar[int]
    operands: _containers.RepeatedCompositeFieldContainer[XlaHostCallbackProto.ArgInfo]
    results: _containers.RepeatedCompositeFieldContainer[XlaHostCallbackProto.ArgInfo]
    serialized_callback: _any_pb2.Any
    use_major_to_minor_data_layout_for_callbacks: bool
    def __init__(self, operands: _Optional[_Iterable[_Union[XlaHostCallbackProto.ArgInfo, _Mapping]]] = ..., results: _Optional[_Iterable[_Union[XlaHostCallbackProto.ArgInfo, _Mapping]]] = ..., serialized_callback: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., use_major_to_minor_data_layout_for_callbacks: _Optional[bool] = ...) -> None: ...

class DeviceAssignmentProto(_message.Message):
    __slots__ = ("replica_count", "computation_count", "computation_devices")
    class ComputationDevice(_message.Message):
        __slots__ = ("replica_device_ids",)
        REPLICA_DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
        replica_device_ids: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, replica_device_ids: _Optional[_Iterable[int]] = ...) -> None: ...
    REPLICA_COUNT_FIELD_NUMBER: _ClassVar[int]
    COMPUTATION_COUNT_FIELD_NUMBER: _ClassVar[int]
    COMPUTATION_DEVICES_FIELD_NUMBER: _ClassVar[int]
    replica_count: int
    computation_count: int
    computation_devices: _containers.RepeatedCompositeFieldContainer[DeviceAssignmentProto.ComputationDevice]
    def __init__(self, replica_count: _Optional[int] = ..., computation_count: _Optional[int] = ..., computation_devices: _Optional[_Iterable[_Union[DeviceAssignmentProto.ComputationDevice, _Mapping]]] = ...) -> None: ...

class OpSharding(_message.Message):
    __slots__ = ("type", "tile_shape", "tile_assignment_dimensions", "tile_assignment_devices", "tuple_shardings", "replicate_on_last_tile_dim", "metadata", "last_tile_dims", "iota_reshape_dims", "iota_transpose_perm", "is_shard_group", "shard_group_id", "shard_group_type", "named_sharding")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REPLICATED: _ClassVar[OpSharding.Type]
        MAXIMAL: _ClassVar[OpSharding.Type]
        TUPLE: _ClassVar[OpSharding.Type]
        OTHER: _ClassVar[OpSharding.Type]
        MANUAL: _ClassVar[OpSharding.Type]
        UNKNOWN: _ClassVar[OpSharding.Type]
        UNREDUCED: _ClassVar[OpSharding.Type]
    REPLICATED: OpSharding.Type
    MAXIMAL: OpSharding.Type
    TUPLE: OpSharding.Type
    OTHER: OpSharding.Type
    MANUAL: OpSharding.Type
    UNKNOWN: OpSharding.Type
    UNREDUCED: OpSharding.Type
    class ShardGroupType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        AS: _ClassVar[OpSharding.ShardGroupType]
        LIKE: _ClassVar[OpSharding.ShardGroupType]
    AS: OpSharding.ShardGroupType
    LIKE: OpSharding.ShardGroupType
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TILE_SHAPE_FIELD_NUMBER: _ClassVar[int]
    TILE_ASSIGNMENT_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    TILE_ASSIGNMENT_DEVICES_FIELD_NUMBER: _ClassVar[int]
    TUPLE_SHARDINGS_FIELD_NUMBER: _ClassVar[int]
    REPLICATE_ON_LAST_TILE_DIM_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    LAST_TILE_DIMS_FIELD_NUMBER: _ClassVar[int]
    IOTA_RESHAPE_DIMS_FIELD_NUMBER: _ClassVar[int]
    IOTA_TRANSPOSE_PERM_FIELD_NUMBER: _ClassVar[int]
    IS_SHARD_GROUP_FIELD_NUMBER: _ClassVar[int]
    SHARD_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    SHARD_GROUP_TYPE_FIELD_NUMBER: _ClassVar[int]
    NAMED_SHARDING_FIELD_NUMBER: _ClassVar[int]
    type: OpSharding.Type
    tile_shape: XlaShapeProto
    tile_assignment_dimensions: _containers.RepeatedScalarFieldContainer[int]
    tile_assignment_devices: _containers.RepeatedScalarFieldContainer[int]
    tuple_shardings: _containers.RepeatedCompositeFieldContainer[OpSharding]
    replicate_on_last_tile_dim: bool
    metadata: _containers.RepeatedCompositeFieldContainer[UnparsedProto]
    last_tile_dims: _containers.RepeatedScalarFieldContainer[OpSharding.Type]
    iota_reshape_dims: _containers.RepeatedScalarFieldContainer[int]
    iota_transpose_perm: _containers.RepeatedScalarFieldContainer[int]
    is_shard_group: bool
    shard_group_id: int
    shard_group_type: OpSharding.ShardGroupType
    named_sharding: NamedShardingProto
    def __init__(self, type: _Optional[_Union[OpSharding.Type, str]] = ..., tile_shape: _Optional[_Union[XlaShapeProto, _Mapping]] = ..., tile_assignment_dimensions: _Optional[_Iterable[int]] = ..., tile_assignment_devices: _Optional[_Iterable[int]] = ..., tuple_shardings: _Optional[_Iterable[_Union[OpSharding, _Mapping]]] = ..., replicate_on_last_tile_dim: _Optional[bool] = ..., metadata: _Optional[_Iterable[_Union[UnparsedProto, _Mapping]]] = ..., last_tile_dims: _Optional[_Iterable[_Union[OpSharding.Type, str]]] = ..., iota_reshape_dims: _Optional[_Iterable[int]] = ..., iota_transpose_perm: _Optional[_Iterable[int]] = ..., is_shard_group: _Optional[bool] = ..., shard_group_id: _Optional[int] = ..., shard_group_type: _Optional[_Union[OpSharding.ShardGroupType, str]] = ..., named_sharding: _Optional[_Union[NamedShardingProto, _Mapping]] = ...) -> None: ...

class NamedShardingProto(_message.Message):
    __slots__ = ("mesh", "dim_shardings", "replicated_axes", "unreduced_axes", "manual_axes", "metadata")
    class DimensionSharding(_message.Message):
        __slots__ = ("axes", "is_closed")
        AXES_FIELD_NUMBER: _ClassVar[int]
        IS_CLOSED_FIELD_NUMBER: _ClassVar[int]
        axes: _containers.RepeatedCompositeFieldContainer[AxisRefProto]
        is_closed: bool
        def __init__(self, axes: _Optional[_Iterable[_Union[AxisRefProto, _Mapping]]] = ..., is_closed: _Optional[bool] = ...) -> None: ...
    MESH_FIELD_NUMBER: _ClassVar[int]
    DIM_SHARDINGS_FIELD_NUMBER: _ClassVar[int]
    REPLICATED_AXES_FIELD_NUMBER: _ClassVar[int]
    UNREDUCED_AXES_FIELD_NUMBER: _ClassVar[int]
    MANUAL_AXES_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    mesh: MeshProto
    dim_shardings: _containers.RepeatedCompositeFieldContainer[NamedShardingProto.DimensionSharding]
    replicated_axes: _containers.RepeatedCompositeFieldContainer[AxisRefProto]
    unreduced_axes: _containers.RepeatedCompositeFieldContainer[AxisRefProto]
    manual_axes: _containers.RepeatedCompositeFieldContainer[AxisRefProto]
    metadata: _containers.RepeatedCompositeFieldContainer[UnparsedProto]
    def __init__(self, mesh: _Optional[_Union[MeshProto, _Mapping]] = ..., dim_shardings: _Optional[_Iterable[_Union[NamedShardingProto.DimensionSharding, _Mapping]]] = ..., replicated_axes: _Optional[_Iterable[_Union[AxisRefProto, _Mapping]]] = ..., unreduced_axes: _Optional[_Iterable[_Union[AxisRefProto, _Mapping]]] = ..., manual_axes: _Optional[_Iterable[_Union[AxisRefProto, _Mapping]]] = ..., metadata: _Optional[_Iterable[_Union[UnparsedProto, _Mapping]]] = ...) -> None: ...

class MeshProto(_message.Message):
    __slots__ = ("axes", "device_ids", "iota_transform")
    class MeshAxis(_message.Message):
        __slots__ = ("name", "size")
        NAME_FIELD_NUMBER: _ClassVar[int]
        SIZE_FIELD_NUMBER: _ClassVar[int]
        name: str
        size: int
        def __init__(self, name: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...
    class IotaTransform(_message.Message):
        __slots__ = ("reshape_dims", "transpose_perm")
        RESHAPE_DIMS_FIELD_NUMBER: _ClassVar[int]
        TRANSPOSE_PERM_FIELD_NUMBER: _ClassVar[int]
        reshape_dims: _containers.RepeatedScalarFieldContainer[int]
        transpose_perm: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, reshape_dims: _Optional[_Iterable[int]] = ..., transpose_perm: _Optional[_Iterable[int]] = ...) -> None: ...
    AXES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    IOTA_TRANSFORM_FIELD_NUMBER: _ClassVar[int]
    axes: _containers.RepeatedCompositeFieldContainer[MeshProto.MeshAxis]
    device_ids: _containers.RepeatedScalarFieldContainer[int]
    iota_transform: MeshProto.IotaTransform
    def __init__(self, axes: _Optional[_Iterable[_Union[MeshProto.MeshAxis, _Mapping]]] = ..., device_ids: _Optional[_Iterable[int]] = ..., iota_transform: _Optional[_Union[MeshProto.IotaTransform, _Mapping]] = ...) -> None: ...

class AxisRefProto(_message.Message):
    __slots__ = ("mesh_axis_index", "sub_axis_info")
    class SubAxis(_message.Message):
        __slots__ = ("pre_size", "size")
        PRE_SIZE_FIELD_NUMBER: _ClassVar[int]
        SIZE_FIELD_NUMBER: _ClassVar[int]
        pre_size: int
        size: int
        def __init__(self, pre_size: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...
    MESH_AXIS_INDEX_FIELD_NUMBER: _ClassVar[int]
    SUB_AXIS_INFO_FIELD_NUMBER: _ClassVar[int]
    mesh_axis_index: int
    sub_axis_info: AxisRefProto.SubAxis
    def __init__(self, mesh_axis_index: _Optional[int] = ..., sub_axis_info: _Optional[_Union[AxisRefProto.SubAxis, _Mapping]] = ...) -> None: ...

class XlaShapeProto(_message.Message):
    __slots__ = ("element_type", "dimensions", "is_dynamic_dimension", "tuple_shapes", "layout")
    ELEMENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    IS_DYNAMIC_DIMENSION_FIELD_NUMBER: _ClassVar[int]
    TUPLE_SHAPES_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    element_type: PrimitiveType
    dimensions: _containers.RepeatedScalarFieldContainer[int]
    is_dynamic_dimension: _containers.RepeatedScalarFieldContainer[bool]
    tuple_shapes: _containers.RepeatedCompositeFieldContainer[XlaShapeProto]
    layout: XlaLayoutProto
    def __init__(self, element_type: _Optional[_Union[PrimitiveType, str]] = ..., dimensions: _Optional[_Iterable[int]] = ..., is_dynamic_dimension: _Optional[_Iterable[bool]] = ..., tuple_shapes: _Optional[_Iterable[_Union[XlaShapeProto, _Mapping]]] = ..., layout: _Optional[_Union[XlaLayoutProto, _Mapping]] = ...) -> None: ...

class XlaLayoutProto(_message.Message):
    __slots__ = ("minor_to_major", "dim_level_types", "dim_unique", "dim_ordered", "tiles", "tail_padding_alignment_in_elements", "element_size_in_bits", "memory_space", "index_primitive_type", "pointer_primitive_type", "physical_shape", "dynamic_shape_metadata_prefix_bytes", "split_configs")
    MINOR_TO_MAJOR_FIELD_NUMBER: _ClassVar[int]
    DIM_LEVEL_TYPES_FIELD_NUMBER: _ClassVar[int]
    DIM_UNIQUE_FIELD_NUMBER: _ClassVar[int]
    DIM_ORDERED_FIELD_NUMBER: _ClassVar[int]
    TILES_FIELD_NUMBER: _ClassVar[int]
    TAIL_PADDING_ALIGNMENT_IN_ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    ELEMENT_SIZE_IN_BITS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_SPACE_FIELD_NUMBER: _ClassVar[int]
    INDEX_PRIMITIVE_TYPE_FIELD_NUMBER: _ClassVar[int]
    POINTER_PRIMITIVE_TYPE_FIELD_NUMBER: _ClassVar[int]
    PHYSICAL_SHAPE_FIELD_NUMBER: _ClassVar[int]
    DYNAMIC_SHAPE_METADATA_PREFIX_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPLIT_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    minor_to_major: _containers.RepeatedScalarFieldContainer[int]
    dim_level_types: _containers.RepeatedScalarFieldContainer[DimLevelType]
    dim_unique: _containers.RepeatedScalarFieldContainer[bool]
    dim_ordered: _containers.RepeatedScalarFieldContainer[bool]
    tiles: _containers.RepeatedCompositeFieldContainer[TileProto]
    tail_padding_alignment_in_elements: int
    element_size_in_bits: int
    memory_space: int
    index_primitive_type: PrimitiveType
    pointer_primitive_type: PrimitiveType
    physical_shape: XlaShapeProto
    dynamic_shape_metadata_prefix_bytes: int
    split_configs: _containers.RepeatedCompositeFieldContainer[SplitConfigProto]
    def __init__(self, minor_to_major: _Optional[_Iterable[int]] = ..., dim_level_types: _Optional[_Iterable[_Union[DimLevelType, str]]] = ..., dim_unique: _Optional[_Iterable[bool]] = ..., dim_ordered: _Optional[_Iterable[bool]] = ..., tiles: _Optional[_Iterable[_Union[TileProto, _Mapping]]] = ..., tail_padding_alignment_in_elements: _Optional[int] = ..., element_size_in_bits: _Optional[int] = ..., memory_space: _Optional[int] = ..., index_primitive_type: _Optional[_Union[PrimitiveType, str]] = ..., pointer_primitive_type: _Optional[_Union[PrimitiveType, str]] = ..., physical_shape: _Optional[_Union[XlaShapeProto, _Mapping]] = ..., dynamic_shape_metadata_prefix_bytes: _Optional[int] = ..., split_configs: _Optional[_Iterable[_Union[SplitConfigProto, _Mapping]]] = ...) -> None: ...

class TileProto(_message.Message):
    __slots__ = ("dimensions",)
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    dimensions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dimensions: _Optional[_Iterable[int]] = ...) -> None: ...

class SplitConfigProto(_message.Message):
    __slots__ = ("dimension", "split_indices")
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    SPLIT_INDICES_FIELD_NUMBER: _ClassVar[int]
    dimension: int
    split_indices: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dimension: _Optional[int] = ..., split_indices: _Optional[_Iterable[int]] = ...) -> None: ...

class UnparsedProto(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
