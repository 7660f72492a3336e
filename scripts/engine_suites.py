"""Suites of others, for programs-behind-the-engine: what became of each test, by its name: ok, FAIL, ERROR or skipped; with the reason where it is known."""

import contextlib
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys

SUITE_SECONDS = 300
# Where the sources of suites in C, Tcl and Perl are, and what is built of them, once for each place.
SOURCES = os.environ.get("NAPIER_SUITES", "/var/tmp/napier-suites")


class Skipped(Exception):
    """Something is not installed."""


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Skipped(f"{program} is not installed")


# The suites have both ends of their connections in one program, at loopback: those sockets the engine hands over at `bind` and `connect`. What they bind to wildcards is the engine's. With
# another address, which takes loopback's place in their text, both ends are the engine's.
# Each test's end is a line of a file: what is said is broken by what tests say themselves. A test that takes longer than 15 s is ended by a signal; where that does not help, its stack names it,
# and those after it count as lost.
PYTHON = """
import faulthandler, json, os, signal, sys, unittest
def too_long(*_):
    raise TimeoutError('15 s')
signal.signal(signal.SIGALRM, too_long)
faulthandler.dump_traceback_later(float(sys.argv[2]), exit=True)
if sys.argv[3] != '-':
    import importlib.machinery
    ordinary = importlib.machinery.SourceFileLoader.get_code
    def with_address(loader, name):
        path = loader.get_filename(name)
        if not name.startswith('test.'):
            return ordinary(loader, name)
        text = loader.get_data(path)
        for before in (b"'127.0.0.1'", b'"127.0.0.1"', b'HOST = "localhost"'):
            text = text.replace(before, before.replace(b'127.0.0.1', sys.argv[3].encode()).replace(b'localhost', sys.argv[3].encode()))
        return loader.source_to_code(text, path)
    importlib.machinery.SourceFileLoader.get_code = with_address
class Noted(unittest.TextTestResult):
    file = open(sys.argv[1], 'w', buffering=1)
    def startTest(self, test):
        self.how = 'ok'
        signal.setitimer(signal.ITIMER_REAL, 15, 5)
        super().startTest(test)
    def addError(self, test, error):
        self.how = f'ERROR: {error[1]!r:.200}'
        super().addError(test, error)
    def addFailure(self, test, error):
        self.how = f'FAIL: {error[1]!r:.200}'
        super().addFailure(test, error)
    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.how = f'FAIL: {error[1]!r:.200}'
        super().addSubTest(test, subtest, error)
    def addUnexpectedSuccess(self, test):
        self.how = 'FAIL'
        super().addUnexpectedSuccess(test)
    def addSkip(self, *of):
        self.how = 'skipped'
        super().addSkip(*of)
    def stopTest(self, test):
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.file.write(json.dumps([test.id(), self.how]) + '\\n')
        super().stopTest(test)
loaded = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[4:])
unittest.TextTestRunner(verbosity=2, resultclass=Noted).run(loaded)
# Threads of tests that were ended may wait still.
os._exit(0)
"""


