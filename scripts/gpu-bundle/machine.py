"""What a part finds on the machine: CUDA's libraries and tools, a GPU, and
programs of the bundle that run with them for as long as they may."""

import ctypes
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
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
NAME = "libcublasLt.so"


def unpack():
    """Libraries that are packed, once; and programs may have lost their mode on
    their way."""
    for program in (HERE / "bin").glob("*"):
        if not os.access(program, os.X_OK):
            program.chmod(0o755)
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


def driver_folder():
    """Of the driver's library; "": the loader knows it, or it is nowhere."""
    if loader_knows("libcuda.so.1"):
        return ""
    for folder in (*os.environ.get("LD_LIBRARY_PATH", "").split(":"),
                   "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",
                   "/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                   "/usr/lib/wsl/lib"):
        if folder and os.path.exists(f"{folder}/libcuda.so.1"):
            return folder
    return ""


def wanted_library():
    """The name by which the module asks for cuBLASLt: with its major version."""
    module = HERE / "lib/dsflow-cuda.so"
    found = re.search(rb"libcublasLt\.so\.\d+",
                      module.read_bytes() if module.exists() else b"")
    return found.group().decode() if found else NAME


@functools.lru_cache(maxsize=None)
def loader_knows(name):
    for ldconfig in "ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig":
        try:
            known = subprocess.run([ldconfig, "-p"], capture_output=True)
        except OSError:
            continue
        return name.encode() in known.stdout
    return False


@functools.lru_cache(maxsize=None)
def find_cublaslt():
    """Its folder; "": the loader knows it; None: it is nowhere."""
    name = wanted_library()
    if loader_knows(name):
        return ""
    for folder in cuda_folders():
        if folder and os.path.exists(f"{folder}/{name}"):
            return folder
    return None


def environment(preload=True):
    """Of programs of the bundle. What is set already stays. Without preload they
    tell nothing of a crash: tools load into them what they need."""
    env = dict(os.environ)
    found = find_cublaslt()
    spare = None if loader_knows("libstdc++.so.6") else str(HERE / "lib/spare")
    folders = [str(HERE / "lib"), found, driver_folder(), spare,
               env.get("LD_LIBRARY_PATH")]
    env["LD_LIBRARY_PATH"] = ":".join(f for f in folders if f)
    crash = HERE / "lib/crash.so"
    if preload and crash.exists():
        env["LD_PRELOAD"] = ":".join(filter(None, [str(crash),
                                                   env.get("LD_PRELOAD")]))
    env.setdefault("DSFLOW_CUDA", str(HERE / "lib/dsflow-cuda.so"))
    env.setdefault("STARPU_SILENT", "1")
    env.setdefault("STARPU_CATCH_SIGNALS", "0")
    env.setdefault("HWLOC_COMPONENTS", "-pci,-gl,-opencl,-cuda,-nvml")
    return env


held = []


def hold_gpus(files="/dev/nvidia[0-9]*"):
    """As long as we run: where nobody has the file of a GPU open, the driver takes
    down what it knows of it, and the next program waits for seconds."""
    for path in glob.glob(files):
        try:
            held.append(os.open(path, os.O_RDWR))
        except OSError:
            pass


def sanitizer():
    """compute-sanitizer, or None."""
    beside = pathlib.Path(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    for path in (shutil.which("compute-sanitizer"),
                 beside.resolve().parent / "compute-sanitizer",
                 *sorted(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")),
                 *(found for packages in site_packages() for found in sorted(
                     glob.glob(f"{packages}/nvidia/*/bin/compute-sanitizer")))):
        if path and os.access(path, os.X_OK):
            return str(path)
    return None


# Whether PyTorch is there, without loading it, which takes 10 seconds and more.
ASK_TORCH = """
import importlib.util, pathlib, runpy, sys
found = importlib.util.find_spec("torch")
version = found and pathlib.Path(found.origin).with_name("version.py")
if not found or sys.argv[1] == "True" and not (version.exists() and
        runpy.run_path(str(version)).get("cuda")):
    sys.exit(1)
"""


@functools.lru_cache(maxsize=None)
def python_with_torch(on_gpus):
    """A Python that has PyTorch, for GPUs if that is wanted, or None."""
    names = [os.environ.get("PYTHON"), sys.executable, "python3", "python",
             "/usr/bin/python3"]
    found = [shutil.which(name) for name in names if name]
    for python in dict.fromkeys(filter(None, found)):
        try:
            asked = subprocess.run([python, "-c", ASK_TORCH, str(on_gpus)],
                                   capture_output=True, timeout=30)
        except subprocess.TimeoutExpired:
            continue
        if asked.returncode == 0:
            return python
    return None


class Ended:
    """Of a program: its status (None: it ran past its limit; negative: a signal),
    all that it printed, and how long it took."""

    def __init__(self, status, text, seconds, told=""):
        self.status, self.text, self.seconds = status, text, seconds
        self.told = told        # where it hung

    @property
    def good(self):
        return self.status == 0

    def last(self):
        """The last line; of what crashed, before it told of that."""
        text = self.text.split("\ncrash: signal")[0]
        lines = [line for line in text.splitlines() if line.strip()]
        return lines[-1][:300] if lines else "it printed nothing"

    def why(self):
        if self.status is None:
            return f"stopped after {self.seconds:.0f} s: {self.last()}"
        if self.status < 0:
            crash = re.search(r"^crash: (signal .*)", self.text, re.M)
            return (crash.group(1) if crash else
                    f"signal {-self.status}") + f": {self.last()}"
        return f"exit status {self.status}: {self.last()}"


GONE = 10       # seconds in which who is killed ends, or the driver holds it


def stop(process):
    """Ends it and all of its group: until then they have memory of the GPU."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    end = time.monotonic() + GONE
    while time.monotonic() < end and (
            process.poll() is None or any(group_of(process.pid))):
        time.sleep(0.05)


libc = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def end_with_us():
    libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def start(words, env=None, cwd=None, output=None):
    """In a group of its own, so that all of it can be stopped; it ends when we
    do, however that is."""
    return subprocess.Popen([str(w) for w in words], env=env or environment(),
                            cwd=cwd, stdin=subprocess.DEVNULL, stdout=output,
                            stderr=subprocess.STDOUT, start_new_session=True,
                            preexec_fn=end_with_us)


def group_of(leader):
    """The processes of a group that have not ended."""
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            words = pathlib.Path(path).read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[2]) == leader and words[0] not in "ZX":
            yield int(path.split("/")[2])


def threads_of(pid):
    """What the kernel says that each thread waits in."""
    for task in sorted(glob.glob(f"/proc/{pid}/task/*"))[:200]:
        said = [task.rpartition("/")[2]]
        for name in "comm", "wchan", "syscall":
            try:
                said.append(pathlib.Path(task, name).read_text().strip())
            except OSError:
                said.append("?")
        yield "  ".join(said)


def where_it_hangs(leader, end):
    """Where the threads of a program and of its children are: by a debugger if
    there is one, until `end`, and by what the kernel knows."""
    debugger = shutil.which("gdb") or shutil.which("cuda-gdb")
    lines = []
    for pid in list(group_of(leader))[:4]:
        lines += [f"hangs: process {pid}", *threads_of(pid)]
        left = end - time.monotonic()
        if debugger is None or left < 1:
            continue
        try:
            told = subprocess.run(
                [debugger, "-p", str(pid), "-batch", "-nx", "-ex",
                 "thread apply all backtrace 24"], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                timeout=left, start_new_session=True)
            lines.append(told.stdout.decode(errors="replace")[:60_000])
        except (OSError, subprocess.TimeoutExpired) as e:
            lines.append(f"{debugger}: {e}")
    return "\n".join(lines)


def run(words, limit, env=None, cwd=None, hangs=0, output=None):
    """hangs: seconds beside the limit for asking where it is when its time is up.
    output: the file that has what it prints meanwhile; it is there only as long
    as the program runs."""
    begin = time.monotonic()
    told = ""
    with (open(output, "wb+") if output else
          tempfile.TemporaryFile()) as file:
        process = start(words, env, cwd, file)
        try:
            status = process.wait(timeout=max(limit, 1))
        except subprocess.TimeoutExpired:
            told = where_it_hangs(process.pid, time.monotonic() + hangs) \
                if hangs else ""
            stop(process)
            status = None
        except BaseException:
            stop(process)
            raise
        file.seek(0)
        text = file.read().decode(errors="replace")
    if output:
        os.unlink(output)
    return Ended(status, text, time.monotonic() - begin, told)


def main_memory():
    """(total, free) in bytes; 0: /proc does not say."""
    said = dict(re.findall(r"^(\w+): +(\d+) kB",
                           pathlib.Path("/proc/meminfo").read_text(), re.M))
    return (int(said.get("MemTotal", 0)) << 10,
            int(said.get("MemAvailable", 0)) << 10)


def kernel_says():
    """The last of what the kernel says of GPUs, and of processes it ended."""
    try:
        said = subprocess.run(["dmesg"], capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = said.stdout.decode(errors="replace").splitlines()
    return [line for line in lines if re.search(
        r"NVRM|Xid|segfault|Out of memory|oom-kill|traps:", line)][-20:]


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
