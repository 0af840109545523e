"""The other end of the tests: PyArrow's client or server of Flight. Elements lie in files, so that both sides can compare bits."""

import json
import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.flight as fl

FOLDER = pathlib.Path(sys.argv[2])
SHAPE = (11, 2, 3)


def elements(name, shape=SHAPE):
    """Returns the array that Go has written for a type."""
    return np.fromfile(FOLDER / name, dtype=name).reshape(shape)


def arrow(array):
    """Returns an array of tensors with any bits; from_numpy_ndarray refuses arrays of one axis."""
    kind = pa.fixed_shape_tensor(pa.from_numpy_dtype(array.dtype), array.shape[1:])
    size = int(np.prod(array.shape[1:], dtype=np.int64))
    return pa.ExtensionArray.from_storage(kind, pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), size))


def same(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, got.shape, want.dtype, want.shape)
    assert got.tobytes() == want.tobytes(), "other bits"


def tensors(table):
    """Returns the only column as one array."""
    assert table.num_columns == 1, table.schema
    assert isinstance(table.schema.field(0).type, pa.FixedShapeTensorType), table.schema
    column = table.column(0)
    parts = [chunk.to_numpy_ndarray() for chunk in column.chunks]
    return np.concatenate(parts) if parts else None


def put(client, options, name, array, pieces, metadata=None):
    whole = arrow(array) if isinstance(array, np.ndarray) else array
    schema = pa.schema([pa.field("any name", whole.type)], metadata=metadata)
    writer, _ = client.do_put(fl.FlightDescriptor.for_path(name), schema, options)
    step = -(-len(whole) // pieces) if len(whole) else 1
    for i in range(0, len(whole), step):
        writer.write_batch(pa.RecordBatch.from_arrays([whole[i : i + step]], schema=schema))
    writer.close()


def run_client():
    address, roots, token, names = sys.argv[3], sys.argv[4], sys.argv[5], sys.argv[6].split()
    options = fl.FlightCallOptions(headers=[(b"authorization", b"Bearer " + token.encode())], timeout=60)
    with fl.FlightClient(address, tls_root_certs=pathlib.Path(roots).read_bytes()) as client:
        for bad in [], [(b"authorization", b"Bearer no")], [(b"authorization", b"Basic " + token.encode())]:
            try:
                list(client.list_flights(options=fl.FlightCallOptions(headers=bad, timeout=60)))
                raise AssertionError("no token was needed")
            except fl.FlightUnauthenticatedError:
                pass
        listed = {info.descriptor.path[0].decode(): info for info in client.list_flights(options=options)}
        for name in names:
            want = elements(name)
            info = client.get_flight_info(fl.FlightDescriptor.for_path(name), options)
            assert info.total_records == len(want) and info.total_bytes == want.nbytes, info
            assert json.loads(info.schema.metadata[b"dlx.shape"]) == list(want.shape)
            assert info.schema == listed[name].schema == client.get_schema(fl.FlightDescriptor.for_path(name), options).schema
            table = client.do_get(info.endpoints[0].ticket, options).read_all()
            assert table.schema.equals(info.schema, check_metadata=True), (table.schema, info.schema)
            same(tensors(table), want)
            ticket = fl.Ticket(json.dumps({"name": name, "rows": [2, 9]}))
            same(tensors(client.do_get(ticket, options).read_all()), want[2:9])
            for pieces in 1, 3, 11:
                put(client, options, f"{name} in {pieces}", want, pieces)
            put(client, options, f"{name} with shape", want, 2, {"dlx.shape": json.dumps(want.shape)})
            put(client, options, f"{name} flat", want.reshape(-1), 2)
            part = arrow(np.concatenate([want, want]))[3:14]  # does not begin at the first row of its memory
            put(client, options, f"{name} part", part, 2)
        # What the conventions of shapes give at the other end.
        scalar = client.do_get(fl.Ticket(b'{"name":"scalar"}'), options).read_all()
        assert json.loads(scalar.schema.metadata[b"dlx.shape"]) == []
        same(tensors(scalar), elements("float64", -1)[:1])
        empty = client.do_get(fl.Ticket(b'{"name":"empty"}'), options).read_all()
        assert json.loads(empty.schema.metadata[b"dlx.shape"]) == [3, 0, 2] and len(empty) == 0
        # Bools are bytes with a name in the schema.
        flags = np.array([[1, 0, 0], [1, 1, 0]], np.uint8)
        bools = client.do_get(fl.Ticket(b'{"name":"bools"}'), options).read_all()
        assert bools.schema.metadata[b"dlx.dtype"] == b"bool"
        same(tensors(bools), flags)
        put(client, options, "bools of Python", flags, 2, {"dlx.dtype": "bool"})
        put(client, options, "no rows", elements("int16")[:0], 1)
        put(client, options, "scalar of Python", elements("int16", -1)[:1], 1, {"dlx.shape": "[]"})
        kind = pa.fixed_shape_tensor(pa.int16(), (2, 3), permutation=[1, 0])
        for name in "turned", "permuted":
            put(client, options, name, pa.ExtensionArray.from_storage(kind, arrow(elements("int16")).storage), 2)

        def refused(name, array, error, text, metadata=None):
            try:
                put(client, options, name, array, 1, metadata)
                raise AssertionError(f"{name} was taken")
            except error as e:
                assert text in str(e), e

        some = arrow(elements("int16"))
        refused("nulls", pa.ExtensionArray.from_storage(some.type, pa.array([None, [0] * 6], some.type.storage_type)), pa.ArrowInvalid, "null")
        refused("list", some.storage, pa.ArrowInvalid, "extension type")
        refused("numbers", pa.array([1, 2]), pa.ArrowInvalid, "lists of fixed size")
        refused("bits", arrow(np.ones((2, 3), np.bool_)), pa.ArrowInvalid, "neither integers")
        refused("too few", some, pa.ArrowInvalid, "ended after 11 rows", {"dlx.shape": "[12,2,3]"})
        refused("too many", some, pa.ArrowInvalid, "11 rows arrived", {"dlx.shape": "[10,2,3]"})
        refused("turned", some, pa.ArrowException, "there is a tensor")
        client.do_action(("delete", b"turned"), options)
        list(client.do_action(fl.Action("delete", b"no rows"), options))
        assert [a.type for a in client.list_actions(options)] == ["delete"]
    print("ok")


class Server(fl.FlightServerBase):
    """Serves the files of the folder, and writes files for what is put."""

    def info(self, name):
        array = arrow(elements(name))
        return fl.FlightInfo(
            pa.schema([("x", array.type)]), fl.FlightDescriptor.for_path(name), [fl.FlightEndpoint(name, [])], len(array), -1
        )

    def get_flight_info(self, context, descriptor):
        return self.info(descriptor.path[0].decode())

    def list_flights(self, context, criteria):
        yield self.info("int8")
        yield fl.FlightInfo(pa.schema([("a", pa.int8())]), fl.FlightDescriptor.for_path("table"), [], -1, -1)

    def do_get(self, context, ticket):
        name = ticket.ticket.decode()
        if name == "int64":  # with metadata of the application beside the batches
            array = arrow(elements(name))
            schema = pa.schema([("x", array.type)])

            def batches():
                for i in 0, 4, 8:
                    yield pa.RecordBatch.from_arrays([array[i : i + 4]], schema=schema), b"more"

            return fl.GeneratorStream(schema, batches())
        array = arrow(elements(name))
        options = pa.ipc.IpcWriteOptions(compression="lz4" if name == "uint64" else None)
        table = pa.table({"x": pa.chunked_array([array[:5], array[5:]])})
        return fl.RecordBatchStream(table, options=options)

    def do_put(self, context, descriptor, reader, writer):
        name = descriptor.path[0].decode()
        table = reader.read_all()
        shape = json.loads(table.schema.metadata[b"dlx.shape"])
        tensors(table).tofile(FOLDER / ("put " + name))
        (FOLDER / ("shape " + name)).write_text(json.dumps(shape))


def run_server():
    with Server("grpc://127.0.0.1:0") as server:
        print(server.port, flush=True)
        sys.stdin.read()


run_client() if sys.argv[1] == "client" else run_server()
