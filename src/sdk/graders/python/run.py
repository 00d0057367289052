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
import ctypes
import errno
import importlib
import importlib.util
import json
import linecache
import math
import os
import platform
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

NAME = "grader.py"
LONGEST_FRAME = 64 * 1024 * 1024
KEPT_OF_STDERR = 2048
LONGEST_RESULT = 4096
# an id that owns nothing; the number of `nobody` everywhere
NOBODY = 65534
# how long a child that says no more may take to end
ENDING_SECONDS = 0.2

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38

# what a grader that only computes never asks the kernel for, with the number of each call (asm/unistd_64.h, asm-generic/unistd.h): other programs,
# memory that no limit counts, other processes, keys, namespaces, mounts; `socket` of any family, of which some know no namespace
REFUSED = {
    "x86_64": (0xC000003E, [41, 59, 322, 319, 447, 29, 68, 64, 425, 101, 321, 298, 323, 248, 249, 250, 240, 310, 311, 165, 166, 272, 308, 155, 161]),
    "aarch64": (0xC00000B7, [198, 221, 281, 279, 447, 194, 186, 190, 425, 117, 280, 241, 282, 217, 218, 219, 180, 270, 271, 40, 39, 97, 268, 41, 51]),
}
# the same on both: open_tree, move_mount, fsopen, mount_setattr
REFUSED_BOTH = [428, 429, 430, 442]
MOUNT_SETATTR = 442

# read-only in the root of a grader, where they are
SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/etc/localtime"]
DEVICES = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"]


class Refused(Exception):
    """A wall that cannot be put up, or does not hold."""


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


# --- walls of Linux


def call(function, *arguments):
    """A function of the C library. Raises OSError."""
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def libc():
    library = ctypes.CDLL(None, use_errno=True)
    library.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]
    library.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    return library


def write_text(path, text):
    with open(path, "w") as file:
        file.write(text)


def enter_namespaces(library):
    """Of this process's children. A plain user needs a user namespace for the others."""
    is_root = os.getuid() == 0
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS
    try:
        call(library.unshare, flags if is_root else flags | CLONE_NEWUSER)
        if not is_root:
            write_text("/proc/self/setgroups", "deny")
            write_text("/proc/self/uid_map", "%d %d 1" % (NOBODY, uid))
            write_text("/proc/self/gid_map", "%d %d 1" % (NOBODY, gid))
    except OSError as error:
        raise Refused("the system gives no namespaces: %s" % error)


def mount(library, source, target, kind, flags, options=None):
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    call(library.mount, *encoded, flags, None if options is None else options.encode())


def make_read_only(library, path):
    """With all that is mounted below."""
    attributes = struct.pack("4Q", MS_RDONLY | MS_NOSUID, 0, 0, 0)
    call(library.syscall, MOUNT_SETATTR, -100, os.fsencode(path), 0x8000, attributes, len(attributes))


def seen_folders():
    own = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix] + sys.path
    paths = {path for path in SYSTEM + [os.path.abspath(each) for each in own if each] if os.path.exists(path)}
    if "/" in paths:
        raise Refused("the interpreter's folder is the root of the system")
    return sorted(paths | {os.path.realpath(path) for path in paths}, key=len)


