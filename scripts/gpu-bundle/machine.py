"""What a part finds on the machine: CUDA's libraries and tools, a GPU, and
programs of the bundle that run with them for as long as they may."""

import functools
import glob
import gzip
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
NAME = "libcublasLt.so"


def unpack():
    """Libraries that are packed, once."""
    for packed in (HERE / "lib").glob("*.gz"):
        library = packed.with_suffix("")
        if library.exists():
            continue
        new = library.with_suffix(".new")
        with gzip.open(packed) as source, open(new, "wb") as to:
            shutil.copyfileobj(source, to)
        os.replace(new, library)


def site_packages():
    """Where the packages of this Python are, and of the others on the PATH."""
    folders = [p for p in sys.path if p.endswith("-packages")]
    for python in {shutil.which("python3"), shutil.which("python")} - {None}:
        root = pathlib.Path(python).parent.parent
        folders += glob.glob(f"{root}/lib/python3*/*-packages")
    return folders


def cuda_folders():
    """Where CUDA's libraries may be, as the loader would look first."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    beside = pathlib.Path(nvcc).resolve().parent.parent
    yield from os.environ.get("LD_LIBRARY_PATH", "").split(":")
    yield from (f"{beside}/lib64", f"{beside}/lib",
                f"{beside}/targets/x86_64-linux/lib",
                *sorted(glob.glob("/usr/local/cuda*/lib64")))
    for packages in site_packages():
        yield from sorted(glob.glob(f"{packages}/nvidia/*/lib"))


def wanted_library():
    """The name by which the module asks for cuBLASLt: with its major version."""
    module = HERE / "lib/dsflow-cuda.so"
    found = re.search(rb"libcublasLt\.so\.\d+",
                      module.read_bytes() if module.exists() else b"")
    return found.group().decode() if found else NAME


def loader_knows(name):
    for ldconfig in "ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig":
        try:
            known = subprocess.run([ldconfig, "-p"], capture_output=True)
        except OSError:
            continue
        return name.encode() in known.stdout
    return False


def find_cublaslt():
    """Its folder; "": the loader knows it; None: it is nowhere."""
    name = wanted_library()
    if loader_knows(name):
        return ""
    for folder in cuda_folders():
        if folder and os.path.exists(f"{folder}/{name}"):
            return folder
    return None


def environment():
    """Of programs of the bundle. What is set already stays."""
    env = dict(os.environ)
    found = find_cublaslt()
    spare = None if loader_knows("libstdc++.so.6") else str(HERE / "lib/spare")
    folders = [str(HERE / "lib"), found, spare, env.get("LD_LIBRARY_PATH")]
    env["LD_LIBRARY_PATH"] = ":".join(f for f in folders if f)
    env.setdefault("DSFLOW_CUDA", str(HERE / "lib/dsflow-cuda.so"))
    env.setdefault("STARPU_SILENT", "1")
    env.setdefault("HWLOC_COMPONENTS", "-pci,-gl,-opencl,-cuda,-nvml")
    return env


def sanitizer():
    """compute-sanitizer, or None."""
    beside = pathlib.Path(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    for path in (shutil.which("compute-sanitizer"),
                 beside.resolve().parent / "compute-sanitizer"):
        if path and os.access(path, os.X_OK):
            return str(path)
    return None


@functools.lru_cache(maxsize=None)
def python_with_torch(on_gpus):
    """A Python that has PyTorch, for GPUs if that is wanted, or None."""
    ask = "import torch, sys; sys.exit(not torch.cuda.is_available())" \
        if on_gpus else "import torch"
    names = [os.environ.get("PYTHON"), sys.executable, "python3", "python",
             "/usr/bin/python3"]
    found = [shutil.which(name) for name in names if name]
    for python in dict.fromkeys(filter(None, found)):
        if subprocess.run([python, "-c", ask],
                          capture_output=True).returncode == 0:
            return python
    return None


class Ended:
    """Of a program: its status (None: it ran past its limit), all that it
    printed, and how long it took."""

    def __init__(self, status, text, seconds):
        self.status, self.text, self.seconds = status, text, seconds

    @property
    def good(self):
        return self.status == 0

    def last(self):
        lines = [line for line in self.text.splitlines() if line.strip()]
        return lines[-1][:300] if lines else "it printed nothing"

    def why(self):
        if self.status is None:
            return f"stopped after {self.seconds:.0f} s: {self.last()}"
        return f"exit status {self.status}: {self.last()}"


def stop(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def start(words, env=None, cwd=None, output=subprocess.PIPE):
    """In a group of its own, so that all of it can be stopped."""
    return subprocess.Popen([str(w) for w in words], env=env or environment(),
                            cwd=cwd, stdin=subprocess.DEVNULL, stdout=output,
                            stderr=subprocess.STDOUT, start_new_session=True)


def run(words, limit, env=None, cwd=None):
    begin = time.monotonic()
    process = start(words, env, cwd)
    try:
        out, _ = process.communicate(timeout=max(limit, 1))
        status = process.returncode
    except subprocess.TimeoutExpired:
        stop(process)
        out, _ = process.communicate()
        status = None
    except BaseException:
        stop(process)
        process.wait()
        raise
    return Ended(status, out.decode(errors="replace"),
                 time.monotonic() - begin)


def program(name):
    return HERE / "bin" / name


def gpus():
    """What dsflow says of GPUs: (lines, None), or ([], why there are none)."""
    ended = run([program("dsflow"), "report"], 60)
    lines = ended.text.splitlines()
    found = [line for line in lines if re.match(r"GPU \d+ ", line)]
    none = [re.sub(r"^GPUs +none: ", "", line) for line in lines
            if re.match(r"GPUs +none", line)]
    if found:
        return found, None
    return [], none[0] if none else ended.why()
