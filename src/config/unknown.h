/* unknown.h - what is said of names that job.toml does not have. */
#ifndef DSF_CONFIG_UNKNOWN_H
#define DSF_CONFIG_UNKNOWN_H

#include "config/job.h"

/* Each fails with "PLACE: NAME: unknown …; " and the name that is meant: that
 * of dsflow for one of Hugging Face's or DeepSpeed's, the table that has the
 * key, or the nearest one. Of a key that is given as a table it is said what
 * the key expects. */
int dsf_unknown_table(const char *place, const char *name,
                      struct dsflow_err *err);
int dsf_unknown_key(const char *place, const struct dsf_table *table,
                    const char *key, struct dsflow_err *err);
/* A key that stands in no table. */
int dsf_key_alone(const char *place, const char *key, struct dsflow_err *err);

/* "dsflow's is model.width", "it is optimizer.lr or …", or "" where nothing is
 * known of the name. */
struct dsf_meant {
    char s[240];
};
struct dsf_meant dsf_meant(const char *name);

#endif