def said_by(at, *command, own=True, **more):
    """What a suite says, in the place or at its peer, with all that it started ended after it, also where it takes too long."""
    running = subprocess.Popen([*(at.prefix if own else at.peer), *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, errors="replace", start_new_session=True, **more)
    try:
        said = running.communicate(timeout=SUITE_SECONDS + 60)[0]
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        said = running.communicate()[0]
    if at.show:
        print(said[-20000:])
    return said


def python_suite(at, *names, address="-"):
    with contextlib.suppress(FileNotFoundError):
        os.remove(at.path("ends"))
    said_by(at, sys.executable, "-u", "-W", "ignore", at.write("suite.py", PYTHON), at.path("ends"), str(SUITE_SECONDS), address, *names, cwd=at.folder)
    try:
        with open(at.path("ends")) as file:
            return dict(json.loads(line) for line in file)
    except FileNotFoundError as error:
        raise Skipped("this Python has not its own tests") from error


def go_suite(at):
    need("go")
    built = at.path("net.test")
    go = {**os.environ, "CGO_ENABLED": "0"}
    if not os.path.exists(built):
        subprocess.run(["go", "test", "-c", "-o", built, "net"], check=True, env=go)
    root = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()
    said = said_by(at, built, "-test.v", "-test.short", "-test.timeout", f"{SUITE_SECONDS}s", "-test.run", "TCP|Dial|Listen|Close|Keep|Conn|Accept|Read|Write|Splice|Sendfile|Unix", cwd=f"{root}/src/net")
    words = {"PASS": "ok", "FAIL": "FAIL", "SKIP": "skipped"}
    return {name: words[how] for how, name in re.findall(r"^--- (PASS|FAIL|SKIP): (\S+)", said, re.M)}


def tree_of(at, name, prepare, to=None):
    """A copy of a source tree, built once for each place, under another name if there are several."""
    found = sorted(path for path in glob.glob(f"{SOURCES}/{name}-*") if os.path.isdir(path))
    if not found:
        raise Skipped(f"no source of {name} in {SOURCES}: apt-get source {name} there (NAPIER_SUITES names another folder)")
    tree = f"{SOURCES}/at-{at.ip}/{to or name}"
    if not os.path.exists(f"{tree}/.built"):
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(found[-1], tree, symlinks=True)
        prepare(tree)
        open(f"{tree}/.built", "w").close()
    return tree


def changed(path, *pairs):
    """Puts one text in the place of another in a file of a suite."""
    with open(path, encoding="latin-1") as file:
        text = file.read()
    for before, after in pairs:
        if before not in text:
            raise Skipped(f"{path} is another version's: it has no `{before}`")
        text = text.replace(before, after)
    with open(path, "w", encoding="latin-1") as file:
        file.write(text)


def server_of(at, path, program, more=""):
    """A file that starts a program in the place, for tests that run at its peer."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
    with open(path, "w") as file:
        file.write(f"#!/bin/sh\nexec nsenter -t {os.getpid()} -n -- {' '.join(at.prefix)} {shutil.which(program)} \"$@\" {more}\n")
    os.chmod(path, 0o755)


def built(tree, *options, target):
    need("cmake", "cc", "make")
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["cmake", "-S", tree, "-B", f"{tree}/build", *options], **quiet)
    subprocess.run(["cmake", "--build", f"{tree}/build", "--target", target, "--parallel", "2"], **quiet)


# Those of libuv's that have to do with sockets; the others never meet the engine.
OF_SOCKETS = "tcp|connect|accept|listen|ping_pong|poll|pipe|ipc|shutdown|write|getsockname|fork|emfile|watcher|embed|socket|callback|delayed|stream"


def libuv(at, address=None):
    """With loopback's address, as all of its tests have it, or with another one in its place."""

    def prepare(tree):
        for path in glob.glob(f"{tree}/test/*.[ch]") if address else []:
            with open(path, encoding="latin-1") as file:
                text = file.read()
            with open(path, "w", encoding="latin-1") as file:
                file.write(text.replace('"127.0.0.1"', f'"{address}"'))
        built(tree, "-DBUILD_TESTING=ON", target="uv_run_tests_a")

    tree = tree_of(at, "libuv1", prepare, to="libuv1-at-its-address" if address else None)
    program = f"{tree}/build/uv_run_tests_a"
    # Each by itself, so that one that waits for ever costs itself alone; this shell and all of them are one program of the engine.
    line = f"for name in $({program} --list | grep -E '{OF_SOCKETS}'); do echo \"test $name\"; timeout 20 {program} $name; done"
    said = said_by(at, "sh", "-c", line, cwd=tree, env={**os.environ, "UV_RUN_AS_ROOT": "1"})
    ends = {}
    for name, text in re.findall(r"^test (\S+)$(.*?)(?=^test |\Z)", said, re.M | re.S):
        ends[name] = "skipped" if "# SKIP" in text else "ok" if re.search(r"^ok 1 - ", text, re.M) else "FAIL"
    return ends


def libevent(at):
    options = ["OPENSSL", "BENCHMARK", "SAMPLES"]
    build = lambda tree: built(tree, *(f"-DEVENT__DISABLE_{name}=ON" for name in options), "-DEVENT__LIBRARY_TYPE=STATIC", "-DCMAKE_POLICY_VERSION_MINIMUM=3.5", target="regress")
    tree = tree_of(at, "libevent", build)
    groups = [f"{name}/.." for name in ("main", "et", "finalize", "evbuffer", "bufferevent", "http", "rpc", "thread", "listener")]
    said = said_by(at, f"{tree}/build/bin/regress", *groups, cwd=f"{tree}/build")
    ends = {}
    for name, text in re.findall(r"^(\w+/\S+): (.*?)(?=^\w+/\S+: |\Z)", said, re.M | re.S):
        ends[name] = "skipped" if re.search(r"SKIPPED|DISABLED", text) else "FAIL" if "FAILED]" in text or "OK" not in text else "ok"
    return ends


def memcached_suite(at):
    need("memcached", "prove", "cc")

    def prepare(tree):
        subprocess.run(["cc", "-O1", "-o", f"{tree}/timedrun", f"{tree}/timedrun.c"], check=True, stderr=subprocess.DEVNULL)
        # Over TCP, where the suite takes a Unix socket by itself.
        changed(f"{tree}/t/lib/MemcachedTest.pm", ("sub supports_unix_socket {", "sub supports_unix_socket {\n    return 0;"), ('PeerAddr => "127.0.0.1:$port"', f'PeerAddr => "{at.ip}:$port"'),
                ("my $host = '127.0.0.1'", f"my $host = '{at.ip}'"), ('$args .= " -o relaxed_privileges";', ""))

    tree = tree_of(at, "memcached", prepare)
    server_of(at, f"{tree}/memcached-debug", "memcached")
    tests = sorted(os.path.relpath(path, tree) for path in glob.glob(f"{tree}/t/*.t"))
    # On the disc and for minutes, over UDP, or about what Debian's program is built without.
    tests = [path for path in tests if not re.search(r"extstore|ssl|sasl|proxy|whitespace|64bit|slabs-reassign|slabhang|udp", path)]
    # Four at a time, each by itself and for 150 s at most: one that waits for ever costs itself alone.
    each = "said=$(timeout -k 5 150 prove $0 2>&1); echo \"$said\""
    said = said_by(at, "sh", "-c", f"printf '%s\\n' {' '.join(tests)} | xargs -P 4 -n 1 sh -c '{each}'", own=False, cwd=tree)
    ends = {}
    for name, text in re.findall(r"^(t/\S+\.t) \.+ (.*?)(?=^t/\S+\.t \.+ |^Test Summary|^All tests|\Z)", said, re.M | re.S):
        ends[name] = "skipped" if text.startswith("skipped") else "ok" if re.search(r"^ok$", text, re.M) else "FAIL"
    return ends


# Those about connections; data types and persistence are the same whatever a connection is made of. Replication is a row of programs.
OF_REDIS = """unit/protocol unit/quit unit/pubsub unit/limits unit/querybuf unit/tracking unit/obuf-limits unit/replybufsize unit/client-eviction unit/type/list unit/other integration/redis-cli
integration/redis-benchmark unit/introspection unit/introspection-2 unit/multi unit/wait unit/pause unit/shutdown""".split()
# Those that are about a client on the server's own host; an exception in one ends them all.
NOT_OF_REDIS = [f"cannot modify protected configuration - {who}" for who in ("no", "local")]


def redis_suite(at):
    need("redis-server", "redis-cli", "redis-benchmark", "tclsh8.6")

    def prepare(tree):
        for name in ("cli", "benchmark", "check-aof", "check-rdb"):
            os.symlink(shutil.which(f"redis-{name}") or "/nowhere", f"{tree}/src/redis-{name}")
        changed(f"{tree}/tests/test_helper.tcl", ("set ::host 127.0.0.1", f"set ::host {at.ip}"))
        # By `run` the server is another process than the one that the suite has started: tests ask for its children, and end it.
        found = '[regexp -all -- { PID: (\\d+)} [exec cat $stdout] -> found] && ![catch {exec kill -0 $found}]'
        changed(f"{tree}/tests/support/server.tcl", ('[regexp -- " PID: $pid" [exec cat $stdout]]} {', found + "} {\n            upvar 1 pid started\n            set started $found"))
        changed(f"{tree}/tests/assets/default.conf", ("bind 127.0.0.1", f"bind {at.ip}\nprotected-mode no"))
        os.makedirs(f"{tree}/tests/tmp", exist_ok=True)

    tree = tree_of(at, "redis", prepare)
    # Some of its tests start a server without the file that says so.
    server_of(at, f"{tree}/src/redis-server", "redis-server", "--protected-mode no --enable-protected-configs yes --enable-debug-command yes")
    singles = [word for name in OF_REDIS for word in ("--single", name)] + [word for name in NOT_OF_REDIS for word in ("--skiptest", name)]
    said = said_by(at, "./runtest", "--clients", "4", "--timeout", "120", *singles, own=False, cwd=tree)
    said = re.sub(r"\x1b\[[0-9;]*m", "", said)
    words = {"ok": "ok", "err": "FAIL", "exception": "FAIL", "skip": "skipped", "ignore": "skipped"}
    return {re.sub(r" \(\d+ ms\)$", "", name): words[how] for how, name in re.findall(r"^\[(ok|err|exception|skip|ignore)\]: (.*)$", said, re.M)}


ASYNCIO = [f"test.test_asyncio.test_{name}" for name in ("events", "streams", "sock_lowlevel", "server", "sendfile", "buffered_proto", "ssl", "sslproto", "unix_events", "subprocess")]

SUITES = {
    "python test_socket": lambda at: python_suite(at, "test.test_socket"),
    "python test_selectors, test_epoll, test_poll": lambda at: python_suite(at, "test.test_selectors", "test.test_epoll", "test.test_poll"),
    "python test_asyncio": lambda at: python_suite(at, *ASYNCIO),
    "python test_httpservers, test_socketserver, test_ftplib": lambda at: python_suite(at, "test.test_httpservers", "test.test_socketserver", "test.test_ftplib"),
    "python test_ssl": lambda at: python_suite(at, "test.test_ssl"),
    "python test_socket at its address": lambda at: python_suite(at, "test.test_socket", address=at.ip),
    "python test_asyncio at its address": lambda at: python_suite(at, *ASYNCIO, address=at.ip),
    "python test_ssl at its address": lambda at: python_suite(at, "test.test_ssl", address=at.ip),
    "python test_httpservers, test_socketserver, test_ftplib at its address": lambda at: python_suite(at, "test.test_httpservers", "test.test_socketserver", "test.test_ftplib", address=at.ip),
    "go net": go_suite,
    "libuv": libuv,
    "libuv at its address": lambda at: libuv(at, address=at.ip),
    "libevent": libevent,
    "memcached t": memcached_suite,
    "redis tests": redis_suite,
}
