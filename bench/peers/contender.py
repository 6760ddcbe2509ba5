"""The protocol between scripts/bench and a peer.

A peer is started with a folder. FOLDER/row.json describes what is measured, and the other files were written by
attend's side, bench_contender. The peer prints one line of JSON with the same values as attend. Then it reads
numbers from standard input, one per line. For each number N, it runs N units of work and prints the seconds that
they took. Of several processes, which share the threads, only rank 0 prints and reads.
"""

import json
import os
import pathlib
import sys
import time

import torch
from safetensors.torch import load_file

FOLDER = pathlib.Path(sys.argv[1])
ROW = json.loads((FOLDER / "row.json").read_text())
PROCESSES = int(os.environ.get("WORLD_SIZE", 1))
torch.set_num_threads(ROW["threads"] // PROCESSES)


def tensors(name):
    return load_file(FOLDER / f"{name}.safetensors")


def serve(values, unit):
    """Prints `values`, then runs `unit` as often as each line of standard input says."""
    print(json.dumps(values), flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        for _ in range(int(line)):
            unit()
        print(time.perf_counter() - start, flush=True)
