"""attend serve and attend train --serve: the page of a run for a browser on this computer.

Run by CTest with ATTEND set to the built command. The page itself is tested by apps/page/tests/live.test.mjs.
"""

import contextlib
import http.client
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import time
import unittest

from attend_command import CommandTest, attend, command, expect_names
from small_runs import as_in_a_terminal, checkpoints, kill, reports_of, result_of, wait_for

OPTIONS = ["--embed-dim", 16, "--num-layers", 2, "--num-heads", 2, "--batch-size", 8, "--max-steps", 30,
           "--eval-every", 10, "--log-every", 5]
ENDLESS = [*OPTIONS[:-6], "--max-steps", 10000000, "--log-every", 10]
NO_EVALUATION = ["--eval-every", 10000000, "--checkpoint-every", 10000000]
TEXT = "the boat drifted while we liked the bank"
JSON = {"Content-Type": "application/json"}


def line_with(process, name):
    """Returns the value of a line of the output such as "page        http://127.0.0.1:8008/"."""
    for line in process.stdout:
        found = re.match(rf"{name} +(\S+)$", line)
        if found:
            return found[1]
    raise AssertionError(f"no line {name}: {process.stderr.read()}")


class Server:
    """A command that serves a page; stops at the end of a with block."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, preexec_fn=as_in_a_terminal)
        self.url = line_with(self.process, "page")
        self.port = int(re.fullmatch(r"http://(127\.0\.0\.1|0\.0\.0\.0):(\d+)/", self.url)[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        kill(self.process)

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method="GET", path="/", body=None, headers=None):
        """Returns status, headers and body of an answer."""
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()

    def explain(self, body, **headers):
        """Returns status and JSON of the answer to a POST of the body, bytes or an object."""
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, _, answer = self.ask("POST", "/explain", body, {**JSON, **headers})
        return status, json.loads(answer)

    def data(self):
        """Returns the data of the page."""
        status, _, page = self.ask()
        assert status == 200, page
        return json.loads(re.search(rb'<script type="application/json" id="data">(.*?)</script>', page)[1])

    def raw(self, request):
        """Sends bytes and returns the answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(request)
            answer = b""
            with contextlib.suppress(ConnectionResetError):  # the server reads no more than it needs
                while part := connection.recv(65536):
                    answer += part
            return answer


class Events:
    """The events that a page receives."""

    def __init__(self, server, version):
        self.connection = server.connect()
        self.connection.request("GET", f"/events?version={version}")
        self.response = self.connection.getresponse()

    def __iter__(self):
        """Yields names and data of events until the server ends them."""
        name = None
        while line := self.response.readline():
            key, _, value = line.decode().rstrip("\n").partition(": ")
            if key == "event":
                name = value
            elif key == "data":
                yield name, json.loads(value)

    def close(self):
        self.response.close()
        self.connection.close()


