"""Bubblewrap's command line: the part of this machine that the sandbox server sees, read-only."""

import os
import sys
from pathlib import Path

from rankzero.curriculum import ROOT
from rankzero.exercises.checks.probe_client import INSTRUCTION_SETS

NOBODY_UID = 65534
IN_VENV = sys.prefix != sys.base_prefix
MOUNT = "/lab"  # path of the repository in the sandbox
# The library's files that probes and submissions import. The judges, in exercises/checks/, stay outside.
VISIBLE_FILES = (
    *("__init__.py", "atomic_write.py", "errors.py", "learn"),
    *("exercises/__init__.py", "exercises/probes", "grading/__init__.py"),
    *(f"grading/sandbox/{name}.py" for name in ("__init__", "memory_meter", "namespaces")),
    *(f"grading/sandbox/{name}.py" for name in ("sandbox_server", "seccomp_filter")),
)
SANDBOX_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONPATH": f"{MOUNT}/code",
    "OMP_NUM_THREADS": "1",
    "TORCH_CPP_LOG_LEVEL": "FATAL",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def path_inside(path: Path) -> str:
    """Returns the path that a file of the repository has in the sandbox, which is never below /tmp."""
    return f"{MOUNT}/{path.relative_to(ROOT)}"


def bubblewrap_command(probes: list[Path], passwd: int, hosts: int, control: int) -> list[str]:
    """Returns the command that starts the sandbox server in bubblewrap, with `probes` and all that Python needs.

    `passwd`, `hosts` and `control` are file descriptors: the contents of /etc/passwd and /etc/hosts, and the server's
    control socket. The kernel counts limits per user and applies none to root. So if root grades, an outer bubblewrap
    mounts the files, which only root may be able to read, and an inner bubblewrap runs as the user `nobody`.
    """
    files = _file_options(probes, passwd, hosts)
    isolation = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    private = ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp"]
    private += ["--remount-ro", "/", "--remount-ro", "/dev"]
    instruction_sets = {name: os.environ[name] for name in INSTRUCTION_SETS if name in os.environ}
    environment = SANDBOX_ENVIRONMENT | instruction_sets
    private += [word for name, value in environment.items() for word in ("--setenv", name, value)]
    python = f"{MOUNT}/venv/bin/{Path(sys.executable).name}" if IN_VENV else sys.executable
    run = [python, "-u", "-s", "-P", "-m", "rankzero.grading.sandbox.sandbox_server", str(control)]
    run += [path_inside(path) for path in probes]
    if os.getuid():
        return ["bwrap", *isolation, *files, *private, *run]
    become_nobody = ["setpriv", f"--reuid={NOBODY_UID}", f"--regid={NOBODY_UID}", "--clear-groups"]
    outer = ["bwrap", "--die-with-parent", *files, "--bind", "/proc", "/proc", "--dev", "/dev"]
    return [*outer, *become_nobody, "bwrap", *isolation, "--ro-bind", "/", "/", *private, *run]


def _file_options(probes: list[Path], passwd: int, hosts: int) -> list[str]:
    """Returns the options that mount the files in the sandbox."""
    library = [path for pattern in VISIBLE_FILES for path in (ROOT / "code" / "rankzero").glob(pattern)]
    binds = [(path, path_inside(path)) for path in (*library, *probes)]
    binds += [(Path(sys.prefix), f"{MOUNT}/venv")] * IN_VENV
    system = [Path(path) for path in ("/lib", "/lib64", "/lib32", "/bin", "/sbin") if Path(path).exists()]
    same_paths = [path for path in system if not path.is_symlink()]
    same_paths += [Path("/etc/ld.so.cache"), Path(sys.base_prefix).resolve()]
    binds += [(path, str(path)) for path in same_paths if path.exists() and not path.is_relative_to("/usr")]
    options = ["--ro-bind", "/usr", "/usr", "--dir", "/tmp"]
    options += [word for path in system if path.is_symlink() for word in ("--symlink", os.readlink(path), str(path))]
    for folder in sorted({folder for _, target in binds for folder in Path(target).parents[:-1]}):
        options += ["--perms", "0755", "--dir", str(folder)]  # otherwise only root may enter the folder
    options += [word for path, target in binds for word in ("--ro-bind", str(path), target)]
    return [*options, "--ro-bind-data", str(passwd), "/etc/passwd", "--ro-bind-data", str(hosts), "/etc/hosts"]
