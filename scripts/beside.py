"""What xsk-beside-libxdp and memif-beside-libmemif share: a program of ours and one of another library count packets, in turn."""

import re
import statistics
import subprocess
import threading
import time

PATIENCE_S = 120


def run(*args):
    subprocess.run(args, check=True)


def can_compile(*flags, source):
    """Whether cc is there and takes this."""
    try:
        return subprocess.run(["cc", *flags, "-E", "-"], input=source, text=True, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def lines_of(path):
    """Lines that say something."""
    with open(path) as source:
        text = re.sub(r"/\*.*?\*/", "", source.read(), flags=re.S)
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("//"))


class Counter:
    """A program that counts packets and writes a line when it has them all. It does not outlive its block."""

    def __init__(self, *words, **how):
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, **how)
        self.ends = threading.Timer(PATIENCE_S, self.process.kill)
        self.ends.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ends.cancel()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def line(self):
        """Its next line."""
        said = self.process.stdout.readline()
        assert said, f"{self.process.args} ended too early, or took more than {PATIENCE_S} s"
        return said

    def processor_ns(self):
        """What its thread has run, to the nanosecond (the first field of schedstat)."""
        with open(f"/proc/{self.process.pid}/schedstat") as schedstat:
            return int(schedstat.read().split()[0])

    def begin(self):
        """Packets are counted from here on."""
        self.began, self.used = time.monotonic(), self.processor_ns()

    def figures(self, packets):
        """Waits until it has them all. Packets per second, and nanoseconds of processor for each."""
        self.line()
        took, used = time.monotonic() - self.began, self.processor_ns() - self.used
        self.process.communicate()
        assert self.process.returncode == 0, f"{self.process.args} ended with {self.process.returncode}"
        return packets / took, used / packets


def in_turn(turns, programs, turn):
    """The figures of each program; the first of each pair of turns is another each time."""
    figures = {name: [] for name in programs}
    for number in range(turns):
        for name in list(programs)[:: 1 if number % 2 == 0 else -1]:
            figures[name].append(turn(name))
    return figures


def say(figures, sources, packets):
    """Lines, packets per second and processor time of each, and in how many pairs the first took less."""
    turns = len(next(iter(figures.values())))
    for name, source in sources.items():
        print(f"{name}, {turns} turns of {packets:,} packets, {lines_of(source)} lines")
        for what, unit, values in (
            ("packets", "/s", [rate for rate, _ in figures[name]]),
            ("processor", "ns a packet", [ns for _, ns in figures[name]]),
        ):
            print(f"  {what:<12}{statistics.median(values):>12,.0f} {unit}   ({min(values):,.0f} to {max(values):,.0f})")
    first, second = figures.values()
    less = sum(ours[1] < theirs[1] for ours, theirs in zip(first, second))
    print(f"{next(iter(figures))} took less processor in {less} of {turns} pairs")
