"""attend train on two hosts, which are network namespaces of this machine with a link between them.

Run by CTest with ATTEND set to the built command. Skipped without iproute2, or where this user may not make network
namespaces. The test of a delayed and lossy link is skipped where the kernel has no netem; torchrun needs a Python
with torch.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

IN_NAMESPACE = "ATTEND_TEST_IN_NAMESPACE"


def enter_namespace():
    """Runs this file again as root of a namespace, so that its interfaces and mounts end with it."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for tool in ("ip", "tc", "unshare", "nsenter", "hostname"):
        if not shutil.which(tool):
            print(f"skipped: the command {tool} is missing")
            sys.exit(77)
    unshare = ["unshare", "--map-root-user", "--net", "--mount"]
    tried = subprocess.run([*unshare, "unshare", "--net", "--mount", "--uts", "ip", "link", "add", "name", "a", "type",
                            "veth", "peer", "name", "b"], capture_output=True, encoding="utf-8")
    if tried.returncode:
        print("skipped: cannot make a network namespace with a link:", tried.stderr.strip())
        sys.exit(77)
    os.execvpe("unshare", [*unshare, sys.executable, *sys.argv], {**os.environ, IN_NAMESPACE: "1"})


if __name__ == "__main__" and IN_NAMESPACE not in os.environ:
    enter_namespace()

from attend_command import ATTEND, expect_names  # noqa: E402
from distributed_test import ProcessesTest, ends_of, tiny  # noqa: E402
from small_runs import DEMANDING, checkpoints, last_step, reports_of, result_of, wait_for  # noqa: E402

PORT = 29500

# tc qdisc of both ends of the link: each drops packets.
NETEM = ["netem", "delay", "5ms", "2ms", "loss", "2%"]
SHORT_QUEUE = ["tbf", "rate", "20mbit", "burst", "4kb", "limit", "6kb"]


def run(*command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, encoding="utf-8").stdout


