"""The commands of the one ordered stream that a controller sends to each executor.

A command names arrays, programs and virtual devices, never hosts: each executor knows the placement of its world and
does its own part. So one encoding serves all hosts, and the same bytes can be sent again to another world. Messages are
lists that begin with the command's number; the layouts stand beside the numbers.

    request   a number that the executor's answer carries; 0 where no answer is wanted
    array     the controller's number of an array; every world uses the same
    device    a virtual device's number
    part      [[start, stop]] for each dimension; `parts` has one for each shard that the command makes

An answer is [request, code, result or text] and a payload; code 0 is success (`status.Code`).
"""

from __future__ import annotations

from enum import IntEnum


class Command(IntEnum):
    """What an executor can be told to do."""

    COORDINATE = 1
    """[_, request, processes]: start the world's coordination service; the answer is its address."""
    JOIN = 2
    """[_, request, world]: become a member of a world (see `executor.world.WorldSpec`); the answer describes
    devices."""
    PUT = 3
    """[_, array, dtype, shape, strides or None, devices, parts or None, memory kind or None, path or None] +
    bytes: one shard for each of the devices, from the payload or a file that this host can read. Shape is that of the
    bytes; the shards are the parts of them, or all of them. A host of another machine than the file's gets no path, but
    the file's bytes, and their digest as one more argument."""
    EXECUTE = 4
    """[_, program, [array], [result array], [input not to donate], status array or 0]: run a program."""
    ALIAS = 5
    """[_, array, [[source array, device]]]: a new array made of shards that exist."""
    COPY = 6
    """[_, array, source array, [[from device, to device]], parts or None, memory kind or None]: copies, between hosts
    where needed, of whole shards or of a part of each."""
    FREE = 7
    """[_, [array]]: forget arrays."""
    READ = 8
    """[_, request, array, device, strides or None, path or None]: the bytes of a shard, dense or with those strides, as
    payload or into a new file of shared memory; the answer has their digest."""
    WAIT = 9
    """[_, request, [array]]: answer when all are computed, with the first error if one failed."""
    COMPILE = 10
    """[_, request, program, options, [device], replicas, [callback], want a blob] + portable StableHLO: compile; the
    answer describes the program (`executor.programs.describe`), with the serialized executable as payload if wanted."""
    LOAD = 11
    """[_, request, program, options, [device], replicas, [callback]] + serialized executable."""
    UNLOAD = 12
    """[_, request, program]: forget a program; answered when the last execution that calls back has ended."""
    TEXT = 13
    """[_, request, program]: its optimized HLO as text."""
    COST = 14
    """[_, request, program]: XLA's cost analysis as a map."""
    SNAPSHOT = 16
    """[_, request, snapshot]: save all arrays as they are now to the host's memory; the answer has a record of each
    shard (see `executor.snapshots`) and how many seconds the saving took."""
    RESTORE = 17
    """[_, request, snapshot, records]: take the shards of these records from the host's memory; the answer has the
    digests of those that are not there or not whole."""
    HOLD = 20
    """[_, request, mark, device, [array]]: save the shards that these arrays have on a device, as they are now, apart
    from snapshots, under the number `mark`; the answer has a record of each."""
    DIGEST = 18
    """[_, request, array, device, strides or None]: as READ, but only the digest."""
    FAIL = 19
    """[_, [array], code, text]: new arrays that hold an error."""
    CATCH_UP = 21
    """[_, request]: answer when all that was told before has been computed, whatever came of it."""
    FINISHED = 22
    """[_, request, [device]]: answer when the last program that was started on just these devices has ended."""
    PING = 15
    """[_, request]: answer at once; shows that the executor lives."""
