"""Our messages against the ones compiled into the installed jaxlib: a jaxlib upgrade that changes them fails here."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from jaxlib import _jax

from elastic.proto import ifrt_pb2
from tests.elastic.proto.jaxlib_descriptors import DescriptorNotFoundError, pool_of

OURS = ifrt_pb2.DESCRIPTOR
SERVICE_FILE = "xla/python/ifrt_proxy/common/ifrt_service.proto"
GRPC_FILE = "xla/python/ifrt_proxy/common/grpc_ifrt_service.proto"

# Where the originals of our top-level messages and enums are: {file: (package, {our name: its name there})}.
# What no entry names is in SERVICE_FILE.
ELSEWHERE: dict[str, tuple[str, dict[str, str]]] = {
    file: (package, {name: name for name in names.split()} | renamed)
    for file, package, names, renamed in [
        (
            GRPC_FILE,
            "xla.ifrt.proxy",
            "GrpcGetVersionRequest GrpcGetVersionResponse GrpcIfrtSessionMetadata GrpcHostBufferStoreMetadata "
            "GrpcHostBufferStoreRequest GrpcHostBufferStoreResponse GrpcHostBufferReadFromDiskRequest "
            "GrpcHostBufferReadFromDiskResponse GrpcHostBufferLookupRequest GrpcHostBufferLookupResponse "
            "GrpcHostBufferDeleteRequest GrpcHostBufferDeleteResponse",
            {},
        ),
        (
            "xla/python/ifrt_proxy/common/types.proto",
            "xla.ifrt.proto",
            "ByteStrides ArrayCopySemantics SingleDeviceShardSemantics",
            {},
        ),
        ("xla/python/ifrt_proxy/common/array_util.proto", "xla.ifrt.proto", "StringArrayContents", {}),
        ("xla/python/ifrt/serdes.proto", "xla.ifrt", "Serialized", {}),
        ("xla/python/ifrt/attribute_map.proto", "xla.ifrt", "AttributeMapProto", {}),
        ("xla/python/ifrt/dtype.proto", "xla.ifrt", "DTypeProto", {}),
        (
            "xla/python/ifrt/shape.proto",
            "xla.ifrt",
            "ShapeProto BoundedDynamicShapeTagProto DynamicShapeProto",
            {},
        ),
        ("xla/python/ifrt/device.proto", "xla.ifrt", "DeviceListProto", {}),
        ("xla/python/ifrt/array_spec.proto", "xla.ifrt", "ArraySpecProto", {}),
        ("xla/python/ifrt/execute_options.proto", "xla.ifrt", "ExecuteOptionsProto", {}),
        ("xla/python/ifrt/remap_plan.proto", "xla.ifrt", "RemapPlanProto", {}),
        ("xla/python/ifrt/sharding.proto", "xla.ifrt", "ShardingProto", {}),
        (
            "xla/python/ifrt/sharding_serdes.proto",
            "xla.ifrt",
            "SingleDeviceShardingProto OpaqueShardingProto ConcreteShardingProto ConcreteEvenShardingProto "
            "ShardingParamShardingProto",
            {},
        ),
        ("xla/python/ifrt/ir/sharding_param.proto", "xla.ifrt", "ShardingParamProto", {}),
        ("xla/python/ifrt/layout.proto", "xla.ifrt", "LayoutProto", {}),
        ("xla/python/ifrt/layout_serdes.proto", "xla.ifrt", "CompactLayoutProto", {}),
        ("xla/python/pjrt_ifrt/xla_sharding.proto", "xla.ifrt", "HloShardingProto", {}),
        ("xla/python/pjrt_ifrt/pjrt_layout_serdes.proto", "xla.ifrt", "PjRtLayoutProto", {}),
        ("xla/python/pjrt_ifrt/xla_compiler.proto", "xla.ifrt", "XlaCompileOptionsProto", {}),
        ("xla/python/pjrt_ifrt/xla_host_callback.proto", "xla.ifrt", "XlaHostCallbackProto", {}),
        (
            "xla/pjrt/proto/compile_options.proto",
            "xla",
            "CompileOptionsProto ExecutableBuildOptionsProto OptionOverrideProto",
            {},
        ),
        ("xla/pjrt/proto/executable_metadata.proto", "xla", "CompiledMemoryStatsProto", {}),
        (
            "xla/xla_data.proto",
            "xla",
            "DeviceAssignmentProto OpSharding NamedShardingProto MeshProto AxisRefProto TileProto SplitConfigProto "
            "PrimitiveType DimLevelType",
            {
                "XlaShapeProto": "ShapeProto",
                "XlaLayoutProto": "LayoutProto",
                "CompileOptionsProto.Precision": "PrecisionConfig.Precision",
            },
        ),
        ("xla/xla.proto", "xla", "", {"ExecutableBuildOptionsProto.EffortLevel": "ExecutionOptions.EffortLevel"}),
        ("xla/tsl/protobuf/status.proto", "tensorflow", "StatusProto", {}),
        ("xla/tsl/protobuf/error_codes.proto", "tensorflow.error", "", {"StatusProto.Code": "Code"}),
    ]
}
ORIGINAL_NAMES = {
    f"{OURS.package}.{ours}": f"{package}.{original}"
    for package, names in ELSEWHERE.values()
    for ours, original in names.items()
}
TYPE_NAMES: dict[int, str] = {number: name for name, number in FieldDescriptorProto.Type.items()}

UNPARSED = f"{OURS.package}.UnparsedProto"
"""Stands for any message whose content we do not read."""

LEFT_OUT = {
    # A value that exists so that nobody writes a switch without a default.
    "tensorflow.error.Code.DO_NOT_USE_RESERVED_FOR_FUTURE_EXPANSION_USE_DEFAULT_IN_SWITCH_INSTEAD_",
}
"""What the originals have and we leave out on purpose."""


@pytest.fixture(scope="module")
def truth() -> DescriptorPool:
    """The descriptors of the installed jaxlib."""
    return pool_of([SERVICE_FILE, *ELSEWHERE])


def original_name(ours: str) -> str:
    """The full name that the message or enum with our full name `ours` has in jaxlib."""
    if ours in ORIGINAL_NAMES:
        return ORIGINAL_NAMES[ours]
    parent, _, leaf = ours.rpartition(".")
    return f"xla.ifrt.proxy.{leaf}" if parent == OURS.package else f"{original_name(parent)}.{leaf}"


def traits(field: FieldDescriptor) -> dict[str, object]:
    """What must be equal for two fields to read the same bytes and to know absence in the same way."""
    oneof = field.containing_oneof
    return {
        "number": field.number,
        "type": TYPE_NAMES[field.type],
        "repeated": field.is_repeated,
        "packed": field.is_packed,
        "presence": field.has_presence,
        "oneof": oneof.name if oneof is not None else None,
        "map": field.message_type is not None and field.message_type.GetOptions().map_entry,
    }


def type_of(field: FieldDescriptor) -> str | None:
    """The full name of the field's message or enum."""
    target = field.message_type if field.message_type is not None else field.enum_type
    return target.full_name if target is not None else None


