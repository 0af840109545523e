"""PyArrow's ends of Flight for the measurements: "serve FILE SIZES" or "get ADDRESS NAME" and "put ADDRESS NAME FILE ROWS"."""

import json
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.flight as fl

ROW = 1024  # elements


def column(file):
    data = np.fromfile(file, np.float32)
    kind = pa.fixed_shape_tensor(pa.float32(), (ROW,))
    return pa.ExtensionArray.from_storage(kind, pa.FixedSizeListArray.from_arrays(pa.array(data), ROW))


class Server(fl.FlightServerBase):
    """Sends one array in batches of as many rows as the name says, and takes and forgets what is put."""

    def __init__(self, file):
        super().__init__("grpc://127.0.0.1:0")
        self.array = column(file)
        self.schema = pa.schema([("tensor", self.array.type)])

    def get_flight_info(self, context, descriptor):
        name = descriptor.path[0]
        return fl.FlightInfo(self.schema, descriptor, [fl.FlightEndpoint(name, [])], len(self.array), -1)

    def do_get(self, context, ticket):
        step = int(ticket.ticket)
        batches = [
            pa.RecordBatch.from_arrays([self.array[i : i + step]], schema=self.schema) for i in range(0, len(self.array), step)
        ]
        return fl.RecordBatchStream(pa.RecordBatchReader.from_batches(self.schema, batches))

    def do_put(self, context, descriptor, reader, writer):
        reader.read_all()


def get(client, name):
    begin = time.perf_counter()
    info = client.get_flight_info(fl.FlightDescriptor.for_path(name))
    table = client.do_get(info.endpoints[0].ticket).read_all()
    return time.perf_counter() - begin, table.num_rows


def put(client, name, array, step):
    schema = pa.schema([("tensor", array.type)], metadata={"dlx.shape": json.dumps([len(array), ROW])})
    begin = time.perf_counter()
    writer, _ = client.do_put(fl.FlightDescriptor.for_path(name), schema)
    for i in range(0, len(array), step):
        writer.write_batch(pa.RecordBatch.from_arrays([array[i : i + step]], schema=schema))
    writer.close()
    return time.perf_counter() - begin, len(array)


def main():
    if sys.argv[1] == "serve":
        with Server(sys.argv[2]) as server:
            print(server.port, flush=True)
            sys.stdin.read()
        return
    array = column(sys.argv[2])
    clients = {}
    for line in sys.stdin:  # one measurement each: what, address, name, rows of a batch
        what, address, name, step = line.split()
        if address not in clients:
            clients[address] = fl.FlightClient("grpc://" + address)
        client = clients[address]
        seconds, rows = get(client, name) if what == "get" else put(client, name, array, int(step))
        print(seconds, rows, flush=True)


main()
