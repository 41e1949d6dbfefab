/* fuzz.c - bytes for a reader. By itself the program tries the sound bytes, what
 * lies in tests/fuzz/corpus, and sound bytes with damage that is the same each
 * time; with arguments, the files that are named. Built with FUZZ_BY_CLANG it has
 * no main, and libFuzzer gives the bytes: scripts/fuzz.sh. */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

void fuzz_die(const char *why)
{
    fprintf(stderr, "fuzz_%s: %s\n", fuzz_reader.name, why);
    abort();
}

void fuzz_refused(const struct dsflow_err *err)
{
    if (err->msg[0] == '\0')
        fuzz_die("refused without a line");
    for (const char *c = err->msg; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            fuzz_die("refused with more than a line");
}

char *fuzz_copy(const void *from, size_t n)
{
    char *to = malloc(n + 1);

    if (to == NULL)
        fuzz_die("no memory");
    memcpy(to, from, n);
    to[n] = '\0';
    return to;
}

/* --- files ------------------------------------------------------------------ */

static void remove_folder(void)
{
    DIR *d = opendir(folder);
    struct dirent *e;

    while (d != NULL && (e = readdir(d)) != NULL)
        unlinkat(dirfd(d), e->d_name, 0);
    if (d != NULL)
        closedir(d);
    rmdir(folder);
}

const char *fuzz_folder(void)
{
    if (folder[0] != '\0')
        return folder;
    snprintf(folder, sizeof(folder), "%s/dsflow-fuzz.XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(folder) == NULL)
        fuzz_die("no temporary folder");
    atexit(remove_folder);
    return folder;
}

const char *fuzz_file(const char *name, const char *text, size_t n)
{
    static char path[128];
    FILE *out;

    snprintf(path, sizeof(path), "%s/%s", fuzz_folder(), name);
    out = fopen(path, "wb");
    if (out == NULL || fwrite(text, 1, n, out) != n || fclose(out) != 0)
        fuzz_die("the file cannot be written");
    return path;
}

char *fuzz_load(const char *path, size_t *n)
{
    FILE *in = fopen(path, "rb");
    struct stat st;
    char *text = NULL;

    /* No more than it has: a file is loaded for each of thousands of trials. */
    if (in != NULL && fstat(fileno(in), &st) == 0)
        text = malloc((size_t)st.st_size + 1);
    if (text == NULL) {
        perror(path);
        fuzz_die("the file cannot be read");
    }
    *n = fread(text, 1, (size_t)st.st_size, in);
    fclose(in);
    return text;
}

/* --- libFuzzer -------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    /* A copy of its own: what is read behind the end is noticed. */
    char *text = malloc(n > 0 ? n : 1);

    memcpy(text, data, n);
    fuzz_reader.accepts(text, n);
    free(text);
    return 0;
}

/* The first folder, where libFuzzer keeps what it finds, gets the sound bytes. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char path[4096];
    size_t n;
    char *text = fuzz_reader.sound(&n);
    FILE *out = NULL;

    for (int i = *argc - 1; i > 0; i--)
        if ((*argv)[i][0] != '-')
            snprintf(path, sizeof(path), "%s/sound", (*argv)[i]);
    if (*argc > 1)
        out = fopen(path, "wb");
    if (out != NULL) {
        fwrite(text, 1, n, out);
        fclose(out);
    }
    free(text);
    return 0;
}

/* --- damage that is the same each time -------------------------------------- */

#ifndef FUZZ_BY_CLANG

static uint64_t seed = 1;

static size_t any(size_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % n;
}

static const char *any_word(void)
{
    size_t n = 0;

    while (fuzz_reader.words[n] != NULL)
        n++;
    return fuzz_reader.words[any(n)];
}

/* `less` bytes at `at` give way to others. There is room for them. */
static void replace(char *text, size_t *n, size_t at, size_t less,
                    const char *with, size_t more)
{
    memmove(text + at + more, text + at + less, *n - at - less);
    memcpy(text + at, with, more);
    *n += more - less;
}

/* A word for what stands behind a colon or an equals sign. */
static void replace_value(char *text, size_t *n, size_t at, const char *word)
{
    size_t from = at, to;

    while (from < *n && text[from] != ':' && text[from] != '=')
        from++;
    if (from == *n)
        return;
    for (to = ++from; to < *n && strchr(",]}\n", text[to]) == NULL;)
        to++;
    replace(text, n, from, to - from, word, strlen(word));
}

/* One fault in text[0, *n): a byte, a word, a value, a stretch that is lost or
 * doubled, the end. It makes them longer by at most LONGER. */
enum { LONGER = 64 };
static void damage(char *text, size_t *n)
{
    size_t at = any(*n), m = any(40);
    const char *word = any_word();
    char stretch[40];

    if (m > *n - at)
        m = *n - at;
    switch (any(8)) {
    case 0:
        text[at] = (char)any(256);
        break;
    case 1:
        text[at] = (char)(text[at] ^ 1 << any(8));
        break;
    case 2:
    case 3:
        replace(text, n, at, any(2), word, strlen(word));
        break;
    case 4:
        replace_value(text, n, at, word);
        break;
    case 5:
        replace(text, n, at, m, "", 0);
        break;
    case 6:
        memcpy(stretch, text + at, m);
        replace(text, n, any(*n), 0, stretch, m);
        break;
    default:
        if (any(8) == 0)
            *n = at + 1;
    }
}

static unsigned try_damaged(const char *sound, size_t nsound)
{
    enum { MOST_FAULTS = 3 };
    char *text = malloc(nsound + MOST_FAULTS * LONGER);
    unsigned accepted = 0;

    for (unsigned round = 0; round < fuzz_reader.rounds; round++) {
        size_t n = nsound;

        memcpy(text, sound, n);
        for (size_t faults = 1 + any(MOST_FAULTS); faults > 0 && n > 0;
             faults--)
            damage(text, &n);
        if (fuzz_reader.mend != NULL && any(2) == 0)
            fuzz_reader.mend(text, n);
        accepted += fuzz_reader.accepts(text, n);
    }
    free(text);
    return accepted;
}

static void try_file(const char *path)
{
    size_t n;
    char *text = fuzz_load(path, &n);

    LLVMFuzzerTestOneInput((uint8_t *)text, n);
    free(text);
}

/* Returns how many files the corpus has for this reader. */
static unsigned try_corpus(void)
{
    const char *src = getenv("srcdir");
    size_t n = strlen(fuzz_reader.name);
    char corpus[4096], path[8192];
    unsigned count = 0;
    struct dirent *e;
    DIR *d;

    snprintf(corpus, sizeof(corpus), "%s/tests/fuzz/corpus",
             src != NULL ? src : ".");
    d = opendir(corpus);
    while (d != NULL && (e = readdir(d)) != NULL) {
        if (strncmp(e->d_name, fuzz_reader.name, n) != 0 || e->d_name[n] != '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", corpus, e->d_name);
        try_file(path);
        count++;
    }
    if (d != NULL)
        closedir(d);
    return count;
}

int main(int argc, char **argv)
{
    size_t n;
    char *sound = fuzz_reader.sound(&n);
    unsigned kept;

    if (!fuzz_reader.accepts(sound, n))
        fuzz_die("the sound bytes were refused");
    for (int i = 1; i < argc; i++)
        try_file(argv[i]);
    if (argc == 1) {
        kept = try_corpus();
        printf("%u files of the corpus; %u damaged ones, %u of them accepted\n",
               kept, fuzz_reader.rounds, try_damaged(sound, n));
    }
    free(sound);
    return 0;
}

#endif
