"""What the client asks about devices."""

from __future__ import annotations

from elastic.controller.init import describe_client
from elastic.controller.requests.answers import Respond
from elastic.controller.session import Session
from elastic.proto import ifrt_pb2 as pb
from elastic.status import Code, StatusError


def init(session: Session, request: pb.InitRequest, respond: Respond) -> pb.InitResponse:
    return describe_client(session.id, session.run.devices)


def default_layout(
    session: Session, request: pb.GetDefaultLayoutRequest, respond: Respond
) -> pb.GetDefaultLayoutResponse:
    order = ",".join(str(dimension) for dimension in reversed(range(len(request.dims))))
    return pb.GetDefaultLayoutResponse(serialized_pjrt_layout=f"{{{order}}}".encode())


def default_device_assignment(
    session: Session, request: pb.GetDefaultDeviceAssignmentRequest, respond: Respond
) -> pb.GetDefaultDeviceAssignmentResponse:
    replicas, partitions = request.num_replicas, request.num_partitions
    count = len(session.run.devices)
    if replicas * partitions > count:
        raise StatusError(
            Code.INVALID_ARGUMENT, f"{replicas} replicas x {partitions} partitions need more than the {count} devices"
        )
    response = pb.GetDefaultDeviceAssignmentResponse()
    response.device_assignment.replica_count = replicas
    response.device_assignment.computation_count = partitions
    for partition in range(partitions):
        response.device_assignment.computation_devices.add(
            replica_device_ids=[replica * partitions + partition for replica in range(replicas)]
        )
    return response
