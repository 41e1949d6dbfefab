/* folder.h - the files of a checkpoint folder of DeepSpeed. */
#ifndef DSF_FOREIGN_FOLDER_H
#define DSF_FOREIGN_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <dsflow/error.h>

enum dsf_folder_kind {
    DSF_FOLDER_MODEL,  /* mp_rank_00_model_states.pt */
    DSF_FOLDER_SHARD,  /* zero_pp_rank_0_mp_rank_00_model_states.pt (ZeRO 3) */
    DSF_FOLDER_OPTIM,  /* …zero_pp_rank_0_mp_rank_00_optim_states.pt */
    DSF_FOLDER_LAYER,  /* layer_03-model_00-model_states.pt */
    DSF_FOLDER_EXPERT, /* of a mixture of experts */
};

struct dsf_folder_file {
    char *name;
    enum dsf_folder_kind kind;
    int rank, model, layer; /* of data; of tensor or pipeline; -1: none */
    bool bf16;              /* "bf16_" is in front of it */
};

/* What a file is by its name, without `name` of `f`; false: nothing of
 * DeepSpeed's. */
bool dsf_folder_file(const char *name, struct dsf_folder_file *f);

/* Its files, by kind, model rank, layer and rank of data. */
struct dsf_folder {
    char *path;
    struct dsf_folder_file *files;
    size_t n, cap;
    bool universal; /* has the folder "zero" of a universal checkpoint */
};

/* What is in `path`, or in the folder of it that `tag` names, or, where that is
 * NULL and `path` has no such files itself, `latest` or `latest_universal`. */
int dsf_folder_open(struct dsf_folder *f, const char *path, const char *tag,
                    struct dsflow_err *err);
void dsf_folder_fini(struct dsf_folder *f);

/* The first file of a kind; NULL: there is none. */
const struct dsf_folder_file *dsf_folder_find(const struct dsf_folder *f,
                                              enum dsf_folder_kind kind);
/* How many there are of it: of model rank `model`, or of all (-1). */
size_t dsf_folder_count(const struct dsf_folder *f, enum dsf_folder_kind kind,
                        int model);
/* The i-th of those of model rank `model`. */
const struct dsf_folder_file *dsf_folder_at(const struct dsf_folder *f,
                                            enum dsf_folder_kind kind,
                                            int model, size_t i);

#endif
