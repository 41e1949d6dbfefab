/* normal.c - texts of any size in normal form C, piece by piece: most texts
 * have it already, and stay where they are. */
#include "text/normal.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/unnamed.h"
#include "text/mapped.h"
#include "text/nfc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Bytes that are looked at together. */
#define PIECE ((size_t)1 << 20)

/* The end of the piece that begins at `at`: what follows has no part in it. */
static size_t end_of_piece(const char *text, size_t n, size_t at)
{
    size_t end = n - at < PIECE ? n : at + PIECE;

    while (end < n && !dsf_nfc_begins(text[end]))
        end++;
    return end;
}

/* From now on; with what there is. */
static int go_to_file(struct dsf_normal *to, const struct dsf_normalizing *how,
                      struct dsflow_err *err)
{
    to->fd = dsf_unnamed_open(how->folder);
    to->in_file = to->fd >= 0;
    if (to->in_file && dsf_file_write(to->fd, to->memory, to->n, 0) < 0)
        return dsflow_fail(err, DSFLOW_EIO, "%s: text in normal form C: %m",
                           how->folder);
    if (to->in_file) {
        free(to->memory);
        to->memory = NULL;
    }
    return DSFLOW_OK;
}

static int put(struct dsf_normal *to, const char *text, size_t n,
               const struct dsf_normalizing *how, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    if (!to->in_file && how->folder != NULL && to->n <= how->memory &&
        to->n + n > how->memory)
        status = go_to_file(to, how, err);
    if (status < 0)
        return status;
    if (!to->in_file) {
        dsf_grow(&to->memory, &to->cap, to->n + n, 1);
        memcpy(to->memory + to->n, text, n);
    } else if (dsf_file_write(to->fd, text, n, (off_t)to->n) < 0) {
        return dsflow_fail(err, DSFLOW_EIO, "%s: text in normal form C: %m",
                           how->folder);
    }
    to->n += n;
    return DSFLOW_OK;
}

/* What has the form as it is. */
static int put_begin(struct dsf_normal *to, const char *text, size_t n,
                     const struct dsf_normalizing *how, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (size_t at = 0, some; at < n && status == DSFLOW_OK; at += some) {
        some = n - at < PIECE ? n - at : PIECE;
        status = put(to, text + at, some, how, err);
        how->has_read(how->user, some);
    }
    return status;
}

static bool differs(const char *text, size_t n, const char *normal,
                    size_t bytes)
{
    return normal != NULL && (bytes != n || memcmp(text, normal, n) != 0);
}

static int put_all(struct dsf_normal *to, const char *text, size_t n,
                   const struct dsf_normalizing *how, struct dsflow_err *err)
{
    bool changed = false; /* there is something in `to` */
    int status = DSFLOW_OK;

    for (size_t at = 0, end; at < n && status == DSFLOW_OK; at = end) {
        size_t bytes;
        char *normal;

        end = end_of_piece(text, n, at);
        bytes = end - at;
        normal = dsf_nfc(text + at, end - at, &bytes);
        if (!changed && differs(text + at, end - at, normal, bytes)) {
            changed = true;
            status = put_begin(to, text, at, how, err);
        }
        if (changed && status == DSFLOW_OK)
            status =
                put(to, normal != NULL ? normal : text + at, bytes, how, err);
        free(normal);
        how->has_read(how->user, end - at);
    }
    return status;
}

static int map(struct dsf_normal *to, const struct dsf_normalizing *how,
               struct dsflow_err *err)
{
    void *at = mmap(NULL, to->n, PROT_READ, MAP_SHARED, to->fd, 0);

    if (at == MAP_FAILED)
        return dsflow_fail(err, DSFLOW_ENOMEM, "%s: text in normal form C: %m",
                           how->folder);
    to->text = at;
    return DSFLOW_OK;
}

int dsf_normal_init(struct dsf_normal *normal, const char *text, size_t n,
                    const struct dsf_normalizing *how, struct dsflow_err *err)
{
    int status;

    *normal = (struct dsf_normal){ .fd = -1 };
    status = put_all(normal, text, n, how, err);
    if (status == DSFLOW_OK && normal->in_file)
        status = map(normal, how, err);
    if (normal->fd >= 0)
        close(normal->fd);
    if (status < 0)
        return status;
    if (normal->n == 0) {
        normal->text = text;
        normal->n = n;
    } else if (!normal->in_file) {
        normal->text = normal->memory;
    }
    return DSFLOW_OK;
}

void dsf_normal_let_go(const struct dsf_normal *normal)
{
    if (normal->in_file && normal->text != NULL)
        dsf_mapped_let_go(normal->text, normal->n);
}

void dsf_normal_fini(struct dsf_normal *normal)
{
    if (normal->in_file && normal->text != NULL)
        munmap((void *)normal->text, normal->n);
    free(normal->memory);
    *normal = (struct dsf_normal){ .text = NULL };
}
