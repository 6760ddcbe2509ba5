"""Two C++ processes sum tensors as two ranks of c10d in Python do.

Run by CTest with ALL_REDUCE set to the program all_reduce. Skipped without torch for Python.
"""

import concurrent.futures
import datetime
import os
import pathlib
import random
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


SIZE = 2
TIMEOUT = datetime.timedelta(seconds=120)


def sums_of_rank(store, rank, numbers):
    """Sums the numbers of two ranks with Python's c10d."""
    group = torch.distributed.ProcessGroupGloo(store, rank, SIZE, TIMEOUT)
    sums = numbers
    for tensor in sums:
        group.allreduce([tensor]).wait()
    return b"".join(tensor.numpy().tobytes() for tensor in sums)


class AllReduce(unittest.TestCase):
    def sums_of_programs(self, folder):
        """Returns what each process of the C++ program writes."""
        with socket.socket() as found:
            port = random.randrange(20000, 32000)  # the system gives others to connections
            found.bind(("127.0.0.1", port))
        paths = [pathlib.Path(folder, f"sums{rank}") for rank in range(SIZE)]
        programs = []
        for rank, path in enumerate(paths):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(SIZE), "MASTER_ADDR": "127.0.0.1",
                           "MASTER_PORT": str(port)}
            programs.append(subprocess.Popen([os.environ["ALL_REDUCE"], path], env=environment))
            self.addCleanup(programs[-1].wait)
            self.addCleanup(programs[-1].kill)
        self.assertEqual([program.wait(timeout=120) for program in programs], [0] * SIZE)
        return [path.read_bytes() for path in paths]

    def test_cpp_and_python_get_the_same_sums(self):
        with tempfile.TemporaryDirectory() as folder:
            found = self.sums_of_programs(folder)
        store = torch.distributed.HashStore()
        with concurrent.futures.ThreadPoolExecutor(SIZE) as threads:
            expected = list(threads.map(sums_of_rank, [store] * SIZE, range(SIZE), map(random_numbers, range(SIZE))))
        exact = b"".join((first + second).numpy().tobytes() for first, second in zip(*map(random_numbers, range(SIZE))))
        self.assertEqual([len(content) for content in found], [len(exact)] * SIZE)
        for content in (*found, *expected):
            self.assertTrue(content == exact, "a sum of two numbers is exact up to its rounding")


if __name__ == "__main__":
    unittest.main()
