"""
The walls of graders on Linux: namespaces, an empty root, a filter of system calls, and no right of root. Knows no grader.
"""

import ctypes
import errno
import os
import platform
import signal
import struct
import sys

# an id that owns nothing; the number of `nobody` everywhere
NOBODY = 65534
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38

# what a grader that only computes never asks the kernel for, with the number of each call on x86-64 (asm/unistd_64.h) and arm64
# (asm-generic/unistd.h)
REFUSED = {
    # other programs, and what no limit counts
    "execve": (59, 221), "execveat": (322, 281), "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180), "io_uring_setup": (425, 425), "userfaultfd": (323, 282),
    # sockets of any family, of which some know no namespace
    "socket": (41, 198),
    # other processes: also their limits and turns
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "process_madvise": (440, 440),
    "kcmp": (312, 272), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setattr": (314, 274),
    "sched_setparam": (142, 118), "setpriority": (141, 140), "ioprio_set": (251, 30), "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    # the kernel's own
    "bpf": (321, 280), "perf_event_open": (298, 241), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # namespaces and mounts
    "unshare": (272, 97), "setns": (308, 268), "chroot": (161, 51), "pivot_root": (155, 41), "mount": (165, 40),
    "umount2": (166, 39), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
}
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
MOUNT_SETATTR = 442

# read-only in the root of a grader, where they are
SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/etc/localtime"]
DEVICES = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"]


class Refused(Exception):
    """A wall that cannot be put up, or does not hold."""


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
    known = ARCHITECTURES.get(platform.machine())
    if known is None:
        raise Refused("no filter of system calls is known for machines of the kind %s" % platform.machine())
    column, architecture = known
    refuse = 0x00050000 | errno.EPERM
    program = [(0x20, 0, 0, 4), (0x15, 1, 0, architecture), (0x06, 0, 0, refuse), (0x20, 0, 0, 0)]
    # the second set of numbers of x86-64, for pointers of 32 bits
    program += [(0x35, 0, 1, 0x40000000), (0x06, 0, 0, refuse)]
    for numbers in REFUSED.values():
        program += [(0x15, 0, 1, numbers[column]), (0x06, 0, 0, refuse)]
    program.append((0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    return code, struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))


def drop_rights(library, rules, set_limits):
    """In a child: no right of root, limits, none of the calls that are refused, among them those that would lift a limit."""
    call(library.unshare, CLONE_NEWIPC)
    drop_id()
    set_limits()
    die_with_parent(library)
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
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def die_with_parent(library):
    call(library.prctl, PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
