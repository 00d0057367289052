"""
Runs graders in Python: one process a grader, started as `python3 -I run.py`, that forks a child for each answer.

The process compiles the source and never executes it; a child executes it, grades one answer and ends, so that nothing of one answer's run is
there in the next. Both live behind walls, which this file puts up and then tries: on Linux namespaces of their own (no network, no other process,
an empty root with the interpreter and the system's libraries, read-only) and a filter of system calls; elsewhere whoever starts it has put them
up. A wall that does not hold is said, and nothing is run.

Talks in frames, four bytes of length and JSON: first the settings, then one frame an answer, each with one frame back. Knows neither graders'
templates nor flags; `python-process.ts` starts it. Python 3.8 and newer.
"""

import ast
import builtins
import importlib
import importlib.util
import json
import linecache
import math
import os
import resource
import select
import shutil
import signal
import socket
import struct
import sys
import time
import traceback
import types

NAME = "grader"
LONGEST_FRAME = 64 * 1024 * 1024
KEPT_OF_STDERR = 2048
LONGEST_RESULT = 4096
# how long a child that says no more may take to end
ENDING_SECONDS = 0.2

# nothing is left beside this file
sys.dont_write_bytecode = True
# `python3 -I` looks for nothing there
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import walls  # noqa: E402

sys.path.pop(0)


def read_exactly(fd, size):
    pieces = []
    while size > 0:
        piece = os.read(fd, min(size, 1 << 20))
        if not piece:
            return None
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def read_frame(fd):
    """None where the other side is gone."""
    head = read_exactly(fd, 4)
    if head is None:
        return None
    (size,) = struct.unpack(">I", head)
    return None if size > LONGEST_FRAME else read_exactly(fd, size)


def write_frame(fd, message):
    data = json.dumps(message).encode()
    data = struct.pack(">I", len(data)) + data
    while data:
        data = data[os.write(fd, data):]


def limit(kind, most):
    number = getattr(resource, kind, None)
    if number is None:
        return
    _, hard = resource.getrlimit(number)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    try:
        resource.setrlimit(number, (most, most))
    except (ValueError, OSError):
        # macOS refuses some; the watchdog outside remains
        if sys.platform == "linux":
            raise


def set_limits(settings):
    # at its hard limit of processor time a process is killed, whatever it catches
    limit("RLIMIT_CPU", max(1, math.ceil(settings["seconds"])))
    limit("RLIMIT_FSIZE", settings["fileBytes"])
    limit("RLIMIT_CORE", 0)
    limit("RLIMIT_NOFILE", 64)
    limit("RLIMIT_MSGQUEUE", 0)
    limit("RLIMIT_MEMLOCK", 0)
    limit("RLIMIT_NPROC", 0)


class Grader:
    def __init__(self, settings, library):
        self.settings = settings
        self.library = library
        self.rules = None if library is None else walls.filter_of_calls()
        self.code = None

    def confine(self):
        """In a child."""
        if self.library is not None:
            walls.drop_rights(self.library, self.rules, lambda: set_limits(self.settings))
            return
        walls.drop_id()
        set_limits(self.settings)
        if sys.platform == "linux":
            walls.die_with_parent(walls.libc())

    def prepare(self):
        """Compiles the source and imports what it names. Returns what is wrong with it, and the names that are missing."""
        source = self.settings["source"]
        try:
            tree = ast.parse(source, NAME)
            self.code = compile(tree, NAME, "exec", dont_inherit=True)
        except SyntaxError as error:
            return "line %s: %s" % (error.lineno, error.msg), []
        except Exception as error:
            return "cannot be compiled: %s" % error, []
        # lines of it in tracebacks
        linecache.cache[NAME] = (len(source), None, source.splitlines(True), NAME)
        return fault_of(tree), [name for name in imports_of(tree) if not load(name)]

    def grade(self, payload, result):
        """In a child: executes the source, and writes the score or that there is none."""
        write, pack, leave, say = os.write, struct.pack, os._exit, traceback.format_exception
        try:
            call_with = json.loads(payload)
            module = types.ModuleType("grader")
            module.__dict__["__builtins__"] = builtins
            sys.modules["grader"] = module
            exec(self.code, module.__dict__)
            answer = module.grade(call_with["sample"], call_with["item"])
            if isinstance(answer, (str, bytes)) or not hasattr(answer, "__float__"):
                raise TypeError("grade returned %s, expected a number" % type(answer).__name__)
            score = float(answer)
            if not math.isfinite(score):
                raise ValueError("grade returned %s, expected a finite number" % score)
            write(result, b"S" + pack(">d", score))
        except BaseException as error:
            try:
                # from the source on
                text = "".join(say(type(error), error, error.__traceback__.tb_next))
            except BaseException:
                text = "the grader failed, and its error cannot be shown"
            write(2, text.encode("utf-8", "replace")[-KEPT_OF_STDERR:])
            write(result, b"E" + bytes(8))
        leave(0)


