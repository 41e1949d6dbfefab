/* pickle_values.c - numbers, texts, bytes and names in a pickle. */
#include "torch/pickle_machine.h"

#include "base/utf8.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_NAME = 1024,   /* bytes of a module or of a name in it */
    MOST_NUMBER = 1024, /* bytes of an integer */
};
#define MOST_TEXT ((uint64_t)1 << 30)

int dsf_pickle_push_bool(struct dsf_pickle *m, bool x)
{
    struct dsf_torch_node *node = dsf_torch_leaf(m->file, DSF_TORCH_BOOL);

    node->truth = x;
    return dsf_pickle_push(m, node);
}

int dsf_pickle_push_int(struct dsf_pickle *m, int64_t x)
{
    return dsf_pickle_push(m, dsf_torch_number(m->file, x));
}

/* Two's complement of n bytes, lowest first. */
int dsf_pickle_push_long(struct dsf_pickle *m, uint64_t n)
{
    unsigned char raw[MOST_NUMBER];
    char text[2 * MOST_NUMBER + 4], *to = text;
    struct dsf_torch_node *node;
    bool negative;
    int64_t x = 0;

    if (dsf_pickle_need(m, n) < 0)
        return DSFLOW_EINVAL;
    if (n > MOST_NUMBER)
        return dsf_pickle_refuse(m,
                                 "a number of %llu bytes: expected %d at most",
                                 (unsigned long long)n, MOST_NUMBER);
    if (dsf_pickle_take(m, raw, n) < 0)
        return DSFLOW_EINVAL;
    negative = n > 0 && raw[n - 1] & 0x80;
    while (n > 8 && raw[n - 1] == (negative ? 0xff : 0) &&
           (raw[n - 2] & 0x80) == (negative ? 0x80 : 0))
        n--;
    if (n <= 8) {
        memset(&x, negative ? 0xff : 0, sizeof(x));
        memcpy(&x, raw, n);
        return dsf_pickle_push_int(m, (int64_t)le64toh((uint64_t)x));
    }
    if (negative)
        for (uint64_t i = 0, carry = 1; i < n; i++) {
            carry += (unsigned char)~raw[i];
            raw[i] = (unsigned char)carry;
            carry >>= 8;
        }
    while (n > 1 && raw[n - 1] == 0)
        n--;
    to += sprintf(to, "%s0x%x", negative ? "-" : "", raw[n - 1]);
    for (uint64_t i = n - 1; i-- > 0;)
        to += sprintf(to, "%02x", raw[i]);
    node = dsf_torch_leaf(m->file, DSF_TORCH_INT);
    node->integer.big =
        dsf_blocks_copy(&m->file->mem, text, (size_t)(to - text) + 1, 1);
    return dsf_pickle_push(m, node);
}

int dsf_pickle_push_float(struct dsf_pickle *m)
{
    struct dsf_torch_node *node = dsf_torch_leaf(m->file, DSF_TORCH_FLOAT);
    uint64_t bits;

    if (dsf_pickle_take(m, &bits, sizeof(bits)) < 0)
        return DSFLOW_EINVAL;
    bits = be64toh(bits);
    memcpy(&node->real, &bits, sizeof(bits));
    return dsf_pickle_push(m, node);
}

/* Bytes stay where they are. */
int dsf_pickle_push_bytes(struct dsf_pickle *m, uint64_t n)
{
    struct dsf_torch_node *node;

    if (dsf_pickle_need(m, n) < 0)
        return DSFLOW_EINVAL;
    if (n > UINT32_MAX)
        return dsf_pickle_refuse(m, "%llu bytes: expected less than 4 GiB",
                                 (unsigned long long)n);
    node = dsf_torch_leaf(m->file, DSF_TORCH_BYTES);
    node->n = (uint32_t)n;
    node->bytes.at = m->at;
    m->at += (int64_t)n;
    return dsf_pickle_push(m, node);
}