class Host:
    """A machine with its own name, network and /etc/hosts. `own_address`: that of its own name in /etc/hosts."""

    def __init__(self, test, number, own_address=None):
        self.name = f"node{number}"
        names = {f"node{i}": f"10.77.0.{i}" for i in (1, 2)}
        if own_address:
            names[self.name] = own_address
        hosts = test.folder / f"hosts of {self.name}"
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{names[name]} {name}\n" for name in names))
        script = 'mount --bind "$0" /etc/hosts && hostname "$1" && ip link set lo up && echo ready && exec cat'
        self.process = subprocess.Popen(["unshare", "--net", "--mount", "--uts", "sh", "-c", script, hosts, self.name],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        test.addCleanup(self.process.communicate)
        test.assertEqual(self.process.stdout.readline(), "ready\n")

    def command(self, *arguments):
        return ["nsenter", "--target", str(self.process.pid), "--net", "--mount", "--uts", *map(str, arguments)]

    def run(self, *arguments):
        return run(*self.command(*arguments))


def connect(hosts, link, network):
    """Connects two hosts; the interface has this name on both, and the addresses `network`.1 and `network`.2."""
    first, second = (host.process.pid for host in hosts)
    run("ip", "link", "add", "name", link, "netns", first, "type", "veth", "peer", "name", link, "netns", second)
    for number, host in enumerate(hosts, 1):
        host.run("ip", "address", "add", f"{network}.{number}/24", "dev", link)
        host.run("ip", "link", "set", link, "up")


def sent_bytes(host, link):
    (found,) = json.loads(host.run("ip", "-json", "-statistics", "link", "show", link))
    return found["stats64"]["tx"]["bytes"]


def dropped_packets(host):
    return sum(qdisc["drops"] for qdisc in json.loads(host.run("tc", "-json", "-statistics", "qdisc", "show")))


class TwoHosts(ProcessesTest):
    def make_hosts(self, **options):
        self.hosts = [Host(self, number, **options) for number in (1, 2)]
        connect(self.hosts, "link0", "10.77.0")

    def start_on_hosts(self, arguments, per_host=1, **variables):
        """Starts processes by hand; returns them by rank. `variables`: more of the environment of each."""
        size = 2 * per_host
        processes = []
        for rank in range(size):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "node1",
                           "MASTER_PORT": str(PORT), "LOCAL_RANK": str(rank % per_host),
                           "LOCAL_WORLD_SIZE": str(per_host), **variables}
            command = self.hosts[rank // per_host].command(ATTEND, "train", *arguments)
            processes.append(self.start(command, environment))
        return processes

    def succeed(self, processes):
        ends = ends_of(processes)
        self.assertEqual([end[0] for end in ends], [0] * len(ends), ends)

    def train_on_one_host(self, size, arguments):
        """The undisturbed run, on the loopback interface."""
        whole = self.folder / "whole"
        self.succeed(self.start_ranks(["train", *arguments, "--overwrite", "--out", whole], size))
        return whole

    def expect_same(self, found, expected):
        self.same_result(found, expected)
        self.assertEqual(reports_of(found), reports_of(expected))

    def train_through(self, qdisc):
        """Trains through a link whose two ends drop packets, and expects the bytes of an undisturbed run."""
        for per_host in (1, 2):
            with self.subTest(processes_per_host=per_host):
                self.make_hosts()  # because a host remembers how much a link took, and sends less through it later
                for host in self.hosts:
                    host.run("tc", "qdisc", "add", "dev", "link0", "root", *qdisc)
                two = self.folder / f"two{per_host}"
                # Of a narrower model, four processes send parts of the gradients that hardly overflow the queue.
                arguments = ["--task", "copy", *tiny(embed_dim=32, max_steps=20, eval_every=10, dropout=0.1)]
                self.succeed(self.start_on_hosts([*arguments, "--out", two], per_host))
                self.assertGreater(sum(map(dropped_packets, self.hosts)), 0)
                self.expect_same(two, self.train_on_one_host(2 * per_host, arguments))

    def test_delay_jitter_and_loss_do_not_change_the_bytes(self):
        tried = subprocess.run(["tc", "qdisc", "add", "dev", "lo", "root", *NETEM], capture_output=True,
                               encoding="utf-8")
        if tried.returncode:
            self.skipTest(f"the kernel has no netem: {tried.stderr.strip()}")
        self.train_through(NETEM)

    def test_a_slow_link_whose_queue_overflows_does_not_change_the_bytes(self):
        self.train_through(SHORT_QUEUE)

    def test_a_link_that_goes_down_loses_nothing(self):
        self.make_hosts()
        broken = self.folder / "broken"
        arguments = ["--task", "copy", "--num-layers", 1, "--threads", 1, *DEMANDING, "--max-steps", 100, "--eval-every",
                     50, "--checkpoint-every", 5]
        whole = self.train_on_one_host(4, arguments)
        processes = self.start_on_hosts([*arguments, "--ddp-timeout", 3, "--out", broken], per_host=2)
        self.assertTrue(wait_for(lambda: last_step(broken) >= 10, processes[0]))
        self.hosts[0].run("ip", "link", "set", "link0", "down")
        ends = ends_of(processes)
        self.assertEqual([end[0] for end in ends], [1] * 4, ends)
        expect_names(self, ends[0][2], "ranks 2, 3")
        for _, _, error in ends[2:]:
            expect_names(self, error, "rank 0", f"node1:{PORT}")
        self.assertLess(last_step(broken), 100)
        self.hosts[0].run("ip", "link", "set", "link0", "up")
        self.succeed(self.start_on_hosts(["--resume", broken], per_host=2))
        self.expect_same(broken, whole)

    def test_a_link_that_is_down_at_the_start_is_named(self):
        self.make_hosts()
        self.hosts[0].run("ip", "link", "set", "link0", "down")
        ends = ends_of(self.start_on_hosts(["--task", "copy", *tiny(), "--ddp-timeout", 3, "--out", self.folder / "run"]))
        self.assertEqual([end[0] for end in ends], [1, 1], ends)
        for _, _, error in ends:
            expect_names(self, error, "rank 1")
        expect_names(self, ends[1][2], f"node1:{PORT}")
        self.assertFalse((self.folder / "run").exists())

    def test_the_interfaces_are_those_of_the_host_name_or_of_the_variable(self):
        self.make_hosts()
        connect(self.hosts, "link1", "10.77.1")
        arguments = ["--task", "copy", *tiny()]
        for number, (variables, used, unused) in enumerate((
            ({}, "link0", "link1"),
            ({"GLOO_SOCKET_IFNAME": ""}, "link0", "link1"),
            ({"GLOO_SOCKET_IFNAME": "link1"}, "link1", "link0"),
        )):
            with self.subTest(**variables):
                before = {link: sent_bytes(self.hosts[1], link) for link in (used, unused)}
                out = self.folder / f"run{number}"
                self.succeed(self.start_on_hosts([*arguments, "--out", out], **variables))
                sent = {link: sent_bytes(self.hosts[1], link) - before[link] for link in before}
                # With two processes, each sends the gradients once in a step.
                weights = (checkpoints(out)[-1] / "model.safetensors").stat().st_size
                self.assertGreater(sent[used], 60 * weights)
                self.assertLess(sent[unused], 60 * weights / 10)

    def test_several_interfaces(self):
        self.make_hosts()
        connect(self.hosts, "link1", "10.77.1")
        arguments = ["--task", "copy", *tiny()]
        two = self.folder / "two"
        self.succeed(self.start_on_hosts([*arguments, "--out", two], GLOO_SOCKET_IFNAME="link0,link1"))
        self.expect_same(two, self.train_on_one_host(2, arguments))

    def test_a_host_name_of_the_loopback_interface_needs_the_variable(self):
        self.make_hosts(own_address="127.0.1.1")  # as Debian installs it
        arguments = ["--task", "copy", *tiny(), "--ddp-timeout", 3, "--out", self.folder / "run"]
        ends = ends_of(self.start_on_hosts(arguments, MASTER_ADDR="10.77.0.1"))
        self.assertEqual([end[0] for end in ends], [1, 1], ends)
        for rank, (_, _, error) in enumerate(ends):
            expect_names(self, error, f"rank {rank}", "GLOO_SOCKET_IFNAME")
        self.succeed(self.start_on_hosts(arguments, MASTER_ADDR="10.77.0.1", GLOO_SOCKET_IFNAME="link0"))

    def test_an_unknown_interface_is_named(self):
        self.make_hosts()
        ends = ends_of(self.start_on_hosts(["--task", "copy", *tiny(), "--ddp-timeout", 3, "--out", self.folder / "run"],
                                  GLOO_SOCKET_IFNAME="link7"))
        self.assertEqual([end[0] for end in ends], [2, 2], ends)
        for _, _, error in ends:
            expect_names(self, error, "rank 0", "rank 1", "GLOO_SOCKET_IFNAME", "link7")

    def test_torchrun(self):
        if subprocess.run([sys.executable, "-c", "import torch.distributed.run"], capture_output=True).returncode:
            self.skipTest("no torch.distributed.run")
        self.make_hosts()
        arguments = ["--task", "copy", *tiny()]
        two = self.folder / "two"
        launchers = [self.start(host.command(
            sys.executable, "-m", "torch.distributed.run", "--nnodes", 2, "--node-rank", rank, "--master-addr", "node1",
            "--master-port", PORT, "--nproc-per-node", 2, "--no-python", ATTEND, "train", *arguments, "--out", two))
                     for rank, host in enumerate(self.hosts)]
        self.succeed(launchers)
        self.expect_same(two, self.train_on_one_host(4, arguments))


if __name__ == "__main__":
    run("ip", "link", "set", "lo", "up")
    unittest.main()
