/* test_event_file.c - event files hold what TensorFlow's formats say, read back
 * by other code than wrote them: bit by bit. */
#include "train/event_file.h"

#include "lib/folder.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* CRC-32C (RFC 3720, B.4), a bit at a time. */
static uint32_t crc32c(const unsigned char *data, size_t n)
{
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

static uint64_t number(const unsigned char *p, unsigned n)
{
    uint64_t x = 0;

    for (unsigned i = 0; i < n; i++)
        x |= (uint64_t)p[i] << 8 * i;
    return x;
}

/* The payload of the record at *p, which moves behind it; its size, or 0 at the
 * end of the file. */
static size_t next_record(const unsigned char **p, const unsigned char *end,
                          const unsigned char **payload)
{
    size_t n;
    uint32_t crc;

    if (*p == end)
        return 0;
    assert_true(end - *p > 16);
    n = number(*p, 8);
    crc = crc32c(*p, 8);
    assert_int_equal(number(*p + 8, 4),
                     (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8));
    assert_true((size_t)(end - *p) >= n + 16);
    *payload = *p + 12;
    crc = crc32c(*payload, n);
    assert_int_equal(number(*payload + n, 4),
                     (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8));
    *p += n + 16;
    return n;
}

/* A field of a message. */
struct field {
    unsigned number, wire;
    uint64_t value; /* or the size of what `data` points at */
    const unsigned char *data;
};

static uint64_t varint(const unsigned char **p)
{
    uint64_t x = 0;
    unsigned shift = 0;

    do
        x |= (uint64_t)(**p & 0x7f) << shift, shift += 7;
    while (*(*p)++ & 0x80);
    return x;
}

static bool next_field(const unsigned char **p, const unsigned char *end,
                       struct field *f)
{
    static const unsigned fixed[] = { [1] = 8, [5] = 4 };
    uint64_t key;

    if (*p == end)
        return false;
    key = varint(p);
    f->number = (unsigned)(key >> 3);
    f->wire = key & 7;
    if (f->wire == 0) {
        f->value = varint(p);
    } else if (f->wire == 2) {
        f->value = varint(p);
        f->data = *p;
        *p += f->value;
    } else {
        assert_true(f->wire == 1 || f->wire == 5);
        f->value = number(*p, fixed[f->wire]);
        *p += fixed[f->wire];
    }
    assert_true(*p <= end);
    return true;
}

/* Of an event: its step, and the scalar of a tag in its summary; NAN: none. */
static double scalar(const unsigned char *p, size_t n, const char *tag,
                     int64_t *step)
{
    const unsigned char *end = p + n;
    struct field f, v, s;
    double found = NAN;

    *step = 0;
    while (next_field(&p, end, &f)) {
        const unsigned char *in = f.data, *in_end = f.data + f.value;

        if (f.number == 2 && f.wire == 0)
            *step = (int64_t)f.value;
        while (f.number == 5 && next_field(&in, in_end, &v)) {
            const unsigned char *at = v.data, *at_end = v.data + v.value;
            bool is = false;

            assert_int_equal(v.number, 1);
            while (next_field(&at, at_end, &s))
                if (s.number == 1) {
                    is = s.value == strlen(tag) &&
                         memcmp(s.data, tag, s.value) == 0;
                } else if (is) {
                    uint32_t bits = (uint32_t)s.value;
                    float x;

                    assert_int_equal(s.number, 2);
                    assert_int_equal(s.wire, 5);
                    memcpy(&x, &bits, sizeof(x));
                    found = x;
                }
        }
    }
    return found;
}

/* The files of the folder in the order of their names. */
static int files(struct dirent ***list, char *path, size_t size)
{
    int n;

    snprintf(path, size, "%s/tensorboard", folder);
    n = scandir(path, list, NULL, alphasort);
    return n;
}

static size_t read_all(const char *path, unsigned char *bytes, size_t size)
{
    FILE *f = fopen(path, "rb");
    size_t n;

    assert_non_null(f);
    n = fread(bytes, 1, size, f);
    fclose(f);
    return n;
}

static void write_some(int64_t done, double loss_scale, int64_t overflows)
{
    struct dsf_event_file e = { 0 };
    struct dsflow_err err = { 0 };
    struct dsf_step s = {
        .step = done + 1,
        .loss = 3.25,
        .lr = 1e-3,
        .grad_norm = NAN,
        .loss_scale = loss_scale,
        .overflows = overflows,
        .seconds = 0.5,
        .tokens = 100,
        .peak_bytes = 1 << 20,
        .efficiency = 0.5,
        .share = { 0.25, 0.5, 0.125, 0.0625, 0.0625 },
    };
    struct dsf_validation v = { done + 1, 2.5, 1.25, 12.0 };

    assert_int_equal(dsf_event_file_open(&e, folder, done, &err), DSFLOW_OK);
    assert_int_equal(dsf_event_file_step(&e, &s, &err), DSFLOW_OK);
    assert_int_equal(dsf_event_file_validation(&e, &v, &err), DSFLOW_OK);
    dsf_event_file_close(&e);
}

static void records_are_framed_and_hold_the_scalars(void **state)
{
    static unsigned char bytes[1 << 16];
    const unsigned char *p = bytes, *end, *event;
    struct dirent **list;
    struct field f;
    char dir[200], path[600];
    int64_t step;
    size_t n;

    write_some(1000, 512, 2);
    assert_int_equal(files(&list, dir, sizeof(dir)), 3); /* with . and .. */
    snprintf(path, sizeof(path), "%s/%s", dir, list[2]->d_name);
    for (int i = 0; i < 3; i++)
        free(list[i]);
    free(list);
    end = bytes + read_all(path, bytes, sizeof(bytes));

    n = next_record(&p, end, &event);
    assert_true(next_field(&(const unsigned char *){ event }, event + n, &f));
    assert_int_equal(f.number, 1); /* wall time, a double */
    assert_int_equal(f.wire, 1);
    assert_memory_equal(event + n - 13, "brain.Event:2", 13);
    n = next_record(&p, end, &event);
    assert_true(isnan(scalar(event, n, "loss", &step)));
    assert_int_equal(step, 1001); /* what was said of it before is void */
    assert_memory_equal(event + n - 4, "\x3a\x02\x08\x01", 4); /* START */

    n = next_record(&p, end, &event);
    assert_true(scalar(event, n, "loss", &step) == 3.25);
    assert_int_equal(step, 1001);
    assert_true(scalar(event, n, "loss_scale", &step) == 512);
    assert_true(scalar(event, n, "overflows", &step) == 2);
    assert_true(scalar(event, n, "tokens_per_second", &step) == 200);
    assert_true(scalar(event, n, "efficiency", &step) == 0.5);
    assert_true(scalar(event, n, "share/backward", &step) == 0.5);
    assert_true(scalar(event, n, "memory/cpu", &step) == 1 << 20);
    assert_true(isnan(scalar(event, n, "grad_norm", &step))); /* not known */
    n = next_record(&p, end, &event);
    assert_true(scalar(event, n, "validation/loss", &step) == 2.5);
    assert_int_equal(next_record(&p, end, &event), 0);
}

static void a_later_file_has_a_later_name(void **state)
{
    struct dirent **list;
    char dir[200], path[600], last[300] = "";
    int n, now = files(&list, dir, sizeof(dir));

    for (int i = 0; i < now; i++)
        free(list[i]);
    free(list);
    for (int i = 0; i < 3; i++) { /* all in one second */
        write_some(i, 1, -1);
        n = files(&list, dir, sizeof(dir));
        assert_int_equal(n, now + i + 1);
        assert_true(strcmp(list[n - 1]->d_name, last) > 0);
        snprintf(last, sizeof(last), "%s", list[n - 1]->d_name);
        for (int k = 0; k < n; k++)
            free(list[k]);
        free(list);
    }
    n = files(&list, dir, sizeof(dir));
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, list[i]->d_name);
        unlink(path);
        free(list[i]);
    }
    free(list);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_framed_and_hold_the_scalars),
        cmocka_unit_test(a_later_file_has_a_later_name),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
