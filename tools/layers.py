"""The house rules that a script can check: python3 tools/layers.py BUILD

Prints each breach as FILE:LINE: what, and ends with 1 if there is one. Wishes (lengths) are printed as "note" only."""
import glob
import re
import subprocess
import sys

# A layer and what it may include beside itself.
MAY_USE = {
    "base": [],
    "net": ["base"],
    "store": ["base", "net"],
    "model": ["base", "net", "store"],
    "artifact": ["base", "net", "store"],
    "access": ["base", "net", "store", "model"],
    "upkeep": ["base", "net", "store", "model", "artifact"],
    "launch": ["base", "net", "store", "model", "artifact", "upkeep"],
    "cli": ["base", "net", "store", "model", "artifact", "upkeep", "access", "launch"],
}
# The library never prints and never exits; programs do.
PROGRAMS = ("cli", "access", "launch")

BANNED = {
    r"strcpy|strcat|stpcpy|sprintf|vsprintf|gets": "writes without a bound",
    r"strncpy|strncat": "leaves strings without an end; use g_strlcpy or GString",
    r"mktemp|tempnam|tmpnam": "races; open with O_EXCL",
    r"system|popen|g_spawn_command_line_sync": "runs a shell",
    r"strtok|localtime|gmtime|asctime|ctime|strerror|readdir_r": "is not for threads",
    r"atoi|atol|atoll|sscanf": "hides what was wrong with the number",
    r"alloca|g_alloca|g_newa": "has no bound on the stack",
    r"access": "races with what follows; open it",
    r"g_file_set_contents|g_rename": "is not durable; use base/file.h",
    r"setlocale|chdir|umask|setenv|putenv": "changes the whole process",
}
BANNED_IN_LIBRARY = {
    r"printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|perror|g_print|g_printerr|g_warning|g_message|g_critical":
        "prints; return an error or a note",
    r"exit|_exit|abort|quick_exit": "ends the process; return an error",
}
# Programs that own their process.
PROGRAM_MAY = {"setlocale", "umask", "localtime"}

MAX_LINES, WANTED_LINES = 1000, 600
MAX_FUNCTION, WANTED_FUNCTION = 100, 60

breaches = 0


def breach(path, line, text):
    global breaches
    breaches += 1
    print(f"{path}:{line}: {text}")


def without_comments_and_strings(text):
    """The same text, line for line, with comments and literals blanked."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def function_bodies(code):
    """First and last line of each block that follows a ")" at the outermost level."""
    depth, line, before, start = 0, 1, "", 0
    for char in re.sub(r"^[ \t]*#(?:.*\\\n)*.*", lambda m: "\n" * m.group().count("\n"), code, flags=re.M):
        if char == "{":
            if depth == 0:
                start = line if before == ")" else 0
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0 and start:
                yield start, line
        if char == "\n":
            line += 1
        elif not char.isspace():
            before = char


def check_includes(path, layer, text):
    for number, line in enumerate(text.splitlines(), 1):
        m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not m or m.group(1) == "ballast.h":
            continue
        used, slash, _ = m.group(1).partition("/")
        if not slash or used not in MAY_USE:
            breach(path, number, f'"{m.group(1)}" is not written "layer/file.h"')
        elif used != layer and used not in MAY_USE[layer]:
            breach(path, number, f'{layer} must not use {used}: "{m.group(1)}"')


def check_calls(path, layer, code):
    banned = dict(BANNED) if layer in PROGRAMS else {**BANNED, **BANNED_IN_LIBRARY}
    for names, why in banned.items():
        for m in re.finditer(rf"(?<![\w.>])({names})\s*\(", code):
            if layer in PROGRAMS and m.group(1) in PROGRAM_MAY:
                continue
            breach(path, code.count("\n", 0, m.start()) + 1, f"{m.group(1)} {why}")


def check_lengths(path, text, code):
    lines = text.count("\n")
    if lines > MAX_LINES:
        breach(path, lines, f"{lines} lines, at most {MAX_LINES}")
    elif lines > WANTED_LINES:
        print(f"note: {path}: {lines} lines, wanted are {WANTED_LINES}")
    for start, end in function_bodies(code):
        length = end - start + 1
        if length > MAX_FUNCTION:
            breach(path, start, f"a function of {length} lines, at most {MAX_FUNCTION}")
        elif length > WANTED_FUNCTION:
            print(f"note: {path}:{start}: a function of {length} lines, wanted are {WANTED_FUNCTION}")


def check_words(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line):
            breach(path, number, "unfinished by its own word")


def check_symbols(build):
    """What the libraries show to the linker carries our prefix."""
    for library in sorted(glob.glob(f"{build}/src/libballast-*.a")):
        names = subprocess.run(["nm", "-g", "--defined-only", library], capture_output=True, text=True, check=True)
        for line in names.stdout.splitlines():
            parts = line.split()
            if len(parts) == 3 and not parts[2].startswith(("bl_", "ballast_", "__")):
                breach(library, 0, f"{parts[2]} is seen by the linker: make it static, or name it bl_…")


def main():
    for path in sorted(glob.glob("src/*/*.[ch]")):
        layer = path.split("/")[1]
        if layer not in MAY_USE:
            breach(path, 1, f"no layer of this name: {layer} (tools/layers.py has the list)")
            continue
        with open(path, encoding="utf-8") as f:
            text = f.read()
        code = without_comments_and_strings(text)
        check_includes(path, layer, text)
        check_calls(path, layer, code)
        check_lengths(path, text, code)
        check_words(path, text)
        if path.endswith(".h") and "#pragma once" not in text:
            breach(path, 1, "no #pragma once")
    check_symbols(sys.argv[1])
    return 1 if breaches else 0


sys.exit(main())
