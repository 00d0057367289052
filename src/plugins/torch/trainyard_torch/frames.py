"""Framed messages over two pipes: u32 length of a JSON header (little-endian), the header, then the arrays that it lists, raw.

A header is `{"type": ..., "arrays": [{"name", "dtype", "shape", "bytes"}]}`. The other end is `src/plugins/torch/frames.ts`.
"""

import json
import os
import queue
import struct
import sys
import threading

import numpy as np

DTYPES = {"float32": np.float32, "float64": np.float64, "int64": np.int64, "int32": np.int32, "bool": np.bool_}


class Frames:
    """Both pipes. Whatever libraries print goes to stderr: stdout belongs to the messages."""

    def __init__(self):
        self._input = os.fdopen(os.dup(0), "rb", buffering=1 << 20)
        self._output = os.fdopen(os.dup(1), "wb", buffering=1 << 20)
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        self._received = queue.Queue()
        # read beside the computation: the end of the parent ends this process at once, whatever it computes
        threading.Thread(target=self._read, daemon=True).start()

    def receive(self):
        """The next message as (header, arrays by name)."""
        message = self._received.get()
        if isinstance(message, Exception):
            raise message
        return message

    def send(self, header, arrays=None):
        """Sends a message. Arrays are numpy's."""
        arrays = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
        listed = [
            {"name": name, "dtype": str(array.dtype), "shape": list(array.shape), "bytes": array.nbytes}
            for name, array in arrays.items()
        ]
        raw = json.dumps({**header, "arrays": listed}).encode()
        self._output.write(struct.pack("<I", len(raw)) + raw)
        for array in arrays.values():
            self._output.write(memoryview(array).cast("B") if array.size > 0 else b"")
        self._output.flush()

    def _read(self):
        try:
            while True:
                self._received.put(self._message())
        except EOFError:
            os._exit(0)
        except Exception as error:
            self._received.put(error)

    def _message(self):
        (length,) = struct.unpack("<I", self._exactly(4))
        header = json.loads(self._exactly(length))
        arrays = {}
        for listed in header["arrays"]:
            values = np.frombuffer(self._exactly(listed["bytes"]), DTYPES[listed["dtype"]])
            arrays[listed["name"]] = values.reshape(listed["shape"])
        return header, arrays

    def _exactly(self, count):
        # a bytearray can be written to, as torch wants of memory that it takes over
        buffer = bytearray(count)
        view, at = memoryview(buffer), 0
        while at < count:
            read = self._input.readinto(view[at:])
            if not read:
                raise EOFError
            at += read
        return buffer
