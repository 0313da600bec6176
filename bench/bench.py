#!/usr/bin/env python3
"""Compares ballast with what users would do instead, and prints ratios.

Rules: contenders run in one process, in alternating order, on warm sources that are read again right
before each run; medians decide, with the minimum and the spread beside them. Times are wall clock of the whole
command, its sync included. Nothing here passes or fails: docs/performance.md keeps what was printed.
"""
import argparse
import contextlib
import json
import os
import platform
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
CHUNK = 16 * MIB


def sh(command, **options):
    return subprocess.run(command, shell=isinstance(command, str), check=True, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, **options)


# ---- inputs ------------------------------------------------------------------------------------


def make_shards(folder, n_shards, shard_bytes):
    """A checkpoint of random bf16: n safetensors shards of one tensor each, an index, small files."""
    os.makedirs(folder)
    weight_map = {}
    for i in range(1, n_shards + 1):
        name = f"model-{i:05d}-of-{n_shards:05d}.safetensors"
        header = json.dumps({f"layer.{i}": {"dtype": "BF16", "shape": [shard_bytes // 2],
                                            "data_offsets": [0, shard_bytes]}}).encode()
        header += b" " * (-len(header) % 8)
        with open(os.path.join(folder, name), "wb") as out:
            out.write(struct.pack("<Q", len(header)) + header)
            for start in range(0, shard_bytes, CHUNK):
                out.write(os.urandom(min(CHUNK, shard_bytes - start)))
        weight_map[f"layer.{i}"] = name
    index = {"metadata": {"total_size": n_shards * shard_bytes}, "weight_map": weight_map}
    small = {"model.safetensors.index.json": json.dumps(index), "config.json": '{"model_type":"bench"}',
             "tokenizer.json": "x" * 2_000_000, "tokenizer_config.json": "{}", "generation_config.json": "{}"}
    for name, text in small.items():
        with open(os.path.join(folder, name), "w") as out:
            out.write(text)


def make_small_files(folder, n_files, size):
    for i in range(n_files):
        part = os.path.join(folder, f"part-{i // 1000:03d}")
        if i % 1000 == 0:
            os.makedirs(part)
        with open(os.path.join(part, f"file-{i:05d}"), "wb") as out:
            out.write(os.urandom(size))


def files_below(folder):
    for base, _, names in os.walk(folder):
        for name in names:
            yield os.path.join(base, name)


def warm(folder):
    for path in files_below(folder):
        with open(path, "rb", buffering=0) as file:
            while file.read(CHUNK):
                pass


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        # Objects of a store are read-only; their folders are not.
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


# ---- measuring ---------------------------------------------------------------------------------


class Contender:
    """command: what is timed. prepare: run before, untimed. warm: folders read right before."""

    def __init__(self, name, command, prepare=None, warm=()):
        self.name, self.command, self.prepare, self.warm = name, command, prepare, warm
        self.seconds, self.peak_kib = [], 0

    def run(self, work):
        if self.prepare:
            self.prepare()
        os.sync()
        for folder in self.warm:
            warm(folder)
        report = os.path.join(work, "time")
        begin = time.perf_counter()
        sh(["/usr/bin/time", "-f", "%M", "-o", report, "sh", "-c", self.command])
        self.seconds.append(time.perf_counter() - begin)
        with open(report) as file:
            self.peak_kib = max(self.peak_kib, int(file.read().split()[-1]))

    @property
    def median(self):
        return statistics.median(self.seconds)

    def describe(self):
        low, high = min(self.seconds), max(self.seconds)
        return (f"    {self.name:<44} median {self.median:8.3f} s   min {low:8.3f}   max {high:8.3f}   "
                f"peak {self.peak_kib / 1024:6.1f} MiB")


def contest(work, rounds, contenders):
    for number in range(rounds):
        order = contenders if number % 2 == 0 else contenders[::-1]
        for contender in order:
            contender.run(work)
    for contender in contenders:
        print(contender.describe(), flush=True)


def verdict(what, value, goal, at_least):
    reached = value >= goal if at_least else value <= goal
    sign = ">=" if at_least else "<="
    print(f"  {what}: {value:.2f} x  (goal {sign} {goal} x: {'reached' if reached else 'MISSED'})", flush=True)


def time_many(command, n):
    """Median seconds of a short command, started directly."""
    seconds = []
    for _ in range(n):
        begin = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), min(seconds), max(seconds)


