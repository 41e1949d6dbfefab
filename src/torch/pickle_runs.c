/* pickle_runs.c - names of what runs something. Nothing in a file is run; one
 * that names such a thing was made to do harm, and is refused. */
#include "torch/torch_private.h"

#include <string.h>

static bool is_among(const char *const *v, const char *s, size_t n)
{
    for (; *v != NULL; v++)
        if (strlen(*v) == n && memcmp(*v, s, n) == 0)
            return true;
    return false;
}

/* Modules by which programs are run, files and connections opened, code made or
 * other pickles loaded. */
static const char *const running_modules[] = {
    "os",
    "posix",
    "nt",
    "sys",
    "subprocess",
    "_posixsubprocess",
    "commands",
    "popen2",
    "importlib",
    "_imp",
    "imp",
    "pkgutil",
    "zipimport",
    "runpy",
    "ctypes",
    "_ctypes",
    "cffi",
    "pty",
    "shutil",
    "socket",
    "_socket",
    "ssl",
    "code",
    "codeop",
    "pdb",
    "bdb",
    "cProfile",
    "profile",
    "timeit",
    "trace",
    "marshal",
    "pickle",
    "cPickle",
    "_pickle",
    "pickletools",
    "shelve",
    "dill",
    "_dill",
    "cloudpickle",
    "joblib",
    "multiprocessing",
    "_multiprocessing",
    "threading",
    "_thread",
    "asyncio",
    "concurrent",
    "webbrowser",
    "urllib",
    "urllib2",
    "urllib3",
    "requests",
    "http",
    "httplib",
    "ftplib",
    "smtplib",
    "telnetlib",
    "xmlrpc",
    "socketserver",
    "fileinput",
    "io",
    "_io",
    "inspect",
    "gc",
    "signal",
    "_signal",
    "mmap",
    "fcntl",
    "resource",
    "platform",
    "distutils",
    "setuptools",
    "pip",
    "ensurepip",
    "venv",
    "site",
    "sched",
    "atexit",
    "operator",
    "_operator",
    "doctest",
    "unittest",
    "idlelib",
    "lib2to3",
    "tempfile",
    "tarfile",
    "zipfile",
    "sqlite3",
    "bz2",
    "gzip",
    "lzma",
    NULL,
};

/* Those that are reached through a module that imports them. */
static const char *const reached_modules[] = {
    "os",        "posix",         "nt",     "sys",     "subprocess",
    "importlib", "runpy",         "ctypes", "pty",     "shutil",
    "socket",    "builtins",      "pickle", "marshal", "multiprocessing",
    "hub",       "cpp_extension", NULL,
};

/* Of builtins, these are harmless; others look up, import or run. */
static const char *const harmless_builtins[] = {
    "bool",
    "bytearray",
    "bytes",
    "complex",
    "dict",
    "float",
    "frozenset",
    "int",
    "list",
    "object",
    "range",
    "set",
    "slice",
    "str",
    "tuple",
    "type",
    "NotImplementedType",
    "Ellipsis",
    "ellipsis",
    "unicode",
    "long",
    "xrange",
    NULL,
};

/* As the last part of a name, wherever it is from. */
static const char *const running_names[] = {
    "eval",         "exec",         "execfile",
    "compile",      "getattr",      "setattr",
    "delattr",      "system",       "popen",
    "Popen",        "loads",        "load",
    "read_pickle",  "load_module",  "import_module",
    "run_module",   "run_path",     "_load_from_bytes",
    "CodeType",     "FunctionType", "LambdaType",
    "ModuleType",   "MethodType",   "attrgetter",
    "methodcaller", "runstring",    "_make_function",
    "_load_type",   NULL,
};

bool dsf_torch_name_runs(const char *name)
{
    const char *part = name, *first_end = strchr(name, '.');
    bool builtin = strncmp(name, "builtins.", 9) == 0 ||
                   strncmp(name, "__builtin__.", 12) == 0 ||
                   strncmp(name, "__builtins__.", 13) == 0;

    if (builtin)
        return !is_among(harmless_builtins, first_end + 1,
                         strlen(first_end + 1));
    for (;;) {
        size_t n = strcspn(part, ".");
        bool first = part == name, last = part[n] == '\0';

        if (!last &&
            is_among(first ? running_modules : reached_modules, part, n))
            return true;
        if (last && is_among(running_names, part, n))
            return true;
        /* __import__, __globals__, __subclasses__ … */
        if (!first && n > 4 && strncmp(part, "__", 2) == 0 &&
            strncmp(part + n - 2, "__", 2) == 0)
            return true;
        if (last)
            return false;
        part += n + 1;
    }
}
