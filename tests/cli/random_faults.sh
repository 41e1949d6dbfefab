# random_faults.sh - whatever happens to a run in three processes, at whatever
# moment: it is said, all end, nothing is left, and the run goes on to the bytes
# of an unbroken one. TRIALS=300 SEED=1 draws so many, KINDS="kill stop" only
# those; how long what took is printed, and asserted nowhere.
. "${srcdir:-.}/tests/lib/mpi.sh"
command -v python3 > /dev/null || { echo "there is no python3"; exit 77; }
. "${srcdir:-.}/tests/cli/lib.sh"
by_mpirun
mkdir other
sed 's/number/figure/' text.txt > other/text.txt
cp job.toml other

python3 - "$dsflow" << 'END' || fault "what is said above"
import filecmp, glob, os, random, re, resource, shutil, signal, subprocess, sys, time

dsflow = sys.argv[1]
KEYS = """--set mesh.data=3 --set zero.stage=2 --set batch.sequences=6 --set job.log_every=1
    --set checkpoint.every=5 --set job.steps=150 --set run.patience=2""".split()
LONGEST = 100  # seconds, for what hangs
draw = random.Random(int(os.environ.get("SEED", "1")))
trials = int(os.environ.get("TRIALS", "8"))


def send(pid, sig):
    """It may have ended."""
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        pass


