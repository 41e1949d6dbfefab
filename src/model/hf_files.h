/* hf_files.h - the files with the weights of a Hugging Face folder. */
#ifndef DSF_MODEL_HF_FILES_H
#define DSF_MODEL_HF_FILES_H

#include "base/safetensors.h"

#include <stdbool.h>

/* One, or the shards of an index. */
struct dsf_hf_files {
    struct dsf_st_file **files;
    char **names;
    size_t n, cap_files, cap_names;
};

/* As transformers: the one file, where there is one, before an index. `s` is
 * empty, and closed by the caller after an error, too. Errors: DSFLOW_EINVAL,
 * DSFLOW_EIO, which name the file. */
int dsf_hf_files_open(struct dsf_hf_files *s, const char *folder,
                      struct dsflow_err *err);
void dsf_hf_files_close(struct dsf_hf_files *s);

/* Is a tensor of this name a buffer, which old files have, and no weight? */
bool dsf_hf_is_buffer(const char *name);

#endif