def message_differences(ours: Descriptor, original: Descriptor) -> Iterator[str]:
    """How the message `ours` differs from `original`, in words, including nested messages and enums."""
    for field in ours.fields:
        true = original.fields_by_name.get(field.name)
        if true is None:
            yield f"{field.full_name}: {original.full_name} has no such field"
            continue
        for trait, value in traits(field).items():
            if value != traits(true)[trait]:
                yield f"{field.full_name}: {trait} is {value}, in jaxlib {traits(true)[trait]}"
        type_name = type_of(field)
        foreign = type_name is None or not type_name.startswith(f"{OURS.package}.")
        if type_name != UNPARSED and type_of(true) != (type_name if foreign else original_name(str(type_name))):
            yield f"{field.full_name}: is a {type_name}, in jaxlib a {type_of(true)}"
    if ours.full_name != UNPARSED:
        for true in original.fields:
            if true.name not in ours.fields_by_name and true.full_name not in LEFT_OUT:
                yield f"{ours.full_name}: lacks {true.name} = {true.number} of {original.full_name}"


def enum_differences(ours: EnumDescriptor, original: EnumDescriptor) -> Iterator[str]:
    """How the enum `ours` differs from `original`, in words."""
    values = {value.name: value.number for value in ours.values}
    true_values = {value.name: value.number for value in original.values}
    for name in values.keys() | true_values.keys():
        if values.get(name) != true_values.get(name) and f"{original.full_name}.{name}" not in LEFT_OUT:
            yield f"{ours.full_name}.{name}: is {values.get(name)}, in jaxlib {true_values.get(name)}"