def size(path):
    """It may be gone."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


class Run:
    """In three processes, of which one may be started by some words of its own."""

    def __init__(self, launched, restarts=0, before=None):
        job = [dsflow, "run", "job.toml", *KEYS]
        if launched:
            words = [*job, "-n", "3"] + (["--restarts", str(restarts)] if restarts else [])
        else:
            words = ["mpirun"]
            for p in range(3):
                words += ["-n", "1", *(before[1] if before and before[0] == p else []), *job, ":"]
            words.pop()
        shutil.rmtree("run", ignore_errors=True)
        self.log = open("log", "wb")
        self.child = subprocess.Popen(words, stdout=self.log, stderr=self.log,
                                      stdin=subprocess.DEVNULL)
        self.seen, self.spaces, self.struck = {self.child.pid}, set(), time.time()
        self.status, self.launched, self.hung = None, launched, False

    def is_over(self):
        if self.status is None:
            self.status = self.child.poll()
        return self.status is not None

    def processes(self):
        """Their pids by number, as far as they have begun."""
        found, look = {}, [self.child.pid]
        while look:
            pid = look.pop()
            try:
                with open(f"/proc/{pid}/task/{pid}/children") as f:
                    children = [int(c) for c in f.read().split()]
                with open(f"/proc/{pid}/environ", "rb") as f:
                    env = dict(v.split(b"=", 1) for v in f.read().split(b"\0") if b"=" in v)
            except OSError:
                continue
            look += children
            self.seen.update(children)
            if b"OMPI_COMM_WORLD_RANK" in env:
                found[int(env[b"OMPI_COMM_WORLD_RANK"])] = pid
                self.spaces.add(f"{int(env[b'PMIX_NAMESPACE']):x}")
        return found

    def find(self, process):
        """Its pid; None: the run is over."""
        while not self.is_over():
            pids = self.processes()
            if len(pids) == 3:
                return pids[process]
            time.sleep(0.005)

    def strike(self, pid, sig):
        self.struck = time.time()
        send(pid, sig)

    def said(self):
        with open("log", errors="replace") as f:
            return f.read()

    def left(self):
        """Its processes that live, also where it is only threads of them."""
        alive = []
        for pid in self.seen:
            try:
                with open(f"/proc/{pid}/stat") as f:
                    state = f.read().rsplit(")", 1)[1].split()[0]
                if state != "Z" or len(os.listdir(f"/proc/{pid}/task")) > 1:
                    alive.append(pid)
            except OSError:
                pass
        return alive

    def follow(self, pattern):
        """When that was said, and when all had ended, since it was struck; None: never."""
        named = ended = None
        alone = time.time()
        while ended is None and time.time() < self.struck + LONGEST:
            self.processes()
            if named is None and re.search(pattern, self.said(), re.M):
                named = time.time() - self.struck
            left = self.left()
            if self.is_over() and not left:
                ended = time.time() - self.struck
            if left != [self.child.pid]:
                alone = time.time()
            elif not self.launched and time.time() > alone + 10:
                self.child.kill()  # Open MPI 4.1's, in PMIx_server_finalize, when one dies early
                self.hung = True
            time.sleep(0.02)
        if named is None and re.search(pattern, self.said(), re.M):
            named = time.time() - self.struck
        for pid in self.left():
            send(pid, signal.SIGKILL)
        return named, ended

    def memory(self):
        """But for names alone, which one that is killed in MPI_Finalize leaves."""
        return [n for n in os.listdir("/dev/shm") for s in self.spaces
                if f".{s}." in n and size("/dev/shm/" + n) > 0]


def newest(run):
    with open(f"{run}/checkpoints/latest") as f:
        return f"{run}/checkpoints/{f.read().strip()}"


def goes_on():
    """To the bytes of the unbroken run, from where it is; what is wrong, or None."""
    words = [dsflow, "run", "job.toml", *KEYS]
    # The first one may be whole before there is a `latest` to name it.
    if glob.glob("run/checkpoints/step-*[0-9]"):
        words.append("--resume")
    end = subprocess.run(words, capture_output=True, text=True)
    if end.returncode != 0:
        return "does not go on: " + end.stderr
    for f in "params.safetensors", "states.safetensors":
        if not filecmp.cmp(f"{newest('whole')}/{f}", f"{newest('run')}/{f}", shallow=False):
            return f + " differs"


def was_through():
    """Did it say that it ended, before it was stopped?"""
    try:
        with open("run/metrics.jsonl") as f:
            return '"ended":"finished"' in f.read()
    except OSError:
        return False


def late():
    """At any moment: before the first step as after it."""
    time.sleep(draw.random() * draw.choice([0.3, 3]))


def wait_for(run, text):
    while not run.is_over() and text not in run.said():
        time.sleep(0.01)


def dies(process):
    return (rf"process {process} \(.*host .*\) died (in|before)"
            rf"|process {process} \(pid \d+ on .*\) was killed by signal 9"
            rf"|process rank {process} with PID \d+ on node")  # mpirun itself


# Each begins a run and does it; says how it goes by name, what is to be said, and
# the statuses it may end with.
def kill(launched, p, restarts=0):
    run = Run(launched, restarts)
    pid = run.find(p)
    late()
    if pid:
        run.strike(pid, signal.SIGKILL)
    return run, dies(p), {0} if restarts else None


def stop(launched, p, restarts=0):
    run = Run(launched, restarts)
    pid = run.find(p)
    if draw.random() < 0.9:
        wait_for(run, "step 1/")
    late()
    if pid:
        run.strike(pid, signal.SIGSTOP)
    # Before they have met, nobody knows which one it is; that takes a minute.
    return run, (rf"process {p} \(.*(was last heard|has run|has ended no task)"
                 "|the processes have not met"), {0} if restarts else None


def commit(launched, p, restarts=0):
    run = Run(launched, restarts)
    pid, step = run.find(p), f"step-{5 * draw.randrange(1, 25)}.tmp"
    while not run.is_over() and not os.path.exists("run/checkpoints/" + step):
        pass
    if pid:
        run.strike(pid, signal.SIGKILL)
    return run, dies(p), {0} if restarts else None


def launcher(launched, p):
    run = Run(launched)
    run.find(p)
    late()
    run.processes()
    run.strike(run.child.pid, signal.SIGKILL)
    return run, "", None


def interrupt(launched, p):
    run = Run(launched)
    pid = run.find(p)
    late()
    if pid and draw.random() < 0.5:  # else it may be through before the second
        send(pid, signal.SIGSTOP)
    run.processes()
    for later in 0, 1.2:
        time.sleep(later)
        if not run.is_over():
            run.strike(run.child.pid, signal.SIGINT)
    return run, "", None


def disk(launched, p):
    run = Run(launched)
    pid = run.find(p)
    wait_for(run, "in 3 processes")  # before, MPI says it, if it can
    late()
    run.strike(run.child.pid, 0)
    if pid and not run.is_over():
        try:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        except ProcessLookupError:
            pass
    return run, r"cannot be written|File too large|ulimit -f", None


def text(launched, p):
    run = Run(False, before=(p, ["sh", "-c", 'cd other && exec "$@"', "sh"]))
    return run, rf"process {p if p > 0 else 1} \(host .*\): .*the text is another than that of process 0", {2}


KINDS = [kill, stop, commit, launcher, interrupt, disk, text]
asked = [k for k in KINDS if k.__name__ in os.environ.get("KINDS", "").split()]


def trial(n):
    kind = KINDS[n] if n < len(KINDS) and not asked else draw.choice(asked or [kill, stop, *KINDS])
    launched, p = draw.random() < 0.5, draw.randrange(3)
    restarts = kind in (kill, stop, commit) and launched and draw.random() < 0.5
    run, pattern, statuses = kind(launched, p, 1) if restarts else kind(launched, p)
    named, ended = run.follow(pattern)
    said, wrong = run.said(), []
    through = (run.status == 0 and not restarts) or was_through()
    if ended is None and not through:
        wrong.append("does not end")
    if named is None and not through and not (restarts and "restart 1 of 1" not in said):
        wrong.append("is not named")
    if kind in (kill, stop, commit, disk, text) and not through and not run.hung:
        if run.status not in (statuses or range(1, 256)):
            wrong.append(f"status {run.status}")
    # Where mpirun itself is killed while processes begin, nobody is left to remove it.
    if run.memory() and (kind is not launcher or launched or "in 3 processes" in said):
        wrong.append(f"shared memory is left: {run.memory()}")
    more = goes_on()
    if more:
        wrong.append(more)
    name = f"{n}: {kind.__name__}, process {p}{', launched' * launched}{', restarts' * bool(restarts)}"
    times = f"named {named or 0:.2f} s, ended {ended or 0:.2f} s, status {run.status}{', through' * through}{', mpirun hung' * run.hung}"
    print(f"{name}: {times}{''.join('; ' + w for w in wrong)}", flush=True)
    if wrong:
        print(said, flush=True)
    return kind.__name__, named, ended, through, wrong


subprocess.run([dsflow, "run", "job.toml", *KEYS, "--set", "job.output=whole"], check=True,
               capture_output=True)
all = [trial(n) for n in range(trials)]
for kind in KINDS:
    those = [t for t in all if t[0] == kind.__name__]
    if those:
        print(f"{kind.__name__}: {len(those)}, {sum(t[3] for t in those)} of them were through,"
              f" {sum(bool(t[4]) for t in those)} wrong; at most {max(t[1] or 0 for t in those):.2f} s"
              f" until named, {max(t[2] or 0 for t in those):.2f} s until ended")
sys.exit(any(t[4] for t in all))
END
finish
