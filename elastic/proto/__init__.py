"""The wire messages of the IFRT proxy protocol.

`ifrt.proto` is the source; callers write ``from elastic.proto import ifrt_pb2``. The generated `ifrt_pb2.py` and
`ifrt_pb2.pyi` are committed, so that an installation needs no protoc; ``python -m tools.generate_protos`` makes them.
"""