def fault_of(tree):
    """What is wrong with `grade`, as far as it can be told without running anything."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            names.add(node.asname or node.name)
            if node.name == "*":
                return None
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.ClassDef):
            names.add(node.name)
    found = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == "grade"]
    if not found:
        return None if "grade" in names else "there is no function grade(sample, item)"
    last = found[-1]
    if isinstance(last, ast.AsyncFunctionDef):
        return "line %d: grade is async, expected a plain function" % last.lineno
    if last.decorator_list:
        return None
    positional = len(last.args.args) + len(getattr(last.args, "posonlyargs", []))
    needed = positional - len(last.args.defaults)
    named = [argument for argument, value in zip(last.args.kwonlyargs, last.args.kw_defaults) if value is None]
    if needed > 2 or (positional < 2 and last.args.vararg is None) or named:
        return "line %d: grade is called with two arguments, sample and item" % last.lineno
    return None


def imports_of(tree):
    """Modules that it imports and that are not tried only."""
    tried = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.Try) for part in node.body for inner in ast.walk(part)}
    names = []
    for node in ast.walk(tree):
        if id(node) in tried:
            continue
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.append(node.module)
    return list(dict.fromkeys(names))[:100]


def load(name):
    """False where there is no such module."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        return error.name is not None and not (name + ".").startswith(error.name + ".")
    except BaseException:
        # the child says it
        return True
    return True


def run_child(grader, work, gone):
    """
    Forks; the child confines itself and does `work(result)`. Returns its result, the end of its stderr, and how it ended: `limit`, a signal,
    an exit code; None where whoever asked is gone.
    """
    result, result_end = os.pipe()
    said, said_end = os.pipe()
    deadline = time.monotonic() + grader.settings["seconds"]
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            os.dup2(said_end, 2)
            os.dup2(result_end, 3)
            os.set_inheritable(3, False)
            os.closerange(4, 4096)
            grader.confine()
            work(3)
        finally:
            os._exit(70)
    os.close(result_end)
    os.close(said_end)
    try:
        return watch(pid, result, said, deadline, gone)
    finally:
        os.close(result)
        os.close(said)
        clean(grader, pid)


def watch(pid, result, said, deadline, gone):
    answer, tail = b"", b""
    poller = select.poll()
    for fd in (result, said, gone):
        poller.register(fd, select.POLLIN | select.POLLHUP)
    status = None
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return answer, tail, "limit"
        ready = [fd for fd, _ in poller.poll(left * 1000)]
        if said in ready:
            piece = os.read(said, 65536)
            tail = (tail + piece)[-KEPT_OF_STDERR:]
            if not piece:
                poller.unregister(said)
        if gone in ready:
            return None
        # what it says of an error comes before the result
        if result in ready and said not in ready:
            piece = os.read(result, LONGEST_RESULT)
            answer += piece
            if len(answer) >= 9:
                return answer, tail, "exit 0"
            if not piece:
                break
    until = min(deadline, time.monotonic() + ENDING_SECONDS)
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if done:
            break
        time.sleep(0.002)
        status = None
    if status is None:
        return answer, tail, "no result"
    if os.WIFSIGNALED(status):
        return answer, tail, "killed by %s" % signal.Signals(os.WTERMSIG(status)).name
    return answer, tail, "exit %d" % os.WEXITSTATUS(status)


