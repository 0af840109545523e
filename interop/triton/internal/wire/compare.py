"""Compares wire.proto with the published protocol, as the package tritonclient has it: each message and each field of ours
has the same name, number, type and label there."""

import os
import sys
import tempfile

from google.protobuf import descriptor_pb2
from grpc_tools import protoc
from tritonclient.grpc import service_pb2


def fields(message, prefix=""):
    """Returns the fields of a message and of those in it, by path."""
    name = prefix + message.name
    found = {}
    for f in message.field:
        kind = f.type_name.split(".wire.")[-1].split(".inference.")[-1]
        found[name, f.name] = (f.number, f.type, f.label, kind)
    for nested in message.nested_type:
        found.update(fields(nested, name + "."))
    return found


def everything(file):
    found = {}
    for message in file.message_type:
        found.update(fields(message))
    return found


folder = os.path.dirname(os.path.abspath(__file__))
with tempfile.TemporaryDirectory() as out:
    path = os.path.join(out, "set")
    if protoc.main(["protoc", "-I" + folder, "--descriptor_set_out=" + path, "wire.proto"]) != 0:
        sys.exit("wire.proto cannot be compiled")
    with open(path, "rb") as f:
        ours = everything(descriptor_pb2.FileDescriptorSet.FromString(f.read()).file[0])
published = descriptor_pb2.FileDescriptorProto()
service_pb2.DESCRIPTOR.CopyToProto(published)
theirs = everything(published)

wrong = [f"{'.'.join(path)}: {field}, published is {theirs.get(path)}" for path, field in ours.items() if theirs.get(path) != field]
if len(ours) < 50 or wrong:
    sys.exit(f"{len(ours)} fields: " + "\n".join(wrong))
