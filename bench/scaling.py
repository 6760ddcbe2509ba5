#!/usr/bin/env python3
"""Computes with how many processes communication takes longer than the backward pass, which can hide it.

    bench/scaling.py --step S --gradients MB --latency US [--bucket-mb MIB] GBIT...

Prints a table with a row for each link of GBIT Gbit/s. A step of one process takes S seconds, and two thirds of them
are the backward pass. The gradients have MB megabytes, and a message takes US microseconds besides the time of its
bytes. scripts/bench measures these numbers.

The columns are the largest numbers of processes that have communicated before the end of the backward pass: if a fixed
batch is divided among the processes, and if each process has a batch of the same size. With more processes, the step
takes longer than its computation.
"""

import argparse
import math

BACKWARD = 2 / 3  # of a step: two of three matrix products
# Sums of a few numbers in each step: in Trainer, counts of targets, losses, and whether to stop; in c10d's Reducer, which
# parameters were used.
SMALL_SUMS = 4
MIB = 2**20
FIRST_BUCKET = 1 * MIB  # c10d sends a smaller group of gradients first, c10d::kDefaultFirstBucketBytes
MOST = 65536


def buckets(gradients, bucket):
    """Number of the groups in which c10d sums gradients of this many bytes, if no parameter is larger than the rest of
    its group. The last group may be smaller than the others."""
    first = min(bucket, FIRST_BUCKET)
    return 1 + math.ceil(max(gradients - first, 0) / bucket)


def communication_seconds(processes, options, gbit):
    """Seconds of the all-reduces of a step. In a ring of P processes, each sends 2 (P - 1) messages, and in them
    2 (P - 1) / P of the bytes."""
    messages = 2 * (processes - 1)
    gradients = options.gradients * 1e6
    sums = SMALL_SUMS + buckets(gradients, options.bucket_mb * MIB)
    bytes_sent = messages / processes * gradients
    return messages * sums * options.latency * 1e-6 + bytes_sent * 8 / (gbit * 1e9)


def most_processes(options, gbit, share):
    """The largest number of processes whose communication is hidden; `share`: of the step of one process that each of
    P computes."""
    most = 1
    for processes in range(2, MOST + 1):
        if communication_seconds(processes, options, gbit) <= BACKWARD * options.step * share(processes):
            most = processes
    return most


def table(options):
    lines = ["| link | a fixed batch | a fixed batch per process |", "|---|---|---|"]
    for gbit in options.link:
        numbers = (most_processes(options, gbit, share) for share in (lambda count: 1 / count, lambda count: 1))
        lines.append(f"| {gbit:g} Gbit/s | " + " | ".join(f"{number:,}" for number in numbers) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", type=float, required=True, help="seconds of a step of one process")
    parser.add_argument("--gradients", type=float, required=True, help="megabytes of all gradients")
    parser.add_argument("--latency", type=float, required=True, help="microseconds of a message")
    parser.add_argument("--bucket-mb", type=float, default=25, help="--ddp-bucket-mb of attend train (default: 25)")
    parser.add_argument("link", type=float, nargs="+", metavar="GBIT", help="speed of a link in Gbit/s")
    print(table(parser.parse_args()))


if __name__ == "__main__":
    main()
