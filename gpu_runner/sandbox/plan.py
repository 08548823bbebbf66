"""What a child may see and use, decided by the parent."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from gpu_runner.contracts.envelope import Isolation, Limits
from gpu_runner.sandbox.levels import gpu_is_proved
from gpu_runner.settings import passed_variables

PACKAGE = Path(__file__).resolve().parents[1]
SYSTEM = (
    *("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/sys", "/proc"),
    *("/opt/cuda", "/opt/nvidia"),
)
# Single entries of /etc: enough for the loader, the compiler and the C library, nothing that is a secret anywhere.
ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "nsswitch.conf", "passwd", "group")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
GPU_DEVICES = ("nvidia*", "dri")
# Before there are threads: of those that ask first at once, Python 3.11 gives all but one a table that is still being filled.
LIBRARIES = {name: Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
PACKAGES = ("torch", "triton", "numpy", "pytest", "cuda", "cutlass", "tvm_ffi")  # cuTile is a part of `cuda`


@dataclass(frozen=True)
class SandboxPlan:
    """Everything that the child needs to know to lock itself in; paths are absolute and real."""

    levels: tuple[str, ...]
    scratch: str
    readable: tuple[str, ...]
    devices: tuple[str, ...]
    limits: Limits
    gpu: bool
    role: str
    import_roots: tuple[str, ...]
    processes: int  # with those of the same user that the limit counts too
    prove_gpu: bool = False  # see whether the GPU can be used at these levels, and give up the level that keeps from it

    def to_dict(self) -> dict[str, object]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, form: dict[str, object]) -> SandboxPlan:
        """Build the plan from its plain values."""
        values: dict[str, object] = {k: tuple(v) if isinstance(v, list) else v for k, v in form.items()}
        values["limits"] = Limits(**form["limits"])  # type: ignore[arg-type]  # the parent's own form
        return cls(**values)  # type: ignore[arg-type]


def make_plan(
    role: str, scratch: Path, limits: Limits, levels: tuple[Isolation, ...], gpu: bool, import_roots: tuple[str, ...]
) -> SandboxPlan:
    """Decide what a child of this role may see."""
    devices = [d for d in DEVICES if Path(d).exists()]
    if gpu:
        devices += sorted(str(p) for pattern in GPU_DEVICES for p in Path("/dev").glob(pattern))
    return SandboxPlan(
        tuple(level.value for level in levels),
        str(scratch.resolve()),
        readable_paths(),
        tuple(devices),
        limits,
        gpu,
        role,
        import_roots,
        limits.processes if Isolation.namespaces in levels else limits.processes + _processes_of_user(),
        gpu and not gpu_is_proved(levels),
    )


def readable_paths() -> tuple[str, ...]:
    """What a child may read: the system, the interpreter with its packages, and this package; no home, no /tmp."""
    wanted = [Path(p) for p in SYSTEM] + [Path("/etc") / p for p in ETC]
    wanted += [Path(sys.prefix), Path(sys.base_prefix), PACKAGE]
    wanted += LIBRARIES.values()
    wanted += [Path(p) for p in package_roots()]
    wanted += [Path(p) for p in passed_variables().get("LD_LIBRARY_PATH", "").split(":") if p.startswith("/")]
    paths: dict[str, None] = {}
    for path in wanted:
        if path.exists():
            paths[str(path)] = None
            paths[str(path.resolve())] = None
    forbidden = {"/", "/home", "/root", "/tmp", "/var", "/etc"}  # noqa: S108 - never opened as a whole
    return tuple(p for p in paths if p not in forbidden)


def package_roots() -> tuple[str, ...]:
    """Folders on ``sys.path`` with packages that a child imports, outside of the interpreter's own."""
    return _package_roots(tuple(sys.path))


@functools.cache
def _package_roots(_searched: tuple[str, ...]) -> tuple[str, ...]:
    roots: dict[str, None] = {}
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        for location in (spec.submodule_search_locations if spec else None) or ():
            roots[str(Path(location).resolve().parent)] = None
    own = (LIBRARIES["purelib"].resolve(), LIBRARIES["platlib"].resolve())
    return tuple(root for root in roots if Path(root) not in own)


def environment(scratch: Path, gpu: bool) -> dict[str, str]:
    """A child's whole environment: of the parent's only a short list that the GPU's libraries need."""
    path = [str(Path(sys.executable).parent), "/usr/local/cuda/bin", "/usr/local/bin", "/usr/bin", "/bin"]
    clean = {
        "PATH": ":".join(path),
        "HOME": str(scratch / "home"),
        "TMPDIR": str(scratch / "tmp"),
        "XDG_CACHE_HOME": str(scratch / "cache"),
        "TRITON_CACHE_DIR": str(scratch / "cache" / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "cache" / "inductor"),
        "PYTHONPATH": ":".join((str(scratch / "lib"), *package_roots())),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        "LANG": "C.UTF-8",
        "USER": "candidate",  # getpass.getuser is asked by torch's caches and must not look further
    }
    if gpu:
        return clean | passed_variables()
    return clean | {"CUDA_VISIBLE_DEVICES": "", "TRITON_INTERPRET": "1"}


def _processes_of_user() -> int:
    """Number of this user's threads: without a user namespace the limit on processes counts them all."""
    count = 0
    for name in os.listdir("/proc"):  # noqa: PTH208 - numbers, not paths
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == os.getuid():  # noqa: PTH116
                count += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208
        except OSError:
            continue  # it ended meanwhile
    return count