def differences(file: FileDescriptor, truth: DescriptorPool) -> list[str]:
    """All differences between the messages of `file` and their originals in `truth`, in words."""
    found: list[str] = []
    messages: list[Descriptor] = list(file.message_types_by_name.values())
    enums: list[EnumDescriptor] = list(file.enum_types_by_name.values())
    while messages:
        message = messages.pop()
        if message.full_name == UNPARSED:
            continue
        messages.extend(message.nested_types)
        enums.extend(message.enum_types)
        try:
            original = truth.FindMessageTypeByName(original_name(message.full_name))
        except KeyError:
            found.append(f"{message.full_name}: jaxlib has no {original_name(message.full_name)}")
        else:
            found.extend(message_differences(message, original))
    for enum in enums:
        try:
            found.extend(enum_differences(enum, truth.FindEnumTypeByName(original_name(enum.full_name))))
        except KeyError:
            found.append(f"{enum.full_name}: jaxlib has no {original_name(enum.full_name)}")
    return sorted(found)


def changed(change: Callable[[FileDescriptorProto], None]) -> FileDescriptor:
    """Our file with `change` made to it."""
    proto = FileDescriptorProto()
    OURS.CopyToProto(proto)
    change(proto)
    pool = DescriptorPool()
    for dependency in OURS.dependencies:
        pool.AddSerializedFile(dependency.serialized_pb)
    pool.Add(proto)
    return pool.FindFileByName(OURS.name)


def message_in(proto: FileDescriptorProto, name: str) -> int:
    return next(index for index, message in enumerate(proto.message_type) if message.name == name)


def test_our_messages_are_those_of_the_installed_jaxlib(truth: DescriptorPool) -> None:
    assert differences(OURS, truth) == []


def test_the_table_of_originals_names_only_what_we_have() -> None:
    ours = set(OURS.message_types_by_name) | set(OURS.enum_types_by_name)
    named = {name for _, names in ELSEWHERE.values() for name in names}
    assert {name for name in named if name.partition(".")[0] not in ours} == set()


def wrong_number(proto: FileDescriptorProto) -> None:
    fields = proto.message_type[message_in(proto, "GrpcHostBufferStoreMetadata")].field
    next(field for field in fields if field.name == "buffer_size").number = 4


def wrong_type(proto: FileDescriptorProto) -> None:
    proto.message_type[message_in(proto, "CheckFutureRequest")].field[0].type = FieldDescriptorProto.TYPE_UINT64


def wrong_message(proto: FileDescriptorProto) -> None:
    fields = proto.message_type[message_in(proto, "PjRtLayoutProto")].field
    next(field for field in fields if field.name == "xla_layout").type_name = ".elastic.ifrt.LayoutProto"


def lost_presence(proto: FileDescriptorProto) -> None:
    message = proto.message_type[message_in(proto, "SingleDeviceShardingProto")]
    field = next(field for field in message.field if field.name == "memory_kind")
    field.ClearField("oneof_index")
    field.ClearField("proto3_optional")
    del message.oneof_decl[:]


def packed_handles(proto: FileDescriptorProto) -> None:
    proto.message_type[message_in(proto, "CheckValueReadyRequest")].field[0].options.packed = True


def invented_field(proto: FileDescriptorProto) -> None:
    proto.message_type[message_in(proto, "InitRequest")].field.add(
        name="surprise", number=1, type=FieldDescriptorProto.TYPE_BOOL, label=FieldDescriptorProto.LABEL_OPTIONAL
    )


def missing_field(proto: FileDescriptorProto) -> None:
    del proto.message_type[message_in(proto, "Serialized")].field[1]


def invented_message(proto: FileDescriptorProto) -> None:
    proto.message_type.add(name="SurpriseRequest")


def wrong_enum_value(proto: FileDescriptorProto) -> None:
    values = proto.message_type[message_in(proto, "DTypeProto")].enum_type[0].value
    next(value for value in values if value.name == "KIND_BF16").number = 98


