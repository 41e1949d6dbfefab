/* megatron_folder.c - the files of one iteration of Megatron-LM, by their
 * names:
 *
 *   latest_checkpointed_iteration.txt   "100", or "release"
 *   iter_0000100/mp_rank_00/model_optim_rng.pt          of tensor rank 0,
 *                mp_rank_00_001/model_optim_rng.pt      of stage 1, too
 */
#include "foreign/megatron.h"
#include "foreign/megatron_private.h"

#include "base/alloc.h"
#include "base/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RANKS = 4096 };

static const char tracker[] = "latest_checkpointed_iteration.txt";

/* "_001": a number behind a '_'; NULL: something else. */
static const char *number(const char *at, int *value)
{
    size_t n;

    if (at == NULL || *at != '_')
        return NULL;
    n = strspn(at + 1, "0123456789");
    if (n == 0 || n > 5)
        return NULL;
    *value = atoi(at + 1);
    return at + 1 + n;
}

/* Of "mp_rank_00", "mp_rank_00_001", "mp_rank_00_model_states.pt": tensor rank
 * and stage (0). */
static bool read_ranks(const char *name, int *tensor, int *stage,
                       bool *deepspeed)
{
    const char *at;

    *stage = 0;
    if (strncmp(name, "mp_rank", 7) != 0)
        return false;
    at = number(name + 7, tensor);
    *deepspeed = at != NULL && strcmp(at, "_model_states.pt") == 0;
    if (at == NULL || *deepspeed)
        return at != NULL;
    if (*at != '\0')
        at = number(at, stage);
    return at != NULL && *at == '\0';
}

/* What the names in a folder say. */
struct seen {
    int tensor, stages; /* one more than the largest */
    bool deepspeed, distcp;
};

static struct seen look(const char *path)
{
    struct seen seen = { 0 };
    DIR *d = opendir(path);
    struct dirent *e;

    while (d != NULL && (e = readdir(d)) != NULL) {
        int tensor, stage;
        bool deepspeed;
        size_t n = strlen(e->d_name);

        if (n > 7 && strcmp(e->d_name + n - 7, ".distcp") == 0)
            seen.distcp = true;
        if (!read_ranks(e->d_name, &tensor, &stage, &deepspeed))
            continue;
        seen.tensor = tensor >= seen.tensor ? tensor + 1 : seen.tensor;
        seen.stages = stage >= seen.stages ? stage + 1 : seen.stages;
        seen.deepspeed |= deepspeed;
    }
    if (d != NULL)
        closedir(d);
    return seen;
}

bool dsf_megatron_is(const char *path)
{
    struct seen seen = look(path);

    return dsf_file_is_in(path, tracker) || seen.distcp ||
           (seen.tensor > 0 && !seen.deepspeed);
}

/* --- which iteration ------------------------------------------------------ */

/* The first word of a file. */
static void read_word(const char *file, char text[64])
{
    FILE *in = fopen(file, "r");
    size_t n = in != NULL ? fread(text, 1, 63, in) : 0;

    text[n] = '\0';
    if (in != NULL)
        fclose(in);
    text[strcspn(text, " \t\r\n")] = '\0';
}

/* What latest_checkpointed_iteration.txt says as the name of a folder. */
static int read_tracker(const char *path, char *name, size_t size,
                        struct dsflow_err *err)
{
    char *file = dsf_xasprintf("%s/%s", path, tracker);
    char text[64];
    bool sound;

    read_word(file, text);
    sound = strcmp(text, "release") == 0 ||
            (strlen(text) > 0 && strlen(text) < 12 &&
             strspn(text, "0123456789") == strlen(text));
    if (sound && text[0] == 'r')
        snprintf(name, size, "%s", text);
    else if (sound)
        snprintf(name, size, "iter_%07ld", atol(text));
    else
        dsflow_fail(
            err, DSFLOW_EINVAL,
            "%s: %.40s: expected the number of an iteration, or release", file,
            text);
    free(file);
    return sound ? DSFLOW_OK : DSFLOW_EINVAL;
}

/* The name of a folder in `path`: of Megatron's file, or of DeepSpeed's. */
static int read_latest(const char *path, char *name, size_t size,
                       struct dsflow_err *err)
{
    char *file = dsf_xasprintf("%s/latest", path);
    char text[64];
    int status = DSFLOW_OK;

    if (dsf_file_is_in(path, tracker)) {
        status = read_tracker(path, name, size, err);
    } else if (access(file, F_OK) == 0) {
        read_word(file, text);
        snprintf(name, size, "%s", text);
    } else {
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: has no mp_rank_00 of a checkpoint of "
                             "Megatron-LM and no %s",
                             path, tracker);
    }
    free(file);
    return status;
}

static int find_iteration(struct dsf_megatron_folder *f, const char *path,
                          const char *tag, struct dsflow_err *err)
{
    char name[80];
    struct seen seen;
    int status;

    if (!dsf_file_is_folder(path))
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: there is no such folder",
                           path);
    seen = look(path);
    if (tag == NULL && (seen.tensor > 0 || seen.distcp)) {
        f->path = dsf_xstrdup(path);
        return DSFLOW_OK;
    }
    if (tag == NULL) {
        status = read_latest(path, name, sizeof(name), err);
        if (status < 0)
            return status;
        tag = name;
    }
    if (tag[0] == '\0' || tag[0] == '.' || strchr(tag, '/') != NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: --tag: %.60s: expected the name of a folder in "
                           "it, such as iter_0000100",
                           path, tag);
    f->path = dsf_xasprintf("%s/%s", path, tag);
    if (!dsf_file_is_folder(f->path))
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: there is no such folder",
                           f->path);
    return DSFLOW_OK;
}