class TrainedRun(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_directory = cls.folder / "run"
        result = attend("train", *OPTIONS, "--out", cls.run_directory)
        assert result.returncode == 0, result.stderr


class FinishedRun(TrainedRun):
    """attend serve of a run that no process trains."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server("serve", cls.run_directory, 0)
        cls.addClassCleanup(kill, cls.server.process)

    def test_page_has_the_data_of_the_report(self):
        report = (self.run_directory / "report.html").read_bytes()
        expected = json.loads(re.search(rb'id="data">(.*?)</script>', report)[1])
        data = self.server.data()
        self.assertTrue(data.pop("version"))
        self.assertEqual(data, expected)

    def test_only_the_served_page_may_connect_to_its_server(self):
        policy = re.compile(rb'Content-Security-Policy" content="([^"]*)"')
        served = policy.search(self.server.ask()[2])[1]
        written = policy.search((self.run_directory / "report.html").read_bytes())[1]
        self.assertEqual(served.replace(b" connect-src 'self';", b""), written)
        self.assertNotEqual(served, written)

    def test_explanation_is_that_of_attend_explain(self):
        status, answer = self.server.explain({"text": " ".join([TEXT] * 40)})
        self.assertEqual(status, 400)
        expect_names(self, answer["error"], 40 * len(TEXT.split()))
        status, answer = self.server.explain({"text": TEXT})
        self.assertEqual(status, 200, answer)
        expected = json.loads(self.succeeds("explain", self.run_directory, "--text", TEXT, "--json").stdout)
        [explanation], labels, numbers = (answer["explanation"][key] for key in ("explanations", "labels", "numbers"))
        self.assertEqual([step["title"] for step in explanation["steps"]], [step["title"] for step in expected["steps"]])
        self.assertTrue(any(isinstance(matrix, str) for matrix in numbers))  # large weights as base64
        table = explanation["steps"][-1]["matrices"][0]
        values = numbers[table["values"]]
        self.assertEqual(answer["prediction"], [{"name": row, "probability": probability} for row, (_, probability) in
                                                zip(labels[table["rows"]], values, strict=True)])
        for found, wanted in zip(values, expected["steps"][-1]["matrices"][0]["values"]):
            for a, b in zip(found, wanted):
                self.assertAlmostEqual(a, b, places=5)
        attention, = answer["attention"]
        self.assertEqual(attention["rows"], TEXT.split())
        self.assertEqual((attention["num_layers"], attention["num_heads"]), (2, 2))

    def test_content_is_not_compressed(self):
        for method, path, body in (("GET", "/", None), ("POST", "/explain", json.dumps({"text": TEXT}).encode())):
            status, headers, _ = self.server.ask(method, path, body,
                                                 {**(JSON if body else {}), "Accept-Encoding": "br, gzip, deflate"})
            self.assertEqual((status, headers["Content-Encoding"]), (200, None))

    def test_a_request_may_name_its_charset(self):
        self.assertEqual(self.server.explain({"text": TEXT}, **{"Content-Type": "application/json; charset=utf-8"})[0], 200)

    def test_bodies_that_are_no_request_are_refused(self):
        bodies = [b"", b"{", b"[]", b"null", b'"text"', b"{}", b'{"text": 1}', b'{"text": "bank", "more": 1}', b'{"text": ""}',
                  b'{"text": "\xff\xfe"}', b'{"text": "a\\u0000b"}', b'{"text": "\\ud800"}', b"\0" * 100, b"[" * 60000,
                  json.dumps({"text": "bank " * 10000}).encode()]
        for body in bodies:
            with self.subTest(body=body[:40]):
                status, answer = self.server.explain(body)
                self.assertEqual((status, list(answer)), (400, ["error"]))
        self.assertEqual(self.server.explain({"text": TEXT})[0], 200)

    def test_a_large_body_is_refused(self):
        status, answer = self.server.explain({"text": "a" * 100000})
        self.assertEqual((status, list(answer)), (413, ["error"]))

    def test_hosts_of_other_sites_are_refused(self):
        port = self.server.port
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LocalHost:{port}", f"[::1]:{port}"):
            self.assertEqual(self.server.ask(headers={"Host": host})[0], 200, host)
        for host in ("127.0.0.1", f"127.0.0.1:{port + 1}", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", ""):
            for method, path in (("GET", "/"), ("GET", "/events"), ("POST", "/explain")):
                status, _, body = self.server.ask(method, path, "{}", {"Host": host, **JSON})
                self.assertEqual(status, 403, host)
                if host:
                    expect_names(self, json.loads(body)["error"], host, f"127.0.0.1:{port}")
        for hosts in ("", f"Host: 127.0.0.1:{port}\r\nHost: evil.example\r\n"):
            answer = self.server.raw(f"GET / HTTP/1.1\r\n{hosts}\r\n".encode())
            self.assertTrue(answer.startswith(b"HTTP/1.1 403"), answer)

    def test_any_address_of_the_computer_is_accepted(self):
        with Server("serve", self.run_directory, 0, "--host", "0.0.0.0") as server:
            for host in (f"192.0.2.2:{server.port}", f"[2001:db8::2]:{server.port}"):
                self.assertEqual(server.ask(headers={"Host": host})[0], 200, host)
                status, _, _ = server.ask("POST", "/explain", json.dumps({"text": TEXT}),
                                          {"Host": host, "Origin": f"http://{host}", **JSON})
                self.assertEqual(status, 200, host)
            for host in ("192.0.2.2", f"192.0.2.2.evil.example:{server.port}", f"[evil.example]:{server.port}",
                         f"2001:db8::2:{server.port}", f"192.0.2.2:{server.port + 1}"):
                self.assertEqual(server.ask(headers={"Host": host})[0], 403, host)

    def test_origins_of_other_sites_are_refused(self):
        own = f"http://127.0.0.1:{self.server.port}"
        self.assertEqual(self.server.explain({"text": TEXT}, Origin=own)[0], 200)
        for origin in ("http://evil.example", "null", f"http://localhost:{self.server.port}", f"{own}0"):
            status, answer = self.server.explain({"text": TEXT}, Origin=origin)
            self.assertEqual(status, 403, origin)
            expect_names(self, answer["error"], own)

    def test_other_methods_and_pages_are_refused(self):
        for method, path in [("PUT", "/"), ("DELETE", "/"), ("HEAD", "/"), ("OPTIONS", "/explain"), ("PATCH", "/explain"),
                             ("POST", "/"), ("POST", "/events")]:
            self.assertEqual(self.server.ask(method, path, headers=JSON)[0], 405, (method, path))
        for path in ("/explain", "/report.html", "/../recipe.toml", "/%2e%2e/recipe.toml", "/model.safetensors", "//"):
            self.assertEqual(self.server.ask(path=path)[0], 404, path)

    def test_posts_that_a_form_can_send_are_refused(self):
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            self.assertEqual(self.server.ask("POST", "/explain", '{"text": "bank"}', {"Content-Type": kind})[0], 415)
        self.assertEqual(self.server.ask("POST", "/explain", b"\x1f\x8b", {**JSON, "Content-Encoding": "gzip"})[0], 415)

    def test_bodies_without_a_length_are_refused(self):
        head = f"POST /explain HTTP/1.1\r\nHost: 127.0.0.1:{self.server.port}\r\nContent-Type: application/json\r\n"
        for rest in ("\r\n", "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"tex"):
            answer = self.server.raw((head + rest).encode())
            self.assertTrue(answer.startswith(b"HTTP/1.1 411"), answer)

    def test_the_body_of_a_refused_request_is_no_request(self):
        port = self.server.port
        inner = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
        answer = self.server.raw(f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(inner)}\r\n\r\n{inner}"
                                 .encode())
        self.assertEqual(answer.count(b"HTTP/1.1 "), 1, answer)

    def test_malformed_requests_are_answered_or_closed(self):
        host = f"Host: 127.0.0.1:{self.server.port}\r\n".encode()
        ranges = b"Range: bytes=" + b",".join([b"0-"] * 2000) + b"\r\n"
        for request in (b"\0" * 1000, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n" + host + b"\r\n", b"GET /" + b"a" * 100000,
                        b"GET / HTTP/1.1\r\n" + host + b"A: " + b"a" * 100000 + b"\r\n\r\n",
                        b"GET / HTTP/1.1\r\n" + host + ranges + b"\r\n", b"GET /%00%ff?%=%&version=%00 HTTP/1.1\r\n" + host + b"\r\n"):
            with self.subTest(request=request[:30]):
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    answer = self.server.raw(request)
                    self.assertNotIn(b"HTTP/1.1 200", answer)
                self.assertEqual(self.server.ask()[0], 200)

    def test_clients_do_not_wait_for_clients_that_follow_or_send_nothing(self):
        with Server("serve", self.run_directory, 0) as server:
            version = server.data()["version"]
            clients = [Events(server, version) for _ in range(8)]
            self.assertEqual({client.response.status for client in clients}, {200})
            clients += [socket.create_connection(("127.0.0.1", server.port)) for _ in range(4)]
            self.assertEqual(server.explain({"text": TEXT})[0], 200)
            for client in clients:
                client.close()

    def test_at_most_16_clients_follow(self):
        with Server("serve", self.run_directory, 0) as server:
            followers = [Events(server, "1-x") for _ in range(17)]
            self.assertEqual([follower.response.status for follower in followers], [200] * 16 + [503])
            for follower in followers:
                follower.close()
            self.assertTrue(any(self.follows_again(server) for _ in range(60)))

    def follows_again(self, server):
        """True if the server has noticed that clients have left."""
        follower = Events(server, "1-x")
        follower.close()
        if follower.response.status == 200:
            return True
        time.sleep(0.5)
        return False

    def test_a_page_of_another_version_gets_the_data(self):
        for version in ("", "x", "0-0", "999999999999999999999999-x"):
            follower = Events(self.server, version)
            name, data = next(iter(follower))
            follower.close()
            self.assertEqual((name, data), ("data", self.server.data()))


class DamagedRun(TrainedRun):
    """attend serve of a run that is damaged while it is served."""

    def test_the_report_of_a_repaired_run_is_shown(self):
        samples = self.run_directory / "samples.jsonl"
        whole = samples.read_text()
        with Server("serve", self.run_directory, 0) as server:
            version = server.data()["version"]
            follower = Events(server, version)
            samples.write_text(whole + "damaged\n")
            time_of_damage = samples.stat().st_mtime_ns
            status, _, body = server.ask()
            self.assertEqual((status, list(json.loads(body))), (500, ["error"]))
            expect_names(self, json.loads(body)["error"], samples)
            samples.write_text(whole)
            os.utime(samples, ns=(time_of_damage, time_of_damage))
            self.assertEqual(server.ask()[0], 500)  # the same version is read again after 5 s
            self.assertTrue(wait_for(lambda: server.ask()[0] == 200, server.process))
            data = server.data()
            self.assertNotEqual(data["version"], version)
            self.assertEqual(next(iter(follower)), ("data", data))
            follower.close()


class Arguments(TrainedRun):
    """Ports, hosts and signals."""

    def test_a_port_in_use_is_refused_before_anything_is_written(self):
        with Server("serve", self.run_directory, 0) as server:
            expect_names(self, self.refuses(["serve", self.run_directory, server.port]), server.port, "127.0.0.1")
            new = self.folder / "new"
            expect_names(self, self.refuses(["train", *OPTIONS, "--out", new, "--serve", server.port]), server.port)
            self.assertFalse(new.exists())

    def test_wrong_ports_are_refused(self):
        for port in ("65536", "http", "1.5"):
            expect_names(self, self.refuses(["serve", self.run_directory, port]), "port", port)
            expect_names(self, self.refuses(["train", f"--serve={port}"]), "--serve", port)

    def test_an_unknown_host_is_refused(self):
        expect_names(self, self.refuses(["serve", self.run_directory, 0, "--host", "192.0.2.1"]), "192.0.2.1")

    def test_no_run_is_refused(self):
        expect_names(self, self.refuses(["serve", self.folder / "none"]), "none")

    def test_options_without_effect_are_refused(self):
        expect_names(self, self.refuses(["train", "--host", "127.0.0.1"]), "--host", "--serve")
        for serve in ("--serve", "--serve=0"):
            expect_names(self, self.refuses(["train", serve, "--print-config"]), "--serve", "--print-config")
        expect_names(self, self.refuses(["serve", self.run_directory, "0", "--host", ""]), "--host")
        expect_names(self, self.refuses(["train", "--serve=0", "--sweep", "lr=1,2", "--out", self.folder / "sweep"]),
                     "--serve", "--sweep")

    def test_listens_on_the_local_address_only(self):
        with Server("serve", self.run_directory, 0) as server:
            with self.assertRaises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.2", server.port))

    def test_a_signal_stops_the_server_with_clients(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with Server("serve", self.run_directory, 0) as server:
                follower = Events(server, server.data()["version"])
                with socket.create_connection(("127.0.0.1", server.port)) as unfinished:
                    unfinished.sendall(b"POST /explain HTTP/1.1\r\nContent-Length: 400\r\n")
                    server.process.send_signal(number)
                    self.assertEqual(server.process.wait(timeout=60), 128 + number)
                self.assertEqual(list(follower), [])


class Training(CommandTest):
    """Runs that are trained meanwhile."""

    def check_metrics(self, server, version, steps):
        """Expects that the events continue the steps without a gap. Other clients come and go meanwhile."""
        Events(server, version).close()
        follower = Events(server, version)
        for name, data in follower:
            if name == "data":
                steps = data.get("training", {"step": []})["step"]
            elif data["step"] not in steps:  # lines that are written meanwhile are sent again
                self.assertEqual(data["step"], max(steps, default=0) + 10)
                steps.append(data["step"])
                if len(steps) > 30:
                    return follower.close()
        self.fail("the events have ended")

    def test_page_follows_the_training(self):
        directory = self.folder / "served"
        with Server("train", *ENDLESS, *NO_EVALUATION, "--out", directory, "--serve", 0) as server:
            self.check_metrics(server, "0-x", [])
            self.assertEqual(server.data()["run"]["state"], "unfinished")
            self.assertEqual(server.explain({"text": TEXT})[0], 400)  # no weights yet
            server.process.send_signal(signal.SIGINT)
            self.assertEqual(server.process.wait(timeout=60), 128 + signal.SIGINT)
            with self.assertRaises(ConnectionRefusedError):
                server.connect().connect()
            self.assertTrue(checkpoints(directory))

    def test_another_process_follows_the_training(self):
        directory = self.folder / "followed"
        training = subprocess.Popen(command("train", *ENDLESS, *NO_EVALUATION, "--out", directory),
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(kill, training)
        while not (directory / "metrics.jsonl").exists():
            self.assertIsNone(training.poll())
            time.sleep(0.01)
        with Server("serve", directory, 0) as server:
            data = server.data()
            self.check_metrics(server, data["version"], data.get("training", {"step": []})["step"])

    def test_evaluations_change_the_data(self):
        with Server("train", *ENDLESS, "--eval-every", 50, "--out", self.folder / "evaluated", "--serve", 0) as server:
            follower = Events(server, "0-x")
            evaluations = [data["evaluations"]["step"][-1] for _, data in
                           itertools.islice((event for event in follower if "attention" in event[1]), 2)]
            follower.close()
            self.assertLess(*evaluations)
            self.assertEqual(server.explain({"text": TEXT})[0], 200)

    def test_followers_get_the_finished_run(self):
        with Server("train", *OPTIONS, "--out", self.folder / "short", "--serve", 0) as server:
            last = None
            for name, data in Events(server, "0-x"):
                last = data if name == "data" else last
            self.assertEqual(last["run"]["state"], "finished")
            self.assertEqual(server.process.wait(timeout=60), 0)

    def test_serving_changes_no_byte_of_the_training(self):
        options = ["--embed-dim", 16, "--batch-size", 8, "--dropout", 0.2, "--max-steps", 200, "--eval-every", 20,
                   "--log-every", 5, "--threads", 1]
        alone, served = self.folder / "alone", self.folder / "with-page"
        self.succeeds("train", *options, "--out", alone)
        with Server("train", *options, "--out", served, "--serve", 0) as server:
            follower = Events(server, "0-x")
            explained = 0
            with contextlib.suppress(ConnectionError, http.client.HTTPException):
                while server.process.poll() is None:
                    explained += server.explain({"text": TEXT})[0] == 200
            self.assertEqual(server.process.wait(timeout=60), 0, server.process.stderr.read())
            follower.close()
        self.assertGreater(explained, 0)
        self.assertEqual(result_of(served), result_of(alone))
        self.assertEqual(reports_of(served), reports_of(alone))

    def test_the_server_ends_with_a_killed_training(self):
        with Server("train", *ENDLESS, "--out", self.folder / "killed", "--serve", 0) as server:
            server.ask()
            server.process.kill()
            server.process.wait()
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                try:
                    server.connect().connect()
                except ConnectionRefusedError:
                    return
                time.sleep(0.05)
            self.fail("the port is still open")


if __name__ == "__main__":
    unittest.main()
