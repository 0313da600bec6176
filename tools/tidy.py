"""clang-tidy over the sources: python3 tools/tidy.py BUILD JOBS

A file that passed is not looked at again until it changes, or a header that it includes, how it is compiled, or .clang-tidy:
BUILD/tidy/ has an empty file, named by a hash of all of these, for each that passed."""
import concurrent.futures
import hashlib
import json
import pathlib
import shlex
import subprocess
import sys


def key(entry, rules):
    """A hash of what clang-tidy would see: the preprocessed text, and the source itself for its comments."""
    command = shlex.split(entry["command"])
    for option in ("-o", "-MF", "-MQ"):
        at = command.index(option)
        del command[at:at + 2]
    command = [c for c in command if c not in ("-c", "-MD")] + ["-E", "-P"]
    seen = subprocess.run(command, cwd=entry["directory"], capture_output=True, check=True).stdout
    source = (pathlib.Path(entry["directory"]) / entry["file"]).read_bytes()
    return hashlib.sha256(b"\0".join([rules, entry["command"].encode(), seen, source])).hexdigest()


def check(build, entry, rules):
    """What clang-tidy says; nothing where the file passes."""
    stamp = build / "tidy" / key(entry, rules)
    if stamp.exists():
        return ""
    done = subprocess.run(["clang-tidy-14", "--quiet", "--warnings-as-errors=*", "-p", str(build), entry["file"]],
                          cwd=entry["directory"], capture_output=True, text=True)
    if done.returncode == 0:
        stamp.touch()
        return ""
    return done.stdout or f"{entry['file']}: clang-tidy ended with {done.returncode}: {done.stderr[-500:]}\n"


def main():
    build, jobs = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2])
    (build / "tidy").mkdir(exist_ok=True)
    rules = pathlib.Path(".clang-tidy").read_bytes()
    entries = json.loads((build / "compile_commands.json").read_text())
    entries = [e for e in entries if e["file"].startswith("../src/")]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(lambda entry: check(build, entry, rules), entries))
    print("".join(found), end="")
    return 1 if not entries or any(found) else 0


sys.exit(main())
