"""A compiled set of descriptors of a shop, made without protoc, and messages of its types."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass

from console.features.messages.descriptor_sets import read_set

ORDER = "shop.v1.Order"
_KINDS = {
    "int32": Field.TYPE_INT32, "int64": Field.TYPE_INT64, "string": Field.TYPE_STRING, "bytes": Field.TYPE_BYTES,
    "bool": Field.TYPE_BOOL, "float": Field.TYPE_FLOAT, "double": Field.TYPE_DOUBLE, "uint64": Field.TYPE_UINT64,
}  # fmt: skip
#: of an order, by number: name and type; a star stands for a list
FIELDS = {
    1: ("id", "uint64"), 2: ("customer", "string"), 3: ("price", "float"), 4: ("state", "enum .shop.v1.State"),
    5: ("lines", ".shop.v1.Order.Line*"), 6: ("labels", ".shop.v1.Order.LabelsEntry*"), 7: ("raw", "bytes"),
    8: ("placed", ".google.protobuf.Timestamp"), 9: ("free", ".google.protobuf.Struct"),
    10: ("detail", ".google.protobuf.Any"), 11: ("numbers", "int32*"), 12: ("before", ".shop.v1.Order"),
    13: ("took", ".google.protobuf.Duration"), 14: ("gift", ".google.protobuf.StringValue"), 15: ("rate", "double"),
    16: ("paid", "bool"), 17: ("several", ".google.protobuf.Any*"),
}  # fmt: skip
WELL_KNOWN = ("any", "duration", "struct", "timestamp", "wrappers")


def add(message: Any, number: int, name: str, kind: str) -> None:
    """Add a field to a message type."""
    field = message.field.add(name=name, number=number, label=3 if kind.endswith("*") else 1)
    kind = kind.removesuffix("*")
    if kind.startswith("enum "):
        field.type, field.type_name = Field.TYPE_ENUM, kind.removeprefix("enum ")
    elif kind.startswith("."):
        field.type, field.type_name = Field.TYPE_MESSAGE, kind
    else:
        field.type = _KINDS[kind]


def shop_file(**more: Any) -> FileDescriptorProto:
    """The file of the shop; `more` are parts of it in place of its own."""
    imported = [f"google/protobuf/{name}.proto" for name in WELL_KNOWN]
    file = FileDescriptorProto(
        **{"name": "shop/v1/shop.proto", "package": "shop.v1", "syntax": "proto3", "dependency": imported, **more}
    )
    states = file.enum_type.add(name="State")
    for number, name in enumerate(("UNKNOWN", "OPEN", "PAID")):
        states.value.add(name=name, number=number)
    order = file.message_type.add(name="Order")
    line = order.nested_type.add(name="Line")
    add(line, 1, "sku", "string")
    add(line, 2, "count", "int32")
    entry = order.nested_type.add(name="LabelsEntry")
    entry.options.map_entry = True
    add(entry, 1, "key", "string")
    add(entry, 2, "value", "int64")
    for number, (name, kind) in FIELDS.items():
        add(order, number, name, kind)
    return file


def set_of(*files: FileDescriptorProto) -> bytes:
    """A compiled set of these files."""
    return FileDescriptorSet(file=files).SerializeToString()


#: the set as protoc makes it without the files of Protobuf itself
SHOP = set_of(shop_file())


def base64_of(content: bytes) -> str:
    """The bytes as operations and REST take them."""
    return base64.b64encode(content).decode()


def made(name: str = ORDER, files: bytes = SHOP, **values: Any) -> Any:
    """A message of a type of the set."""
    return GetMessageClass(read_set(files).kind(name))(**values)


def order(**values: Any) -> bytes:
    """The bytes of an order."""
    content: bytes = made(**values).SerializeToString()
    return content
