/* ds_config.h - a job out of a configuration of DeepSpeed. */
#ifndef DSF_IMPORT_DS_CONFIG_H
#define DSF_IMPORT_DS_CONFIG_H

#include <stdint.h>
#include <stdio.h>
#include <dsflow/error.h>

struct dsf_ds_wish {
    int64_t ranks;           /* of all axes; DeepSpeed's world size */
    const char *model;       /* a Hugging Face folder, or NULL */
    const char *const *data; /* files of text */
    unsigned ndata;
    const char *const *drop; /* keys that are taken as not being there, each
                                with all below it */
    unsigned ndrop;
    const char *const *sets; /* "table.key=value", in the place of what follows
                                from the configuration */
    unsigned nsets;
};

/* Write job.toml for the configuration at `path`, with the key that each line
 * comes from behind it. DSFLOW_EINVAL: it cannot be read, or `wish` is wrong,
 * which `err` says; or it asks for what dsflow has not or has otherwise: then
 * `refused` is called for each of these keys, in the order of the file, nothing
 * is written, and `err` says how many there are. */
int dsf_ds_import(const char *path, const struct dsf_ds_wish *wish, FILE *out,
                  void (*refused)(const char *line), struct dsflow_err *err);

#endif