def clean(grader, pid):
    """Ends the child and all that it may have started, and empties its folder."""
    try:
        # in a namespace of its own this process is the first one, and all others are children's
        os.kill(-1 if grader.library is not None else pid, signal.SIGKILL)
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        pass
    if grader.library is None:
        for name in os.listdir(grader.settings["folder"]):
            path = os.path.join(grader.settings["folder"], name)
            shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    elif os.listdir("/tmp"):
        walls.call(grader.library.umount2, b"/tmp", walls.MNT_DETACH)
        walls.mount_own(grader.library, grader.settings)


def answer_of(grader, payload, gone):
    ended = run_child(grader, lambda result: grader.grade(payload, result), gone)
    if ended is None:
        return None
    result, tail, how = ended
    details = tail.decode("utf-8", "replace").strip()
    if len(result) == 9 and result[:1] == b"S":
        score = struct.unpack(">d", result[1:])[0]
        if math.isfinite(score):
            return {"score": score}
    if result[:1] == b"E":
        return {"error": "runtime", "message": details or "the grader failed"}
    if how == "limit":
        return {"error": "server", "message": "no score within %g s" % grader.settings["seconds"]}
    if how.startswith("killed"):
        reason = " (at its limit of processor time, or of the machine's memory)" if how.endswith("SIGKILL") else ""
        return {"error": "server", "message": "the grader was %s%s" % (how, reason)}
    return {"error": "runtime", "message": ("the grader ended without a score (%s)\n%s" % (how, details)).strip()}


def assert_walls(grader, gone):
    """Tries what must not work, here and in a confined child."""
    for path in grader.settings["hidden"]:
        try:
            if os.listdir(path):
                raise walls.Refused("a grader can list %s" % path)
        except OSError:
            pass
    for place in ("127.0.0.1", "192.0.2.1"):
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
                tried.connect((place, 9))
        except OSError:
            continue
        raise walls.Refused("a grader has a network")
    ended = run_child(grader, try_rights, gone)
    if ended is None:
        os._exit(0)
    result, tail, how = ended
    if result.strip() != b"S":
        raise walls.Refused((result or tail).decode("utf-8", "replace").strip() or "a trial of the walls ended with %s" % how)


def try_rights(result):
    held = "S" if os.getuid() != 0 else "a grader is root"
    try:
        if os.fork() == 0:
            os._exit(0)
        held = "a grader can start processes"
    except OSError:
        pass
    os.write(result, held.encode().ljust(9))


def serve(settings, library, source, target):
    try:
        if library is not None:
            # not named: it was mounted over, and no grader needs it
            walls.build_root(library, "/proc", settings)
        else:
            os.chdir(settings["folder"])
            if os.getuid() == 0:
                os.chown(".", walls.NOBODY, walls.NOBODY)
        limit("RLIMIT_AS", settings["bytes"])
        grader = Grader(settings, library)
        if settings["walls"] != "none":
            assert_walls(grader, source)
    except (walls.Refused, OSError) as error:
        write_frame(target, {"type": "refused", "message": str(error)})
        return
    problem, missing = grader.prepare()
    write_frame(target, {"type": "ready", "problem": problem, "missing": missing})
    while True:
        payload = read_frame(source)
        answer = None if payload is None else answer_of(grader, payload, source)
        if answer is None:
            return
        write_frame(target, answer)


def main():
    source, target = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    # modules that are imported may print
    os.dup2(null, 1)
    settings = json.loads(read_frame(source) or b"null")
    if settings is None:
        return
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    os.environ.clear()
    home = "/tmp" if settings["walls"] == "namespaces" else settings["folder"]
    os.environ.update(kept, HOME=home, TMPDIR=home)
    for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM"):
        os.environ[name + "_NUM_THREADS"] = "1"
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        # whoever started it ends it by its input
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        walls.die_with_parent(walls.libc())
        try:
            # where memory is short, this goes first
            walls.write_text("/proc/self/oom_score_adj", "1000")
        except OSError:
            pass
    if settings["walls"] != "namespaces":
        serve(settings, None, source, target)
        shutil.rmtree(settings["folder"], ignore_errors=True)
        return
    library = walls.libc()
    try:
        walls.enter_namespaces(library)
    except walls.Refused as error:
        write_frame(target, {"type": "refused", "message": str(error)})
        return
    first = os.fork()
    if first == 0:
        try:
            walls.die_with_parent(library)
            serve(settings, library, source, target)
        finally:
            os._exit(0)
    os.waitpid(first, 0)


if __name__ == "__main__":
    main()
