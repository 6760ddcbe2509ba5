"""A C++ process and a Python process sum tensors in one group of c10d.

Run by CTest with ALL_REDUCE set to the program all_reduce, which is rank 0. Skipped without torch for Python.
"""

import datetime
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import torch.distributed
except ImportError:
    print("skipped: no torch for Python")
    sys.exit(77)


def random_numbers(rank):
    """The numbers of a rank, as in all_reduce.cpp."""
    torch.manual_seed(rank)
    return [torch.randn(count, dtype=dtype) for dtype in (torch.float32, torch.float64) for count in (1, 1000, 100003)]


class AllReduce(unittest.TestCase):
    def test_cpp_and_python_get_the_same_sums(self):
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "sums")
            environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                           "MASTER_PORT": str(port)}
            program = subprocess.Popen([os.environ["ALL_REDUCE"], path], env=environment)
            timeout = datetime.timedelta(seconds=120)
            store = torch.distributed.TCPStore("127.0.0.1", port, 2, False, timeout)
            store.set("attend/join/1", "python")
            session = store.get("attend/session/python").decode()
            store = torch.distributed.PrefixStore(f"attend/{session}", store)
            store.set("properties/1", store.get("properties/0"))
            group = torch.distributed.ProcessGroupGloo(store, 1, 2, timeout)
            sums = random_numbers(1)
            for tensor in sums:
                group.allreduce([tensor]).wait()
            self.assertEqual(program.wait(timeout=120), 0)
            content = bytearray(path.read_bytes())
        offset = 0
        for tensor, first, second in zip(sums, random_numbers(0), random_numbers(1)):
            found = torch.frombuffer(content, dtype=tensor.dtype, count=tensor.numel(), offset=offset)
            offset += tensor.nbytes
            self.assertTrue(torch.equal(found, tensor))
            self.assertTrue(torch.equal(found, first + second), "a sum of two numbers is exact up to its rounding")
        self.assertEqual(offset, len(content))


if __name__ == "__main__":
    unittest.main()
