/* test_evil.c - files that try to run something, or to exhaust who reads them:
 * each is refused with the reason, within a second and 100 MiB. */
#include "torch/torch.h"

#include "base/alloc.h"
#include "lib/folder.h"
#include "lib/torch_bytes.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static unsigned tried;

static void write_bytes(const char *path, const struct torch_bytes *b)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(b->v, 1, b->n, f), b->n);
    assert_int_equal(fclose(f), 0);
}

/* What a process of its own says of the file: a line, 0 bytes where it takes
 * it.
 */
static void open_there(const char *path, int to)
{
    struct dsflow_err err = { .msg = "" };
    struct dsf_torch_file *file;

    if (dsf_torch_open(path, &file, &err) < 0 && err.msg[0] != '\0')
        dprintf(to, "%s", err.msg);
    _exit(0);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The file must be refused with `why` in the line. */
static void refused(struct torch_bytes b, const char *name, const char *why)
{
    char path[64], line[1024];
    double began;
    struct rusage use;
    ssize_t n, got = 0;
    int ends[2], status;
    pid_t child;

    snprintf(path, sizeof(path), "%s/evil.pt", folder);
    write_bytes(path, &b);
    free(b.v);
    assert_int_equal(pipe(ends), 0);
    began = now();
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        open_there(path, ends[1]);
    close(ends[1]);
    while ((n = read(ends[0], line + got, sizeof(line) - 1 - (size_t)got)) > 0)
        got += n;
    line[got] = '\0';
    close(ends[0]);
    assert_int_equal(wait4(child, &status, 0, &use), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s: the reader died", name);
    if (got == 0)
        fail_msg("%s: was read", name);
    if (strstr(line, why) == NULL)
        fail_msg("%s: \"%s\" and not \"%s\"", name, line, why);
    if (strstr(line, "evil.pt: ") == NULL)
        fail_msg("%s: no file in \"%s\"", name, line);
        /* Of the processor, as other tests run beside this one. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (use.ru_maxrss > 100 << 10)
        fail_msg("%s: took %ld MiB", name, use.ru_maxrss >> 10);
    if ((double)use.ru_utime.tv_sec + 1e-6 * (double)use.ru_utime.tv_usec +
            (double)use.ru_stime.tv_sec + 1e-6 * (double)use.ru_stime.tv_usec >
        1)
        fail_msg("%s: took more than a second", name);
#endif
    if (now() - began > 60)
        fail_msg("%s: took a minute", name);
    tried++;
}

/* --- names ---------------------------------------------------------------- */

/* Each as what is called, and as the class of an object with attributes. */
static void what_runs_something_is_refused(void **state)
{
    static const char *const names[][2] = {
        { "os", "system" },
        { "os", "execvp" },
        { "posix", "system" },
        { "nt", "system" },
        { "sys", "exit" },
        { "subprocess", "Popen" },
        { "subprocess", "check_output" },
        { "builtins", "eval" },
        { "builtins", "exec" },
        { "builtins", "getattr" },
        { "builtins", "setattr" },
        { "builtins", "__import__" },
        { "builtins", "compile" },
        { "builtins", "open" },
        { "builtins", "globals" },
        { "builtins", "breakpoint" },
        { "__builtin__", "eval" },
        { "__builtin__", "execfile" },
        { "importlib", "import_module" },
        { "importlib.util", "spec_from_file_location" },
        { "runpy", "run_path" },
        { "runpy", "_run_code" },
        { "ctypes", "CDLL" },
        { "pty", "spawn" },
        { "shutil", "rmtree" },
        { "socket", "create_connection" },
        { "webbrowser", "open" },
        { "code", "InteractiveInterpreter" },
        { "pickle", "loads" },
        { "_pickle", "loads" },
        { "marshal", "loads" },
        { "cloudpickle.cloudpickle", "_make_function" },
        { "dill._dill", "_create_function" },
        { "operator", "attrgetter" },
        { "operator", "methodcaller" },
        { "types", "CodeType" },
        { "types", "FunctionType" },
        { "timeit", "timeit" },
        { "pdb", "run" },
        { "cProfile", "run" },
        { "multiprocessing.util", "spawnv_passfds" },
        { "asyncio.subprocess", "create_subprocess_shell" },
        { "torch", "load" },
        { "torch", "os.system" },
        { "torch.serialization", "os.system" },
        { "torch.storage", "_load_from_bytes" },
        { "torch.hub", "load" },
        { "torch.utils.cpp_extension", "load_inline" },
        { "numpy.testing._private.utils", "runstring" },
        { "collections", "OrderedDict.__init__.__globals__" },
        { "collections", "__builtins__.eval" },
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const char *module = names[i][0], *name = names[i][1];
        char *full = dsf_xasprintf("%s.%s, which runs", module, name);
        char *named = dsf_xasprintf("\x80\x02"
                                    "c%s\n%s\n",
                                    module, name);
        struct torch_bytes pickle = { 0 }, all;

        /* A call by GLOBAL and REDUCE, an object by STACK_GLOBAL and NEWOBJ. */
        put_bytes(&pickle, named, strlen(named));
        put_bytes(&pickle, "(X\2\0\0\0idtR.", 11);
        refused(stream_of(pickle.v, pickle.n, 0), full, full);
        all = archive_of(
            (struct zip_file[]){ { "a/data.pkl", pickle.v, pickle.n } }, 1);
        refused(all, full, full);
        pickle.n = 0;
        put_bytes(&pickle, "\x80\x04\x8c", 3);
        put_number(&pickle, strlen(module), 1);
        put_bytes(&pickle, module, strlen(module));
        put_bytes(&pickle, "\x8c", 1);
        put_number(&pickle, strlen(name), 1);
        put_bytes(&pickle, name, strlen(name));
        put_bytes(&pickle, "\x93)\x81}b.", 6);
        refused(stream_of(pickle.v, pickle.n, 0), full, full);
        free(pickle.v);
        free(named);
        free(full);
    }
}

/* --- operations ----------------------------------------------------------- */

#define P(bytes) bytes, sizeof(bytes) - 1

static void operations_that_are_none_of_torch_are_refused(void **state)
{
    static const struct {
        const char *name, *pickle;
        size_t n;
        const char *why;
    } tries[] = {
        { "INST", P("\x80\2(ios\nsystem\n."), "INST" },
        { "OBJ", P("\x80\2(cmine\nClass\no."), "OBJ: torch.save writes no" },
        { "EXT1", P("\x80\2\x82\1."), "EXT1" },
        { "EXT2", P("\x80\2\x83\1\0."), "EXT2" },
        { "EXT4", P("\x80\2\x84\1\0\0\0."), "EXT4" },
        { "PERSID", P("\x80\2Pkey\n."), "PERSID" },
        { "INT", P("\x80\2I1\n."), "INT" },
        { "LONG", P("\x80\2L1L\n."), "LONG" },
        { "FLOAT",
          P("\x80\2"
            "F1.5\n."),
          "FLOAT" },
        { "STRING", P("\x80\2S'a'\n."), "STRING" },
        { "UNICODE", P("\x80\2Va\n."), "UNICODE" },
        { "GET", P("\x80\2g0\n."), "GET" },
        { "PUT", P("\x80\2Np0\n."), "PUT" },
        { "DICT", P("\x80\2(d."), "DICT" },
        { "LIST", P("\x80\2(l."), "LIST" },
        { "NEXT_BUFFER", P("\x80\5\x97."), "NEXT_BUFFER" },
        { "READONLY_BUFFER", P("\x80\5N\x98."), "READONLY_BUFFER" },
        { "no operation", P("\x80\2\xff."), "0xff is no operation" },
        { "no protocol", P("cos\nsystem\n."), "expected PROTO" },
        { "protocol 0", P("\x80\0N."), "protocol 0: expected 2 to 5" },
        { "protocol 6", P("\x80\6N."), "protocol 6: expected 2 to 5" },
        { "no end", P("\x80\2]q\0\x80"), "" },
        { "nothing", P("\x80\2."), "the stack has 0 things" },
        { "underflow", P("\x80\2NR."), "the stack has 1 of the 2" },
        { "below a mark", P("\x80\2N(\x85t."), "the stack has 0 of the 1" },
        { "no mark", P("\x80\2Nt."), "there is no mark" },
        { "pops too much",
          P("\x80\2"
            "00."),
          "the stack has 0" },
        { "an odd dict", P("\x80\2}(Nu."), "a key without a value" },
        { "appends to a dict", P("\x80\2}Na."),
          "fills a dict: expected a list" },
        { "sets in a list", P("\x80\2]NNs."), "fills a list: expected a dict" },
        { "adds to None", P("\x80\4N(N\x90."), "fills None" },
        { "calls a number", P("\x80\2K\1)R."), "calls a whole number" },
        { "calls what was made", P("\x80\2cmine\nf\n)R)R."),
          "calls an object" },
        { "calls with a list", P("\x80\2cmine\nf\n]R."), "expected a tuple" },
        { "makes with a list", P("\x80\2cmine\nf\n]\x81."),
          "expected a tuple" },
        { "keywords in a list", P("\x80\4cmine\nf\n)]\x92."),
          "expected a dict" },
        { "attributes of None", P("\x80\2N}b."), "sets attributes of None" },
        { "attributes of a name", P("\x80\2cmine\nf\n}b."),
          "sets attributes of a name" },
        { "attributes twice", P("\x80\2cmine\nf\n)R}b}b."), "twice" },
        { "a persistent text", P("\x80\2X\1\0\0\0aQ."), "a storage: expected" },
        { "a name of words", P("\x80\2cos system\nx y\n."),
          "expected the name of a class" },
        { "a name without an end", P("\x80\2cos"), "" },
        { "a text that is none", P("\x80\2X\2\0\0\0\xff\xfe."), "not UTF-8" },
        { "a key twice", P("\x80\2}(X\1\0\0\0aNX\1\0\0\0aNu."),
          "a dict has key a twice" },
        { "a number twice", P("\x80\2}(K\1NK\1Nu."), "a dict has key 1 twice" },
    };

    for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
        refused(stream_of(tries[i].pickle, tries[i].n, 0), tries[i].name,
                tries[i].why);
        refused(archive_of((struct zip_file[]){ { "a/data.pkl", tries[i].pickle,
                                                  tries[i].n } },
                           1),
                tries[i].name, tries[i].why);
    }
}

/* --- sizes ---------------------------------------------------------------- */

static void sizes_that_are_not_there_are_refused(void **state)
{
    static const struct {
        const char *name, *pickle;
        size_t n;
        const char *why;
    } tries[] = {
        { "LONG4 of 2^31", P("\x80\2\x8b\0\0\0\x80."),
          "wants 2147483648 bytes" },
        { "LONG4 of 2^31 - 1", P("\x80\2\x8b\xff\xff\xff\x7f."), "wants" },
        { "LONG4 of 2^32 - 1", P("\x80\2\x8b\xff\xff\xff\xff."), "wants" },
        { "LONG1", P("\x80\2\x8a\xff."), "wants 255 bytes" },
        { "BINUNICODE", P("\x80\2X\xff\xff\xff\xff."), "wants 4294967295" },
        { "BINUNICODE8", P("\x80\4\x8d\xff\xff\xff\xff\xff\xff\xff\xff."),
          "wants" },
        { "BINUNICODE8 of 2^63", P("\x80\4\x8d\0\0\0\0\0\0\0\x80."), "wants" },
        { "BINSTRING", P("\x80\2T\xff\xff\xff\x7f."), "wants" },
        { "BINSTRING below 0", P("\x80\2T\xff\xff\xff\xff."), "wants" },
        { "BINBYTES",
          P("\x80\3"
            "B\xff\xff\xff\xff."),
          "wants" },
        { "BINBYTES8", P("\x80\4\x8e\0\0\0\0\0\0\0\x10."), "wants" },
        { "BYTEARRAY8", P("\x80\5\x96\0\0\0\0\0\0\0\x10."), "wants" },
        { "FRAME", P("\x80\4\x95\0\0\0\0\0\0\0\x40N."), "wants" },
        { "memo of 2^32 - 1", P("\x80\2Nr\xff\xff\xff\xff."),
          "memo 4294967295: expected the next one" },
        { "memo of nothing", P("\x80\2h\7."), "nothing was put there" },
        { "a list in itself", P("\x80\2]q\0h\0a."), "a list is in itself" },
        { "a dict in itself", P("\x80\2}q\0(X\1\0\0\0ah\0u."),
          "a dict is in itself" },
        { "an object in itself",
          P("\x80\2cmine\nf\n)\x81q\0}q\1X\1\0\0\0ah\0sb."), "is in itself" },
        { "a tuple in itself",
          P("\x80\2]q\0h\0\x85"
            "a."),
          "is in itself" },
        { "two lists in each other", P("\x80\2]q\0]q\1h\0aa."), "" },
    };

    for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++)
        refused(archive_of((struct zip_file[]){ { "a/data.pkl", tries[i].pickle,
                                                  tries[i].n } },
                           1),
                tries[i].name, tries[i].why);
}

/* A pickle: what it begins with, something many times, what it ends with. */
static void refused_times(const char *begin, size_t nbegin, const char *each,
                          size_t neach, size_t times, const char *end,
                          size_t nend, const char *name, const char *why)
{
    struct torch_bytes pickle = { 0 };

    put_bytes(&pickle, begin, nbegin);
    put_times(&pickle, each, neach, times);
    put_times(&pickle, end, 1, nend);
    put_bytes(&pickle, ".", 1);
    refused(archive_of(
                (struct zip_file[]){ { "a/data.pkl", pickle.v, pickle.n } }, 1),
            name, why);
    refused(stream_of(pickle.v, pickle.n, 0), name, why);
    free(pickle.v);
}

static void more_than_memory_has_is_refused(void **state)
{
    enum { MILLION = 1000000 };
    struct torch_bytes laughs = { 0 };

    refused_times(P("\x80\2"), P("]"), MILLION, "a", MILLION - 1,
                  "a million lists in each other", "memory");
    refused_times(P("\x80\2)"), P("\x85"), MILLION, "", 0,
                  "a million tuples in each other", "memory");
    refused_times(P("\x80\2]"), P("\x85"), 1000, "", 0,
                  "a thousand tuples in each other", "more than 200 deep");
    refused_times(P("\x80\2"), P("}N"), MILLION / 2, "s", MILLION / 2 - 1,
                  "half a million dicts in each other", "memory");
    refused_times(P("\x80\2N"), P("("), 10 * MILLION, "t", 1,
                  "ten million marks", "marks");
    refused_times(P("\x80\2"), P("]"), 10 * MILLION, "", 0, "ten million lists",
                  "memory");
    refused_times(P("\x80\2N"), P("20"), 11 * MILLION, "", 0,
                  "twenty million operations", "operations");
    refused_times(P("\x80\2("), P("cmine\nf\n)R"), MILLION, "t", 1,
                  "a million objects", "");
    refused_times(P("\x80\2]"), P("2"), 15 * MILLION, "", 0,
                  "the same list, over and over", "on the stack");
    refused_times(P("\x80\4N"), P("\x94"), 15 * MILLION, "", 0,
                  "fifteen million memos", "in the memo");
    put_bytes(&laughs, P("\x80\2]q\0"));
    for (int i = 1; i < 64; i++) {
        /* A list with the one before twice. */
        char step[] = "0]q?(h?h?e";

        step[3] = (char)i;
        step[6] = step[8] = (char)(i - 1);
        put_bytes(&laughs, step, 10);
    }
    put_bytes(&laughs, P("."));
    refused(stream_of(laughs.v, laughs.n, 0), "2^63 lists", "over and over");
    free(laughs.v);
}

/* --- tensors -------------------------------------------------------------- */

/* The pickle of a tensor of storage "0" of `elems` numbers. */
static struct torch_bytes tensor_of(const char *key, uint64_t elems,
                                    int64_t offset, unsigned ndims, int64_t dim,
                                    int64_t stride)
{
    struct torch_bytes p = { 0 };

    put_bytes(&p, P("\x80\2"
                    "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storage"
                    "ctorch\nFloatStorage\nX"));
    put_number(&p, strlen(key), 4);
    put_bytes(&p, key, strlen(key));
    put_bytes(&p, P("X\3\0\0\0cpu\x8a\x08"));
    put_number(&p, elems, 8);
    put_bytes(&p, P("tQ\x8a\x08"));
    put_number(&p, (uint64_t)offset, 8);
    for (int i = 0; i < 2; i++) {
        put_bytes(&p, "(", 1);
        for (unsigned d = 0; d < ndims; d++) {
            put_bytes(&p, P("\x8a\x08"));
            put_number(&p, (uint64_t)(i == 0 ? dim : stride), 8);
        }
        put_bytes(&p, "t", 1);
    }
    put_bytes(&p, P("\x89"
                    "ccollections\nOrderedDict\n)RtR."));
    return p;
}

static void tensors_beyond_their_storage_are_refused(void **state)
{
    static const struct {
        const char *name, *key;
        uint64_t elems;
        int64_t offset;
        unsigned ndims;
        int64_t dim, stride;
        const char *why;
    } tries[] = {
        { "a storage of 2^62", "0", UINT64_C(1) << 62, 0, 1, 4, 1,
          "a storage of 4611686018427387904 numbers in a file of" },
        { "a storage below 0", "0", UINT64_MAX, 0, 1, 4, 1, "a storage of -1" },
        { "another one", "1", 4, 0, 1, 4, 1, "the archive has no a/data/1" },
        { "one outside", "../../../etc/passwd", 4, 0, 1, 4, 1,
          "the archive has no a/data/../../../etc/passwd" },
        { "a larger one", "0", 8, 0, 1, 8, 1,
          "a/data/0 has 16 bytes: expected 32" },
        { "more numbers", "0", 4, 0, 1, 5, 1,
          "has number 4 of a storage of 4" },
        { "numbers behind it", "0", 4, 1, 1, 4, 1, "has number 4" },
        { "numbers before it", "0", 4, -1, 1, 4, 1, "begins outside" },
        { "far behind it", "0", 4, INT64_MAX, 1, 4, 1, "begins outside" },
        { "a stride below 0", "0", 4, 3, 1, 4, -1, "a stride below 0" },
        { "a stride too large", "0", 4, 0, 1, 2, INT64_MAX, "has number" },
        { "strides that overflow", "0", 4, 1, 2, 3, INT64_MAX, "too large" },
        { "sizes that overflow", "0", 4, 0, 8, INT64_C(1) << 10, 0,
          "too large" },
        { "a size below 0", "0", 4, 0, 1, -4, 1, "whole numbers" },
        { "nine dimensions", "0", 4, 0, 9, 1, 1, "9 dimensions" },
        { "2^60 numbers of 4", "0", 4, 0, 2, INT64_C(1) << 30, 0,
          "numbers of a storage of 4" },
    };
    static const float numbers[4] = { 1, 2, 3, 4 };

    for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
        struct torch_bytes p =
            tensor_of(tries[i].key, tries[i].elems, tries[i].offset,
                      tries[i].ndims, tries[i].dim, tries[i].stride);

        refused(archive_of((struct zip_file[]){ { "a/data.pkl", p.v, p.n },
                                                { "a/data/0", numbers,
                                                  sizeof(numbers) } },
                           2),
                tries[i].name, tries[i].why);
        free(p.v);
    }
}