def build_root(library, root, settings):
    """An empty root with what a grader may read, and a folder of its own."""
    mount(library, None, "/", None, MS_REC | MS_PRIVATE)
    seen = seen_folders()
    mount(library, "tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,mode=755")
    for path in seen + DEVICES:
        place = root + path
        if os.path.lexists(place) or not os.path.exists(path):
            continue
        os.makedirs(os.path.dirname(place), mode=0o755, exist_ok=True)
        if os.path.islink(path):
            os.symlink(os.path.realpath(path), place)
            continue
        if os.path.isdir(path):
            os.mkdir(place, 0o755)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
        mount(library, path, place, None, MS_BIND | MS_REC)
        if path not in DEVICES:
            make_read_only(library, place)
    for path in settings["hidden"]:
        if os.path.isdir(root + path):
            mount(library, "tmpfs", root + path, "tmpfs", MS_NOSUID | MS_NODEV | MS_RDONLY, "size=4k,mode=000")
    os.makedirs(root + "/tmp", exist_ok=True)
    mount(library, None, root, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    os.chroot(root)
    os.chdir("/")
    mount_own(library, settings)


def mount_own(library, settings):
    options = "size=%d,nr_inodes=65536,mode=1777" % settings["fileBytes"]
    mount(library, "tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options)


def filter_of_calls():
    """BPF: refuse the listed calls and those of other architectures, allow all others (seccomp(2))."""
    known = REFUSED.get(platform.machine())
    if known is None:
        raise Refused("no filter of system calls is known for machines of the kind %s" % platform.machine())
    architecture, numbers = known
    numbers = numbers + REFUSED_BOTH
    refuse = 0x00050000 | errno.EPERM
    program = [(0x20, 0, 0, 4), (0x15, 1, 0, architecture), (0x06, 0, 0, refuse), (0x20, 0, 0, 0)]
    # the second set of numbers of x86-64, for pointers of 32 bits
    program += [(0x35, 0, 1, 0x40000000), (0x06, 0, 0, refuse)]
    for number in numbers:
        program += [(0x15, 0, 1, number), (0x06, 0, 0, refuse)]
    program.append((0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    return code, struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))


def drop_rights(library, rules):
    """In a child: no other namespace, no right of root, none of the calls that are refused."""
    call(library.unshare, CLONE_NEWIPC)
    drop_id()
    call(library.prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # version 3 of capabilities(7): three sets of 64 bits, all empty
    call(library.capset, struct.pack("Ii", 0x20080522, 0), bytes(24))
    _, program = rules
    buffer = ctypes.create_string_buffer(program, len(program))
    call(library.prctl, PR_SET_SECCOMP, 2, ctypes.addressof(buffer), 0, 0)


def drop_id():
    """Limits on processes count for nothing while it is root's."""
    if os.getuid() != 0:
        return
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


# --- the grader's process


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
        self.rules = None if library is None else filter_of_calls()
        self.code = None

    def confine(self):
        """In a child."""
        if self.library is None:
            drop_id()
        else:
            drop_rights(self.library, self.rules)
        if sys.platform == "linux":
            call(libc().prctl, PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        set_limits(self.settings)

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
        call(grader.library.umount2, b"/tmp", MNT_DETACH)
        mount_own(grader.library, grader.settings)


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


# --- whether the walls hold


def assert_walls(grader, gone):
    """Tries what must not work, here and in a confined child."""
    for path in grader.settings["hidden"]:
        try:
            if os.listdir(path):
                raise Refused("a grader can list %s" % path)
        except OSError:
            pass
    for place in ("127.0.0.1", "192.0.2.1"):
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
                tried.connect((place, 9))
        except OSError:
            continue
        raise Refused("a grader has a network")
    ended = run_child(grader, try_rights, gone)
    if ended is None:
        os._exit(0)
    result, tail, how = ended
    if result.strip() != b"S":
        raise Refused((result or tail).decode("utf-8", "replace").strip() or "a trial of the walls ended with %s" % how)


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
            build_root(library, "/proc", settings)
        else:
            os.chdir(settings["folder"])
            if os.getuid() == 0:
                os.chown(".", NOBODY, NOBODY)
        limit("RLIMIT_AS", settings["bytes"])
        grader = Grader(settings, library)
        if settings["walls"] != "none":
            assert_walls(grader, source)
    except (Refused, OSError) as error:
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
        call(libc().prctl, PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # where memory is short, this goes first
        write_text("/proc/self/oom_score_adj", "1000")
    if settings["walls"] != "namespaces":
        serve(settings, None, source, target)
        shutil.rmtree(settings["folder"], ignore_errors=True)
        return
    library = libc()
    try:
        enter_namespaces(library)
    except Refused as error:
        write_frame(target, {"type": "refused", "message": str(error)})
        return
    first = os.fork()
    if first == 0:
        try:
            call(library.prctl, PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            serve(settings, library, source, target)
        finally:
            os._exit(0)
    os.waitpid(first, 0)


if __name__ == "__main__":
    main()