def report_time(what, command, goal_ms, n=101):
    median, low, high = time_many(command, n)
    text = "" if goal_ms is None else f"  (goal <= {goal_ms} ms: {'reached' if median * 1e3 <= goal_ms else 'MISSED'})"
    print(f"  {what}: median {median * 1e3:.1f} ms, min {low * 1e3:.1f}, max {high * 1e3:.1f}{text}", flush=True)


@contextlib.contextmanager
def xfs_on_loop(work, size_bytes):
    image, mount = os.path.join(work, "xfs.img"), os.path.join(work, "xfs")
    with open(image, "wb") as file:
        file.truncate(size_bytes)
    sh(["mkfs.xfs", "-q", "-m", "reflink=1", image])
    os.makedirs(mount)
    sh(["mount", "-o", "loop", image, mount])
    try:
        yield mount
    finally:
        sh(["umount", mount])
        os.unlink(image)


# ---- the contests ------------------------------------------------------------------------------


class Bench:
    def __init__(self, ballast, work, rounds, size_bytes):
        self.ballast, self.work, self.rounds, self.size_bytes = ballast, work, rounds, size_bytes
        self.shards = os.path.join(work, "shards")
        self.copy = os.path.join(work, "copy")
        self.store = os.path.join(work, "store")
        self.target = os.path.join(work, "target")

    def command(self, rest, store=None):
        return f"{self.ballast} -q --store file://{store or self.store} model {rest}"

    def make_shards(self):
        if not os.path.isdir(self.shards):
            make_shards(self.shards, 4, self.size_bytes // 4)

    def cp(self, source, target, then=""):
        return Contender("cp -r, sync" + (", openssl dgst -sha256" if then else ""),
                         f"cp -r --reflink=never {source} {target} && sync{then}",
                         lambda: remove(target), [source])

    def import_(self, source, name="ballast model import"):
        return Contender(name, self.command(f"import {source} --checkpoint-id m"),
                         lambda: remove(self.store), [source])

    def run_import(self):
        """import, durable and verified"""
        self.make_shards()
        cp = self.cp(self.shards, self.copy)
        hashed = self.cp(self.shards, self.copy, f" && openssl dgst -sha256 {self.shards}/*")
        ours = self.import_(self.shards)
        contest(self.work, self.rounds, [cp, ours, hashed])
        print(f"  cp and sync: {self.size_bytes / cp.median / 1e9:.2f} GB/s")
        verdict("import against cp -r, sync", ours.median / cp.median, 1.15, False)
        verdict("import against cp -r, sync, openssl", hashed.median / ours.median, 1.4, True)
        remove(self.copy)

    def run_small(self):
        """import of 20,000 files of 16 KiB"""
        source = os.path.join(self.work, "small")
        make_small_files(source, 20000, 16384)
        cp, ours = self.cp(source, self.copy), self.import_(source)
        contest(self.work, self.rounds, [cp, ours])
        verdict("import of 20,000 files against cp -r, sync", ours.median / cp.median, 2, False)
        verify = Contender("ballast model verify", self.command("verify m"))
        pull = Contender("ballast model pull", self.command(f"pull m -o {self.target}"), lambda: remove(self.target))
        contest(self.work, 1, [verify, pull])
        remove(self.copy)
        remove(source)
        remove(self.target)

    def ready_store(self):
        self.make_shards()
        remove(self.store)
        sh(self.command(f"import {self.shards} --checkpoint-id m"))

    def run_verify(self):
        """verify"""
        self.ready_store()
        openssl = Contender("openssl dgst -sha256", f"openssl dgst -sha256 {self.shards}/*", None, [self.shards])
        ours = Contender("ballast model verify", self.command("verify m"), None, [self.store])
        contest(self.work, self.rounds, [openssl, ours])
        verdict("verify against openssl (times as fast)", openssl.median / ours.median, 1.8, True)

    def make_second_revision(self):
        """The same shards, links to the first's, and small files of its own."""
        folder = os.path.join(self.work, "second")
        if not os.path.isdir(folder):
            os.makedirs(folder)
            for path in files_below(self.shards):
                if path.endswith(".safetensors"):
                    os.link(path, os.path.join(folder, os.path.basename(path)))
            for name in ("config.json", "tokenizer.json"):
                with open(os.path.join(folder, name), "w") as out:
                    out.write("second" * 300_000)
        return folder

    def run_second_revision(self):
        """import of a second revision with the same shards, which the store has already"""
        self.ready_store()
        second = self.make_second_revision()
        # What was checked since another name of it went is known to be right.
        prepare = f"{self.command('delete second')}; {self.command('verify m')}"
        ours = Contender("ballast model import (second revision)", self.command(f"import {second} --checkpoint-id second"),
                         lambda: sh(prepare), [second])
        verify = Contender("ballast model verify", self.command("verify m"), None, [self.store])
        contest(self.work, self.rounds, [verify, ours])
        held = sum(os.lstat(path).st_size for path in files_below(self.store) if os.lstat(path).st_nlink == 1)
        print(f"  bytes that only one checkpoint has: {held / MIB:.1f} MiB of {self.size_bytes / MIB:.0f} MiB", flush=True)
        verdict("import of a second revision against verify", ours.median / verify.median, 1.1, False)

    def run_pull(self):
        """pull, copied and verified"""
        self.ready_store()
        cp = self.cp(self.shards, self.copy)
        ours = Contender("ballast model pull --link=copy", self.command(f"pull m --link=copy -o {self.target}"),
                         lambda: remove(self.target), [self.store])
        contest(self.work, self.rounds, [cp, ours])
        verdict("pull against cp -r, sync", ours.median / cp.median, 1.15, False)
        remove(self.copy)
        remove(self.target)

    def run_links(self):
        """pull with reflink (XFS on a loop device) and with hard links"""
        self.make_shards()
        with xfs_on_loop(self.work, 3 * self.size_bytes + 2048 * MIB) as mount:
            store, target, copy = (os.path.join(mount, name) for name in ("store", "target", "copy"))
            sh(self.command(f"import {self.shards} --checkpoint-id m", store))
            cp = self.cp(self.shards, copy)
            links = [Contender(f"ballast model pull --link={mode}",
                               self.command(f"pull m --link={mode} -o {target}", store), lambda: remove(target))
                     for mode in ("reflink", "hardlink")]
            contest(self.work, self.rounds, [cp] + links)
            for link in links:
                verdict(f"{link.name} (times as fast)", cp.median / link.median, 20, True)

    def run_copy(self):
        """copy between two stores on one file system with reflinks (XFS on a loop device)"""
        self.make_shards()
        with xfs_on_loop(self.work, 3 * self.size_bytes + 2048 * MIB) as mount:
            store, second, copy = (os.path.join(mount, name) for name in ("store", "second", "copy"))
            sh(self.command(f"import {self.shards} --checkpoint-id m", store))
            cp = self.cp(store, copy)
            ours = Contender("ballast model copy", self.command(f"copy m --to file://{second}", store),
                             lambda: remove(second))
            contest(self.work, self.rounds, [cp, ours])
            verdict("copy against cp --reflink=never, sync (times as fast)", cp.median / ours.median, 20, True)

    def run_quick(self):
        """verify --quick of files that did not change"""
        source = os.path.join(self.work, "many")
        for n, goal in (100, 12), (100000, 2010):
            make_small_files(source, n, 1000)
            remove(self.store)
            sh(self.command(f"import {source} --checkpoint-id m"))
            sh(self.command("verify m"))
            report_time(f"ballast model verify --quick, {n:,} files", self.command("verify m --quick").split(), goal,
                        101 if n == 100 else 9)
            remove(source)
        remove(self.store)

    def run_list(self):
        """list of 1,000 checkpoints of 10 files; start of the command"""
        source = os.path.join(self.work, "ten")
        make_small_files(source, 10, 100)
        remove(self.store)
        for i in range(1000):
            sh(self.command(f"import {source} --checkpoint-id c{i:04d} --model-id org/m{i % 100}"))
        for what, command, goal in (
                ("ballast model list", [self.ballast, "--store", f"file://{self.store}", "model", "list"], 50),
                ("ballast --version", [self.ballast, "--version"], 5),
                ("/bin/true, for comparison", ["/bin/true"], None)):
            report_time(what, command, goal)
        remove(self.store)
        remove(source)


    def multiply(self, n):
        """Makes n checkpoints "c0001" … of "c0000", each as an import of its own would leave it."""
        models = os.path.join(self.store, "weight", "models")
        first = os.path.join(models, "c0000")
        objects = {}
        for name in os.listdir(first):
            with open(os.path.join(first, name), "rb") as file:
                objects[name] = file.read()
        for i in range(1, n):
            folder = os.path.join(models, f"c{i:04d}")
            os.mkdir(folder)
            for name, data in objects.items():
                with open(os.path.join(folder, name), "wb") as out:
                    out.write(data.replace(b"c0000", f"c{i:04d}".encode()) if name == "manifest" else data)

    def add_orphans(self):
        models = os.path.join(self.store, "weight", "models")
        for id in os.listdir(models):
            with open(os.path.join(models, id, f"files,{'0' * 64},chunks,00000000"), "w") as out:
                out.write("orphan")

    def time_upkeep(self, what, words, goal, prepare=None):
        ours = Contender(what, f"{self.ballast} -q --store file://{self.store} {words}", prepare)
        contest(self.work, self.rounds, [ours])
        if goal is not None:
            print(f"  {what}: {ours.median:.2f} s  (goal <= {goal} s: {'reached' if ours.median <= goal else 'MISSED'})")

    def run_upkeep(self):
        """fsck, gc and stats of 1,000 checkpoints with 100,000 objects; of one with 100,000 files"""
        for n_checkpoints, n_files in (1000, 100), (1, 100000):
            source = os.path.join(self.work, "upkeep")
            make_small_files(source, n_files, 100)
            remove(self.store)
            sh(self.command(f"import {source} --checkpoint-id c0000"))
            self.multiply(n_checkpoints)
            shape = f"{n_checkpoints} x {n_files}"
            self.time_upkeep(f"ballast fsck, {shape}", "fsck", 2)
            self.time_upkeep(f"ballast gc, {shape}", "gc", 2)
            self.time_upkeep(f"ballast stats, {shape}", "stats", None)
            self.time_upkeep(f"ballast gc of an orphan each, {shape}", "gc --grace 0", None, self.add_orphans)
            remove(self.store)
            remove(source)


def describe_machine(work):
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "?")
    filesystem = subprocess.run(["findmnt", "-n", "-o", "FSTYPE,SOURCE,OPTIONS", "-T", work], capture_output=True, text=True)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    print(f"machine: {os.cpu_count()} cores of {model}, {memory:.0f} GiB, Linux {platform.release()}")
    print(f"folder:  {filesystem.stdout.strip()}")


def main():
    contests = {name[4:]: getattr(Bench, name) for name in vars(Bench) if name.startswith("run_")}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contests", nargs="*", metavar="CONTEST", help=f"of {', '.join(contests)}; all without")
    parser.add_argument("--ballast", default="build/ballast", help="the program (a release build)")
    parser.add_argument("--dir", default="/var/tmp", help="where to work; some 20 GiB are needed")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--size", type=float, default=4, help="GiB of the checkpoint")
    options = parser.parse_args()
    unknown = set(options.contests) - set(contests)
    if unknown:
        parser.error(f"no contest {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="ballast-bench-", dir=options.dir) as work:
        describe_machine(work)
        os.environ["BALLAST_STATE_DIR"] = os.path.join(work, "state")
        bench = Bench(os.path.abspath(options.ballast), work, options.rounds, int(options.size * (1 << 30)))
        for name in options.contests or contests:
            print(f"\n{name}: {contests[name].__doc__}", flush=True)
            contests[name](bench)


if __name__ == "__main__":
    sys.exit(main())