/* What is stored has the other sign. */
static void views_that_negate_are_refused(void **state)
{
    static const float numbers[4] = { 1, 2, 3, 4 };
    struct torch_bytes p = tensor_of("0", 4, 0, 1, 4, 1);

    p.n -= strlen("tR.");
    put_bytes(&p, P("}X\3\0\0\0neg\x88stR."));
    refused(archive_of(
                (struct zip_file[]){ { "a/data.pkl", p.v, p.n },
                                     { "a/data/0", numbers, sizeof(numbers) } },
                2),
            "a view", "a view that negates what is stored");
    free(p.v);
}

/* The same helper makes a sound one: what is refused above is refused for what
 * is wrong with it. */
static void a_sound_one_is_read(void **state)
{
    struct torch_bytes p = tensor_of("0", 4, 1, 1, 3, 1);
    static const float numbers[4] = { 1, 2, 3, 4 };
    struct torch_bytes b = archive_of(
        (struct zip_file[]){ { "a/data.pkl", p.v, p.n },
                             { "a/data/0", numbers, sizeof(numbers) },
                             { "a/byteorder", "little", 6 } },
        3);
    struct dsflow_err err = { .msg = "" };
    struct dsf_torch_file *file;
    char path[64];
    float x[3];

    snprintf(path, sizeof(path), "%s/sound.pt", folder);
    write_bytes(path, &b);
    if (dsf_torch_open(path, &file, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(
        dsf_torch_read_f32(file, dsf_torch_root(file)->tensor, 0, 3, x, &err),
        0);
    assert_memory_equal(x, numbers + 1, sizeof(x));
    dsf_torch_close(file);
    free(b.v);
    b = stream_of(p.v, p.n, 4);
    write_bytes(path, &b);
    if (dsf_torch_open(path, &file, &err) < 0)
        fail_msg("%s", err.msg);
    dsf_torch_close(file);
    free(b.v);
    b = stream_of(p.v, p.n, 5);
    refused(b, "another size", "storage 0 has 5 numbers: expected 4");
    b = stream_of(p.v, p.n, 4);
    b.n -= 3;
    refused(b, "a stream that is cut", "ends in storage 0");
    b = stream_of(p.v, p.n, 0);
    refused(b, "a stream without a storage", "has no storage 0");
    free(p.v);
}

/* --- archives ------------------------------------------------------------- */

static void archives_that_lie_are_refused(void **state)
{
    static const char pickle[] = "\x80\2N.";
    static const float numbers[4] = { 1, 2, 3, 4 };
    struct zip_file data = { "a/data.pkl", pickle, 4 };
    struct zip_file tensor = { "a/data/0", numbers, 16 };
    struct zip_file other = tensor;
    struct torch_bytes b = { 0 };

    other.method = 8;
    refused(archive_of((struct zip_file[]){ data, other }, 2), "deflated",
            "a/data/0: is compressed");
    other.method = 0;
    other.flags = 1;
    refused(archive_of((struct zip_file[]){ data, other }, 2), "encrypted", "");
    other.flags = 0;
    other.size = 0x7fffffff;
    refused(archive_of((struct zip_file[]){ data, other }, 2),
            "a bomb of 2 GiB", "a/data/0: 2147483647 bytes");
    /* Overlapping entries, as of a bomb that needs no compression. */
    other = (struct zip_file){ "a/data/1", numbers, 16, .at = 2 };
    refused(archive_of((struct zip_file[]){ data, tensor, other }, 3),
            "the same bytes twice", "begins inside");
    data.size = 20;
    refused(archive_of((struct zip_file[]){ data, tensor }, 2),
            "one that reaches into the next", "begins inside");
    data.size = 0;
    other = (struct zip_file){ "b/data.pkl", pickle, 4 };
    refused(archive_of((struct zip_file[]){ data, other }, 2), "two trees",
            "has a/data.pkl and b/data.pkl");
    other = (struct zip_file){ "a/data.pkl", pickle, 4 };
    refused(archive_of((struct zip_file[]){ data, other }, 2), "a tree twice",
            "a/data.pkl");
    refused(archive_of((struct zip_file[]){ tensor }, 1), "no tree",
            "without data.pkl");
    other = (struct zip_file){ "a/byteorder", "big", 3 };
    refused(archive_of((struct zip_file[]){ data, other }, 2), "big end first",
            "its byte order is big");
    other = (struct zip_file){ "a/constants.pkl", pickle, 4 };
    refused(archive_of((struct zip_file[]){ data, other }, 2), "TorchScript",
            "TorchScript");
    b = archive_of(&data, 1);
    b.n -= 10;
    refused(b, "cut at its end", "a damaged zip archive");
    b = archive_of(&data, 1);
    b.v[b.n - 6] = 0xff; /* where the directory is */
    refused(b, "a directory that is elsewhere", "a damaged zip archive");
    b = archive_of(&data, 1);
    b.v[b.n - 11] = b.v[b.n - 13] = 0xff; /* how many */
    refused(b, "more entries than there are", "a damaged zip archive");
    b = (struct torch_bytes){ 0 };
    put_bytes(&b, "PK\3\4", 4);
    put_times(&b, "PK\1\2", 4, 100);
    refused(b, "no directory", "a damaged zip archive");
}

/* Reading the one number that a/data/0 has in the archive. */
static int read_one(struct torch_bytes *b, float *x, struct dsflow_err *err)
{
    struct dsf_torch_file *file;
    char path[64];
    int status;

    snprintf(path, sizeof(path), "%s/one.pt", folder);
    write_bytes(path, b);
    status = dsf_torch_open(path, &file, err);
    if (status == DSFLOW_OK)
        status = dsf_torch_read_f32(file, dsf_torch_root(file)->tensor, 0, 1, x,
                                    err);
    dsf_torch_close(file);
    return status;
}

static void numbers_that_changed_in_an_archive_are_refused(void **state)
{
    struct torch_bytes p = tensor_of("0", 1, 0, 1, 1, 1), b;
    static const float number = 3;
    const uint32_t crc = crc32_of((const unsigned char *)&number, 4);
    struct dsflow_err err = { .msg = "" };
    unsigned char *at, *end;
    float x = 0;

    b = archive_of((struct zip_file[]){ { "a/data.pkl", p.v, p.n },
                                        { "a/data/0", &number, 4 } },
                   2);
    assert_int_equal(read_one(&b, &x, &err), DSFLOW_OK);
    assert_true(x == 3);
    at = memmem(b.v, b.n, &number, 4);
    at[0] ^= 1;
    assert_int_equal(read_one(&b, &x, &err), DSFLOW_EINVAL);
    if (strstr(err.msg, "/one.pt: a/data/0: is damaged: its CRC-32 is ") ==
        NULL)
        fail_msg("says: %s", err.msg);
    /* One that was written without is taken as it is. */
    end = b.v + b.n;
    for (at = b.v; (at = memmem(at, (size_t)(end - at), &crc, 4)) != NULL;)
        memset(at, 0, 4);
    assert_int_equal(read_one(&b, &x, &err), DSFLOW_OK);
    assert_true(x != 3);
    at = memmem(b.v, b.n, p.v, p.n);
    at[p.n - 1] ^= 1;
    assert_int_equal(read_one(&b, &x, &err), DSFLOW_EINVAL);
    if (strstr(err.msg, "/one.pt: a/data.pkl: is damaged") == NULL)
        fail_msg("says: %s", err.msg);
    free(b.v);
    free(p.v);
}

/* A directory alone that fills memory: entries of 50 bytes without any. */
static void an_archive_of_a_million_entries_is_refused(void **state)
{
    enum { MILLION = 1000000 };
    struct torch_bytes b = { 0 };
    size_t directory;

    put_bytes(&b, "PK\3\4", 4);
    put_number(&b, 0, 26);
    directory = b.n;
    for (int i = 0; i < MILLION; i++) {
        char name[16];

        snprintf(name, sizeof(name), "a/%06d", i);
        put_bytes(&b, "PK\1\2\24\0\24\0\0\0\0\0\0\0\x21\0", 16);
        put_number(&b, 0, 12);
        put_number(&b, 8, 2);
        put_number(&b, 0, 16);
        put_bytes(&b, name, 8);
    }
    put_bytes(&b, "PK\6\6\x2c\0\0\0\0\0\0\0\x2d\0\x2d\0", 16);
    put_number(&b, 0, 8);
    put_number(&b, MILLION, 8);
    put_number(&b, MILLION, 8);
    put_number(&b, b.n - 32 - directory, 8);
    put_number(&b, directory, 8);
    put_bytes(&b, "PK\6\7\0\0\0\0", 8);
    put_number(&b, b.n - 64, 8);
    put_number(&b, 1, 4);
    put_bytes(&b,
              "PK\5\6\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"
              "\xff\xff\xff\xff\0\0",
              22);
    refused(b, "a million entries", "a directory of more than 8 MiB");
}

static int count(void **state)
{
    print_message("%u files were refused\n", tried);
    return remove_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_runs_something_is_refused),
        cmocka_unit_test(operations_that_are_none_of_torch_are_refused),
        cmocka_unit_test(sizes_that_are_not_there_are_refused),
        cmocka_unit_test(more_than_memory_has_is_refused),
        cmocka_unit_test(tensors_beyond_their_storage_are_refused),
        cmocka_unit_test(views_that_negate_are_refused),
        cmocka_unit_test(a_sound_one_is_read),
        cmocka_unit_test(archives_that_lie_are_refused),
        cmocka_unit_test(numbers_that_changed_in_an_archive_are_refused),
        cmocka_unit_test(an_archive_of_a_million_entries_is_refused),
    };

    return cmocka_run_group_tests(tests, make_folder, count);
}