/* --- its files ------------------------------------------------------------ */

char *dsf_megatron_name_file(const struct dsf_megatron_folder *f, int tensor,
                             int stage, bool staged)
{
    static const char *const names[] = {
        [DSF_MEGATRON_MODEL_OPTIM] = "/model_optim_rng.pt",
        [DSF_MEGATRON_MODEL] = "/model_rng.pt",
        [DSF_MEGATRON_DEEPSPEED] = "_model_states.pt",
    };

    return staged ? dsf_xasprintf("%s/mp_rank_%02d_%03d%s", f->path, tensor,
                                  stage, names[f->layout])
                  : dsf_xasprintf("%s/mp_rank_%02d%s", f->path, tensor,
                                  names[f->layout]);
}

/* Which of them there are; false: none. */
static bool find_layout(struct dsf_megatron_folder *f, bool deepspeed,
                        bool *staged)
{
    static const struct {
        enum dsf_megatron_layout layout;
        bool staged;
    } all[] = {
        { DSF_MEGATRON_DEEPSPEED, false },  { DSF_MEGATRON_MODEL_OPTIM, false },
        { DSF_MEGATRON_MODEL_OPTIM, true }, { DSF_MEGATRON_MODEL, false },
        { DSF_MEGATRON_MODEL, true },
    };

    for (size_t i = !deepspeed; i < sizeof(all) / sizeof(*all); i++) {
        char *file;
        bool there;

        f->layout = all[i].layout;
        *staged = all[i].staged;
        file = dsf_megatron_name_file(f, 0, 0, *staged);
        there = access(file, F_OK) == 0;
        free(file);
        if (there)
            return true;
    }
    return false;
}

static int fail_first(struct dsf_megatron_folder *f, const struct seen *seen,
                      struct dsflow_err *err)
{
    char *file;
    int status;

    f->layout =
        seen->deepspeed ? DSF_MEGATRON_DEEPSPEED : DSF_MEGATRON_MODEL_OPTIM;
    file = dsf_megatron_name_file(f, 0, 0, seen->stages > 1);
    status =
        dsflow_fail(err, DSFLOW_EINVAL,
                    "%s: is not there: expected a file of each rank", file);
    free(file);
    return status;
}

static int find_files(struct dsf_megatron_folder *f, const struct seen *seen,
                      struct dsflow_err *err)
{
    bool staged;
    size_t n;

    if (!find_layout(f, seen->deepspeed, &staged))
        return fail_first(f, seen, err);
    f->tensor = seen->tensor;
    f->stages = staged ? seen->stages : 1;
    n = (size_t)f->tensor * (size_t)f->stages;
    f->files = dsf_xcalloc(n, sizeof(*f->files));
    for (size_t i = 0; i < n; i++) {
        f->files[i] = dsf_megatron_name_file(f, (int)i % f->tensor,
                                             (int)i / f->tensor, staged);
        if (access(f->files[i], F_OK) < 0)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: is not there: expected a file of each of "
                               "%d tensor ranks and %d stages",
                               f->files[i], f->tensor, f->stages);
    }
    return DSFLOW_OK;
}

static int check_kind(const struct dsf_megatron_folder *f,
                      const struct seen *seen, struct dsflow_err *err)
{
    if (seen->distcp && seen->tensor == 0)
        return dsflow_fail(
            err, DSFLOW_EINVAL,
            "%s: is a torch_dist checkpoint (.distcp), which is not read: have "
            "Megatron-LM write it as torch, by loading it with "
            "--ckpt-convert-format torch --ckpt-convert-save FOLDER",
            f->path);
    if (seen->tensor == 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: has no mp_rank_00: expected the files of one "
                           "iteration of Megatron-LM",
                           f->path);
    if ((int64_t)seen->tensor * seen->stages > MOST_RANKS)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: has files of %d tensor ranks and %d stages: "
                           "expected %d at most",
                           f->path, seen->tensor, seen->stages, MOST_RANKS);
    return DSFLOW_OK;
}

/* Is the state of the optimizer shared out among ranks of data? */
static bool is_distributed(const struct dsf_megatron_folder *f)
{
    static const char *const names[] = { "distrib_optim.pt", "optim.pt" };
    char *folder = dsf_xstrdup(f->files[0]);
    bool is = false;

    *strrchr(folder, '/') = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        is |= dsf_file_is_in(folder, names[i]);
    free(folder);
    return is;
}

int dsf_megatron_folder_open(struct dsf_megatron_folder *f, const char *path,
                             const char *tag, struct dsflow_err *err)
{
    struct seen seen;
    int status;

    *f = (struct dsf_megatron_folder){ 0 };
    status = find_iteration(f, path, tag, err);
    if (status < 0)
        return status;
    seen = look(f->path);
    status = check_kind(f, &seen, err);
    if (status < 0)
        return status;
    status = find_files(f, &seen, err);
    if (status == DSFLOW_OK)
        f->distributed = is_distributed(f);
    return status;
}

void dsf_megatron_folder_fini(struct dsf_megatron_folder *f)
{
    size_t n = (size_t)f->tensor * (size_t)f->stages;

    for (size_t i = 0; f->files != NULL && i < n; i++)
        free(f->files[i]);
    free(f->files);
    free(f->path);
    *f = (struct dsf_megatron_folder){ 0 };
}
