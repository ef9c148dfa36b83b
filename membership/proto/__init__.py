"""The wire messages of etcd's v3 API.

`etcd.proto` is the source; callers write ``from membership.proto import etcd_pb2``. The generated `etcd_pb2.py` and
`etcd_pb2.pyi` are committed, so that an installation needs no protoc; ``python -m tools.generate_protos`` makes them.
"""