@pytest.mark.parametrize(
    ("plant", "report"),
    [
        (wrong_number, "GrpcHostBufferStoreMetadata.buffer_size: number is 4, in jaxlib 3"),
        (wrong_type, "CheckFutureRequest.future_handle: type is TYPE_UINT64, in jaxlib TYPE_FIXED64"),
        (
            wrong_message,
            "PjRtLayoutProto.xla_layout: is a elastic.ifrt.LayoutProto, in jaxlib a xla.LayoutProto",
        ),
        (lost_presence, "SingleDeviceShardingProto.memory_kind: presence is False, in jaxlib True"),
        (packed_handles, "CheckValueReadyRequest.value_handles: packed is True, in jaxlib False"),
        (invented_field, "InitRequest.surprise: xla.ifrt.proxy.InitRequest has no such field"),
        (missing_field, "Serialized: lacks data = 2 of xla.ifrt.Serialized"),
        (invented_message, "SurpriseRequest: jaxlib has no xla.ifrt.proxy.SurpriseRequest"),
        (wrong_enum_value, "DTypeProto.Kind.KIND_BF16: is 98, in jaxlib 16"),
    ],
)
def test_a_planted_difference_is_reported(
    plant: Callable[[FileDescriptorProto], None], report: str, truth: DescriptorPool
) -> None:
    assert f"{OURS.package}.{report}" in differences(changed(plant), truth)


def test_a_file_that_jaxlib_does_not_have_is_named() -> None:
    with pytest.raises(DescriptorNotFoundError, match=r"xla/no/such\.proto"):
        pool_of(["xla/no/such.proto"])


def test_the_grpc_service_has_the_methods_we_serve(truth: DescriptorPool) -> None:
    service = truth.FindServiceByName("xla.ifrt.proxy.GrpcIfrtService")
    methods = {
        method.name: (
            method.input_type.name,
            "stream" if method.client_streaming else "one",
            method.output_type.name,
            "stream" if method.server_streaming else "one",
        )
        for method in service.methods
    }
    assert methods == {
        "GetVersion": ("GrpcGetVersionRequest", "one", "GrpcGetVersionResponse", "one"),
        "IfrtSession": ("IfrtRequest", "stream", "IfrtResponse", "stream"),
        "HostBufferStore": ("GrpcHostBufferStoreRequest", "stream", "GrpcHostBufferStoreResponse", "one"),
        "HostBufferLookup": ("GrpcHostBufferLookupRequest", "one", "GrpcHostBufferLookupResponse", "stream"),
        "HostBufferDelete": ("GrpcHostBufferDeleteRequest", "one", "GrpcHostBufferDeleteResponse", "one"),
        "HostBufferReadFromDisk": (
            "GrpcHostBufferReadFromDiskRequest",
            "one",
            "GrpcHostBufferReadFromDiskResponse",
            "one",
        ),
    }


def test_compile_options_keep_what_we_do_not_know_when_the_devices_change(truth: DescriptorPool) -> None:
    true_class: Any = GetMessageClass(truth.FindMessageTypeByName("xla.CompileOptionsProto"))
    true = true_class.FromString(_jax.CompileOptions().SerializeAsString())
    build = true.executable_build_options
    build.debug_options.xla_gpu_autotune_level = 3
    build.debug_options.xla_backend_extra_options["some_option"] = "some value"
    build.comp_envs.SetInParent()  # present but empty: must stay present
    true.target_config.platform_name = "CUDA"
    true.env_option_overrides["xla_dump_to"].string_field = "/somewhere"
    true.argument_layouts.add(element_type=11, dimensions=[2, 3]).layout.minor_to_major.extend([1, 0])
    assert build.debug_options.ByteSize() > 0

    options = ifrt_pb2.CompileOptionsProto.FromString(true.SerializeToString())
    devices = options.executable_build_options.device_assignment
    devices.Clear()
    devices.replica_count = 1
    devices.computation_count = 2
    for device in (7, 5):
        devices.computation_devices.add(replica_device_ids=[device])

    build.device_assignment.Clear()
    build.device_assignment.replica_count = 1
    build.device_assignment.computation_count = 2
    for device in (7, 5):
        build.device_assignment.computation_devices.add(replica_device_ids=[device])
    assert true_class.FromString(options.SerializeToString()) == true
    assert _jax.CompileOptions.ParseFromString(options.SerializeToString()).num_partitions == 1
