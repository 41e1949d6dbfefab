/* machine_model_private.h - the tables of a machine file. */
#ifndef DSF_MACHINE_MACHINE_MODEL_PRIVATE_H
#define DSF_MACHINE_MACHINE_MODEL_PRIVATE_H

#include "machine/machine_model.h"

#include "config/option.h"
#include "config/toml_read.h"

enum { DSF_NMACHINE_TABLES = 5 };
extern const struct dsf_machine_table {
    const char *name;
    const struct dsflow_option *options;
    size_t offset; /* in struct dsf_machine_model */
} dsf_machine_tables[DSF_NMACHINE_TABLES];

#define DSF_MACHINE_LONGEST 10.0 /* seconds: a latency, a task's own time */

/* Each term in range, and one at least above 0. */
bool dsf_kind_rate_is_sound(const struct dsf_kind_rate *rate);

/* Its table, as in a machine file. */
struct dsf_kinds_table {
    char s[32];
};
struct dsf_kinds_table dsf_kinds_table(const struct dsf_kind_rate *rate);
bool dsf_is_kinds_table(const char *table);
int dsf_machine_set_kind(struct dsf_machine_model *m,
                         const struct dsf_toml_entry *e, const char *path,
                         struct dsflow_err *err);
void dsf_machine_kinds_write(const struct dsf_machine_model *m, FILE *out);

/* The table [scatter], with an empty line before it; nothing if it is empty. */
void dsf_machine_scatter_write(const struct dsf_machine_model *m, FILE *out);

#endif