/* Of Python 2 (`old`), what is not UTF-8 is bytes. */
static int push_text(struct dsf_pickle *m, uint64_t n, bool old)
{
    struct dsf_torch_node *node;
    char *text;

    if (dsf_pickle_need(m, n) < 0)
        return DSFLOW_EINVAL;
    if (n > MOST_TEXT)
        return dsf_pickle_refuse(
            m, "a text of %llu bytes: expected %llu at most",
            (unsigned long long)n, (unsigned long long)MOST_TEXT);
    m->at += (int64_t)n;
    if (dsf_pickle_room(m, n) < 0)
        return DSFLOW_EINVAL;
    m->at -= (int64_t)n;
    text = dsf_blocks_take(&m->file->mem, n + 1, 1);
    if (dsf_pickle_take(m, text, n) < 0)
        return DSFLOW_EINVAL;
    text[n] = '\0';
    if (dsf_utf8_valid(text, n) != n) {
        if (!old)
            return dsf_pickle_refuse(m, "a text that is not UTF-8");
        node = dsf_torch_leaf(m->file, DSF_TORCH_BYTES);
        node->bytes.here = text;
    } else {
        node = dsf_torch_leaf(m->file, DSF_TORCH_STR);
        node->str = text;
    }
    node->n = (uint32_t)n;
    return dsf_pickle_push(m, node);
}

int dsf_pickle_push_str(struct dsf_pickle *m, uint64_t n)
{
    return push_text(m, n, false);
}

int dsf_pickle_push_old_str(struct dsf_pickle *m, uint64_t n)
{
    return push_text(m, n, true);
}

/* --- names --- */

static int push_name(struct dsf_pickle *m, const char *module, const char *name)
{
    struct dsf_torch_node *node = dsf_torch_leaf(m->file, DSF_TORCH_GLOBAL);
    size_t n = strlen(module) + 1 + strlen(name);
    char *full = dsf_blocks_take(&m->file->mem, n + 1, 1);

    snprintf(full, n + 1, "%s.%s", module, name);
    if (module[0] == '\0' || name[0] == '\0' ||
        strpbrk(full, " \t\r\n()'\"") != NULL)
        return dsf_pickle_refuse(m, "%.100s: expected the name of a class",
                                 full);
    if (dsf_torch_name_runs(full))
        return dsf_pickle_refuse(
            m, "names %.100s, which runs: nobody should load this file", full);
    node->global = full;
    return dsf_pickle_push(m, node);
}

static int take_line(struct dsf_pickle *m, char line[MOST_NAME + 1])
{
    for (size_t n = 0; n <= MOST_NAME; n++) {
        if (dsf_pickle_take(m, line + n, 1) < 0)
            return DSFLOW_EINVAL;
        if (line[n] == '\n') {
            line[n] = '\0';
            if (strlen(line) != n || dsf_utf8_valid(line, n) != n)
                return dsf_pickle_refuse(m, "a name that is not UTF-8");
            return DSFLOW_OK;
        }
    }
    return dsf_pickle_refuse(m, "a name of more than %d bytes", MOST_NAME);
}

int dsf_pickle_push_global(struct dsf_pickle *m)
{
    char module[MOST_NAME + 1], name[MOST_NAME + 1];

    if (take_line(m, module) < 0 || take_line(m, name) < 0)
        return DSFLOW_EINVAL;
    return push_name(m, module, name);
}

int dsf_pickle_push_stack_global(struct dsf_pickle *m)
{
    const struct dsf_torch_node *module, *name;

    if (dsf_pickle_has(m, 2) < 0)
        return DSFLOW_EINVAL;
    name = m->stack[--m->n];
    module = m->stack[--m->n];
    if (module->kind != DSF_TORCH_STR || name->kind != DSF_TORCH_STR ||
        module->n > MOST_NAME || name->n > MOST_NAME ||
        strlen(module->str) != module->n || strlen(name->str) != name->n)
        return dsf_pickle_refuse(
            m, "expected the names of a module and of what is in it");
    return push_name(m, module->str, name->str);
}
