"""Flagged names: functions and modules that no exercise needs, by purpose.

A name stands for everything below it, and `*` for any ending.
"""

import re

_NAMES = {
    "frames": "inspect gc.get_* gc.callbacks sys._* sys.settrace sys.setprofile sys.addaudithook "
    "sys.setswitchinterval sys.exc_info sys.exception sys.last_*",
    "processes": "subprocess multiprocessing torch.multiprocessing concurrent threading _thread signal ctypes cffi "
    "atexit faulthandler resource pty weakref.finalize os.fork* os._exit os.abort os.kill* os.system os.popen os.exec* "
    "os.spawn* os.posix_spawn* os.register_at_fork os.setsid os.pidfd_open sys.exit builtins.exit builtins.quit "
    "builtins.SystemExit builtins.breakpoint",
    "grader": "rankzero.exercises rankzero.grading rankzero.curriculum rankzero.publish rankzero.claims sys.modules "
    "sys.path* sys.meta_path sys.stdin sys.__std* sys.argv importlib pkgutil runpy zipimport builtins.__import__ "
    "builtins.__loader__ builtins.__spec__",
    "files": "os.environ* os.getenv* os.putenv os.open os.read os.write os.dup* os.fdopen os.pipe os.close* os.listdir "
    "os.scandir os.walk os.symlink os.link os.readlink os.chdir os.setxattr os.getxattr os.listxattr os.removexattr "
    "os.utime os.mkfifo os.memfd_create os.pread* os.pwrite* os.sendfile glob mmap fcntl linecache pathlib.Path.home "
    "pathlib.Path.cwd builtins.__file__ torch.from_file torch.UntypedStorage.from_file "
    "torch.UntypedStorage._new_shared torch.UntypedStorage._new_using_*",
    "network": "socket socketserver ssl urllib requests http httpx aiohttp ftplib smtplib telnetlib xmlrpc asyncio "
    "select selectors websockets paramiko torch.hub torch.utils.model_zoo torch.distributed.rpc "
    "torch.distributed.TCPStore huggingface_hub",
    "patching": "builtins unittest.mock mock torch._C._* torch.utils._python_dispatch._* tracemalloc torch.overrides "
    "torch.library torch.set_default_* torch.set_num_* torch.autograd.set_* torch.autograd.graph.saved_tensors_hooks "
    "torch.autograd.graph.disable_saved_tensors_hooks torch.autograd.graph.save_on_cpu "
    "torch.serialization.add_safe_globals torch.serialization.safe_globals "
    "torch.nn.modules.module.register_module_*",
    # Parts of torch that a lab's exercises write by hand.
    "library": "torch.nn.utils torch.utils.checkpoint torch.nn.parallel torch.distributed.fsdp torch.distributed.optim "
    "torch.distributed.algorithms torch.distributed._composable torch.distributed.nn torch.distributed.elastic "
    "torch.utils.data.DistributedSampler torch.utils.data.distributed torch.amp.GradScaler torch.cuda.amp",
    "hidden": "builtins.exec builtins.eval builtins.compile builtins.globals builtins.locals builtins.vars "
    "builtins.bytes.fromhex builtins.bytearray.fromhex base64 zlib marshal pickle dill cloudpickle binascii codecs "
    "lzma bz2 gzip zipfile tarfile shelve types.CodeType types.FunctionType code codeop dis "
    "operator.attrgetter operator.methodcaller",
}

_ATTRIBUTES = {
    "frames": "tb_frame tb_next f_back f_locals f_globals f_builtins f_code f_trace __traceback__ gi_frame cr_frame "
    "ag_frame __globals__ __closure__ __code__ cell_contents __builtins__ __subclasses__ __mro__ __bases__ _getframe "
    "co_code co_consts __defaults__ __kwdefaults__ __self__ __wrapped__ __objclass__",
    "processes": "_exit",
    "patching": "__dict__ __class__ __setattr__ __delattr__ _compiled_call_impl _call_impl _wrapped_call_impl",
    "files": "share_memory_ _share_memory_",
    "grader": "__import__ __loader__ __spec__",
    "hidden": "__doc__ __getattribute__",
}
# Names that need no import.
_BUILT_IN = (
    "exit quit SystemExit breakpoint __import__ __file__ __loader__ __spec__ exec eval compile globals locals vars"
)
_CLASSES = "bytes bytearray float int str list dict tuple complex type"
# Methods by which an answer can decide whether it equals another value.
_METHODS = (
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __float__ __int__ __index__ __bool__ __hash__ __array__ __array_ufunc__ "
    "__array_function__ __array_interface__ __torch_function__ __reduce__ __reduce_ex__ __getstate__ __instancecheck__ "
    "__subclasscheck__ __del__ __getattr__ __getattribute__ __setattr__"
)

ATTRIBUTES = {name: kind for kind, names in _ATTRIBUTES.items() for name in names.split()}
BUILT_IN = {name: f"builtins.{name}" for names in (_BUILT_IN, _CLASSES) for name in names.split()}
BUILT_IN |= {"__builtins__": "builtins", "__build_class__": "builtins.__build_class__"}
METHODS = set(_METHODS.split())
# Bases of classes that imitate values.
BASES = {"torch.Tensor", "numpy.ndarray", *(f"builtins.{name}" for name in _CLASSES.split())}
GRADER_FILES = {"probes", "checks", "judges", "solutions", "conftest"}
PLACES = re.compile(
    r"/(?:bin|boot|dev|etc|home|lib|media|mnt|opt|proc|root|run|srv|sys|tmp|usr|var|work)\b|~/|\.\.[/\\]|[A-Z]:[/\\]|"
    r"(?:https?|ftp|file)://"
)

_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_BEGINNINGS = {name.removesuffix("*"): kind for name, kind in _KINDS.items() if name.endswith("*")}


def kind_of(name: str) -> tuple[str, str] | None:
    """Returns the kind of a full name such as os.fork, and the flagged name that includes it, or None."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        entry = ".".join(parts[:length])
        if entry in BASES:
            return None
        if kind := _KINDS.get(entry):
            return kind, entry.removeprefix("builtins.")
    return next(((kind, name) for beginning, kind in _BEGINNINGS.items() if name.startswith(beginning)), None)
